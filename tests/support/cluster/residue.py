"""Looks for values in everything that can be reached from an object: what is left of what went."""

from __future__ import annotations

import types
from collections import deque
from collections.abc import Collection, Iterator
from typing import Any

import trio

_ATOMS = (type, types.FunctionType, types.BuiltinFunctionType, types.ModuleType)
_PACKED = (bytes, bytearray)
_WALKED = ("greenroom", "world_kit", "sortedcontainers", "functools")


def find_residue(
    root: object, values: Collection[object], *, beyond: tuple[type, ...] = ()
) -> list[str]:
    """Return the paths on which any of these values is held.

    Args:
        root: where to begin.
        values: strings, bytes and large numbers. Bytes are also found within other bytes.
        beyond: types of objects that are not looked into.
    """
    plain = frozenset(values)
    packed = [value for value in values if isinstance(value, bytes)]
    found: list[str] = []
    seen = {id(root)}
    queue = deque[tuple[str, object]]([("root", root)])
    while queue:
        path, held = queue.popleft()
        if isinstance(held, (str, int, float, bytes, bytearray)) or held is None:
            is_packed = isinstance(held, _PACKED) and any(value in held for value in packed)
            if is_packed or (not isinstance(held, bytearray) and held in plain):
                found.append(path)
            continue
        for name, part in _parts(held):
            if id(part) in seen and not isinstance(part, (str, int, bytes)):
                continue
            seen.add(id(part))
            if not isinstance(part, (*_ATOMS, *beyond)):
                queue.append((f"{path}{name}", part))
    return found


def _parts(held: object) -> Iterator[tuple[str, Any]]:
    if isinstance(held, types.MethodType):
        yield ".__self__", held.__self__
    elif isinstance(held, dict):
        for key, value in held.items():
            yield ".key", key
            yield f"[{key!r}]" if isinstance(key, (int, str)) else "[…]", value
    elif isinstance(held, (list, tuple, set, frozenset, deque)):
        for part in held:
            yield "[…]", part
    elif isinstance(held, types.GeneratorType | types.CoroutineType):
        return
    elif type(held).__module__.startswith(_WALKED):
        yield from _attributes(held)


def _attributes(held: object) -> Iterator[tuple[str, Any]]:
    if isinstance(held, trio.Event):
        return
    if type(held).__module__ == "functools":
        yield ".func", getattr(held, "func", None)
        yield ".args", getattr(held, "args", ())
        return
    names = [name for cls in type(held).__mro__ for name in _slots(cls)]
    for name in {*names, *getattr(held, "__dict__", {})}:
        try:
            yield f".{name}", getattr(held, name)
        except AttributeError:
            continue


def _slots(cls: type) -> tuple[str, ...]:
    slots = cls.__dict__.get("__slots__", ())
    fields = getattr(cls, "__struct_fields__", ())
    names = (slots,) if isinstance(slots, str) else tuple(slots)
    return (*names, *(fields if isinstance(fields, tuple) else ()))
