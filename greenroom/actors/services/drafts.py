"""Reads shards ahead that another node is about to hand over to this one.

What was read is a draft, and may be old when the shard comes. So the database is asked then which
rows were written since. Only these are read again, whoever wrote them. A draft that is never needed
is forgotten after a while.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final

import trio

from greenroom.actors.kernel.journal import Recovered
from greenroom.actors.kernel.journal_codec import UnreadableJournal
from greenroom.actors.player.memory import held_bytes
from greenroom.actors.player.messages import Player
from greenroom.actors.services.read_ahead import (
    read_ahead,
    read_places,
    read_together,
    split_keys,
)
from greenroom.actors.world.loaders import JournalLoader
from greenroom.actors.world.ports import Accounts
from greenroom.actors.world.rooms_and_lobbies import Journalled
from greenroom.actors.world.world import World

_logger = logging.getLogger(__name__)

DRAFT_SECONDS: Final = 20.0
"""For how long a draft is kept. A hand-over that goes well takes less."""
DRAFTS_BYTES_MAX: Final = 64 << 20
"""Bytes of all drafts. A shard that holds more is read when it comes, as after a take-over."""
PAGE_PLAYERS: Final = 200
PLACE_BYTES: Final = 2 << 10
"""Bytes that a room or lobby takes besides what is stored of it."""


class Draft:
    """The records of some shards, as they were when they were read."""

    __slots__ = ("is_too_large", "moment", "players", "shards", "size", "states", "until")

    def __init__(self, shards: Collection[int], moment: str, until: float) -> None:
        """Begin with nothing read.

        Args:
            shards: those that are read.
            moment: a moment of the database before anything was read.
            until: how long this may be used (trio's time).
        """
        self.shards = set(shards)
        self.moment = moment
        self.until = until
        self.states: dict[str, dict[str, tuple[int, Any]]] = {}
        """The shard and the state of rooms and lobbies: by kind, then by key."""
        self.players: dict[int, Player] = {}
        self.size = 0
        self.is_too_large = False
        """True once it would take more memory than there is for it; then reading ends."""


class TakenDrafts:
    """Drafts of shards that this node has now; see `ShardDrafts.take`."""

    def __init__(self, parts: Sequence[tuple[Draft, set[int]]] = ()) -> None:
        """Hold drafts, each with those of its shards that have come."""
        self._parts = parts
        self._places = defaultdict[str, tuple[list[tuple[str, int, Any]], list[str]]](
            lambda: ([], [])
        )
        self._players: tuple[list[Player], list[int]] = ([], [])

    def find_rest(self, shards: Collection[int] | None) -> Collection[int] | None:
        """Return those of some shards, or of all (None), that no draft has."""
        if not self._parts or shards is None:
            return shards
        return set(shards).difference(*(some for _, some in self._parts))

    async def compare_places(self, *places: Journalled[Any, Any]) -> None:
        """Ask the database which rooms or lobbies were written since; once, before any is found.

        Raises:
            StorageUnavailable: it does not answer.
        """
        compare = self._compare_places_of
        parts = ((place, *part) for place in places for part in self._parts)
        await read_together(*(partial(compare, *each) for each in parts))

    async def compare_players(self, accounts: Accounts) -> None:
        """Ask the same of the players.

        Raises:
            StorageUnavailable: it does not answer.
        """
        compare = partial(self._compare_players_of, accounts)
        await read_together(*(partial(compare, *part) for part in self._parts))

    async def _compare_places_of(
        self, place: Journalled[Any, Any], draft: Draft, shards: set[int]
    ) -> None:
        kind = place.loader.kind
        states = draft.states[kind]
        versions = {k: state.version for k, (shard, state) in states.items() if shard in shards}
        stored = await place.loader.journals.list_stored(kind, shards, versions, draft.moment)
        ready, written = self._places[kind]
        for key, is_written in stored.items():
            if is_written or key not in states:
                written.append(key)
            else:
                ready.append((key, *states.pop(key)))

    async def _compare_players_of(self, accounts: Accounts, draft: Draft, shards: set[int]) -> None:
        known, players = list(draft.players), draft.players
        others = await accounts.compare_online_players(shards, draft.moment, known)
        ready, written = self._players
        written += [player_id for player_id, is_here in others.items() if is_here]
        ready += [players.pop(player_id) for player_id in known if player_id not in others]

    def find_places(self, kind: str) -> tuple[list[tuple[str, int, Any]], list[str]]:
        """Return the rooms, or lobbies, that are as they were read, and the keys of all others.

        Each has its key, its shard and its state. Those that are gone are in neither list.
        """
        return self._places[kind]

    def find_players(self) -> tuple[list[Player], list[int]]:
        """Return the online players whose rows are as they were read, and the ids of all others."""
        return self._players


NO_DRAFTS: Final = TakenDrafts()


class ShardDrafts:
    """The drafts of a node."""

    def __init__(self, world: World) -> None:
        """Start with none."""
        self._world = world
        self._drafts: list[Draft] = []
        self._reading = trio.Lock()

    @property
    def size(self) -> int:
        """Return how many bytes the drafts take, about."""
        return sum(draft.size for draft in self._drafts)

    async def read(self, shards: Collection[int]) -> bool:
        """Read shards of another node; return whether there is a draft of them now.

        Raises:
            StorageUnavailable: the database does not answer.

        Cancellation: there is no draft.
        """
        async with self._reading:
            self.forget_old()
            world = self._world
            until = trio.current_time() + DRAFT_SECONDS
            draft = Draft(shards, await world.accounts.read_moment(), until)
            for place in (world.rooms, world.lobbies):
                await self._read_places(draft, place)
            load = partial(self._load_players, draft)
            await read_ahead(load, partial(self._add_players, draft))
            if draft.is_too_large:
                _logger.info("shards that are to come here are too large to be read ahead")
                return False
            await self._ask_ahead(draft.moment)
            for other in self._drafts:
                other.shards -= draft.shards
            self._drafts.append(draft)
            return True

    async def _ask_ahead(self, moment: str) -> None:
        """Ask what will be asked when the shards come, of no shards.

        So the connections for it are open, and Postgres knows the statements. Both would take
        longer than the answers, while calls wait.
        """
        accounts, places = self._world.accounts, (self._world.rooms, self._world.lobbies)

        async def compare_players() -> None:
            await accounts.compare_online_players((), moment, ())

        async def compare_places(loader: JournalLoader[Any, Any]) -> None:
            await loader.journals.list_stored(loader.kind, (), {}, moment)

        async def read_usage() -> None:
            await accounts.read_moment()  # in its place

        compare_all = (partial(compare_places, place.loader) for place in places)
        await read_together(compare_players, *compare_all, read_usage)

    async def _read_places(self, draft: Draft, place: Journalled[Any, Any]) -> None:
        loader = place.loader
        states = draft.states[loader.kind] = {}
        keys = await loader.journals.list_keys(loader.kind, draft.shards)
        parts = (part for part in split_keys(keys) if not draft.is_too_large)

        def take(loaded: Mapping[str, Recovered]) -> None:
            self._weigh(draft, sum(PLACE_BYTES + _bytes_of(each) for each in loaded.values()))
            if draft.is_too_large:
                return
            for key, recovered in loaded.items():
                with suppress(UnreadableJournal):  # logged when the shard comes, and it is read
                    state = loader.restore(recovered)
                    if state is not None:
                        states[key] = recovered.shard, state

        await read_places(loader.journals, loader.kind, parts, take)

    async def _load_players(self, draft: Draft, before: list[Player] | None) -> list[Player]:
        if draft.is_too_large:
            return []
        after_id = before[-1].player_id if before else 0
        accounts = self._world.accounts
        return await accounts.load_online_players(after_id, PAGE_PLAYERS, draft.shards)

    def _add_players(self, draft: Draft, page: list[Player]) -> None:
        self._weigh(draft, sum(map(held_bytes, page)))
        if not draft.is_too_large:
            draft.players.update({player.player_id: player for player in page})

    def _weigh(self, draft: Draft, more: int) -> None:
        draft.size += more
        if self.size + draft.size > DRAFTS_BYTES_MAX:
            draft.is_too_large = True

    def take(self, shards: Collection[int]) -> TakenDrafts:
        """Return what was read of these shards; it is not kept here any longer."""
        self.forget_old()
        taken = TakenDrafts(list(self._take(set(shards))))
        self.forget_old()  # those whose last shard has come
        return taken

    def _take(self, shards: set[int]) -> Iterator[tuple[Draft, set[int]]]:
        for draft in self._drafts:
            some = draft.shards & shards
            if some:
                draft.shards -= some
                yield draft, some

    def forget_old(self) -> None:
        """Forget drafts that have not been needed in time, or whose shards have all come."""
        now = trio.current_time()
        self._drafts = [draft for draft in self._drafts if draft.shards and draft.until > now]


def _bytes_of(recovered: Recovered) -> int:
    snapshot = recovered.snapshot
    stored = sum(len(entry.payload) for entry in recovered.entries)
    return stored + (0 if snapshot is None else len(snapshot.payload))
