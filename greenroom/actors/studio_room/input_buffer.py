"""Messages that wait for the next tick of a room, which handles them all at once.

Nobody sees what a message has changed before the next tick shows it. A turn and an answer for each
message would be wasted, and they take most of a message's time.
"""

from __future__ import annotations

from collections import deque
from typing import Any, Final

from greenroom.actors.room.ports import Accepted, Connections
from greenroom.actors.room.rules.channel import SendMessage
from greenroom.actors.studio_room import input_rules
from greenroom.actors.studio_room.refusals import BehaviourFailed, RefusedByBehaviour
from greenroom.actors.studio_room.tick_clock import TickClock
from greenroom.actors.studio_room.turn import Turn
from greenroom.behaviour import RoomBehaviour
from greenroom.behaviour.handlers import TypedHandler

MESSAGES_MAX: Final = 256
"""The messages that wait at most; a further one is handled at once, behind these."""
WAIT_SECONDS_MAX: Final = 0.1
"""In rooms that tick more seldom no message waits."""


class InputBuffer:
    """The messages of one room that wait, at most `MESSAGES_MAX`, in order of arrival.

    Attributes:
        is_enabled: whether any may wait; a test sees at once what comes of a message.
    """

    __slots__ = ("_handlers", "_messages", "is_enabled")

    def __init__(self) -> None:
        """Start empty."""
        self.is_enabled = True
        self._handlers: dict[str, TypedHandler] = {}
        """By the name of the message: handlers that let nothing pass."""
        self._messages: deque[SendMessage] = deque()

    def follow(self, behaviour: RoomBehaviour[Any], clock: TickClock | None) -> None:
        """Take messages for a behaviour that ticks by a clock; none if it ticks too seldom."""
        self._handlers = {
            name: handler
            for (kind, name), handler in behaviour.handlers.items()
            if kind == "message" and handler.is_final and clock and clock.dt <= WAIT_SECONDS_MAX
        }

    @property
    def is_used(self) -> bool:
        """Return whether there is any message that may wait."""
        return bool(self._handlers)

    def __bool__(self) -> bool:
        """Return whether any message waits."""
        return bool(self._messages)

    def takes(self, name: str) -> bool:
        """Return whether a message may wait: it goes to a handler that lets nothing pass."""
        return name in self._handlers and self.is_enabled and len(self._messages) < MESSAGES_MAX

    def put(self, message: SendMessage) -> None:
        """Let a message wait."""
        self._messages.append(message)

    def refuse(self, room_id: str, connections: Connections) -> None:
        """Refuse all messages that wait: no behaviour can be called for them."""
        while self._messages:
            message = self._messages.popleft()
            if message.stream is None:
                about = message.request_id
                connections.refuse(room_id, message.player_id, None, request_id=about)

    def handle(self, turn: Turn, connections: Connections) -> None:
        """Let the behaviour have every message, and answer its sender.

        A message whose handler fails undoes what was done; see `Turn`. A message of a player who
        has left meanwhile is dropped.

        Args:
            turn: has begun; messages that are refused during it are not handled.
            connections: of the members.
        """
        room = turn.host.room
        messages, room_id, members = self._messages, room.room_id, room.members
        while messages:
            message = messages.popleft()
            sender_id, has_answer = message.player_id, message.stream is None
            about = message.request_id
            if sender_id not in members:
                continue
            try:
                input_rules.handle(turn, self._handlers[message.name], message)
            except RefusedByBehaviour as refused:
                if has_answer:
                    connections.refuse(room_id, sender_id, str(refused), request_id=about)
            except BehaviourFailed:
                if has_answer:
                    connections.refuse(room_id, sender_id, None, request_id=about)
            else:
                if has_answer:
                    connections.answer(room_id, sender_id, Accepted(message.name, 0, about))
