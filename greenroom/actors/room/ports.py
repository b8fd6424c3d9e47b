"""What a room needs of its members' open connections; the transport implements it.

Nothing here waits or fails. Who has no connection simply hears nothing.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from typing import Any, Protocol

import msgspec


class Receive(msgspec.Struct, frozen=True, gc=False):
    """Something that a member said; `data` is JSON."""

    command: str
    data: bytes
    sender_id: int
    sender_name: str
    is_host: bool


class Happened(msgspec.Struct, frozen=True):
    """Something that happened in the room: an event's name, and what there is to know."""

    event: str
    data: Mapping[str, Any]


class Accepted(msgspec.Struct, frozen=True, gc=False):
    """A member's own message has reached so many, himself not counted."""

    command: str
    target_count: int


Message = Receive | Happened
"""What members are told, and told again when they come back and ask for what they missed."""


class Connections(Protocol):
    """The open connections of all rooms' members."""

    def connected(self, room_id: str) -> Container[int]:
        """Return the members who have an open connection, as it is kept up to date."""
        ...

    def listen(self, room_id: str) -> None:
        """Take what members have sent by now: the room is about to tick.

        While there is much to do it is taken then alone. It comes as turns of the room, so this
        must not be called within one.
        """
        ...

    def push(self, room_id: str, player_ids: Iterable[int], message: Message) -> None:
        """Tell some members something."""
        ...

    def push_others(self, room_id: str, message: Receive, members: Mapping[int, Any]) -> bool:
        """Tell all members but the sender something, and him how many he has reached.

        Args:
            room_id: the room.
            message: what they get.
            members: of the room, the sender among them.

        Returns:
            False where others are connected than these: then nobody was told anything.
        """
        ...

    def push_all(self, room_id: str, message: Message) -> None:
        """Tell everybody something."""
        ...

    def push_unreliable(
        self,
        room_id: str,
        player_ids: Iterable[int] | None,
        message: Receive,
        stream: int | str | None,
    ) -> None:
        """Tell some members, None for all, what may be lost because newer comes soon.

        It goes over the fast lane to who has one, else over the control channel, and is not kept.

        Args:
            room_id: the room.
            player_ids: who gets it.
            message: what they get.
            stream: of one stream, only the latest matters. A number: the sender's own, 0 for
                none. A name, or None for none: it is the room itself that speaks, whoever
                `message` names on the control channel as its sender.
        """
        ...

    def push_state(self, room_id: str, player_ids: Iterable[int], message: Happened) -> None:
        """Tell some members of the room's state: it is not kept for those who come back."""
        ...

    def answer(self, room_id: str, player_id: int, answer: Accepted) -> None:
        """Tell a sender what became of his message."""
        ...

    def may_store(self, room_id: str, player_id: int, size: int) -> bool:
        """Charge a message that is to be stored to its sender, and to the address it came from.

        As a call over HTTP that brings as much; who may not is told when to try again.

        Args:
            room_id: the room.
            player_id: who sent it.
            size: in bytes, of all that the sender chose.
        """
        ...

    def refuse(
        self, room_id: str, player_id: int, reason: str | None, retry_seconds: int | None = None
    ) -> None:
        """Tell a sender why their message has been refused; None if there is nothing to say.

        Args:
            room_id: the room.
            player_id: who sent it.
            reason: the text.
            retry_seconds: when to try again; None where that would change nothing.
        """
        ...

    def part(self, room_id: str, player_id: int) -> None:
        """Close the connection of somebody who is no member any more."""
        ...

    def end(self, room_id: str) -> None:
        """Close all connections of a room that is over."""
        ...
