"""The records of all nodes: who is there, who owns which shard, and how shards change hands.

A node of a cluster looks at them four times a second and renews its lease every second, over
connections of its own, so that it waits for no commit.

A shard gets an owner in three ways only:

- one that nobody owns is taken;
- those of a node that has ended are taken over;
- its owner hands it over, in the queue of its committer, behind everything that it has written.
"""

# ruff: noqa: S608 (SQL is put together from constants of this package only)

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Literal, NamedTuple

import msgspec
import trio

from greenroom.actors.kernel.durability import Writer
from greenroom.actors.kernel.errors import StorageUnavailable
from greenroom.actors.kernel.journal import JournalEntry
from greenroom.actors.kernel.message import Event
from greenroom.actors.kernel.shard_ownership import OwnedShards
from greenroom.persistence.arrays import INT8_COLUMN, float8, int8, text
from greenroom.persistence.driver import (
    BOOL,
    FLOAT8,
    INT8,
    JSON,
    TEXT,
    DatabaseConnection,
    Query,
    Row,
    Statement,
)
from greenroom.persistence.errors import DatabaseError, QueryFailed, StorageFenced
from greenroom.persistence.nodes.session import NODE_LOCKS, NodeSession, boot_seconds, session_name
from greenroom.persistence.settings import StorageSettings

NodeState = Literal["starting", "up", "draining", "stopping"]
"""The stages that a node tells others of; one that is `draining` or drained stays."""

LOOK_SECONDS_MAX = 1.0
"""How long a look or a renewal may take."""
TAKE_SECONDS_MAX = 5.0
"""How long taking shards may take; it waits for what the node that loses them has under way."""

_SESSION = """
SET synchronous_commit = on;
SET lock_timeout = '2s';
SET idle_in_transaction_session_timeout = '10s';
"""
_INT8_ARRAY = INT8_COLUMN.array_oid

_NODES = Statement(f"""
    SELECT n.node_id, n.name, n.host, n.pid::bigint, n.version, n.protocol::bigint, n.is_alone,
        n.addresses, n.behaviours, n.state, n.load, n.is_on_bus,
        extract(epoch FROM n.lease_until - clock_timestamp())::float8, n.ended_at IS NOT NULL,
        l.pid IS NOT NULL, extract(epoch FROM n.started_at)::bigint
    FROM nodes AS n LEFT JOIN {NODE_LOCKS} AS l ON l.node_id = n.node_id
    WHERE n.ended_at IS NULL OR n.node_id IN (SELECT s.node_id FROM shards AS s)
    ORDER BY n.node_id
""")
_OWNERS = Statement(
    # each change raises an epoch, so the sum changes whenever any row does
    "SELECT shard::bigint, node_id, epoch, (SELECT sum(epoch)::bigint FROM shards) FROM shards"
    " WHERE (SELECT sum(epoch) FROM shards) <> $1",
    INT8,
)
_NOW = Statement("SELECT extract(epoch FROM clock_timestamp())::float8")
_RENEW = Statement(
    "UPDATE nodes SET lease_until = clock_timestamp() + lease"
    " WHERE node_id = $1 AND ended_at IS NULL RETURNING 1",
    INT8,
)
_DESCRIBE = Statement(
    "UPDATE nodes SET state = coalesce($2, state), addresses = coalesce($3, addresses),"
    " load = coalesce($4, load), is_on_bus = coalesce($5, is_on_bus) WHERE node_id = $1",
    *(INT8, TEXT, JSON, FLOAT8, BOOL),
)
_TAKE_OVER = Statement(
    "SELECT taken::bigint, under FROM take_over($1, $2, $3::integer[], $4)",
    *(INT8, INT8, _INT8_ARRAY, BOOL),
)
_TAKE_FREE = Statement(
    "WITH e AS MATERIALIZED (SELECT nextval('epochs') AS epoch)"
    " UPDATE shards AS s SET node_id = $1, epoch = e.epoch FROM e"
    " WHERE s.shard = ANY ($2) AND s.node_id IS NULL RETURNING s.shard::bigint, s.epoch",
    *(INT8, _INT8_ARRAY),
)
_EPOCHS = Statement("SELECT nextval('epochs') FROM generate_series(1, $1)", INT8)


class ShardHandedOver(Event, frozen=True):
    """A shard is another node's from here on, under a new epoch."""

    shard: int
    epoch: int
    """The new one."""
    from_node_id: int
    to_node_id: int


class NodeRow(msgspec.Struct, frozen=True, kw_only=True):
    """A node as all others see it."""

    node_id: int
    name: str
    host: str
    pid: int
    version: str
    protocol: int
    is_alone: bool
    addresses: dict[str, str]
    behaviours: str
    state: str
    load: float
    is_on_bus: bool
    lease_seconds: float
    """How long its lease still runs by the database's clock; negative once it ran out."""
    has_ended: bool
    has_lock: bool
    """True while the session that it writes with is there."""
    started_at: int
    """Unix seconds."""


class ShardOwner(NamedTuple):
    """The owner of a shard; it has none if `node_id` is None."""

    node_id: int | None
    epoch: int


class Look(msgspec.Struct, frozen=True):
    """The nodes and owners that a node sees when it looks."""

    nodes: tuple[NodeRow, ...]
    """Nodes that have not ended, and ended ones that still own shards."""
    owners: Mapping[int, ShardOwner]
    """By shard, those that have changed since the last look; all of them at the first."""
    now: float
    """The database's time in Unix seconds."""


class NodeRecords:
    """The records, as one node reads and changes them."""

    def __init__(self, conninfo: str, settings: StorageSettings, session: NodeSession) -> None:
        """Prepare; nothing is opened before the first call.

        Args:
            conninfo: the database.
            settings: bounds and time limits.
            session: this node's; it must be open when a method is called.
        """
        self._session = session
        self._quick = _Line(conninfo, settings, session)
        self._patient = _Line(conninfo, settings, session)
        self._owners: dict[int, ShardOwner] = {}
        self._sum = -1

    async def look(self) -> Look:
        """Return who is there, and whose the shards are that have changed hands.

        The session takes note of the database's time.

        Raises:
            StorageUnavailable: the database does not answer.
        """
        since, asked_at = Query(_OWNERS, (int8(self._sum),)), boot_seconds()
        nodes, changes, now = await self._quick.run(
            Query(_NODES), since, Query(_NOW), seconds_max=LOOK_SECONDS_MAX
        )
        self._session.note_time(asked_at, now[0][0])
        owners = {shard: ShardOwner(node_id, epoch) for shard, node_id, epoch, _ in changes}
        changed = dict(owners.items() - self._owners.items())
        if changes:
            self._owners, self._sum = owners, changes[0][3]
        return Look(tuple(map(_node, nodes)), changed, now[0][0])

    async def read_nodes(self) -> list[NodeRow]:
        """Return the nodes alone, as `look` does; what that takes for news stays news.

        Raises:
            StorageUnavailable: the database does not answer.
        """
        (nodes,) = await self._quick.run(Query(_NODES), seconds_max=LOOK_SECONDS_MAX)
        return [_node(row) for row in nodes]

    async def renew(self) -> bool:
        """Renew this node's lease; return False if it has ended, and must stop.

        Raises:
            StorageUnavailable: the database does not answer.
        """
        sent_at = boot_seconds()
        ours = (int8(self._session.node_id),)
        (rows,) = await self._quick.run(Query(_RENEW, ours), seconds_max=LOOK_SECONDS_MAX)
        if rows:
            self._session.renewed_at = max(self._session.renewed_at, sent_at)
        return bool(rows)

    async def describe(
        self,
        *,
        state: NodeState | None = None,
        addresses: dict[str, str] | None = None,
        load: float | None = None,
        is_on_bus: bool | None = None,
    ) -> None:
        """Tell others about this node; what is not given stays.

        Raises:
            StorageUnavailable: the database does not answer.
        """
        parameters = (
            int8(self._session.node_id),
            text(state),
            None if addresses is None else msgspec.json.encode(addresses),
            None if load is None else float8(load),
            None if is_on_bus is None else bytes([is_on_bus]),
        )
        await self._quick.run(Query(_DESCRIBE, parameters), seconds_max=LOOK_SECONDS_MAX)

    async def take_over(
        self, dead_node_id: int, shards: Collection[int], *, proven: bool
    ) -> dict[int, int]:
        """Take shards from a node that has ended, whose lease has run out, or that is dead.

        That node is ended: it never writes again. Its sessions are ended, too, for one that stopped
        in the middle of sending would hold us up. What it has committed stays.

        Args:
            dead_node_id: the node.
            shards: which of its shards; those that it does not own are passed over.
            proven: True if it is known to be dead although its lease still runs.

        Returns:
            The shards that are this node's now, each with its epoch. There are none if the node
            lives after all, or others were quicker.

        Raises:
            StorageUnavailable: the database does not answer. The shards may have been taken, which
                the next look shows.
            StorageFenced: this node itself has ended, and must stop.

        Cancellation has the same outcome as `StorageUnavailable`.
        """
        which = INT8_COLUMN.encode(sorted(shards))
        parameters = (int8(dead_node_id), int8(self._session.node_id), which, bytes([proven]))
        return await self._take(Query(_TAKE_OVER, parameters))

    async def take_free(self, shards: Collection[int]) -> dict[int, int]:
        """Take shards that nobody owns; arguments, outcome and errors are those of `take_over`."""
        which = INT8_COLUMN.encode(sorted(shards))
        return await self._take(Query(_TAKE_FREE, (int8(self._session.node_id), which)))

    async def end_node(self, node_id: int) -> None:
        """End a node that is known to be dead, and leave its shards to others; see `take_over`."""
        await self.take_over(node_id, (), proven=True)

    async def draw_epochs(self, count: int) -> list[int]:
        """Return epochs that are higher than any before, for shards that are to be handed over.

        Raises:
            StorageUnavailable: the database does not answer.
        """
        draw = Query(_EPOCHS, (int8(count),))
        (rows,) = await self._quick.run(draw, seconds_max=LOOK_SECONDS_MAX)
        return [epoch for (epoch,) in rows]

    def close(self) -> None:
        """Close the connections."""
        self._quick.close()
        self._patient.close()

    async def _take(self, take: Query) -> dict[int, int]:
        """Take shards in a transaction that checks this node; return them with their epochs."""
        *_, rows = await self._patient.run(self._session.hold(), take, seconds_max=TAKE_SECONDS_MAX)
        return dict(rows)


class _Line:
    """A connection that is opened when needed; one task at a time uses it."""

    def __init__(self, conninfo: str, settings: StorageSettings, session: NodeSession) -> None:
        self._conninfo = conninfo
        self._settings = settings
        self._session = session
        self._connection: DatabaseConnection | None = None
        self._free = trio.Lock()

    async def run(self, *queries: Query, seconds_max: float) -> list[list[Row]]:
        """Run queries as one transaction, once.

        Raises:
            StorageUnavailable: the database does not answer, or refuses for now.
            StorageFenced: this node has ended.
        """
        async with self._free:
            try:
                connection = await self._get_connection()
                return await connection.run(*queries, seconds_max=seconds_max)
            except QueryFailed as error:
                if error.is_fence:
                    raise StorageFenced(
                        f"Other nodes have taken over from node {self._session.node_id};"
                        " this one stops"
                    ) from None
                raise StorageUnavailable(str(error)) from error
            except DatabaseError as error:
                raise StorageUnavailable("the database is away") from error

    async def _get_connection(self) -> DatabaseConnection:
        """Return the connection, a new one if there is none or it looks closed."""
        if self._connection is not None and not self._connection.is_closed:
            return self._connection
        settings = _SESSION + session_name(self._session.node_id)
        connection = await DatabaseConnection.connect(
            self._conninfo, seconds_max=self._settings.connect_seconds_max
        )
        try:
            await connection.script(settings, seconds_max=self._settings.connect_seconds_max)
        except BaseException:
            connection.close()
            raise
        self._connection = connection
        return connection

    def close(self) -> None:
        """Close the connection, if there is one."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _node(row: Row) -> NodeRow:
    """Return a node of a row of `_NODES`."""
    fields = dict(zip(NodeRow.__struct_fields__, row, strict=True))
    fields["addresses"] = msgspec.json.decode(row[7], type=dict[str, str])
    return NodeRow(**fields)


def is_moved(writer: Writer, events: Sequence[Event], owned: OwnedShards) -> bool:
    """Return whether the writer, or one of the events, is of a shard that is not this node's."""
    shard = writer.shard
    if shard is not None and not owned.owns(shard):
        return True
    for event in events:
        if isinstance(event, JournalEntry) and event.shard != shard and not owned.owns(event.shard):
            return True
    return False
