"""The connections of a room's members, as the room uses them; the transport implements this.

Nothing here waits or fails. A member without a connection gets nothing.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from typing import Any, Protocol

import msgspec

from greenroom.actors.room.messages import ActionResult
from greenroom.contract.allowed_values import RequestId


class Receive(msgspec.Struct, frozen=True, gc=False):
    """A member's message, or one of the room's behaviour (`is_server`); `data` is JSON."""

    command: str
    data: bytes
    sender_id: int
    sender_name: str
    is_host: bool
    is_server: bool = False


class Happened(msgspec.Struct, frozen=True):
    """Something that happened in the room: an event's name and its fields."""

    event: str
    data: Mapping[str, Any]


class Accepted(msgspec.Struct, frozen=True, gc=False):
    """The acknowledgement of a member's message: how many others it has reached."""

    command: str
    target_count: int
    request_id: RequestId | None = None
    """The id that the sender gave the message."""


class Settled(msgspec.Struct, frozen=True):
    """The result of an action, for who asked for it over the channel by `request_id`."""

    request_id: RequestId
    sender_id: int
    result: ActionResult


Message = Receive | Happened | Settled
"""The messages that are sent again to a member who comes back and asks for what they missed."""


class Connections(Protocol):
    """The open connections of all rooms' members."""

    def get_connected(self, room_id: str) -> Container[int]:
        """Return the members who have an open connection; the container is live."""
        ...

    def push(self, room_id: str, player_ids: Iterable[int], message: Message) -> None:
        """Send a message to some members."""
        ...

    def push_others(
        self,
        room_id: str,
        message: Receive,
        members: Mapping[int, Any],
        request_id: RequestId | None = None,
    ) -> bool:
        """Send a message to all members but the sender, and acknowledge it to the sender.

        Args:
            room_id: the room.
            message: what they get.
            members: of the room, the sender among them.
            request_id: the id that the sender gave the message.

        Returns:
            False if others are connected than these. Then nobody was told anything.
        """
        ...

    def push_all(self, room_id: str, message: Message) -> None:
        """Send a message to every member."""
        ...

    def push_unreliable(
        self,
        room_id: str,
        player_ids: Iterable[int] | None,
        message: Receive,
        stream: int | str | None,
    ) -> None:
        """Send a message that may be lost, because newer ones come soon.

        It goes over the fast lane where there is one, else over the control channel, and is not
        kept.

        Args:
            room_id: the room.
            player_ids: who gets it; None for all.
            message: what they get.
            stream: of one stream, only the latest message matters. A number is a stream of the
                sender, 0 for none. A name is a stream of the room itself, None for none; `message`
                may still name a player as sender on the control channel.
        """
        ...

    def push_state(self, room_id: str, player_ids: Iterable[int], message: Happened) -> None:
        """Send the room's state to some members. It is not kept for members who come back."""
        ...

    def answer(self, room_id: str, player_id: int, answer: Accepted) -> None:
        """Acknowledge a message to its sender."""
        ...

    def may_store(
        self, room_id: str, player_id: int, size: int, request_id: RequestId | None = None
    ) -> bool:
        """Charge a message that is to be stored to its sender and to the sender's address.

        It costs as much as a call over HTTP of that size. A sender who may not is told when to try
        again.

        Args:
            room_id: the room.
            player_id: the sender.
            size: bytes of everything that the sender chose.
            request_id: the id that the sender gave the message.
        """
        ...

    def refuse(
        self,
        room_id: str,
        player_id: int,
        reason: str | None,
        retry_seconds: int | None = None,
        request_id: RequestId | None = None,
    ) -> None:
        """Tell a sender why their message has been refused; None if there is nothing to say.

        Args:
            room_id: the room.
            player_id: the sender.
            reason: the text.
            retry_seconds: seconds after which to try again; None where that would change nothing.
            request_id: the id that the sender gave the message.
        """
        ...

    def part(self, room_id: str, player_id: int) -> None:
        """Close the connection of a player who is no longer a member."""
        ...

    def end(self, room_id: str) -> None:
        """Close all connections of a room that has ended."""
        ...
