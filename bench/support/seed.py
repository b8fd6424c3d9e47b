"""Rooms and players put straight into the database of a running server, for it to find later.

The server must not be asked for them before it has been started again.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterable, Iterator, Sequence

import msgspec
import psycopg

from greenroom import actor_settings
from greenroom.actors.kernel.journal import JournalEntry, Snapshot
from greenroom.actors.player import tokens
from greenroom.actors.room.messages import Group, SendUpdates
from greenroom.actors.room.rules import codec, updates
from greenroom.actors.room.rules import membership as rules
from greenroom.actors.room.rules.events import NewMember, RoomCreated
from greenroom.actors.room.rules.state import Room

FIRST_PLAYER_ID = 10_000_001
"""Above every id that a server hands out while it is measured."""
ROOM_MEMBERS = 6
UPDATE_BYTES = 100

_DATA = b'{"x":"%b"}' % (b"x" * (UPDATE_BYTES - 8))
_LIMITS = actor_settings.room_limits()


def add_players(url: str, count: int, *, are_online: bool = True) -> None:
    """Insert players of the first game, into its partitions in turn if it has several."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            """
            INSERT INTO players
                (player_id, game_id, player_name, player_tag, token_hash, player_data, is_online,
                last_login, last_heartbeat, last_logout, created_at, updated_at, shard)
            SELECT n, game_id, 'Player ' || n, to_char(n, 'FM00000000'),
                sha256(n::text::bytea), json_build_object('level', n %% 100, 'name', md5(n::text),
                    'score', n::bigint * 7919 %% 1000003),
                %s, now(), now(), NULL, now(), now(),
                CASE WHEN cardinality(shards) > 1 THEN shards[1 + n %% cardinality(shards)] END
            FROM (SELECT game_id, shards FROM games ORDER BY game_id LIMIT 1) AS game,
                generate_series(%s, %s) AS n
            """,
            (are_online, FIRST_PLAYER_ID, FIRST_PLAYER_ID + count - 1),
        )
        connection.execute("ANALYZE players")


def add_rooms(url: str, count: int, updates_each: int) -> None:
    """Insert full rooms of the first players: their snapshots, and the journal behind them.

    Args:
        url: the database's.
        count: how many rooms.
        updates_each: how many sendings, each to one member, every room still keeps.
    """
    with psycopg.connect(url) as connection:
        row = connection.execute(
            "SELECT game_id, shards[1], (SELECT max(epoch) FROM shards) FROM games"
            " ORDER BY game_id LIMIT 1"
        ).fetchone()
        assert row is not None
        game_id, home, epoch = row
        made = [_room(game_id, number, updates_each) for number in range(count)]
        shard = {"shard": home, "epoch": epoch}
        entries = (entry for _, entries in made for entry in entries)
        _copy(connection, "journal", entries, shard, "recorded_at")
        snapshots = (snapshot for snapshot, _ in made)
        _copy(connection, "snapshots", snapshots, shard | {"updated_at": "now"})
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("ANALYZE journal, snapshots")


def host_id(number: int) -> int:
    """Return who is the host of a room, counted from 0."""
    return FIRST_PLAYER_ID + number * ROOM_MEMBERS


def give_tokens(url: str, player_ids: Sequence[int]) -> list[str]:
    """Let players be called for; return a token for each."""
    made = [
        tokens.make_token(tokens.PLAYER_TOKEN, secrets.token_bytes(tokens.TOKEN_RANDOM_BYTES))
        for _ in player_ids
    ]
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            """
            UPDATE players SET token_hash = given.hash
            FROM unnest(%s::bigint[], %s::bytea[]) AS given (id, hash) WHERE player_id = given.id
            """,
            (list(player_ids), [tokens.hash_token(token) for token in made]),
        )
    return made


def best_players(url: str, count: int) -> list[int]:
    """Return who has the highest scores."""
    with psycopg.connect(url) as connection:
        found = connection.execute(
            "SELECT player_id FROM players ORDER BY (player_data->>'score')::int DESC NULLS LAST"
            " LIMIT %s",
            (count,),
        )
        return [row[0] for row in found]


def snapshots_since(url: str, unix_seconds: float) -> int:
    """Return how many snapshots were written from then on."""
    with psycopg.connect(url) as connection:
        row = connection.execute(
            "SELECT count(*) FROM snapshots WHERE updated_at >= to_timestamp(%s)", (unix_seconds,)
        ).fetchone()
    assert row is not None
    return int(row[0])


def _copy(
    connection: psycopg.Connection[object],
    table: str,
    rows: Iterable[msgspec.Struct],
    constants: dict[str, object],
    time_column: str = "",
) -> None:
    """Fill a table from structs with fields named as its columns; constants go before fields."""
    first, *others = rows
    names = [name for name in first.__struct_fields__ if name not in constants]
    columns = ", ".join([*names, *constants])
    with connection.cursor().copy(f"COPY {table} ({columns}) FROM STDIN") as copy:
        for row in (first, *others):
            values = [getattr(row, name) for name in names]
            if time_column:
                values[names.index(time_column)] = _timestamp(getattr(row, time_column))
            copy.write_row([*values, *constants.values()])


def remove_rooms(url: str) -> None:
    """Delete all rooms."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("TRUNCATE journal, snapshots")


def _room(game_id: int, number: int, updates_each: int) -> tuple[Snapshot, list[JournalEntry]]:
    """Play a room as its actor would."""
    first = host_id(number)
    now = int(time.time())
    seats = range(first, first + ROOM_MEMBERS)
    created = RoomCreated(
        room_id=f"{number:032x}",
        game_id=game_id,
        room_name=f"Game Room {number}",
        max_players=ROOM_MEMBERS + 1,  # one seat is free, so that lists show it
        password_hash=None,
        join_token=f"{number:016x}",
        host_switch=True,
        can_leave=True,
        realtime=False,
        rules=b'{"map":"dunes","rounds":3}',
        host_id=first,
        members=tuple(NewMember(i, f"Player {i}", b'{"team":1}', now) for i in seats),
        at=now,
    )
    room = rules.new_room(created)
    entries = [codec.entry(room.room_id, 1, created), *_sendings(room, updates_each, now)]
    return codec.snapshot(room), entries


def _sendings(room: Room, count: int, now: int) -> Iterator[JournalEntry]:
    """Let the host tell one member after the other something."""
    guests = [player_id for player_id in room.members if player_id != room.host_id]
    for number in range(count):
        target = Group("specific", frozenset({guests[number % len(guests)]}))
        command = SendUpdates(room.host_id, target, "moved", _DATA)
        (event,), _ = updates.decide_send(room, command, _LIMITS, now)
        rules.apply(room, event)
        yield codec.entry(room.room_id, room.version, event)


def _timestamp(seconds: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S+00", time.gmtime(seconds))
