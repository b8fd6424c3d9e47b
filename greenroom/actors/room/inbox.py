"""What members of a room that ticks have sent it: heard all at once, right before the next tick.

Nobody sees sooner what a message has changed than the next tick shows it; so a turn for each, and
an answer that leaves by itself, would be for nothing. They take most of a message's time.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from greenroom.actors.room import judging
from greenroom.actors.room.channel import SendMessage
from greenroom.actors.room.director import BehaviourFailed, Director, RefusedByBehaviour
from greenroom.actors.room.pace import Pace
from greenroom.actors.room.ports import Accepted, Connections

INBOX_MAX: Final = 256
"""So many messages wait; further ones are heard at once, behind these."""


class Inbox:
    """The messages that wait, bounded by `INBOX_MAX`; in the order of their coming.

    Attributes:
        is_open: whether any may; tests see at once what comes of theirs.
    """

    __slots__ = ("_messages", "is_open")

    def __init__(self) -> None:
        """Begin with none."""
        self.is_open = True
        self._messages: deque[SendMessage] = deque()

    def __bool__(self) -> bool:
        """Return whether any waits."""
        return bool(self._messages)

    def takes(self, director: Director, name: str, pace: Pace) -> bool:
        """Return whether a message may wait: it goes to a handler that lets nothing pass."""
        handler = director.runner.behaviour.handlers.get(("message", name))
        if handler is None or not handler.is_final or not self.is_open:
            return False
        return pace.is_fast and len(self._messages) < INBOX_MAX

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
                judging.hear(director, message)
            except RefusedByBehaviour as refused:
                if answers:
                    connections.refuse(room_id, sender_id, str(refused))
            except BehaviourFailed:
                if answers:
                    connections.refuse(room_id, sender_id, None)
            else:
                if answers:
                    connections.answer(room_id, sender_id, Accepted(message.name, 0))
