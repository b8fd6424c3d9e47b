"""What members of a room that ticks have sent it: heard all at once, right before the next tick.

Nobody sees sooner what a message has changed than the next tick shows it; so a turn for each, and
an answer that leaves by itself, would be for nothing. They take most of a message's time.
"""

from __future__ import annotations

from collections import deque
from typing import Any, Final

from greenroom.actors.room.ports import Accepted, Connections
from greenroom.actors.room.rules.channel import SendMessage
from greenroom.actors.studio_room import input_rules as judging
from greenroom.actors.studio_room.host import BehaviourFailed, Director, RefusedByBehaviour
from greenroom.actors.studio_room.tick_clock import Pace
from greenroom.behaviour import RoomBehaviour
from greenroom.behaviour.handlers import TypedHandler

INBOX_MAX: Final = 256
"""So many messages wait; further ones are heard at once, behind these."""
WAIT_SECONDS_MAX: Final = 0.1
"""In rooms that tick more seldom nothing waits."""


class Inbox:
    """The messages that wait, bounded by `INBOX_MAX`; in the order of their coming.

    Attributes:
        is_open: whether any may; tests see at once what comes of theirs.
    """

    __slots__ = ("_handlers", "_messages", "is_open")

    def __init__(self) -> None:
        """Begin with none."""
        self.is_open = True
        self._handlers: dict[str, TypedHandler] = {}
        """By the name of the message: those that let nothing pass."""
        self._messages: deque[SendMessage] = deque()

    def follow(self, behaviour: RoomBehaviour[Any], pace: Pace | None) -> None:
        """Take what a behaviour hears that ticks at a pace; nothing may wait for another's."""
        self._handlers = {
            name: handler
            for (kind, name), handler in behaviour.handlers.items()
            if kind == "message" and handler.is_final and pace and pace.dt <= WAIT_SECONDS_MAX
        }

    @property
    def is_used(self) -> bool:
        """Return whether there is any message that may wait."""
        return bool(self._handlers)

    def __bool__(self) -> bool:
        """Return whether any waits."""
        return bool(self._messages)

    def takes(self, name: str) -> bool:
        """Return whether a message may wait: it goes to a handler that lets nothing pass."""
        return name in self._handlers and self.is_open and len(self._messages) < INBOX_MAX

    def put(self, message: SendMessage) -> None:
        """Let a message wait."""
        self._messages.append(message)

    def refuse(self, room_id: str, connections: Connections) -> None:
        """Refuse all that waits: there is no behaviour to hear it."""
        while self._messages:
            message = self._messages.popleft()
            if message.stream is None:
                connections.refuse(room_id, message.player_id, None)

    def hear(self, director: Director, connections: Connections) -> None:
        """Let the behaviour have every message, and answer who has sent it.

        A message that fails undoes what it did; see `Director.begin`. Who has left is not heard.

        Args:
            director: in a turn that has begun; what is refused meanwhile is not heard.
            connections: of the members.
        """
        messages, room_id, members = self._messages, director.room.room_id, director.room.members
        while messages:
            message = messages.popleft()
            sender_id, answers = message.player_id, message.stream is None
            if sender_id not in members:
                continue
            try:
                judging.hear(director, self._handlers[message.name], message)
            except RefusedByBehaviour as refused:
                if answers:
                    connections.refuse(room_id, sender_id, str(refused))
            except BehaviourFailed:
                if answers:
                    connections.refuse(room_id, sender_id, None)
            else:
                if answers:
                    connections.answer(room_id, sender_id, Accepted(message.name, 0))
