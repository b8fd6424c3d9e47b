"""The directory of one kind of actor, as actors and flows see it.

`supervisors.dynamic` implements it in this process. Another implementation could place actors on
other nodes without a change in callers.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    from greenroom.actors.kernel.actor import Actor
    from greenroom.actors.kernel.cell import Cell
    from greenroom.actors.kernel.ref import Ref

Role = TypeVar("Role")


class Cells(Protocol[Role]):
    """Finds the cells that references point at."""

    @property
    def kind(self) -> str:
        """Return the kind of the actors in here."""
        ...

    def cell(self, key: Any) -> Cell[Role]:
        """Return the actor's cell; a passive actor is loaded.

        Raises:
            MailboxFull: `actors_max` actors are in memory already.
        """
        ...


class Directory(Protocol[Role]):
    """All active actors of one kind, and the way to the passive ones."""

    def active(self, key: Any) -> Ref[Role] | None:
        """Return the reference of an actor that is in memory (ready or loading), else None."""
        ...

    def ref(self, key: Any) -> Ref[Role]:
        """Return a reference; asking it loads a passive actor first."""
        ...

    def adopt(self, key: Any, actor: Actor[Role]) -> Ref[Role]:
        """Put in an actor whose state the caller has at hand; one that is already there stays."""
        ...

    def passivate(self, key: Any, *, early: bool = False) -> bool:
        """Take an actor out of memory if it has been idle for long.

        Idle means that no command waits, every change is durable, and no timer runs. There must
        also have been no turn since an earlier call that is at least `passivate_seconds_min` ago,
        or with `early`, where space is short, `passivate_early_seconds_min`. Call this from time to
        time.

        Returns:
            Whether the actor has left memory.
        """
        ...

    def discard(self, key: Any) -> None:
        """Take an actor out of memory at once; callers that wait for it get `ActorStopped`."""
        ...

    def keys(self) -> Iterator[Any]:
        """Iterate over the keys of all active actors, as of now."""
        ...

    def __len__(self) -> int:
        """Return how many actors are active."""
        ...
