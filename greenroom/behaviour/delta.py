"""What has changed between two JSON values, small and quick to find, and how to apply it.

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

from typing import Any

Json = Any
"""None, bool, int, float, str, or lists and dicts (with str keys) of these."""
Delta = dict[str, Any]


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
    put: dict[str, Any] = {}
    inside: dict[str, Delta] = {}
    for key, value in new.items():
        if key not in old:
            put[key] = value
        elif (before := old[key]) is not value:
            _compare(key, before, value, put, inside)
    gone = [key for key in old if key not in new] if len(old) + len(put) > len(new) else []
    return _delta(put, inside, d=gone)


def _diff_arrays(old: list[Any], new: list[Any]) -> Delta | None:
    put: dict[str, Any] = {}
    inside: dict[str, Delta] = {}
    for position, (before, after) in enumerate(zip(old, new, strict=False)):
        if before is not after:
            _compare(str(position), before, after, put, inside)
    cut = len(new) if len(new) < len(old) else None
    return _delta(put, inside, n=cut, a=new[len(old) :])


def _compare(
    key: str, before: Json, after: Json, put: dict[str, Any], inside: dict[str, Delta]
) -> None:
    """Note how a value at a key has changed. 1, 1.0 and true are equal here, but not in JSON."""
    kind = type(after)
    if kind is not type(before):
        put[key] = after
    elif kind is dict or kind is list:
        delta = diff(before, after)
        if delta is not None:
            inside[key] = delta
    elif before != after:
        put[key] = after


def _delta(put: dict[str, Any], inside: dict[str, Delta], **others: Any) -> Delta | None:
    delta = {name: what for name, what in others.items() if what is not None and what != []}
    if put:
        delta["s"] = put
    if inside:
        delta["c"] = inside
    return delta or None


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
