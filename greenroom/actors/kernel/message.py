"""Commands, events and replies of handlers: plain values, without trio, clock or database."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Generic, TypeVar

import msgspec

Role_contra = TypeVar("Role_contra", contravariant=True)
Reply = TypeVar("Reply")
Reply_co = TypeVar("Reply_co", covariant=True)


class Command(msgspec.Struct, Generic[Role_contra, Reply_co], frozen=True, tag=True):
    """Something that one actor is asked to do. The type says which actors, and what they reply.

    `class Rename(Command[PlayerRole, Renamed], frozen=True)` makes `await player.ask(Rename(...))`
    a `Renamed` for type checkers, and asking a room for it a type error. The role is an empty
    marker class beside the messages, so that callers never import the actor itself.
    """


class Event(msgspec.Struct, frozen=True, tag=True):
    """Something that has happened to one actor: past tense, an outcome, durable once committed.

    `apply` of the owning actor must not fail on it. Persistence maps each event type to the rows
    that it writes; fields are plain values (times are whole Unix seconds, documents JSON bytes).
    """

    durable: ClassVar[bool] = True


class Changed(Generic[Reply]):
    """The return value of a handler that changes state: the reply and the events to apply.

    `once_durable` is called without arguments when the events are durable (at once if there are
    none), in the order of the changes. It is never called if they are lost. It may not wait.
    """

    __slots__ = ("events", "once_durable", "reply", "tells")

    def __init__(
        self,
        reply: Reply,
        *events: Event,
        tells: tuple[tuple[Any, Command[Any, Any]], ...] = (),
        once_durable: Callable[[], None] | None = None,
    ) -> None:
        """Take the reply, the events in order, and what follows them.

        Args:
            reply: the reply to the caller.
            events: what has happened.
            tells: `(ref, command)` pairs to tell once the events are applied.
            once_durable: called once the events are durable.
        """
        self.reply = reply
        self.events = events
        self.tells = tells
        self.once_durable = once_durable
