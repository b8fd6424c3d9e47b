"""The members of a room as a behaviour's hooks see them.

It follows the room between turns. Within a turn it is ahead of the room: a member who joins is in
it before `on_join`, and one who leaves is not in it any more during `on_leave`.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import Any

import msgspec

from greenroom.actors.room.rules.state import Room
from greenroom.actors.studio_room.missed_events import MissedEvents
from greenroom.behaviour import Member
from greenroom.behaviour.plain_values import plain
from greenroom.behaviour.runner import Runner


class Roster:
    """The members that one runner shows to its hooks.

    Attributes:
        members: by id.
        connected: the members with a realtime connection.
        is_stale: whether the room has changed since `read`.
    """

    __slots__ = ("_runner", "connected", "is_stale", "members")

    def __init__(self, runner: Runner[Any]) -> None:
        """Begin without members."""
        self._runner = runner
        self.members: dict[int, Member] = {}
        self.connected: Container[int] = ()
        self.is_stale = True

    @property
    def host_id(self) -> int | None:
        """Return the host that hooks see; None while nobody has joined."""
        host = self._runner.room.host
        return None if host is None else host.player_id

    def follow(self, runner: Runner[Any]) -> None:
        """Show the same members to the hooks of another runner."""
        host_id, self._runner = self.host_id, runner
        self.show(host_id)

    def read(self, room: Room, missed: MissedEvents | None) -> None:
        """Show the members of the room; with missed events, as they were before these."""
        if missed is None:
            self.members = {player_id: self._read(room, player_id) for player_id in room.members}
            self.show(room.host_id)
        else:
            self.members = dict(missed.members)
            self.show(missed.host_id)
        self.is_stale = False

    def _read(self, room: Room, player_id: int) -> Member:
        seat = room.members[player_id]
        known = self.members.get(player_id)
        return Member(
            player_id=player_id,
            player_name=seat.player_name,
            player_data=plain(seat.player_data) if known is None else known.player_data,
            is_host=player_id == room.host_id,
            is_online=seat.is_online,
            is_connected=player_id in self.connected,
        )

    def put(self, member: Member) -> None:
        """Add a member, or replace what is known of them."""
        self.members[member.player_id] = member
        self.show(self.host_id)

    def change(self, player_id: int, **changes: Any) -> None:
        """Change fields of a member."""
        self.put(msgspec.structs.replace(self.members[player_id], **changes))

    def show(self, host_id: int | None, leaving_id: int | None = None) -> None:
        """Show the members to the hooks, the host first.

        Args:
            host_id: the host.
            leaving_id: the player who is just leaving, if anybody is.
        """
        for member in list(self.members.values()):
            if member.is_host is not (member.player_id == host_id):
                is_host = member.player_id == host_id
                self.members[member.player_id] = msgspec.structs.replace(member, is_host=is_host)
        members = sorted(self.members.values(), key=lambda member: not member.is_host)
        self._runner.seat(members, host_id, leaving_id)

    def list_readers(self, player_ids: Iterable[int] | None) -> tuple[int, ...]:
        """Return the members who are online without a connection, and so poll.

        Args:
            player_ids: members to choose from; None for all.
        """
        return tuple(
            player_id
            for player_id in (self.members if player_ids is None else player_ids)
            if player_id not in self.connected and self.members[player_id].is_online
        )
