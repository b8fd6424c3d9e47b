"""The directory of one kind of actor, as actors and flows see it.

`supervisors.dynamic` implements it in this process. Another implementation could place actors on
other nodes without a change in callers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    from greenroom.actors.kernel.actor import Actor
    from greenroom.actors.kernel.cell import Cell
    from greenroom.actors.kernel.message import Command
    from greenroom.actors.kernel.ref import Ref

Role = TypeVar("Role")


class Cells(Protocol[Role]):
    """Finds the cells that references point at."""

    @property
    def kind(self) -> str:
        """Return the kind of the actors in here."""
        ...

    def get_cell(self, key: Any) -> Cell[Role]:
        """Return the actor's cell; a passive actor is loaded.

        Raises:
            MailboxFull: `actors_max` actors are in memory already.
        """
        ...


class Directory(Protocol[Role]):
    """All active actors of one kind, and the way to the passive ones."""

    def find_active(self, key: Any) -> Ref[Role] | None:
        """Return the reference of an actor that is in memory (ready or loading), else None."""
        ...

    def get_ref(self, key: Any) -> Ref[Role]:
        """Return a reference; asking it loads a passive actor first."""
        ...

    def adopt(
        self, key: Any, actor: Actor[Role], *, shard: int | None = None, as_of: int | None = None
    ) -> Ref[Role]:
        """Put in an actor whose state the caller has at hand; one that is already there stays.

        One that is just being loaded for the first time is up at once, with this state. One that
        has lately left for another node is loaded when it is asked: this state may be older. So is
        one that left memory with a change that is not durable yet.

        Args:
            key: which.
            actor: the actor.
            shard: where one lives that has no state yet; others know it themselves.
            as_of: the `Ownership.version` before the state was read. If it has changed, the state
                may be old, and the actor is loaded when it is asked.

        Raises:
            Moved: the shard is another node's.
            MailboxFull: `actors_max` actors are in memory already.
        """
        ...

    def adopt_together(self, actors: Mapping[Any, Actor[Role]], shard: int) -> None:
        """Do what `adopt` does, for several actors of one class that live in one shard.

        They have a state. It takes half of the time, or less. If a bug keeps one from starting,
        none of them stays in memory, and each is loaded when it is asked.

        Raises:
            Moved: the shard is another node's.
            MailboxFull: `actors_max` actors are in memory already.
        """
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

    def drop(self, key: Any) -> None:
        """Take an actor out of memory at once, also one that is being loaded, to be loaded anew.

        Callers that wait for it get `Moved`.
        """
        ...

    async def move(self, key: Any, command: Command[Role, Any], shard: int) -> None:
        """Have an actor run the command by which it goes to another shard; wait until durable.

        If that shard is another node's, the command is the last one that it runs here. It leaves
        memory in the same step, and whoever waits for it gets `Moved`.

        Args:
            key: an actor that is in memory.
            command: changes where the actor lives, as its `shard` tells.
            shard: where it lives afterwards.

        Raises:
            ActorUnavailable: it has not moved, or (CommitUnsettled) maybe has.

        Cancellation: it has not moved; once it has, this returns.
        """
        ...

    def find_shard(self, key: Any) -> int | None:
        """Return the shard of an actor that has come up, None if there are no other nodes."""
        ...

    def list_keys_of(self, shard: int) -> list[Any]:
        """Return the keys of the active actors of a shard; none if there are no other nodes."""
        ...

    def has_any(self, shard: int) -> bool:
        """Return whether any actor of a shard is active; no if there are no other nodes."""
        ...

    def count_turns(self, shard: int) -> int:
        """Return how many turns the actors of a shard have had here, those that left included.

        It never falls. It is 0 if there are no other nodes.
        """
        ...

    def part_with(self, shard: int) -> None:
        """Put all actors of a shard out of reach; callers that wait for them get `Moved`.

        They run nothing any more. What they have entered elsewhere in memory stays until
        `stop_parted`, or until the same actor comes up here again.
        """
        ...

    def stop_parted(self, actors_max: int) -> bool:
        """Call `on_stop` of so many actors that were parted with; return whether some are left."""
        ...

    def run_now(self, key: Any, command: Command[Role, Any]) -> None:
        """Have an actor that is up run a command before all that waits, whatever comes of it."""
        ...

    def iterate_keys(self) -> Iterator[Any]:
        """Iterate over the keys of all active actors, as of now."""
        ...

    def __len__(self) -> int:
        """Return how many actors are active."""
        ...
