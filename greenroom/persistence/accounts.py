"""Owners, games and players as they are in the database; implements the flows' `Accounts`.

Reads use the loaders. The few writes are operators', not actors'. Each is a transaction that first
holds our node's row, so nothing is written once this node has been ended.
"""

# ruff: noqa: S608 (SQL is put together from constants of this package only)

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import cast

import msgspec

from greenroom.actors.game.messages import Game, OldKey, Owner
from greenroom.actors.game.settings import GameSettings
from greenroom.actors.kernel.errors import Refused, StorageUnavailable
from greenroom.actors.kernel.portion import DOCUMENTS_BYTES_MAX
from greenroom.actors.plans.plan import Plan
from greenroom.actors.player.messages import Ban, Player
from greenroom.persistence.arrays import INT8_COLUMN, TEXT_COLUMN, int8, text
from greenroom.persistence.driver import BYTEA, INT8, TEXT, Query, Row, Statement
from greenroom.persistence.errors import QueryFailed
from greenroom.persistence.ids import IdBlocks
from greenroom.persistence.loaders import Loaders
from greenroom.persistence.moments import MOMENT, written_since
from greenroom.persistence.nodes.session import NodeSession

PLAYER_ID_BLOCK = 1000
"""The number of ids in a block, which is the step of the sequence `player_ids`."""
_DELETE_PLAYERS = 500
"""Players deleted in one transaction. The committer waits meanwhile."""


def _seconds(column: str) -> str:
    """Return SQL for a timestamp as whole Unix seconds."""
    return f"extract(epoch FROM {column})::bigint"


def _player_columns(document: str) -> str:
    """Return the columns that `_player` reads, in its order."""
    return f"""
        p.player_id, p.game_id, p.player_name, p.player_tag, p.token_hash, {document}, p.is_online,
        {_seconds("p.last_login")}, {_seconds("p.last_heartbeat")}, {_seconds("p.last_logout")},
        {_seconds("p.created_at")}, {_seconds("p.updated_at")},
        p.platform, p.platform_id, p.results, p.stats, p.shard::bigint,
        b.ban_id, b.ban_duration, b.ban_reason,
        {_seconds("b.banned_at")}, {_seconds("b.banned_until")}
    """


_PLAYERS = """
    FROM players AS p LEFT JOIN bans AS b ON b.player_id = p.player_id AND b.ended_at IS NULL
"""
_SELECT_PLAYER = f"SELECT {_player_columns('p.player_data')} {_PLAYERS}"
_SELECT_OUTLINE = f"""SELECT {_player_columns("'{}'::json")} {_PLAYERS}"""
_SELECT_GAME = f"""
    SELECT g.game_id, g.owner_id, o.name, o.plan, g.name, g.api_key_hash, g.private_key_hash,
        g.tag_key, g.data, {_seconds("g.created_at")}, {_seconds("g.updated_at")}, g.settings,
        g.old_keys::json, to_json(g.shards)
    FROM games AS g JOIN owners AS o ON o.owner_id = g.owner_id
"""
_SELECT_OWNER = f"SELECT owner_id, name, plan, {_seconds('created_at')} FROM owners"

_PLAYER = Statement(f"{_SELECT_PLAYER} WHERE p.player_id = $1", INT8)
_PLAYER_OUTLINE = Statement(f"{_SELECT_OUTLINE} WHERE p.player_id = $1", INT8)
_PLAYER_BY_TOKEN = Statement(f"{_SELECT_PLAYER} WHERE p.token_hash = $1", BYTEA)


def _cut(page: str) -> str:
    """Return SQL for a page up to the document with which it has `DOCUMENTS_BYTES_MAX`.

    Hundreds of the largest in a row would take hundreds of MiB and hold the loop for as many
    milliseconds. There is a column more, the last.
    """
    return f"""
        SELECT * FROM (
            SELECT *, sum(octet_length(player_data::text)) OVER (
                ORDER BY player_id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
            ) AS bytes_before
            FROM ({page}) AS page
        ) AS page WHERE coalesce(bytes_before, 0) < {DOCUMENTS_BYTES_MAX} ORDER BY player_id
    """


def _online_players(condition: str) -> str:
    """Return SQL for a page of online players."""
    return _cut(
        f"{_SELECT_PLAYER} JOIN games AS g ON g.game_id = p.game_id"
        f" WHERE p.is_online AND p.player_id > $1 {condition} ORDER BY p.player_id LIMIT $2"
    )


_ONLINE_PLAYERS = Statement(_online_players(""), INT8, INT8)
_ONLINE_PLAYERS_OF = Statement(
    _online_players("AND coalesce(p.shard, g.shards[1]) = ANY ($3)"),
    *(INT8, INT8, INT8_COLUMN.array_oid),
)
_ONLINE_PLAYERS_BY_ID = Statement(
    _online_players("AND p.player_id = ANY ($3)"), *(INT8, INT8, INT8_COLUMN.array_oid)
)
_ONLINE_OTHERWISE = Statement(
    f"""
    SELECT coalesce(o.player_id, k.player_id), o.player_id IS NOT NULL
    FROM unnest($3) AS k(player_id) FULL JOIN (
        SELECT p.player_id, b.ban_id IS NOT NULL OR {written_since("p", "$2")} AS is_written
        {_PLAYERS} JOIN games AS g ON g.game_id = p.game_id
        WHERE p.is_online AND coalesce(p.shard, g.shards[1]) = ANY ($1)
    ) AS o ON o.player_id = k.player_id
    WHERE k.player_id IS NULL OR o.player_id IS NULL OR o.is_written
    """,
    INT8_COLUMN.array_oid,
    TEXT,
    INT8_COLUMN.array_oid,
)
"""A ban is a row of another table, so whoever has one counts as written."""
_PLAYERS_PAGE = Statement(
    f"{_SELECT_OUTLINE} WHERE p.game_id = $1 AND p.player_id > $2 ORDER BY p.player_id LIMIT $3",
    INT8,
    INT8,
    INT8,
)
_PLAYERS_BY_ID = Statement(f"{_SELECT_PLAYER} WHERE p.player_id = ANY($1)", INT8_COLUMN.array_oid)
_OUTLINES_BY_ID = Statement(f"{_SELECT_OUTLINE} WHERE p.player_id = ANY($1)", INT8_COLUMN.array_oid)
_PLAYERS_BY_PLATFORM_IDS = Statement(
    f"{_SELECT_OUTLINE} WHERE p.game_id = $1 AND p.platform_id = ANY($2)"
    " AND p.platform_id IS NOT NULL",
    INT8,
    TEXT_COLUMN.array_oid,
)
_DOCUMENTS_PAGE = Statement(
    _cut(
        "SELECT player_id, player_data, stats FROM players"
        " WHERE game_id = $1 AND player_id > $2 ORDER BY player_id LIMIT $3"
    ),
    INT8,
    INT8,
    INT8,
)
_DOCUMENTS_PAGE_OF = Statement(
    _cut(
        "SELECT p.player_id, p.player_data, p.stats"
        " FROM players AS p JOIN games AS g ON g.game_id = p.game_id"
        " WHERE p.game_id = $1 AND p.player_id > $2 AND coalesce(p.shard, g.shards[1]) = ANY ($4)"
        " ORDER BY p.player_id LIMIT $3"
    ),
    INT8,
    INT8,
    INT8,
    INT8_COLUMN.array_oid,
)
_GAME = Statement(f"{_SELECT_GAME} WHERE g.game_id = $1", INT8)
_HAS_API_KEY = """
    WHERE g.game_id = coalesce(
        (SELECT game_id FROM games WHERE api_key_hash = $1),
        (SELECT game_id FROM old_project_keys WHERE key_hash = $1 LIMIT 1)
    )
"""
"""Two games never have the same old key: keys are random."""
_GAME_BY_API_KEY = Statement(_SELECT_GAME + _HAS_API_KEY, BYTEA)
_SHARDS_BY_API_KEY = Statement(
    f"SELECT g.game_id, to_json(g.shards) FROM games AS g {_HAS_API_KEY}", BYTEA
)
_SHARD_BY_TOKEN = Statement(
    "SELECT coalesce(p.shard, g.shards[1])::bigint"
    " FROM players AS p JOIN games AS g ON g.game_id = p.game_id WHERE p.token_hash = $1",
    BYTEA,
)
_GAMES_WITH_OLD_KEYS = Statement(
    "SELECT game_id FROM games WHERE old_keys <> '[]' ORDER BY game_id"
)
_GAMES = Statement(f"{_SELECT_GAME} ORDER BY g.game_id")
_OWNERS = Statement(f"{_SELECT_OWNER} ORDER BY owner_id")
_OWNER_BY_NAME = Statement(f"{_SELECT_OWNER} WHERE name = $1", TEXT)
_NEXT_PLAYER_ID = Statement("SELECT nextval('player_ids')")
_NEXT_GAME_ID = Statement("SELECT nextval('game_ids')")

_CREATE_OWNER = Statement(
    "INSERT INTO owners (owner_id, name, plan, created_at)"
    " VALUES (nextval('owner_ids'), $1, $2, date_trunc('second', now()))"
    f" RETURNING owner_id, name, plan, {_seconds('created_at')}",
    TEXT,
    TEXT,
)
_SET_PLAN = Statement("UPDATE owners SET plan = $2 WHERE owner_id = $1 RETURNING 1", INT8, TEXT)
_BANS_OF = Statement(
    f"""
    SELECT ban_id, ban_duration, ban_reason, {_seconds("banned_at")}, {_seconds("banned_until")},
        {_seconds("ended_at")}
    FROM bans WHERE player_id = $1 ORDER BY banned_at, ban_id
    """,
    INT8,
)
_USE_TICKET = Statement(
    "INSERT INTO platform_tickets (ticket_hash, expires_at) VALUES ($1, to_timestamp($2))"
    " ON CONFLICT DO NOTHING RETURNING 1",
    BYTEA,
    INT8,
)
_FORGET_TICKETS = Statement(
    "DELETE FROM platform_tickets WHERE ticket_hash IN (SELECT ticket_hash FROM platform_tickets"
    " WHERE expires_at < to_timestamp($1) ORDER BY expires_at LIMIT 10 FOR UPDATE SKIP LOCKED)",
    INT8,
)
_FIRST_PLAYERS = (
    "player_id IN (SELECT player_id FROM players WHERE game_id = $1"
    f" ORDER BY player_id LIMIT {_DELETE_PLAYERS})"
)
_DELETE_BANS = Statement(f"DELETE FROM bans WHERE {_FIRST_PLAYERS}", INT8)
_DELETE_SOME_PLAYERS = Statement(
    f"DELETE FROM players WHERE {_FIRST_PLAYERS} RETURNING player_id", INT8
)
_NOTE_DELETION = Statement(
    "INSERT INTO deletions (kind, id, deleted_at) VALUES ('game', $1, now())"
    " ON CONFLICT DO NOTHING",
    INT8,
)
_DELETE_GAME = Statement("DELETE FROM games WHERE game_id = $1", INT8)


class DatabaseAccounts:
    """Implements the flows' `Accounts`, whose docstrings tell what each method promises."""

    def __init__(self, loaders: Loaders, session: NodeSession) -> None:
        """Read over `loaders`; write as the node of `session`."""
        self._loaders = loaders
        self._session = session
        self._player_ids = IdBlocks(lambda: self._read_next(_NEXT_PLAYER_ID), PLAYER_ID_BLOCK)

    async def load_player(self, player_id: int) -> Player | None:
        """Return a player's whole record, with the ban that is in force."""
        rows = await self._read_rows(_PLAYER, int8(player_id))
        return _player(rows[0]) if rows else None

    async def load_player_outline(self, player_id: int) -> Player | None:
        """Return a player's record, with `{}` for the document."""
        rows = await self._read_rows(_PLAYER_OUTLINE, int8(player_id))
        return _player(rows[0]) if rows else None

    async def find_player_by_token(self, token_hash: bytes) -> Player | None:
        """Return the player whose token has this hash."""
        rows = await self._read_rows(_PLAYER_BY_TOKEN, token_hash)
        return _player(rows[0]) if rows else None

    async def load_game(self, game_id: int) -> Game | None:
        """Return a game's whole record."""
        rows = await self._read_rows(_GAME, int8(game_id))
        return _game(rows[0]) if rows else None

    async def find_game_by_api_key(self, key_hash: bytes) -> Game | None:
        """Return the game whose project key, or an old one, has this hash."""
        rows = await self._read_rows(_GAME_BY_API_KEY, key_hash)
        return _game(rows[0]) if rows else None

    async def find_shards_by_api_key(self, key_hash: bytes) -> tuple[int, tuple[int, ...]] | None:
        """Return the id and the shards of the game whose project key, or an old one, has this hash.

        An old key is found until it is forgotten; whether it still opens the game, its owner knows.
        """
        for game_id, shards in await self._read_rows(_SHARDS_BY_API_KEY, key_hash):
            return game_id, msgspec.json.decode(shards, type=tuple[int, ...])
        return None

    async def find_shard_by_token(self, token_hash: bytes) -> int | None:
        """Return the shard that the player lives in whose token has this hash."""
        rows = await self._read_rows(_SHARD_BY_TOKEN, token_hash)
        return cast("int", rows[0][0]) if rows else None

    async def find_games_with_old_keys(self) -> list[int]:
        """Return the ids of games that have old keys, expired ones included."""
        return [row[0] for row in await self._read_rows(_GAMES_WITH_OLD_KEYS)]

    async def take_player_id(self) -> int:
        """Return an id that no player had before, usually without asking the database."""
        return await self._player_ids.take()

    async def take_game_id(self) -> int:
        """Return an id that no game had before."""
        return await self._read_next(_NEXT_GAME_ID)

    async def load_online_players(
        self, after_id: int, limit: int, shards: Collection[int] | None = None
    ) -> list[Player]:
        """Return players who are online, by id, from the first after `after_id`.

        They are all, or those who live in `shards`. There are fewer than `limit` if no more are
        left, or if their documents have come to `DOCUMENTS_BYTES_MAX`.
        """
        page = int8(after_id), int8(limit)
        if shards is None:
            rows = await self._read_rows(_ONLINE_PLAYERS, *page)
        else:
            rows = await self._read_rows(
                _ONLINE_PLAYERS_OF, *page, INT8_COLUMN.encode(sorted(shards))
            )
        return [_player(row) for row in rows]

    async def load_online_players_by_id(
        self, after_id: int, limit: int, player_ids: Sequence[int]
    ) -> list[Player]:
        """Return those of some players who are online, in pages as `load_online_players` does."""
        page = int8(after_id), int8(limit)
        rows = await self._read_rows(_ONLINE_PLAYERS_BY_ID, *page, INT8_COLUMN.encode(player_ids))
        return [_player(row) for row in rows]

    async def read_moment(self) -> str:
        """Return the present moment; see `moments`."""
        ((moment,),) = await self._read_rows(MOMENT)
        return cast("str", moment)

    async def compare_online_players(
        self, shards: Collection[int], moment: str, known: Collection[int]
    ) -> dict[int, bool]:
        """Return how online players of shards differ from what was read; see `Accounts`."""
        of_shards, ids = INT8_COLUMN.encode(sorted(shards)), INT8_COLUMN.encode(list(known))
        rows = await self._read_rows(_ONLINE_OTHERWISE, of_shards, text(moment), ids)
        return dict(cast("list[tuple[int, bool]]", rows))

    async def load_players_page(self, game_id: int, after_id: int, limit: int) -> list[Player]:
        """Return a game's players by id, from the first after `after_id`; documents as `{}`."""
        rows = await self._read_rows(_PLAYERS_PAGE, int8(game_id), int8(after_id), int8(limit))
        return [_player(row) for row in rows]

    async def load_players_by_id(self, player_ids: Sequence[int]) -> list[Player]:
        """Return the existing ones of these players, in any order; a hundred at most."""
        rows = await self._read_rows(_PLAYERS_BY_ID, INT8_COLUMN.encode(player_ids))
        return [_player(row) for row in rows]

    async def load_outlines_by_id(self, player_ids: Sequence[int]) -> list[Player]:
        """Return the existing ones of these players, in any order, with `{}` as documents."""
        rows = await self._read_rows(_OUTLINES_BY_ID, INT8_COLUMN.encode(player_ids))
        return [_player(row) for row in rows]

    async def find_players_by_platform_ids(
        self, game_id: int, platform_ids: Sequence[str]
    ) -> list[Player]:
        """Return a game's players who are these users; a hundred at most, documents as `{}`."""
        ids = TEXT_COLUMN.encode(platform_ids)
        rows = await self._read_rows(_PLAYERS_BY_PLATFORM_IDS, int8(game_id), ids)
        return [_player(row) for row in rows]

    async def load_documents_page(
        self, game_id: int, after_id: int, limit: int, shards: Collection[int] | None = None
    ) -> list[tuple[int, bytes, bytes]]:
        """Return ids, documents and stats of a game's players, from the first after `after_id`.

        They are those who live in `shards`, or all. There are fewer than `limit` if no more are
        left, or if their documents have come to `DOCUMENTS_BYTES_MAX`.
        """
        page = int8(game_id), int8(after_id), int8(limit)
        if shards is None:
            rows = await self._read_rows(_DOCUMENTS_PAGE, *page)
        else:
            encoded = INT8_COLUMN.encode(sorted(shards))
            rows = await self._read_rows(_DOCUMENTS_PAGE_OF, *page, encoded)
        return [(player_id, document, stats) for player_id, document, stats, _ in rows]

    async def load_games(self) -> list[Game]:
        """Return all games, by id."""
        return [_game(row) for row in await self._read_rows(_GAMES)]

    async def load_owners(self) -> list[Owner]:
        """Return all owners, by id."""
        return [_owner(row) for row in await self._read_rows(_OWNERS)]

    async def find_owner_by_name(self, name: str) -> Owner | None:
        """Return the owner with this name."""
        rows = await self._read_rows(_OWNER_BY_NAME, text(name))
        return _owner(rows[0]) if rows else None

    async def create_owner(self, name: str, plan: Plan) -> Owner:
        """Add an owner.

        Raises:
            Refused: there is an owner of this name already.
            StorageUnavailable: the database is away, or another server has taken over.
        """
        try:
            (row,) = await self._write(_CREATE_OWNER, text(name), text(plan))
        except QueryFailed as error:
            if error.sqlstate == "23505":
                raise Refused(f"There is already an owner named {name}") from None
            raise
        return _owner(row)

    async def set_plan(self, owner_id: int, plan: Plan) -> None:
        """Give an owner another plan.

        Raises:
            Refused: there is no such owner.
            StorageUnavailable: the database is away, or another server has taken over.
        """
        if not await self._write(_SET_PLAN, int8(owner_id), text(plan)):
            raise Refused(f"There is no owner with the id {owner_id}")

    async def load_bans(self, player_id: int) -> list[tuple[Ban, int | None]]:
        """Return all bans of a player, oldest first, each with the time of its end or None."""
        rows = await self._read_rows(_BANS_OF, int8(player_id))
        return [(Ban(*row[:5]), row[5]) for row in rows]

    async def use_ticket(self, ticket_hash: bytes, now: int, expires_at: int) -> bool:
        """Store a platform's ticket, durably; return False if it is stored already.

        Each call deletes more expired tickets than it adds, so the table stays small.
        """
        forget = Query(_FORGET_TICKETS, (int8(now),))
        return bool(await self._write(_USE_TICKET, ticket_hash, int8(expires_at), before=forget))

    async def delete_game(
        self, game_id: int, deleted: Callable[[Sequence[int]], None] | None = None
    ) -> None:
        """Delete a game and all that belongs to it, some players at a time.

        Args:
            game_id: the game; its actor must be stopped, so that nobody registers meanwhile.
            deleted: is called with the ids of players once they are deleted.

        Raises:
            StorageUnavailable: the database is away, or another server has taken over. What has
                been deleted stays deleted, and the call can be repeated.
        """
        which = int8(game_id)
        while True:
            bans = Query(_DELETE_BANS, (which,))
            rows = await self._write(_DELETE_SOME_PLAYERS, which, before=bans)
            if deleted is not None:
                deleted([cast("int", player_id) for (player_id,) in rows])
            if len(rows) < _DELETE_PLAYERS:
                break
        note = Query(_NOTE_DELETION, (which,))
        await self._write(_DELETE_GAME, which, before=note)

    async def _read_rows(self, statement: Statement, *parameters: bytes | None) -> list[Row]:
        """Run a query on a loader connection and return its rows."""
        (rows,) = await self._loaders.fetch(Query(statement, parameters))
        return rows

    async def _read_next(self, statement: Statement) -> int:
        """Return the next value of a sequence."""
        ((first,),) = await self._read_rows(statement)
        return cast("int", first)

    async def _write(
        self, statement: Statement, *parameters: bytes | None, before: Query | None = None
    ) -> list[Row]:
        """Run a statement in a transaction that checks our node; return its rows."""
        queries = [self._session.hold(), Query(statement, parameters)]
        if before is not None:
            queries.insert(1, before)
        try:
            return (await self._loaders.write(*queries))[-1]
        except QueryFailed as error:
            if error.is_fence:
                raise StorageUnavailable("another server has taken over the database") from None
            raise


def _player(row: Row) -> Player:
    """Return the record of a row of `_player_columns`."""
    return Player(
        player_id=row[0],
        game_id=row[1],
        player_name=row[2],
        player_tag=row[3],
        token_hash=row[4],
        player_data=row[5],
        is_online=row[6],
        last_login=row[7],
        last_heartbeat=row[8],
        last_logout=row[9],
        created_at=row[10],
        updated_at=row[11],
        platform=row[12],
        platform_id=row[13],
        results=row[14],
        stats=row[15],
        shard=row[16],
        ban=None if row[17] is None else Ban(*row[17:]),
    )


def _game(row: Row) -> Game:
    """Return the record of a row of `_SELECT_GAME`."""
    return Game(
        game_id=row[0],
        owner_id=row[1],
        owner_name=row[2],
        plan=row[3],
        name=row[4],
        api_key_hash=row[5],
        private_key_hash=row[6],
        tag_key=row[7],
        data=row[8],
        created_at=row[9],
        updated_at=row[10],
        settings=msgspec.json.decode(row[11], type=GameSettings),
        old_keys=msgspec.json.decode(row[12], type=tuple[OldKey, ...]),
        shards=msgspec.json.decode(row[13], type=tuple[int, ...]),
    )


def _owner(row: Row) -> Owner:
    """Return the record of a row of `_SELECT_OWNER`."""
    return Owner(owner_id=row[0], name=row[1], plan=row[2], created_at=row[3])
