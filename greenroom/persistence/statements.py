"""The rows that each type of event writes, with one statement for a whole batch of them.

Each entry mirrors `apply` of the owning actor: it writes the columns that `apply` changes, and no
others. Values are sent as arrays, one for each column, and are joined to the table by `unnest`.
"""

# ruff: noqa: S608 (SQL is put together from constants of this package only)

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Any

from greenroom.actors.friendship.messages import (
    FriendshipAccepted,
    FriendshipEnded,
    FriendshipRequested,
)
from greenroom.actors.game.messages import (
    GameCreated,
    GameDocumentReplaced,
    GameKeysRotated,
    GameSettingsReplaced,
)
from greenroom.actors.kernel.journal import JournalEntry, SnapshotTaken
from greenroom.actors.kernel.message import Event
from greenroom.actors.player.messages import (
    PlayerBanned,
    PlayerCameOnline,
    PlayerDeleted,
    PlayerDocumentReplaced,
    PlayerLoggedIn,
    PlayerLoggedOut,
    PlayerMoved,
    PlayerPresenceSaved,
    PlayerRegistered,
    PlayerRenamed,
    PlayerStatsChanged,
    PlayerTokenRotated,
    PlayerUnbanned,
    ResultsMarked,
)
from greenroom.persistence.arrays import (
    BOOL_COLUMN,
    BYTEA_COLUMN,
    INT8_COLUMN,
    JSON_COLUMN,
    STRUCT_COLUMN,
    TEXT_COLUMN,
    ColumnType,
)
from greenroom.persistence.driver import Query, Statement
from greenroom.persistence.nodes.records import ShardHandedOver

ROW_BYTES = 200
"""Bytes that a queued event counts besides its document."""


class Table(enum.IntEnum):
    """The tables that events write, in the order in which a stage writes them: parents first."""

    GAMES = 1
    PLAYERS = 2
    BANS = 3
    FRIENDSHIPS = 4
    JOURNAL = 5
    SHARDS = 6
    DELETIONS = 100
    """Sort after every other statement of a batch."""


class Target:
    """Tells how events of one type become rows."""

    __slots__ = (
        "_beginning",
        "_columns",
        "_statements",
        "_with_epoch",
        "document",
        "key_of",
        "overwrites",
        "table",
    )

    def __init__(
        self,
        table: Table,
        key: str | tuple[str, ...],
        columns: dict[str, ColumnType],
        *statements: str,
        overwrites: bool = False,
        document: str | None = None,
        with_epoch: bool = False,
        beginning: Target | None = None,
    ) -> None:
        """Describe a type of event.

        Args:
            table: the table that it writes.
            key: the field, or fields, that identify the row; events of one row keep their order.
            columns: the event's fields that are sent, in order, `$1`….
            statements: the statements, run in order with the same parameters. `{rows}` in them is
                replaced by the batch, as a table `e` with the columns named above.
            overwrites: True if only the last of several such events of one row matters.
            document: the field with most of the event's bytes.
            with_epoch: True if the epoch of the event's shard is sent behind the other columns.
            beginning: the target that the first event of an actor (`sequence` 1) has besides.
        """
        self.table = table
        self.key_of: Callable[[Any], Any] = attrgetter(*([key] if isinstance(key, str) else key))
        self.overwrites = overwrites
        self.document: Callable[[Any], bytes] | None = attrgetter(document) if document else None
        self._columns = [(attrgetter(name), column.encode) for name, column in columns.items()]
        self._with_epoch = with_epoch
        self._beginning = beginning
        sent = columns | {"epoch": INT8_COLUMN} if with_epoch else columns
        places = ", ".join(f"${number}" for number in range(1, len(sent) + 1))
        rows = f"unnest({places}) AS e({', '.join(sent)})"
        oids = [column.array_oid for column in sent.values()]
        self._statements = [Statement(sql.format(rows=rows), *oids) for sql in statements]

    def estimate_bytes(self, event: Event) -> int:
        """Return roughly how many bytes an event has in the queue."""
        return ROW_BYTES if self.document is None else ROW_BYTES + len(self.document(event))

    def make_queries(self, events: Sequence[Any], epochs: Mapping[int, int]) -> list[Query]:
        """Return the queries that write events of this type, each of another row.

        Args:
            events: the events.
            epochs: by shard, the epoch under which this node writes.

        Raises one of `arrays.ENCODING_ERRORS` for a value that its column cannot hold.
        """
        parameters = [
            encode([value_of(event) for event in events]) for value_of, encode in self._columns
        ]
        if self._with_epoch:
            parameters.append(INT8_COLUMN.encode([epochs[event.shard] for event in events]))
        queries = [Query(statement, parameters) for statement in self._statements]
        if self._beginning is not None:
            first = [event for event in events if event.sequence == 1]
            if first:
                queries += self._beginning.make_queries(first, epochs)
        return queries


def _player_update(changes: str, columns: dict[str, ColumnType], **options: Any) -> Target:
    """Return the target of an event that changes columns of a player's row."""
    return Target(
        Table.PLAYERS,
        "player_id",
        {"player_id": INT8_COLUMN} | columns,
        f"UPDATE players AS p SET {changes} FROM {{rows}} WHERE p.player_id = e.player_id",
        overwrites=True,
        **options,
    )


def _game_update(changes: str, columns: dict[str, ColumnType], **options: Any) -> Target:
    """Return the target of an event that changes columns of a game's row."""
    return Target(
        Table.GAMES,
        "game_id",
        {"game_id": INT8_COLUMN} | columns,
        f"UPDATE games AS g SET {changes} FROM {{rows}} WHERE g.game_id = e.game_id",
        overwrites=True,
        **options,
    )


_PAIR_COLUMNS = {"low_id": INT8_COLUMN, "high_id": INT8_COLUMN}
_OF_PAIR = "f.low_id = e.low_id AND f.high_id = e.high_id"

_END_BANS = """
UPDATE bans AS b SET ended_at = to_timestamp(e.{when}) FROM {{rows}}
WHERE b.player_id = e.player_id AND b.ended_at IS NULL
"""

_PLACE_HOLDERS = Target(
    Table.JOURNAL,
    ("kind", "key"),
    {
        "kind": TEXT_COLUMN,
        "key": TEXT_COLUMN,
        "shard": INT8_COLUMN,
        "recorded_at": INT8_COLUMN,
    },
    """
    INSERT INTO snapshots (kind, key, shard, epoch, version, kept_from, format, payload, updated_at)
    SELECT e.kind, e.key, e.shard, e.epoch, 0, 1, 0, '', to_timestamp(e.recorded_at)
    FROM {rows} ON CONFLICT DO NOTHING
    """,
    with_epoch=True,
)
"""Written with the first entry of a room or lobby: what a shard holds is asked of `snapshots`."""

TARGETS: dict[type[Event], Target] = {
    GameCreated: Target(
        Table.GAMES,
        "game_id",
        {
            "game_id": INT8_COLUMN,
            "owner_id": INT8_COLUMN,
            "name": TEXT_COLUMN,
            "api_key_hash": BYTEA_COLUMN,
            "private_key_hash": BYTEA_COLUMN,
            "tag_key": BYTEA_COLUMN,
            "created_at": INT8_COLUMN,
            "shards": STRUCT_COLUMN,
        },
        """
        INSERT INTO games (game_id, owner_id, name, api_key_hash, private_key_hash, tag_key, data,
            created_at, updated_at, shards)
        SELECT e.game_id, e.owner_id, e.name, e.api_key_hash, e.private_key_hash, e.tag_key,
            '{{}}', to_timestamp(e.created_at), to_timestamp(e.created_at),
            ARRAY(SELECT json_array_elements_text(e.shards)::integer)
        FROM {rows}
        """,
    ),
    GameDocumentReplaced: _game_update(
        "data = e.data, updated_at = to_timestamp(e.updated_at)",
        {"data": JSON_COLUMN, "updated_at": INT8_COLUMN},
        document="data",
    ),
    GameKeysRotated: _game_update(
        "api_key_hash = e.api_key_hash, private_key_hash = e.private_key_hash,"
        " old_keys = e.old_keys::jsonb, updated_at = to_timestamp(e.updated_at)",
        {
            "api_key_hash": BYTEA_COLUMN,
            "private_key_hash": BYTEA_COLUMN,
            "old_keys": STRUCT_COLUMN,
            "updated_at": INT8_COLUMN,
        },
    ),
    GameSettingsReplaced: _game_update(
        "settings = e.settings, updated_at = to_timestamp(e.updated_at)",
        {"settings": STRUCT_COLUMN, "updated_at": INT8_COLUMN},
    ),
    PlayerRegistered: Target(
        Table.PLAYERS,
        "player_id",
        {
            "player_id": INT8_COLUMN,
            "game_id": INT8_COLUMN,
            "player_name": TEXT_COLUMN,
            "player_tag": TEXT_COLUMN,
            "token_hash": BYTEA_COLUMN,
            "player_data": JSON_COLUMN,
            "created_at": INT8_COLUMN,
            "platform": TEXT_COLUMN,
            "platform_id": TEXT_COLUMN,
            "shard": INT8_COLUMN,
        },
        """
        INSERT INTO players (player_id, game_id, player_name, player_tag, token_hash, player_data,
            is_online, last_heartbeat, created_at, updated_at, platform, platform_id, shard)
        SELECT e.player_id, e.game_id, e.player_name, e.player_tag, e.token_hash, e.player_data,
            true, to_timestamp(e.created_at), to_timestamp(e.created_at),
            to_timestamp(e.created_at), e.platform, e.platform_id, e.shard
        FROM {rows}
        """,
        document="player_data",
    ),
    PlayerRenamed: _player_update(
        "player_name = e.player_name, updated_at = to_timestamp(e.updated_at)",
        {"player_name": TEXT_COLUMN, "updated_at": INT8_COLUMN},
    ),
    PlayerTokenRotated: _player_update(
        "token_hash = e.token_hash, updated_at = to_timestamp(e.updated_at)",
        {"token_hash": BYTEA_COLUMN, "updated_at": INT8_COLUMN},
    ),
    PlayerCameOnline: _player_update(
        "is_online = true, last_heartbeat = to_timestamp(e.last_heartbeat)",
        {"last_heartbeat": INT8_COLUMN},
    ),
    PlayerLoggedIn: _player_update(
        "is_online = true, last_login = to_timestamp(e.last_login)", {"last_login": INT8_COLUMN}
    ),
    PlayerLoggedOut: _player_update(
        "is_online = false, last_logout = to_timestamp(e.last_logout)",
        {"last_logout": INT8_COLUMN},
    ),
    PlayerDocumentReplaced: _player_update(
        "player_data = e.player_data, updated_at = to_timestamp(e.updated_at)",
        {"player_data": JSON_COLUMN, "updated_at": INT8_COLUMN},
        document="player_data",
    ),
    PlayerStatsChanged: _player_update("stats = e.stats", {"stats": JSON_COLUMN}, document="stats"),
    ResultsMarked: _player_update("results = e.results", {"results": TEXT_COLUMN}),
    PlayerPresenceSaved: _player_update(
        "is_online = e.is_online, last_heartbeat = to_timestamp(e.last_heartbeat)",
        {"is_online": BOOL_COLUMN, "last_heartbeat": INT8_COLUMN},
    ),
    PlayerMoved: _player_update(
        "shard = e.shard, is_online = e.is_online, last_heartbeat = to_timestamp(e.last_heartbeat)",
        {"shard": INT8_COLUMN, "is_online": BOOL_COLUMN, "last_heartbeat": INT8_COLUMN},
    ),
    PlayerBanned: Target(
        Table.BANS,
        "player_id",
        {
            "player_id": INT8_COLUMN,
            "game_id": INT8_COLUMN,
            "ban_id": TEXT_COLUMN,
            "ban_duration": TEXT_COLUMN,
            "ban_reason": TEXT_COLUMN,
            "banned_at": INT8_COLUMN,
            "banned_until": INT8_COLUMN,
        },
        _END_BANS.format(when="banned_at"),
        """
        INSERT INTO bans (ban_id, player_id, game_id, ban_duration, ban_reason, banned_at,
            banned_until)
        SELECT e.ban_id, e.player_id, e.game_id, e.ban_duration, e.ban_reason,
            to_timestamp(e.banned_at), to_timestamp(e.banned_until)
        FROM {rows}
        """,
    ),
    PlayerUnbanned: Target(
        Table.BANS,
        "player_id",
        {"player_id": INT8_COLUMN, "ended_at": INT8_COLUMN},
        _END_BANS.format(when="ended_at"),
    ),
    FriendshipRequested: Target(
        Table.FRIENDSHIPS,
        ("low_id", "high_id"),
        {"game_id": INT8_COLUMN} | _PAIR_COLUMNS | {"requested_by": INT8_COLUMN, "at": INT8_COLUMN},
        """
        INSERT INTO friendships (game_id, low_id, high_id, status, requested_by, created_at,
            updated_at)
        SELECT e.game_id, e.low_id, e.high_id, 'pending', e.requested_by, to_timestamp(e.at),
            to_timestamp(e.at)
        FROM {rows}
        """,
    ),
    FriendshipAccepted: Target(
        Table.FRIENDSHIPS,
        ("low_id", "high_id"),
        _PAIR_COLUMNS | {"at": INT8_COLUMN},
        "UPDATE friendships AS f SET status = 'accepted', updated_at = to_timestamp(e.at)"
        f" FROM {{rows}} WHERE {_OF_PAIR}",
    ),
    FriendshipEnded: Target(
        Table.FRIENDSHIPS,
        ("low_id", "high_id"),
        _PAIR_COLUMNS,
        f"DELETE FROM friendships AS f USING {{rows}} WHERE {_OF_PAIR}",
    ),
    PlayerDeleted: Target(  # friendships are deleted with the player, by their foreign keys
        Table.DELETIONS,
        "player_id",
        {"player_id": INT8_COLUMN},
        "DELETE FROM bans AS b USING {rows} WHERE b.player_id = e.player_id",
        "DELETE FROM players AS p USING {rows} WHERE p.player_id = e.player_id",
        "INSERT INTO deletions (kind, id, deleted_at) SELECT 'player', e.player_id, now()"
        " FROM {rows} ON CONFLICT DO NOTHING",
    ),
    JournalEntry: Target(
        Table.JOURNAL,
        ("kind", "key", "sequence"),
        {
            "kind": TEXT_COLUMN,
            "key": TEXT_COLUMN,
            "sequence": INT8_COLUMN,
            "format": INT8_COLUMN,
            "payload": BYTEA_COLUMN,
            "recorded_at": INT8_COLUMN,
            "shard": INT8_COLUMN,
        },
        """
        INSERT INTO journal (kind, key, sequence, shard, epoch, format, payload, recorded_at)
        SELECT e.kind, e.key, e.sequence, e.shard, e.epoch, e.format, e.payload,
            to_timestamp(e.recorded_at)
        FROM {rows}
        """,
        document="payload",
        with_epoch=True,
        beginning=_PLACE_HOLDERS,
    ),
    SnapshotTaken: Target(
        Table.JOURNAL,
        ("kind", "key"),
        {
            "kind": TEXT_COLUMN,
            "key": TEXT_COLUMN,
            "version": INT8_COLUMN,
            "kept_from": INT8_COLUMN,
            "format": INT8_COLUMN,
            "payload": BYTEA_COLUMN,
            "shard": INT8_COLUMN,
        },
        # behind the fence, so nobody has taken the shard, and no later epoch is there
        """
        INSERT INTO snapshots AS s
            (kind, key, shard, epoch, version, kept_from, format, payload, updated_at)
        SELECT e.kind, e.key, e.shard, e.epoch, e.version, e.kept_from, e.format, e.payload, now()
        FROM {rows}
        ON CONFLICT (kind, key) DO UPDATE SET
            shard = excluded.shard, epoch = excluded.epoch, version = excluded.version,
            kept_from = excluded.kept_from, format = excluded.format, payload = excluded.payload,
            updated_at = excluded.updated_at
        WHERE (s.epoch, s.version) <= (excluded.epoch, excluded.version)
        """,
        overwrites=True,
        document="payload",
        with_epoch=True,
    ),
    ShardHandedOver: Target(
        Table.SHARDS,
        "shard",
        dict.fromkeys(("shard", "epoch", "from_node_id", "to_node_id"), INT8_COLUMN),
        "SELECT hand_over(e.shard::integer, e.epoch, e.from_node_id, e.to_node_id) FROM {rows}",
    ),
}
