"""One node's storage: the real session, records and committer, over a database in memory.

What is read otherwise (accounts, friendships, journals) is read from the tables themselves, each
time after a way to the database and back.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, TypeVar, cast

from memory_logs import MemoryJournals
from sim_connection import SimLine
from usage_kit import MemoryUsage, NodeUsage
from world_kit import Memory, MemoryFriendships

from greenroom.actors.friendship.messages import Friendship, Pair
from greenroom.actors.kernel.durability import Batch, Writer
from greenroom.actors.kernel.errors import StorageUnavailable
from greenroom.actors.kernel.journal import Recovered, Snapshot
from greenroom.actors.kernel.message import Event
from greenroom.actors.player.messages import Player
from greenroom.persistence.errors import DatabaseConnectionLost
from greenroom.persistence.nodes.identity import NodeIdentity
from greenroom.persistence.nodes.records import ShardHandedOver
from greenroom.persistence.storage import Storage

T = TypeVar("T")

READ_SECONDS_MAX = 5.0


class NodeStore(Memory):
    """The durability and the accounts of one node."""

    def __init__(self, line: SimLine, name: str) -> None:
        super().__init__()
        identity = NodeIdentity(name=name, host=name, pid=1)
        self.storage = Storage(cast("str", line), identity=identity, alone=False)
        self.storage.committer.observe(self._observe)
        self.line = line
        self._database = database = line.server.database
        self._rows = rows = database.rows
        self.players, self.all_games = rows.players, rows.all_games
        self.all_owners = rows.all_owners
        self.friendships = NodeFriendships(self, rows.friendships)
        self.journals = NodeJournals(self, rows.journals)
        self.usage = SimUsage(self, rows.usage)

    # Changes.

    @property
    def is_open(self) -> bool:
        return self.storage.committer.is_open

    @property
    def refuses(self) -> bool:
        return self.storage.committer.refuses

    def submit(self, writer: Writer, events: Sequence[Event]) -> Batch:
        return self.storage.committer.submit(writer, events)

    def _observe(self, events: Iterable[Event]) -> None:
        told = [event for event in events if not isinstance(event, ShardHandedOver)]
        for observer in self.observers:
            observer(told)

    # Reads.

    async def reach(self, what: str) -> None:
        await self.ask(lambda: None)

    async def ask(self, read: Any) -> Any:
        """Read something, at the moment when the question has reached the database.

        Raises:
            StorageUnavailable: it does not answer.
        """
        try:
            return await self.line.exchange(read, None, READ_SECONDS_MAX)
        except DatabaseConnectionLost as error:
            raise StorageUnavailable(f"{error}") from None

    async def take_player_id(self) -> int:
        return await self._rows.take_player_id()

    async def use_ticket(self, ticket_hash: bytes, now: int, expires_at: int) -> bool:
        return await self._rows.use_ticket(ticket_hash, now, expires_at)

    async def load_online_players(
        self, after_id: int, limit: int, shards: Collection[int] | None = None
    ) -> list[Player]:
        await self.reach("load_online_players")
        return await super().load_online_players(after_id, limit, shards)

    async def find_shards_by_api_key(self, key_hash: bytes) -> tuple[int, tuple[int, ...]] | None:
        """Return the id and the shards of the game that a key opens."""
        game = await self.find_game_by_api_key(key_hash)
        return None if game is None else (game.game_id, game.shards)

    async def find_shard_by_token(self, token_hash: bytes) -> int | None:
        """Return the shard of the player whom a token opens."""
        player = await self.find_player_by_token(token_hash)
        return None if player is None else self.shard_of_player(player)


class SimUsage(MemoryUsage):
    """Usage, counted by one node."""

    def __init__(self, store: NodeStore, tables: MemoryUsage) -> None:
        super().__init__(store)
        self._store, self._tables = store, tables

    def join(self) -> NodeUsage:
        return SimNodeUsage(self._store, self._tables, self._store.storage.session.node_id)


class SimNodeUsage(NodeUsage):
    """The tables of usage, with a way to them: what is done may be done without an answer."""

    def __init__(self, store: NodeStore, tables: MemoryUsage, node_id: int) -> None:
        super().__init__(store, tables, node_id)
        self._store = store

    async def do(self, what: str, act: Callable[[], T]) -> T:
        def act_if_alive() -> T | None:
            if self.tables.has_ended(self.node_id):
                return None
            return act()

        done: T | None = await self._store.ask(act_if_alive)
        if self.tables.has_ended(self.node_id):
            raise StorageUnavailable("this node has ended")
        return cast("T", done)


class NodeFriendships(MemoryFriendships):
    """Friendships, read by one node."""

    def __init__(self, store: NodeStore, rows: MemoryFriendships) -> None:
        super().__init__(store)
        self._all = rows

    @property
    def rows(self) -> dict[Pair, Friendship]:
        return self._all.rows

    @rows.setter
    def rows(self, rows: dict[Pair, Friendship]) -> None:
        assert not rows, "only the database writes"


class NodeJournals(MemoryJournals):
    """Journals and snapshots, read and written by one node."""

    def __init__(self, store: NodeStore, rows: MemoryJournals) -> None:
        super().__init__()
        self._store = store
        self.entries, self.snapshots = rows.entries, rows.snapshots
        self.bases, self.to_cut = rows.bases, rows.to_cut

    async def list_keys(self, kind: str, shards: Collection[int] | None = None) -> list[str]:
        keys: list[str] = await self._store.ask(
            lambda: [
                key
                for key, recovered in self._find_all(kind).items()
                if shards is None or recovered.shard in shards
            ]
        )
        return keys

    async def load(self, kind: str, keys: Sequence[str]) -> dict[str, Recovered]:
        found: dict[str, Recovered] = await self._store.ask(
            lambda: {k: r for k, r in self._find_all(kind).items() if k in keys}
        )
        return found

    def _find_all(self, kind: str) -> dict[str, Recovered]:
        found: defaultdict[str, Recovered] = defaultdict(Recovered)
        for key, snapshot in self.snapshots.items():
            if snapshot.kind == kind:
                found[key] = Recovered(snapshot, [], snapshot.shard)
        for key, entries in self.entries.items():
            if entries[0].kind == kind:
                kept = found[key].snapshot
                first = 1 if kept is None else kept.kept_from
                found[key].entries = [e for e in entries if e.sequence >= first]
                found[key].shard = entries[0].shard
        return dict(found)

    async def save(self, snapshots: Sequence[Snapshot]) -> set[tuple[str, str]]:
        refused: set[tuple[str, str]] = await self._store.ask(lambda: self._save(snapshots))
        return refused

    def _save(self, snapshots: Sequence[Snapshot]) -> set[tuple[str, str]]:
        database, session = self._store.line.server.database, self._store.storage.session
        refused = set()
        for snapshot in snapshots:
            owner, epoch = database.owners[snapshot.shard]
            if owner != session.node_id or not database.save(snapshot, epoch):
                refused.add((snapshot.kind, snapshot.key))
        return refused

    async def _reach(self) -> None:
        await self._store.reach("journals")
