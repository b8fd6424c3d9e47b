"""What actors and flows see of a directory: addresses of one kind of actor.

`supervisors.dynamic` implements it in this process; another may place actors on other nodes
without any change in callers.
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
    """Where a reference finds its actor."""

    @property
    def kind(self) -> str:
        """Return what kind of actor lives here."""
        ...

    def cell(self, key: Any) -> Cell[Role]:
        """Return the actor's place, loading him when he is passive.

        Raises:
            MailboxFull: `actors_max` actors are in memory already.
        """
        ...


class Directory(Protocol[Role]):
    """All active actors of one kind, and the way to the passive ones."""

    def active(self, key: Any) -> Ref[Role] | None:
        """Return the address of an actor who is in memory (up or loading), else None."""
        ...

    def ref(self, key: Any) -> Ref[Role]:
        """Return an address; asking it loads a passive actor first."""
        ...

    def adopt(self, key: Any, actor: Actor[Role]) -> Ref[Role]:
        """Put in an actor whose state the caller has at hand; if one is present, he stays."""
        ...

    def passivate(self, key: Any, *, early: bool = False) -> bool:
        """Take an actor out of memory if he has long been idle.

        Idle means: nothing queued, nothing undurable, no timer; and no turn since an earlier call
        at least `passivate_seconds_min` before, or, where space is short (`early`),
        `passivate_early_seconds_min`. Call it from time to time; True when he is gone.
        """
        ...

    def discard(self, key: Any) -> None:
        """Take an actor out of memory at once; whoever is queued gets `ActorStopped`."""
        ...

    def keys(self) -> Iterator[Any]:
        """Iterate over the keys of all active actors, as of now."""
        ...

    def __len__(self) -> int:
        """Return how many actors are active."""
        ...
