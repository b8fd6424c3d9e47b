"""The working half of a room: the roster that is put there, and the effects that hooks record."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from greenroom.behaviour.effects import ChangeStat, Effect, StartTimer
from greenroom.behaviour.errors import TooMuch
from greenroom.behaviour.member import Member
from greenroom.behaviour.stats import Number, Stats, apply

EFFECTS_MAX = 256
"""The effects that a hook may have at most."""
EFFECT_BYTES_MAX = 256 * 1024
"""The bytes of data that all effects of a hook may have at most."""


class RoomContext:
    """The part of a `Room` that studios do not see.

    Attributes:
        members: by id, the host first, then in the order of joining.
        host_id: who the host is; None while nobody has joined yet.
        leaving_id: who is just leaving, while hooks are told of it; they may still get results.
        timers: those that run, by name.
        declared: the stats that the behaviour declares.
        read_stats: returns the stats of a player that are known between hooks, as a new dict.
    """

    __slots__ = (
        *("_count", "_effects", "_size", "declared", "host_id", "leaving_id", "members"),
        *("read_stats", "timers"),
    )

    def __init__(self, timers: dict[str, StartTimer], declared: Stats) -> None:
        """Begin without members."""
        self.declared = declared
        self.read_stats: Callable[[int], dict[str, Number]] = _no_stats
        self.members: dict[int, Member] = {}
        self.host_id: int | None = None
        self.leaving_id: int | None = None
        self.timers = timers
        self._effects: list[Effect] = []
        self._count = 0
        self._size = 0

    def seat(
        self, members: Iterable[Member], host_id: int | None, leaving_id: int | None = None
    ) -> None:
        """Replace the roster."""
        self.members.clear()
        self.members.update((member.player_id, member) for member in members)
        self.host_id = host_id
        self.leaving_id = leaving_id

    def begin_hook(self) -> None:
        """Count the effects of the next hook from zero."""
        self._count = self._size = 0

    def record(self, effect: Effect, size: int = 0) -> None:
        """Record an effect.

        Args:
            effect: to be done once the hook has returned.
            size: bytes of its data.

        Raises:
            TooMuch: the hook has as many as it may have.
        """
        self._count += 1
        self._size += size
        if self._count > EFFECTS_MAX:
            raise TooMuch(f"a hook may have at most {EFFECTS_MAX} effects")
        if self._size > EFFECT_BYTES_MAX:
            raise TooMuch(f"the effects of a hook may have at most {EFFECT_BYTES_MAX} bytes")
        self._effects.append(effect)

    def take(self) -> list[Effect]:
        """Return the effects recorded since the last call."""
        effects, self._effects = self._effects, []
        return effects

    def compute_stats(self, player_id: int) -> dict[str, Number]:
        """Return the stats of a player, with what hooks have asked for and nobody took."""
        values = self.read_stats(player_id)
        for effect in self._effects:
            if isinstance(effect, ChangeStat) and effect.player_id == player_id:
                apply(values, effect.change)
        return values


def _no_stats(_player_id: int) -> dict[str, Number]:
    return {}
