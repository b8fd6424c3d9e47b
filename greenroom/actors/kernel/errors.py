"""The errors that a caller of an actor can get.

    ActorError
    ├── Refused               an answer: the actor says no, its state is unchanged
    └── ActorUnavailable      no answer could be given
        ├── MailboxFull       overload: the command was not accepted
        ├── StorageUnavailable  the database is away: the command was refused before it ran
        │   └── StorageRefused  the database answers, and refuses
        ├── ActorStopped      nobody will answer: the actor is gone or does not exist
        ├── Moved             the actor is another node's now: the command did not run
        │   └── ReadOnlyCopy  a copy of the actor was asked for a change
        ├── CommitUnsettled   the command ran; whether it is durable is not known in time
        └── ActorCrashed      the command hit a bug; the actor goes back to its last good state

`Refused` is an answer of the application; the others are troubles of the server.
"""

from __future__ import annotations

from typing import ClassVar, Self


class ActorError(Exception):
    """Base of all errors of `ask`."""


class Refused(ActorError):
    """The actor says no. Subclasses carry the constant `text` that clients match whole."""

    text: ClassVar[str] = ""
    hint: str | None = None
    """Says what to do in this one case; None where the text says all, or decides the hint."""
    tells_seat: ClassVar[bool] = False
    """True if the refusal tells that the caller has a seat. That may not be durable yet."""

    def __init__(self, text: str | None = None) -> None:
        """Refuse with the class's constant text, or with the text given."""
        super().__init__(self.text if text is None else text)


class NotFound(Refused):
    """A refusal because the thing named does not exist or is not the caller's to see."""


class ActorUnavailable(ActorError):
    """No answer could be given; the subclass says whether the command ran."""

    def copy(self) -> Self:
        """Return a copy to raise.

        One exception raised to many callers would keep all their tracebacks.
        """
        return type(self)(*self.args)


class MailboxFull(ActorUnavailable):
    """The actor's mailbox is full; the command did not run."""


class StorageUnavailable(ActorUnavailable):
    """The database is away; the command did not run."""


class StorageRefused(StorageUnavailable):
    """The database answers, and refuses; the command did not run, nor will it when tried again."""


class ActorStopped(ActorUnavailable):
    """The actor is gone, or there is none under this address; the command did not run."""


class Moved(ActorUnavailable):
    """Another node is to be asked; the command did not run.

    Attributes:
        shard: whose owner that is, if it is known; None to find out anew.
        vouched: the player whose tokens were good here, so that the owner of `shard`, where the
            player does not live, carries the call out without looking; 0 for nobody.
        has_begun: whether a part of the call has happened, which may be repeated.
    """

    def __init__(self, text: str = "", *, shard: int | None = None, vouched: int = 0) -> None:
        """Tell why, and where to ask."""
        super().__init__(text)
        self.shard = shard
        self.vouched = vouched
        self.has_begun = False

    def copy(self) -> Self:
        """Return a copy to raise."""
        return type(self)(*self.args, shard=self.shard, vouched=self.vouched)


class ReadOnlyCopy(Moved):
    """A copy was asked for a change, which the actor itself can make, at its own node."""


class CommitUnsettled(ActorUnavailable):
    """The command ran, but its change was not known to be durable in time."""


class ActorCrashed(ActorUnavailable):
    """The command met a bug or an unstorable change; the actor goes back to its last good state."""
