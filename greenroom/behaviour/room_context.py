"""What lies between a room and whoever runs it: the roster put there, the effects written down."""

from __future__ import annotations

from collections.abc import Iterable

from greenroom.behaviour.effects import Effect, StartTimer
from greenroom.behaviour.errors import TooMuch
from greenroom.behaviour.member import Member

EFFECTS_MAX = 256
"""So many effects may a hook have."""
EFFECT_BYTES_MAX = 256 * 1024
"""So many bytes of data may all effects of a hook have."""


class Desk:
    """The working half of a `Room`, which studios do not see.

    Attributes:
        members: by id, the host first, then in the order of joining.
        host_id: who the host is; None while nobody has joined yet.
        leaving_id: who has just gone, while hooks take note of it; results may be his, too.
        timers: those that run, by name.
    """

    __slots__ = ("_count", "_effects", "_size", "host_id", "leaving_id", "members", "timers")

    def __init__(self, timers: dict[str, StartTimer]) -> None:
        """Begin without members."""
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

    def next_hook(self) -> None:
        """Let the next hook have as many effects as any."""
        self._count = self._size = 0

    def record(self, effect: Effect, size: int = 0) -> None:
        """Write an effect down.

        Args:
            effect: which.
            size: bytes of its data.

        Raises:
            TooMuch: the hook has had enough.
        """
        self._count += 1
        self._size += size
        if self._count > EFFECTS_MAX:
            raise TooMuch(f"a hook may have at most {EFFECTS_MAX} effects")
        if self._size > EFFECT_BYTES_MAX:
            raise TooMuch(f"the effects of a hook may have at most {EFFECT_BYTES_MAX} bytes")
        self._effects.append(effect)

    def take(self) -> list[Effect]:
        """Return what was written down since this was last called."""
        effects, self._effects = self._effects, []
        return effects
