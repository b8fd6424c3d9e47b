"""Deltas of a room's state, and what a client makes of the events `state` and `delta`."""

from __future__ import annotations

import copy
from typing import Any

from greenroom.behaviour.delta import diff, patch
from greenroom.behaviour.view import DELTA, WHOLE, View

ABOUT = (
    "`deltas`: `old` with `delta` applied is `new`. "
    "`states`: a client takes `events` in order; after each it holds what stands beside it. While "
    "`is_lost`, it asks for the whole state once, and ignores deltas."
)

_PAIRS: tuple[tuple[str, Any, Any], ...] = (
    ("no change", {"a": 1}, {"a": 1}),
    ("another kind of value", {"a": 1}, [1]),
    ("nothing before", None, {"turn": 1}),
    ("nothing after", {"turn": 1}, None),
    ("a key set", {"turn": 1, "board": []}, {"turn": 2, "board": []}),
    ("a key added and one deleted", {"a": 1, "b": 2}, {"b": 2, "c": 3}),
    ("an empty key", {"": 1}, {"": 2}),
    ("a key set to null", {"a": 1}, {"a": None}),
    ("keys with points, slashes and digits", {"a.b": 1, "c/d": 1, "0": 1}, {"a.b": 2, "0": 2}),
    ("keys that languages know", {"constructor": 1, "length": 2}, {"constructor": 2, "length": 3}),
    ("inside an object", {"p": {"x": 1, "y": 1}, "q": {}}, {"p": {"x": 2, "y": 1}, "q": {}}),
    ("deep inside", {"a": [{"b": {"c": [1, 2]}}]}, {"a": [{"b": {"c": [1, 3]}}]}),
    ("positions of an array", [1, 2, 3], [1, 5, 3]),
    ("appended", [1], [1, 2, [3]]),
    ("cut", [1, 2, 3], [1]),
    ("cut to nothing", [1, 2], []),
    ("set and cut", [1, 2, 3], [4, 2]),
    ("inside and appended", [{"x": 1}], [{"x": 2}, {"x": 3}]),
    ("an array in place of an object", {"a": {}}, {"a": []}),
    ("1 and true differ", {"a": 1}, {"a": True}),
    ("false, 0, null and an empty text differ", [False, 0, None, ""], [0, None, "", False]),
    ("text beyond ASCII", {"name": "Zoë"}, {"name": "Zoë 🎲"}),
    ("large and small numbers", {"n": 9007199254740991}, {"n": -0.001}),
)


def vectors() -> dict[str, Any]:
    """Return deltas of single values, and stories of a client's view."""
    return {
        "about": ABOUT,
        "deltas": [_delta(*pair) for pair in _PAIRS],
        "states": [_story(name, events) for name, events in _STORIES],
    }


def _delta(name: str, old: Any, new: Any) -> dict[str, Any]:
    delta = diff(old, new)
    assert patch(copy.deepcopy(old), delta) == new
    return {"name": name, "old": old, "delta": delta, "new": new}


_FIRST = {"version": 7, "shared": {"turn": 4, "board": [0, 4]}, "private": None}
_SECOND = {"from": 7, "to": 8, "shared": {"s": {"turn": 9}, "c": {"board": {"a": [9]}}}}
_HAND = {"from": 8, "to": 9, "private": {"v": {"hand": ["ace"]}}}

_STORIES: tuple[tuple[str, tuple[tuple[str, Any], ...]], ...] = (
    (
        "changes follow the whole state",
        ((WHOLE, _FIRST), (DELTA, _SECOND), (DELTA, _HAND)),
    ),
    (
        "a change that is missing is asked for, and changes are ignored until the whole comes",
        (
            (WHOLE, _FIRST),
            (DELTA, _HAND),
            (DELTA, _SECOND),
            (WHOLE, {"version": 9, "shared": {"turn": 9}, "private": {"hand": []}}),
            (DELTA, {"from": 9, "to": 10, "private": {"c": {"hand": {"a": ["king"]}}}}),
        ),
    ),
    (
        "a change before the first whole is ignored",
        ((DELTA, _SECOND), (WHOLE, _FIRST)),
    ),
    (
        "a change that does not fit is as good as none",
        (
            (WHOLE, _FIRST),
            (DELTA, {"from": 7, "to": 8, "shared": {"c": {"nowhere": {"s": {"a": 1}}}}}),
            (WHOLE, _FIRST),
        ),
    ),
    (
        "a whole state after a restart has a lower version",
        ((WHOLE, _FIRST), (WHOLE, {"version": 1, "shared": {"turn": 0}, "private": None})),
    ),
    (
        "a state of null",
        (
            (WHOLE, {"version": 3, "shared": None, "private": None}),
            (DELTA, {"from": 3, "to": 4, "shared": {"v": {"turn": 1}}}),
        ),
    ),
)


def _story(name: str, events: tuple[tuple[str, Any], ...]) -> dict[str, Any]:
    view = View()
    told = []
    for event, data in copy.deepcopy(events):
        frame = {"type": "event", "event": event, "data": copy.deepcopy(data)}
        view.take(event, data)
        told.append(
            {
                "frame": frame,
                "shared": copy.deepcopy(view.shared),
                "private": copy.deepcopy(view.private),
                "version": view.version,
                "is_lost": view.is_lost,
            }
        )
    return {"name": name, "events": told}
