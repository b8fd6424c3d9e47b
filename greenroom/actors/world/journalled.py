"""Rooms and lobbies as flows see them: actors of one kind that are restored from a journal."""

from __future__ import annotations

from itertools import islice
from typing import Any, Final, Generic, Protocol, TypeVar

import trio

from greenroom.actors.kernel.actor import Actor
from greenroom.actors.kernel.directory import Directory
from greenroom.actors.kernel.errors import Refused
from greenroom.actors.kernel.journal import Recovered
from greenroom.actors.kernel.portion import DOCUMENTS_BYTES_MAX
from greenroom.actors.kernel.ref import Ref
from greenroom.actors.seating.seats import SeatIndex
from greenroom.actors.world.journals import Journals

Role = TypeVar("Role")

SLICE: Final = 1_000
"""Names that are looked at before other tasks get their turn."""


class Ruled(Protocol):
    """A listing of a room or lobby."""

    @property
    def rules(self) -> bytes:
        """Return the rules, a JSON object."""
        ...


Listing = TypeVar("Listing", bound=Ruled)


class Ending(Protocol):
    """The state of a room or lobby."""

    @property
    def is_active(self) -> bool:
        """Return whether it has not ended."""
        ...

    @property
    def ended_at(self) -> int | None:
        """Return when it ended (Unix seconds)."""
        ...

    @property
    def created_at(self) -> int:
        """Return when it began (Unix seconds)."""
        ...


State = TypeVar("State", bound=Ending)


class Journalled(Generic[Role, State]):
    """All actors of one kind: their directory, their index, and how they come back."""

    kind: str
    linger_seconds = 0
    """How long one that has ended stays in memory, at least."""

    def __init__(self, journals: Journals, index: SeatIndex[Any]) -> None:
        """Begin with nobody; `directory` must be set before any is reached."""
        self.directory: Directory[Role]
        self.journals = journals
        self.seats = index

    def restore(self, recovered: Recovered) -> State | None:
        """Return the state that a snapshot and the journal make, None where there is neither.

        Raises:
            UnreadableJournal: one of them cannot be read, or an entry is missing.
        """
        raise NotImplementedError

    def actor(self, state: State | None) -> Actor[Role]:
        """Return an actor for a state, or for one that is still to be created."""
        raise NotImplementedError

    def note_durable(self, key: str, state: State | None) -> None:
        """Be told how one stands in the database, before it is brought back from there."""

    async def load(self, key: str) -> Actor[Role] | None:
        """Bring one back from its journal; None for one that has ended or never was.

        Raises:
            StorageUnavailable: the database does not answer.
            UnreadableJournal: what is stored cannot be read.
        """
        recovered = await self.journals.recover(self.kind, key)
        state = None if recovered is None else self.restore(recovered)
        self.note_durable(key, state)
        if state is None or not state.is_active:
            self.seats.forget(key)
            return None
        return self.actor(state)

    def of(self, player_id: int, refusal: type[Refused]) -> Ref[Role]:
        """Return the one that a player has a seat in.

        Raises:
            Refused: in none; the kind of refusal is each operation's own.
        """
        key = self.seats.seat_of(player_id)
        if key is None:
            raise refusal
        return self.directory.ref(key)


async def find_open(
    index: SeatIndex[Listing], game_id: int, search: str, limit: int
) -> list[Listing]:
    """Return rooms, or lobbies, with a free seat, in the order of the index.

    What changes while many are searched may be missed, as if it had come a moment later.

    Args:
        index: of which kind.
        game_id: whose.
        search: what the name contains, whatever the case; empty for all.
        limit: how many at most; fewer where their rules are more than `DOCUMENTS_BYTES_MAX`.

    Cancellation: nothing has changed.
    """
    wanted, after = search.casefold(), None
    size = 0
    found: dict[str, Listing] = {}
    while True:
        places = list(islice(index.open_places(game_id, after), limit if not wanted else SLICE))
        for place in places:
            if wanted in place.folded_name and (listing := index.listing_of(place.key)):
                size += len(listing.rules)
                if found and size > DOCUMENTS_BYTES_MAX:
                    return list(found.values())
                found[place.key] = listing
                if len(found) == limit:
                    return list(found.values())
        if not places:
            return list(found.values())
        after = places[-1]
        await trio.lowlevel.checkpoint()
