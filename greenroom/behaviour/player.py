"""A member of a room, as hooks see them: their stats can be read and changed."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Unpack

from greenroom.behaviour.effects import ChangeStat
from greenroom.behaviour.room_context import RoomContext
from greenroom.behaviour.stats import Conditions, Number, Operation, make_change, make_conditions

_CHANGE_BYTES: Final = 128
"""The bytes that a change counts among those of a hook's effects."""


class RoomPlayer:
    """One member, for the duration of one hook: `room.player(player_id)`.

    A player who is not a member has no stats here, and changes of them do nothing. `on_leave` may
    still change the stats of the member who has just left.

    Each change may have conditions. They are checked against the player's record when the change is
    made. If one does not hold, nothing happens.

        player.increment("wins")
        player.min("best_seconds", 71.3)
        player.set("first_win_at", room.now, if_unset=True)
        player.increment("coins", 100, if_unset=True, of="first_win_at")

    Attributes:
        player_id: the player's id.
    """

    __slots__ = ("_context", "player_id")

    def __init__(self, player_id: int, context: RoomContext) -> None:
        """Refer to a member. Called by `Room.player`; studios do not call it."""
        self.player_id = player_id
        self._context = context

    @property
    def stats(self) -> Mapping[str, Number]:
        """Return this player's stats by name, with what this room has changed so far.

        They are as of the turn in which the player joined. Changes from elsewhere follow once they
        are durable. The values are a snapshot.
        """
        return MappingProxyType(self._context.compute_stats(self.player_id))

    def increment(
        self,
        name: str,
        by: Number = 1,
        **conditions: Unpack[Conditions],
    ) -> None:
        """Add to a stat, durably and once; one that is not set counts as 0.

        Args:
            name: the stat's name.
            by: the number to add; it may be below zero.
            **conditions: see `Conditions`.

        Raises:
            BadStat: a name is not declared, or a number is not of the stat's kind.
            TooMuch: the hook has asked for more effects than it may.
        """
        self._change(name, "increment", by, conditions)

    def max(
        self,
        name: str,
        value: Number,
        **conditions: Unpack[Conditions],
    ) -> None:
        """Set a stat to a number if that is higher, or if it is not set; see `increment`."""
        self._change(name, "max", value, conditions)

    def min(
        self,
        name: str,
        value: Number,
        **conditions: Unpack[Conditions],
    ) -> None:
        """Set a stat to a number if that is lower, or if it is not set; see `increment`."""
        self._change(name, "min", value, conditions)

    def set(
        self,
        name: str,
        value: Number,
        **conditions: Unpack[Conditions],
    ) -> None:
        """Set a stat to a number, whatever it was; see `increment`."""
        self._change(name, "set", value, conditions)

    def _change(
        self, name: str, operation: Operation, value: Number, conditions: Conditions
    ) -> None:
        context = self._context
        found = make_conditions(name, **conditions)
        change = make_change(context.declared, name, operation, value, found)
        if self.player_id in context.members or self.player_id == context.leaving_id:
            context.record(ChangeStat(self.player_id, change), _CHANGE_BYTES)
