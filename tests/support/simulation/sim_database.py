"""The database of a simulated cluster: its tables, and what each statement of a node does to them.

A node's own code sends the statements: its session, its records and its committer are the real
ones. Each transaction takes effect in one step, or not at all. A log says what was committed, and
under whose name; the checkers read it.
"""

from __future__ import annotations

import copy
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec
import trio
from world_kit import START, Memory

from greenroom.actors.kernel.journal import JournalEntry, Snapshot, SnapshotTaken
from greenroom.actors.kernel.message import Event
from greenroom.actors.kernel.shards import SHARDS
from greenroom.actors.player.messages import PlayerRegistered
from greenroom.persistence.arrays import INT8_COLUMN
from greenroom.persistence.driver import (
    BOOL,
    BYTEA,
    FLOAT8,
    INT8,
    JSON,
    TEXT,
    Query,
    Row,
    Statement,
)
from greenroom.persistence.errors import QueryFailed
from greenroom.persistence.nodes import records as node_records
from greenroom.persistence.nodes import session as node_session
from greenroom.persistence.nodes.records import ShardHandedOver

WRITE: Final = Statement("the events of a transaction")
"""Stands for the statements that write events; its parameters are events, and epochs by shard."""


class StoredNode(msgspec.Struct):
    """A row of the table `nodes`."""

    node_id: int
    name: str
    host: str
    pid: int
    version: str
    protocol: int
    is_alone: bool
    addresses: bytes
    behaviours: str
    lease: float
    lease_until: float
    started_at: float
    state: str = "starting"
    load: float = 0.0
    is_on_bus: bool = False
    sequence: int = 0
    ended_at: float | None = None


class Commit(msgspec.Struct, frozen=True):
    """An entry of the log: by whom what was committed."""

    node_id: int
    has_ended: bool
    """True if the node had been ended by then."""
    shard: int | None
    """The shard that the event is of; None for the few that are of none."""
    owner: int | None
    """The node that owned that shard just then."""
    epoch: int
    """The epoch that the row carries, 0 if it carries none."""
    event: Event


class Backend:
    """The database's end of a connection."""

    def __init__(self) -> None:
        self.node_id = 0
        self.is_over = False
        self.ended = trio.Event()


class SimDatabase:
    """Postgres, as far as nodes can tell."""

    def __init__(self) -> None:
        self.rows = Memory()
        self.rows.usage.has_ended = lambda node_id: self.nodes[node_id].ended_at is not None
        self.rows.usage.is_home = self._is_home
        self.nodes: dict[int, StoredNode] = {}
        self.owners: dict[int, tuple[int | None, int]] = dict.fromkeys(range(SHARDS), (None, 0))
        self.snapshot_epochs: dict[str, int] = {}
        self.log: list[Commit] = []
        self.has_fence = True
        """False is a mutation: the dead write on, and nobody ends their sessions."""
        self.is_lost: Callable[[Event], bool] = lambda _: False
        """Anything else is a mutation: such events are said to be durable, and are not."""
        self.observers: list[Callable[[Iterable[Event]], None]] = []
        self._backends: list[Backend] = []
        self._locks: dict[int, Backend] = {}
        self._installation: tuple[str, bytes] | None = None
        self._epoch = self._last_node = 0
        self._acts = self._statements()

    def now(self) -> float:
        """Return the database's clock, which is not quite that of the nodes."""
        return START + trio.current_time() + 0.4

    # Connections.

    def begin(self) -> Backend:
        """Begin a session."""
        backend = Backend()
        self._backends.append(backend)
        return backend

    def end(self, backend: Backend) -> None:
        """End a session, and with it its lock."""
        if not backend.is_over:
            backend.is_over = True
            self._backends.remove(backend)
            self._locks = {i: held for i, held in self._locks.items() if held is not backend}
            backend.ended.set()

    def end_all(self) -> None:
        """End every session, as a restart does."""
        for backend in list(self._backends):
            self.end(backend)

    def writer_of(self, node_id: int) -> Backend | None:
        """Return the session that has the lock of a node."""
        return self._locks.get(node_id)

    def name(self, backend: Backend, sql: str) -> None:
        """Take the settings of a session, of which its name matters."""
        _, _, rest = sql.partition("application_name = 'greenroom node ")
        if rest:
            backend.node_id = int(rest.partition("'")[0])

    # Transactions.

    def transact(self, backend: Backend, queries: Sequence[Query]) -> list[list[Row]]:
        """Run queries as one transaction.

        Raises:
            QueryFailed: one was refused; nothing has happened.
        """
        before = copy.copy(self.nodes.get(backend.node_id))
        try:
            return [self._run(backend, query) for query in queries]
        except QueryFailed:
            if before is not None:
                self.nodes[backend.node_id] = before
            raise

    def _run(self, backend: Backend, query: Query) -> list[Row]:
        if query.statement is WRITE:
            events, epochs = query.parameters
            self._write(backend.node_id, events, epochs)  # type: ignore[arg-type]  # of our own
            return []
        given = [
            None if value is None else _READ[oid](value)
            for oid, value in zip(query.statement.oids, query.parameters, strict=True)
        ]
        return self._acts[query.statement](backend, *given) or []

    def _statements(self) -> dict[Statement, Callable[..., list[Row] | None]]:
        """Return what each statement of nodes and their records does."""
        return {
            vars(node_session)["_TRY_SHARED"]: lambda _: [(True,)],
            vars(node_session)["_TRY_NODE"]: self._try_lock,
            vars(node_session)["_END_OLD_SESSION"]: self._end_old_session,
            vars(node_session)["_TIME"]: lambda _: [(self.now(),)],
            vars(node_session)["_NUMBERS"]: lambda _: [(self._draw_node(), self._draw_epoch())],
            vars(node_session)["_FORGET_ENDED"]: lambda _: None,
            vars(node_session)["_BEGIN"]: self._begin_node,
            vars(node_session)["_MAKE_INSTALLATION"]: self._make_installation,
            vars(node_session)["_INSTALLATION"]: lambda _: [self._installation or ()],
            vars(node_session)["_OWN_SHARDS"]: lambda _, ours: [
                (shard, epoch) for shard, (owner, epoch) in self.owners.items() if owner == ours
            ],
            vars(node_session)["_POSITION"]: lambda _, ours: [
                (self.nodes[ours].sequence, self.nodes[ours].ended_at is not None)
            ],
            vars(node_session)["_SUCCESSOR"]: lambda _, __: [],
            vars(node_session)["_END"]: lambda _, ours: self._end_node(ours),
            vars(node_session)["_ADVANCE"]: self._advance,
            vars(node_session)["_HOLD"]: lambda _, ours: self._hold(ours),
            vars(node_records)["_NODES"]: lambda _: self._seen_nodes(),
            vars(node_records)["_OWNERS"]: self._changed_owners,
            vars(node_records)["_NOW"]: lambda _: [(self.now(),)],
            vars(node_records)["_RENEW"]: self._renew,
            vars(node_records)["_DESCRIBE"]: self._describe,
            vars(node_records)["_TAKE_OVER"]: self._take_over,
            vars(node_records)["_TAKE_FREE"]: lambda _, me, which: self._take(me, which, None),
            vars(node_records)["_EPOCHS"]: lambda _, count: [
                (self._draw_epoch(),) for _ in range(count)
            ],
        }

    # Nodes.

    def _is_home(self, game_id: int, node_id: int) -> bool:
        """Return whether a node owns the home of a game."""
        game = self.rows.all_games.get(game_id)
        return game is not None and self.owners[game.shards[0]][0] == node_id

    def _draw_node(self) -> int:
        self._last_node += 1
        return self._last_node

    def _draw_epoch(self) -> int:
        self._epoch += 1
        return self._epoch

    def _try_lock(self, backend: Backend, node_id: int) -> list[Row]:
        return [(self._locks.setdefault(node_id, backend) is backend,)]

    def _end_old_session(self, backend: Backend, node_id: int) -> None:
        holder = self._locks.get(node_id)
        if holder is not None and holder is not backend:
            self.end(holder)

    def _begin_node(self, _: Backend, node_id: int, *columns: Any) -> None:
        row_of: Callable[..., StoredNode] = StoredNode
        now, lease = self.now(), columns[-1]
        self.nodes[node_id] = row_of(node_id, *columns, now + lease, now)

    def _make_installation(self, _: Backend, installation_id: str, key: bytes) -> None:
        self._installation = self._installation or (installation_id, key)

    def _hold(self, node_id: int) -> None:
        row = self.nodes[node_id]
        if row.ended_at is not None and self.has_fence:
            raise QueryFailed("GR001", f"node {node_id} may not write any more")

    def _advance(self, _: Backend, node_id: int, following: int) -> None:
        self._hold(node_id)
        row = self.nodes[node_id]
        if row.sequence != following - 1:
            raise QueryFailed("GR001", f"node {node_id} may not write any more")
        row.sequence, row.lease_until = following, self.now() + row.lease

    def _end_node(self, node_id: int) -> None:
        row = self.nodes[node_id]
        row.ended_at = self.now() if row.ended_at is None else row.ended_at

    def _renew(self, _: Backend, node_id: int) -> list[Row]:
        row = self.nodes[node_id]
        if row.ended_at is not None:
            return []
        row.lease_until = self.now() + row.lease
        return [(1,)]

    def _describe(
        self,
        _: Backend,
        node_id: int,
        state: str | None,
        addresses: bytes | None,
        load: float | None,
        is_on_bus: bool | None,
    ) -> None:
        row = self.nodes[node_id]
        row.state = row.state if state is None else state
        row.addresses = row.addresses if addresses is None else addresses
        row.load = row.load if load is None else load
        row.is_on_bus = row.is_on_bus if is_on_bus is None else is_on_bus

    def _seen_nodes(self) -> list[Row]:
        held = {owner for owner, _ in self.owners.values()}
        return [
            (
                *(row.node_id, row.name, row.host, row.pid, row.version, row.protocol),
                *(row.is_alone, row.addresses, row.behaviours, row.state, row.load, row.is_on_bus),
                *(row.lease_until - self.now(), row.ended_at is not None),
                *(row.node_id in self._locks, int(row.started_at)),
            )
            for row in self.nodes.values()
            if row.ended_at is None or row.node_id in held
        ]

    def _changed_owners(self, _: Backend, since: int) -> list[Row]:
        total = sum(epoch for _, epoch in self.owners.values())
        if total == since:
            return []
        return [(shard, owner, epoch, total) for shard, (owner, epoch) in self.owners.items()]

    def _take_over(
        self,
        _: Backend,
        dead: int,
        me: int,
        which: Sequence[int],
        proven: bool,
    ) -> list[Row]:
        self._hold(me)
        row = self.nodes[dead]
        if dead == me or not (proven or row.ended_at is not None or row.lease_until < self.now()):
            return []
        for backend in [b for b in self._backends if b.node_id == dead and self.has_fence]:
            self.end(backend)
        self._end_node(dead)
        return self._take(me, which, dead)

    def _take(self, me: int, which: Sequence[int], owner: int | None) -> list[Row]:
        epoch = self._draw_epoch()
        taken = [shard for shard in which if self.owners[shard][0] == owner]
        self.owners |= dict.fromkeys(taken, (me, epoch))
        return [(shard, epoch) for shard in taken]

    # Events.

    def _write(self, node_id: int, turns: Sequence[Sequence[Event]], epochs: Any) -> None:
        """Write the events of turns."""
        for events in turns:
            for event in events:
                self.check(node_id, event)
        for turn in turns:
            events = [event for event in turn if not self.is_lost(event)]
            for event in events:
                self._apply(node_id, event, epochs)
            for observer in self.observers:
                observer(event for event in events if not isinstance(event, ShardHandedOver))

    def check(self, node_id: int, event: Event) -> None:
        """Refuse what a constraint of the tables would refuse."""
        if isinstance(event, ShardHandedOver):
            owner, epoch = self.owners[event.shard]
            if owner != node_id or epoch >= event.epoch:
                raise QueryFailed("23000", f"shard {event.shard} is not of node {node_id}")
        elif isinstance(event, JournalEntry):
            entries = self.rows.journals.entries.get(event.key, ())
            if any(entry.sequence == event.sequence for entry in entries):
                raise QueryFailed("23505", f"{event.key} has an entry {event.sequence} already")

    def _apply(self, node_id: int, event: Event, epochs: Mapping[int, int]) -> None:
        shard = self.shard_of(event)
        epoch = 0
        if isinstance(event, JournalEntry | SnapshotTaken):
            epoch = epochs[event.shard]
        elif isinstance(event, ShardHandedOver):
            epoch = event.epoch
        owner = None if shard is None else self.owners[shard][0]
        has_ended = self.nodes[node_id].ended_at is not None
        self.log.append(Commit(node_id, has_ended, shard, owner, epoch, event))
        if isinstance(event, ShardHandedOver):
            self.owners[event.shard] = event.to_node_id, event.epoch
        elif isinstance(event, SnapshotTaken):
            fields = {name: getattr(event, name) for name in Snapshot.__struct_fields__}
            self.save(Snapshot(**fields), epoch)
        else:
            self.rows._write(event)

    def save(self, snapshot: Snapshot, epoch: int) -> bool:
        """Keep a snapshot unless a newer one is there; return whether it was kept."""
        before = self.rows.journals.snapshots.get(snapshot.key)
        held = self.snapshot_epochs.get(snapshot.key, 0), -1 if before is None else before.version
        if held > (epoch, snapshot.version):
            return False
        self.rows.journals.snapshots[snapshot.key] = snapshot
        self.snapshot_epochs[snapshot.key] = epoch
        return True

    def shard_of(self, event: Any) -> int | None:
        """Return the shard that an event is of, None if it is of none, or of what is gone."""
        if isinstance(event, JournalEntry | SnapshotTaken | ShardHandedOver):
            return event.shard
        player = self.rows.players.get(getattr(event, "player_id", 0))
        game_id = getattr(event, "game_id", 0) or (0 if player is None else player.game_id)
        game = self.rows.all_games.get(game_id)
        if game is None:
            return None
        if player is not None:
            return self.rows.shard_of_player(player)
        given = event.shard if isinstance(event, PlayerRegistered) else None
        return game.shards[0] if given is None else given


def _read_array(value: bytes) -> list[int]:
    """Return the integers of a binary array."""
    return [number for _, number in struct.iter_unpack("!iq", value[20:])]


_READ: Final[dict[int, Callable[[bytes], Any]]] = {
    INT8: lambda value: int.from_bytes(value, signed=True),
    FLOAT8: lambda value: struct.unpack("!d", value)[0],
    BOOL: lambda value: value == b"\x01",
    TEXT: bytes.decode,
    JSON: bytes,
    BYTEA: bytes,
    INT8_COLUMN.array_oid: _read_array,
}
