"""Stats: numbers of a player that only the server writes, each declared with its bounds. Pure.

    stats = {"wins": Stat(), "best_seconds": Stat(kind="number", maximum=3600)}

A change is checked when it is asked for (`make_change`), and applied where the player is (`apply`).
A value beyond a bound becomes the bound, so that no result is lost. A value that is not finite,
or not whole for an integer, is refused.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from typing import Final, Literal, TypedDict, get_args

import msgspec

from greenroom.behaviour.errors import BadStat
from greenroom.behaviour.spelling import listed, nearest, quoted

STATS_MAX: Final = 32
"""The most stats that a game may declare."""
STORED_MAX: Final = 64
"""The most stats that a player may have, including those that are no longer declared."""
NAME_CHARACTERS_MAX: Final = 64
INTEGER_MAX: Final = 2**53 - 1
"""The largest whole number that every JSON reader keeps exact."""
NUMBER_MAX: Final = 1e300
NO_STATS: Final = b"{}"
"""The stats of a player who has none, as JSON."""

Number = int | float
Kind = Literal["integer", "number"]
Operation = Literal["increment", "max", "min", "set"]
OPERATIONS: Final[tuple[Operation, ...]] = get_args(Operation)
Test = Literal["unset", "equals", "less_than", "more_than"]

_NAME: Final = re.compile(rf"[A-Za-z_][A-Za-z0-9_]{{0,{NAME_CHARACTERS_MAX - 1}}}")
_read: Final = msgspec.json.Decoder(dict[str, Number]).decode
_write: Final = msgspec.json.Encoder().encode


class Stat(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The kind and the bounds of one stat; a value beyond a bound becomes the bound."""

    kind: Kind = "integer"
    """`integer`, or `number` for one that may have a fraction."""
    minimum: Number = 0
    maximum: Number = INTEGER_MAX

    def __post_init__(self) -> None:
        """Check the bounds.

        Raises:
            ValueError: the bounds are not finite numbers of this kind, or in the wrong order.
        """
        limit = INTEGER_MAX if self.kind == "integer" else NUMBER_MAX
        for bound in (self.minimum, self.maximum):
            check_number(bound, "a bound", self.kind)
            if abs(bound) > limit:
                raise ValueError(f"a bound of kind {self.kind} must be within ±{limit:g}")
        if self.minimum > self.maximum:
            raise ValueError("minimum must not be above maximum")
        msgspec.structs.force_setattr(self, "minimum", _storable(self.minimum))
        msgspec.structs.force_setattr(self, "maximum", _storable(self.maximum))

    def bound(self, value: Number) -> Number:
        """Return a value within the bounds, and of this kind."""
        within = min(max(value, self.minimum), self.maximum)
        return int(within) if self.kind == "integer" else float(within) + 0.0  # no minus zero


Stats = Mapping[str, Stat]
"""Stats as they are declared, by name."""


class Condition(msgspec.Struct, frozen=True):
    """A condition on one of the player's stats; if it does not hold, nothing is changed."""

    name: str
    test: Test
    value: Number = 0


class Conditions(TypedDict, total=False):
    """Conditions on stats that a change may have; if one does not hold, nothing is changed."""

    if_unset: bool
    """The stat has not been set."""
    if_equals: Number | None
    """The stat is this number."""
    if_less_than: Number | None
    """The stat is less than this number."""
    if_more_than: Number | None
    """The stat is more than this number."""
    of: str | None
    """The stat that the conditions are about; by default the one that is changed."""


class StatChange(msgspec.Struct, frozen=True):
    """A checked change of one stat, with the stat's bounds at the time of the request."""

    name: str
    operation: Operation
    value: Number
    stat: Stat
    conditions: tuple[Condition, ...] = ()


def check_number(value: object, what: str, kind: Kind = "number") -> None:
    """Return a value that is a finite number of a kind.

    Args:
        value: any object.
        what: the name of the value in the error's text.
        kind: `integer` for whole numbers only.

    Raises:
        BadStat: the value is not a finite number, or not of this kind.
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise BadStat(f"{what} must be a number")
    if isinstance(value, float) and not math.isfinite(value):
        raise BadStat(f"{what} must be a finite number")
    if kind == "integer" and not isinstance(value, int):
        raise BadStat(f"{what} must be a whole number, without a fraction")


def check_declared(stats: Mapping[str, object], where: str) -> None:
    """Check stats that are about to be declared.

    Args:
        stats: the stats by name.
        where: who declares them, for the error's text.

    Raises:
        BadStat: there are too many stats, a name is not allowed, or a value is no `Stat`.
    """
    if len(stats) > STATS_MAX:
        raise BadStat(f"{where} declares {len(stats)} stats: {STATS_MAX} are the most")
    for name, stat in stats.items():
        if _NAME.fullmatch(str(name)) is None:
            raise BadStat(
                f"{where} declares a stat {quoted(str(name))}: a name has"
                f" 1 to {NAME_CHARACTERS_MAX} letters, digits and underscores, with no digit first"
            )
        if not isinstance(stat, Stat):
            raise BadStat(f"{where} declares {name} without its kind and bounds: use Stat()")


def require(declared: Stats, name: str) -> Stat:
    """Return a stat by its name.

    Raises:
        BadStat: no stat of this name is declared; the text has the nearest name.
    """
    stat = declared.get(name)
    if stat is not None:
        return stat
    near = nearest(name, declared)
    if near is not None:
        advice = f"did you mean {quoted(near)}?"
    else:
        advice = f"there are {listed(tuple(declared))}." if declared else "none is declared."
    raise BadStat(f"There is no stat {quoted(name)}: {advice}")


def make_conditions(
    name: str,
    *,
    if_unset: bool = False,
    if_equals: Number | None = None,
    if_less_than: Number | None = None,
    if_more_than: Number | None = None,
    of: str | None = None,
) -> tuple[Condition, ...]:
    """Return the conditions of a change of the stat of this name; see `Conditions`."""
    name = of or name
    found = [Condition(name, "unset")] if if_unset else []
    if if_equals is not None:
        found.append(Condition(name, "equals", if_equals))
    if if_less_than is not None:
        found.append(Condition(name, "less_than", if_less_than))
    if if_more_than is not None:
        found.append(Condition(name, "more_than", if_more_than))
    return tuple(found)


def make_change(
    declared: Stats,
    name: str,
    operation: Operation,
    value: Number,
    conditions: Iterable[Condition] = (),
) -> StatChange:
    """Return a change of a declared stat.

    Raises:
        BadStat: a name is not declared, or a number is not of the stat's kind.
    """
    stat = require(declared, name)
    check_number(value, f"{operation} of {name}", stat.kind)
    wanted = tuple([_check_condition(declared, condition) for condition in conditions])
    return StatChange(name, operation, _storable(value), stat, wanted)


def _check_condition(declared: Stats, condition: Condition) -> Condition:
    """Return a condition that a journal can hold; raises as `make_change`."""
    require(declared, condition.name)
    check_number(condition.value, f"{condition.test} of {condition.name}")
    return msgspec.structs.replace(condition, value=_storable(condition.value))


def _storable(value: Number) -> Number:
    """Return a number that a journal can hold; within a stat's bounds it has the same effect.

    A journal has no integers beyond 64 bits, and none of a subclass, such as NumPy's.
    """
    if isinstance(value, int) and abs(value) <= 2 * INTEGER_MAX:
        return int(value)
    return float(min(max(value, -2 * NUMBER_MAX), 2 * NUMBER_MAX))


def apply(values: dict[str, Number], change: StatChange) -> bool:
    """Change the values if the conditions hold; return whether they do. Never fails.

    A stat that is not set counts as 0 for an increment, and for a condition other than `unset`.
    """
    if not all(_holds(values, condition) for condition in change.conditions):
        return False
    old, value = values.get(change.name), change.value
    if change.operation == "increment":
        value += old or 0
    elif old is not None and change.operation != "set":
        value = max(old, value) if change.operation == "max" else min(old, value)
    values[change.name] = change.stat.bound(value)
    return True


def _holds(values: Mapping[str, Number], condition: Condition) -> bool:
    if condition.test == "unset":
        return condition.name not in values
    value = values.get(condition.name, 0)
    if condition.test == "equals":
        return value == condition.value
    return value < condition.value if condition.test == "less_than" else value > condition.value


def read(stats: bytes) -> dict[str, Number]:
    """Return stats by name, from the JSON that `write` has made."""
    return _read(stats)


def write(values: Mapping[str, Number]) -> bytes:
    """Return stats as a JSON object."""
    return _write(values)
