"""Commands, events, what a handler answers with: plain values, no trio, clock or database."""

from __future__ import annotations

from typing import Any, ClassVar, Generic, TypeVar

import msgspec

Role_contra = TypeVar("Role_contra", contravariant=True)
Reply = TypeVar("Reply")
Reply_co = TypeVar("Reply_co", covariant=True)


class Command(msgspec.Struct, Generic[Role_contra, Reply_co], frozen=True, tag=True):
    """Something one actor is asked to do; the type names who may be asked and what he answers.

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
    """What a handler returns when its command changes state: the reply and the events to apply."""

    __slots__ = ("events", "reply", "tells")

    def __init__(
        self,
        reply: Reply,
        *events: Event,
        tells: tuple[tuple[Any, Command[Any, Any]], ...] = (),
    ) -> None:
        """Hold the reply, the events in order, and `(ref, command)` pairs to tell afterwards."""
        self.reply = reply
        self.events = events
        self.tells = tells
