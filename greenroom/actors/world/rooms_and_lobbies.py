"""Rooms and lobbies as flows see them: actors of one kind that are restored from a journal."""

from __future__ import annotations

from itertools import islice
from typing import Any, Final, Generic, Protocol, TypeVar

import trio

from greenroom.actors.kernel.directory import Directory
from greenroom.actors.kernel.errors import Refused
from greenroom.actors.kernel.portion import DOCUMENTS_BYTES_MAX
from greenroom.actors.kernel.ref import Ref
from greenroom.actors.lobby.messages import LobbyRole
from greenroom.actors.room.messages import RoomRole
from greenroom.actors.seating.seats import SeatIndex
from greenroom.actors.world.loaders import JournalLoader, LobbyLoader, RoomLoader

Role = TypeVar("Role")
Loader = TypeVar("Loader", bound=JournalLoader[Any, Any])

SLICE: Final = 1_000
"""Names that are looked at before other tasks get their turn."""


class Ruled(Protocol):
    """A listing of a room or lobby."""

    @property
    def rules(self) -> bytes:
        """Return the rules, a JSON object."""
        ...


Listing = TypeVar("Listing", bound=Ruled)


class Journalled(Generic[Role, Loader]):
    """All actors of one kind: their directory, their index, and how they come back."""

    def __init__(self, loader: Loader, directory: Directory[Role]) -> None:
        """Put both together; the directory must be built on this loader."""
        self.loader = loader
        self.directory = directory
        self.seats: SeatIndex[Any] = loader.seats

    def get_by_player(self, player_id: int, refusal: type[Refused]) -> Ref[Role]:
        """Return the one that a player has a seat in.

        Raises:
            Refused: in none; the kind of refusal is each operation's own.
        """
        key = self.seats.find_seat(player_id)
        if key is None:
            raise refusal
        return self.directory.get_ref(key)


class Rooms(Journalled[RoomRole, RoomLoader]):
    """The rooms of a world."""

    def __init__(self, loader: RoomLoader, directory: Directory[RoomRole]) -> None:
        """Put both together; the directory must be built on this loader."""
        super().__init__(loader, directory)
        self.index = loader.index

    def is_in_memory(self, room_id: str) -> bool:
        """Return whether a room's members are known here; not while it is only being loaded."""
        return self.index.find_game(room_id) is not None


class Lobbies(Journalled[LobbyRole, LobbyLoader]):
    """The lobbies of a world."""

    def __init__(self, loader: LobbyLoader, directory: Directory[LobbyRole]) -> None:
        """Put both together; the directory must be built on this loader."""
        super().__init__(loader, directory)
        self.index = loader.index


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
        places = list(
            islice(index.iterate_open_places(game_id, after), limit if not wanted else SLICE)
        )
        for place in places:
            if wanted in place.folded_name and (listing := index.find_listing(place.key)):
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
