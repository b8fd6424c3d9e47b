"""Deltas: the difference of two JSON values, found quickly, and applied to the old one.

A delta is a JSON value, too: None for no change, else an object with some of

    "v"  a value that stands for the old one altogether
    "s"  {key: value}  set these keys of an object, or these positions of an array
    "c"  {key: delta}  change inside the values at these keys or positions
    "d"  [key, …]      delete these keys of an object
    "n"  length        cut an array to this length
    "a"  [value, …]    append to an array

applied in this order. Keys of objects are strings; positions are written as strings, too.
"""

from __future__ import annotations

from typing import Any, Final

Json = Any
"""None, bool, int, float, str, or lists and dicts (with str keys) of these."""
Delta = dict[str, Any]


_MISSING: Final = object()


def diff(old: Json, new: Json) -> Delta | None:
    """Return what makes `new` of `old`, None if they are equal; neither may change afterwards."""
    kind = type(new)
    if kind is not type(old):
        return {"v": new}
    if kind is dict:
        return _diff_objects(old, new)
    if kind is list:
        return _diff_arrays(old, new)
    return None if old == new else {"v": new}


def _diff_objects(old: dict[str, Any], new: dict[str, Any]) -> Delta | None:
    """See `diff`. It is what a room's tick spends most of its time on, so it calls little.

    1, 1.0 and true are equal here, but not in JSON: hence the types are compared.
    """
    put: dict[str, Any] = {}
    inside: dict[str, Delta] = {}
    added = 0
    for key, value in new.items():
        before = old.get(key, _MISSING)
        if before is value:
            continue
        kind = type(value)
        if kind is not type(before):
            put[key] = value
            added += before is _MISSING
        elif kind is dict or kind is list:
            delta = _diff_objects(before, value) if kind is dict else _diff_arrays(before, value)
            if delta is not None:
                inside[key] = delta
        elif before != value:
            put[key] = value
    found = _delta(put, inside)
    if len(old) + added > len(new):
        found["d"] = [key for key in old if key not in new]
    return found or None


def _diff_arrays(old: list[Any], new: list[Any]) -> Delta | None:
    put: dict[str, Any] = {}
    inside: dict[str, Delta] = {}
    for position, (before, after) in enumerate(zip(old, new, strict=False)):
        if before is not after:
            delta = diff(before, after)
            if delta is None:
                continue
            if "v" in delta:
                put[str(position)] = after
            else:
                inside[str(position)] = delta
    found = _delta(put, inside)
    if len(new) < len(old):
        found["n"] = len(new)
    elif len(new) > len(old):
        found["a"] = new[len(old) :]
    return found or None


def _delta(put: dict[str, Any], inside: dict[str, Delta]) -> Delta:
    delta: Delta = {}
    if put:
        delta["s"] = put
    if inside:
        delta["c"] = inside
    return delta


def patch(old: Json, delta: Delta | None) -> Json:
    """Return what `diff` was given as `new`; `old` is changed where it is an object or array.

    Raises:
        KeyError, IndexError, ValueError, TypeError: the delta was not made from this value.
    """
    if delta is None:
        return old
    if "v" in delta:
        return delta["v"]
    if isinstance(old, dict):
        _patch_object(old, delta)
    else:
        _patch_array(old, delta)
    return old


def _patch_object(old: dict[str, Any], delta: Delta) -> None:
    old.update(delta.get("s", {}))
    for key, inner in delta.get("c", {}).items():
        old[key] = patch(old[key], inner)
    for key in delta.get("d", ()):
        del old[key]


def _patch_array(old: list[Any], delta: Delta) -> None:
    for key, value in delta.get("s", {}).items():
        old[int(key)] = value
    for key, inner in delta.get("c", {}).items():
        old[int(key)] = patch(old[int(key)], inner)
    del old[delta.get("n", len(old)) :]
    old.extend(delta.get("a", ()))
