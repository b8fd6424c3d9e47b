"""Accounts come back from the database as they went in."""

from __future__ import annotations

import json
import signal
from collections.abc import Sequence
from functools import partial

import msgspec
import pytest
import trio
from postgres_kit import FakeWriter, PostgresProcess, registered, select
from trio.testing import MockClock

from greenroom.actors.game.messages import (
    GameCreated,
    GameDocumentReplaced,
    GameKeysRotated,
    OldKey,
)
from greenroom.actors.kernel.errors import ActorCrashed, Refused, StorageUnavailable
from greenroom.actors.kernel.portion import DOCUMENTS_BYTES_MAX
from greenroom.actors.player.messages import (
    Ban,
    PlayerBanned,
    PlayerDocumentReplaced,
    PlayerLoggedOut,
    PlayerStatsChanged,
    PlayerTokenRotated,
    ResultsMarked,
)
from greenroom.persistence.driver import DatabaseConnection
from greenroom.persistence.ids import IdBlocks
from greenroom.persistence.operators.shard_lookup import DatabaseHomes
from greenroom.persistence.settings import StorageSettings
from greenroom.persistence.storage import Storage

DOCUMENTS = [
    b"{}",
    b'{"big": 123456789012345678901234567890, "neg": -0, "zero": -0.0}',
    b'{"f": 1.10, "e": 1E400, "tiny": 1e-999, "exact": 0.1000000000000000055511151231257827}',
    b'{"z": 1, "a": 2, "z": 3, "": null}',
    '{"é": "日本語 😀 \u200b", "rtl": "\u202e"}'.encode(),
    rb'{"nul": "\u0000", "lone": "\ud800", "low": "\udc00", "reversed": "\udc00\ud800"}',
    rb'{"escaped": "\"\\\/\b\f\n\r\t\u0041"}',
    b' \n\t{ "space" :\r\n [ 1 , 2 ] } ',
    b'{"deep": ' + b"[" * 900 + b"]" * 900 + b"}",
    b'{"long": "' + b"x" * 1_000_000 + b'"}',
]


async def settle(storage: Storage, *events) -> None:
    writer = FakeWriter()
    await storage.committer.submit(writer, events).wait(writer, 10)


@pytest.mark.parametrize("document", DOCUMENTS, ids=range(len(DOCUMENTS)))
async def test_documents_come_back_byte_for_byte(storage: Storage, document: bytes):
    await settle(storage, registered(1, player_data=document))
    await settle(storage, registered(2), PlayerDocumentReplaced(2, 1, document, 1))
    await settle(storage, GameDocumentReplaced(1, document, 1))

    first, second = await storage.accounts.load_player(1), await storage.accounts.load_player(2)
    game = await storage.accounts.load_game(1)

    assert first is not None
    assert second is not None
    assert game is not None
    assert [first.player_data, second.player_data, game.data] == [document] * 3
    json.loads(document)


async def test_a_player_is_found_by_id_and_by_their_present_token(storage: Storage):
    await settle(storage, registered(1))
    await settle(storage, PlayerTokenRotated(1, b"new token", 1_700_000_009))

    player = await storage.accounts.find_player_by_token(b"new token")

    assert player is not None
    assert player == await storage.accounts.load_player(1)
    assert player.token_hash == b"new token"
    assert player.updated_at == 1_700_000_009
    assert player.is_online
    assert player.last_heartbeat == player.created_at == 1_700_000_000
    assert await storage.accounts.find_player_by_token(b"token 1") is None
    assert await storage.accounts.load_player(2) is None


async def test_players_are_found_by_who_they_are_on_a_platform(storage: Storage):
    await settle(
        storage,
        registered(1, platform="steam", platform_id="76561197960287930"),
        registered(2, platform="steam", platform_id="76561197960287931"),
        registered(3),
    )

    ids = ["76561197960287930", "76561197960287999", ""]
    found = await storage.accounts.find_players_by_platform_ids(1, ids)

    assert [(p.player_id, p.platform, p.platform_id) for p in found] == [(1, "steam", ids[0])]
    assert await storage.accounts.find_players_by_platform_ids(2, ids) == []
    assert await storage.accounts.find_players_by_platform_ids(1, []) == []


async def test_a_user_of_a_platform_has_one_account_a_game(storage: Storage):
    await settle(storage, registered(1, platform="steam", platform_id="7"))
    writer = FakeWriter()
    twin = registered(2, platform="steam", platform_id="7")

    with pytest.raises(ActorCrashed):
        await storage.committer.submit(writer, [twin]).wait(writer, 10)

    assert await storage.accounts.load_player(2) is None


async def test_a_ban_in_force_comes_with_the_player(storage: Storage):
    ban = PlayerBanned(1, 1, "b" * 32, "forever", "cheating", 1_700_000_001, None)
    await settle(storage, registered(1), ban)

    player = await storage.accounts.load_player(1)

    assert player is not None
    assert player.ban == Ban("b" * 32, "forever", "cheating", 1_700_000_001, None)


async def test_a_game_comes_with_its_owner(storage: Storage):
    await storage.accounts.set_plan(1, "pro")
    await settle(storage, GameKeysRotated(1, b"new api", b"new admin", (), 1_700_000_005))

    game = await storage.accounts.find_game_by_api_key(b"new api")

    assert game is not None
    assert game == await storage.accounts.load_game(1)
    assert (game.owner_name, game.plan, game.data) == ("local", "pro", b"{}")
    assert (game.private_key_hash, game.tag_key) == (b"new admin", b"0123456789abcdef")
    assert (game.created_at, game.updated_at) == (1_700_000_000, 1_700_000_005)
    assert await storage.accounts.find_game_by_api_key(b"api") is None
    assert await storage.accounts.load_games() == [game]


async def test_owners_have_names_of_their_own(storage: Storage):
    owner = await storage.accounts.create_owner("Ada", "free")

    assert await storage.accounts.find_owner_by_name("Ada") == owner
    assert await storage.accounts.find_owner_by_name("Bob") is None
    assert [o.name for o in await storage.accounts.load_owners()] == ["local", "Ada"]
    with pytest.raises(Refused, match="already an owner named Ada"):
        await storage.accounts.create_owner("Ada", "pro")
    with pytest.raises(Refused, match="no owner with the id 99"):
        await storage.accounts.set_plan(99, "pro")


async def test_pages_of_players_follow_each_other_without_documents(storage: Storage):
    await settle(storage, GameCreated(2, 1, "Other", b"a2", b"b2", b"c", 1))
    await settle(storage, *(registered(n) for n in (1, 3, 5)))
    await settle(storage, registered(2, game_id=2))

    page = await storage.accounts.load_players_page(1, 0, 2)
    rest = await storage.accounts.load_players_page(1, 3, 2)
    online = await storage.accounts.load_online_players(1, 2)

    assert [player.player_id for player in page + rest] == [1, 3, 5]
    assert page[0].player_data == b"{}"
    assert [player.player_id for player in online] == [2, 3]
    assert online[0].player_data == b'{"level":1}'


async def test_games_and_those_who_are_online_are_found_by_shard(storage: Storage):
    await settle(storage, GameCreated(2, 1, "Other", b"a2", b"b2", b"c", 1, (7, 8)))
    await settle(storage, *(registered(n) for n in (1, 3, 5)))
    await settle(storage, *(registered(n, game_id=2) for n in (2, 4)), PlayerLoggedOut(2, 1))
    accounts = storage.accounts

    async def online(after_id: int, limit: int, shards: list[int]) -> list[int]:
        found = await accounts.load_online_players(after_id, limit, shards)
        return [player.player_id for player in found]

    assert await online(0, 10, [0]) == [1, 3, 5]
    assert await online(1, 1, [0, 7]) == [3]
    assert await online(0, 10, [7]) == [4]
    assert await online(0, 10, [8]) == []  # its home is 7
    await settle(storage, registered(6, game_id=2, shard=8), registered(8, game_id=2, shard=7))
    assert await online(0, 10, [8]) == [6]
    assert await online(0, 10, [7]) == [4, 8]
    assert await online(4, 2, [7, 8, 0]) == [5, 6]
    homes = DatabaseHomes(storage.loaders)
    assert [await homes.find_shard_of_player(n) for n in (1, 2, 6, 8, 9)] == [0, 7, 8, 7, None]
    found_player = await accounts.load_player(6)
    assert found_player is not None
    assert found_player.shard == 8
    found = await accounts.load_game(2)
    assert found is not None
    assert found.shards == (7, 8)
    tokens = [registered(n).token_hash for n in (1, 2, 6)]
    assert [await accounts.find_shard_by_token(token) for token in tokens] == [0, 7, 8]
    assert await accounts.find_shard_by_token(b"nobody's") is None
    assert await accounts.find_shards_by_api_key(b"a2") == (2, (7, 8))
    assert await accounts.find_shards_by_api_key(b"nobody's") is None

    old = OldKey(kind="project", key_hash=b"a2".hex(), replaced_at=1, expires_at=2)
    await settle(storage, GameKeysRotated(2, b"a3", b"b2", (old,), 1))
    for key in (b"a2", b"a3"):
        assert await accounts.find_shards_by_api_key(key) == (2, (7, 8))
        by_key = await accounts.find_game_by_api_key(key)
        assert by_key is not None
        assert by_key.game_id == 2
    assert await accounts.find_shards_by_api_key(b"b2") is None

    await settle(storage, GameKeysRotated(2, b"a3", b"b2", (), 1))  # the old ones are revoked
    assert await accounts.find_shards_by_api_key(b"a2") is None
    assert await accounts.find_game_by_api_key(b"a2") is None
    assert await accounts.find_shards_by_api_key(b"a3") == (2, (7, 8))


async def test_deleting_a_game_deletes_all_its_players_and_no_others(
    storage: Storage, connection: DatabaseConnection
):
    await settle(storage, GameCreated(2, 1, "Other", b"a2", b"b2", b"c", 1))
    await settle(storage, *(registered(n) for n in range(1, 1202)), registered(5000, game_id=2))
    await settle(storage, PlayerBanned(7, 1, "b" * 32, "hour", None, 1, 2))
    seen: list[Sequence[int]] = []

    await storage.accounts.delete_game(1, seen.append)

    assert [len(ids) for ids in seen] == [500, 500, 201]
    assert {player_id for ids in seen for player_id in ids} == set(range(1, 1202))
    assert await select(connection, "SELECT player_id FROM players") == [(5000,)]
    assert await select(connection, "SELECT game_id FROM games") == [(2,)]
    assert await select(connection, "SELECT count(*) FROM bans") == [(0,)]


async def test_ids_are_never_given_twice_even_to_another_server(
    empty_database: str, settings: StorageSettings
):
    ids: list[int] = []

    async def take(storage: Storage) -> None:
        ids.extend([await storage.accounts.take_player_id() for _ in range(50)])

    for _ in range(2):
        storage = Storage(empty_database, settings)
        async with trio.open_nursery() as nursery:
            await nursery.start(storage.run)
            async with trio.open_nursery() as takers:
                for _ in range(50):
                    takers.start_soon(take, storage)
            assert await storage.accounts.take_game_id() > 0
            nursery.cancel_scope.cancel()

    assert len(ids) == len(set(ids)) == 5000
    assert min(ids) == 1


async def test_ids_run_out_only_with_the_database_away():
    away = False

    async def draw() -> int:
        if away:
            raise StorageUnavailable("away")
        return 1

    blocks = IdBlocks(draw, 8)
    first = await blocks.take()
    away = True

    assert [first] + [await blocks.take() for _ in range(7)] == list(range(1, 9))
    with pytest.raises(StorageUnavailable):
        await blocks.take()


async def test_those_who_wait_for_ids_fail_with_the_first(autojump_clock: MockClock):
    async def draw() -> int:
        await trio.sleep(5)
        raise StorageUnavailable("away")

    blocks = IdBlocks(draw, 8)

    async def fail() -> None:
        with pytest.raises(StorageUnavailable):
            await blocks.take()

    began = trio.current_time()
    async with trio.open_nursery() as nursery:
        for _ in range(100):
            nursery.start_soon(fail)
    assert trio.current_time() - began == pytest.approx(5)


async def test_an_owner_who_was_replaced_writes_nothing(
    storage: Storage, connection: DatabaseConnection
):
    await connection.script("UPDATE nodes SET ended_at = now()", seconds_max=10)

    with pytest.raises(StorageUnavailable, match="another server has taken over"):
        await storage.accounts.create_owner("Eve", "pro")
    assert await storage.accounts.find_owner_by_name("Eve") is None
    await connection.script("UPDATE nodes SET ended_at = NULL", seconds_max=10)


async def test_reads_survive_a_restart_of_postgres(
    storage: Storage, mortal_postgres: PostgresProcess
):
    await settle(storage, registered(1))
    assert await storage.accounts.load_player(1) is not None

    mortal_postgres.kill()
    with pytest.raises(StorageUnavailable):
        await storage.accounts.load_player(1)
    mortal_postgres.start()

    assert await storage.accounts.load_player(1) is not None


async def test_reads_of_a_silent_database_end_in_bounded_time(
    empty_database: str, settings: StorageSettings, mortal_postgres: PostgresProcess
):
    hasty = msgspec.structs.replace(
        settings, load_seconds_max=0.1, connect_seconds_max=0.1, loader_waiters_max=3
    )
    storage = Storage(empty_database, hasty)
    outcomes: list[str] = []

    async def read() -> None:
        with pytest.raises(StorageUnavailable) as caught:
            await storage.accounts.load_player(1)
        outcomes.append(str(caught.value))

    async with trio.open_nursery() as nursery:
        await nursery.start(storage.run)
        await storage.accounts.load_player(1)
        mortal_postgres.signal_backends(signal.SIGSTOP)
        with trio.fail_after(2):
            async with trio.open_nursery() as readers:
                for _ in range(20):
                    readers.start_soon(read)
        mortal_postgres.signal_backends(signal.SIGCONT)
        nursery.cancel_scope.cancel()

    assert outcomes.count("too many reads wait for the database") == 13
    assert len(outcomes) == 20


async def test_a_reader_who_is_cancelled_costs_no_connection(storage: Storage):
    await settle(storage, registered(1))
    for n in range(60):
        with trio.move_on_after(0.0002 * (n % 10)):
            await storage.accounts.load_player(1)
    async with trio.open_nursery() as nursery:
        for _ in range(200):
            nursery.start_soon(storage.accounts.load_player, 1)
        await trio.lowlevel.checkpoint()
        nursery.cancel_scope.cancel()

    assert await storage.accounts.load_player(1) is not None
    assert len(storage.loaders._idle) <= 4
    assert storage.loaders._free.value == 4


async def test_some_players_are_found_by_their_ids(storage: Storage):
    await settle(storage, *(registered(n) for n in range(1, 6)))
    ban = PlayerBanned(4, 1, "b" * 32, "forever", None, 1_700_000_001, None)
    await settle(storage, ban)

    found = await storage.accounts.load_players_by_id([4, 99, 2, 2**63 - 1])

    assert sorted(player.player_id for player in found) == [2, 4]
    assert {player.player_id: player for player in found}[4] == await storage.accounts.load_player(
        4
    )
    assert await storage.accounts.load_players_by_id([]) == []


async def test_documents_come_in_pages_of_one_game(storage: Storage):
    game = GameCreated(2, 1, "Second", b"api 2", b"admin 2", b"0123456789abcdef", 1_700_000_000)
    await settle(storage, game)
    for n in range(1, 8):
        document = b'{"n": %d.0}' % n
        await settle(storage, registered(n, game_id=1 + n % 2, player_data=document))

    first = await storage.accounts.load_documents_page(2, 0, 3)
    second = await storage.accounts.load_documents_page(2, 5, 3)

    assert first == [(n, b'{"n": %d.0}' % n, b"{}") for n in (1, 3, 5)]
    assert second == [(7, b'{"n": 7.0}', b"{}")]


@pytest.mark.parametrize("shards", [None, [0]])
async def test_a_page_of_documents_ends_where_they_come_to_a_mebibyte(
    storage: Storage, shards: list[int] | None
):
    """Before, five hundred of the largest in a row were one page."""
    large = b'{"large":"%b"}' % (b"x" * (DOCUMENTS_BYTES_MAX // 4))
    sizes = [b"{}", large, large, b"{}", large, large, large, large]
    for number, document in enumerate(sizes, 1):
        await settle(storage, registered(number, player_data=document))

    pages = [
        [number for number, _, _ in await storage.accounts.load_documents_page(1, after, 9, shards)]
        for after in (0, 6, 8)
    ]

    assert pages == [[1, 2, 3, 4, 5, 6], [7, 8], []]


async def test_a_page_of_those_who_are_online_ends_there_too(storage: Storage):
    """Before, a take-over read two hundred whole documents at once."""
    large = b'{"large":"%b"}' % (b"x" * (DOCUMENTS_BYTES_MAX // 4))
    for number in range(1, 8):
        await settle(storage, registered(number, player_data=large))
    await settle(storage, PlayerLoggedOut(2, 1))
    accounts = storage.accounts

    for load in (
        partial(accounts.load_online_players, shards=None),
        partial(accounts.load_online_players, shards=[0]),
        partial(accounts.load_online_players_by_id, player_ids=[7, 6, 5, 4, 3, 2, 1, 99]),
    ):
        pages = [[player.player_id for player in await load(after, 9)] for after in (0, 5, 7)]
        assert pages == [[1, 3, 4, 5], [6, 7], []]
        assert (await load(5, 1))[0] == await accounts.load_player(6)
    outlines = await accounts.load_outlines_by_id([6, 2, 99])
    assert {(row.player_id, row.player_data) for row in outlines} == {(2, b"{}"), (6, b"{}")}


async def test_a_ticket_is_remembered_until_it_has_expired(storage: Storage):
    accounts = storage.accounts
    for number in range(25):
        assert await accounts.use_ticket(b"%d" % number, 1_000, 2_000)
        assert not await accounts.use_ticket(b"%d" % number, 1_000, 3_000)
    assert not await accounts.use_ticket(b"0", 2_000, 3_000)

    remembered = [await accounts.use_ticket(b"new %d" % n, 2_001, 4_000) for n in range(3)]

    assert remembered == [True, True, True]
    assert all([await accounts.use_ticket(b"%d" % n, 2_001, 4_000) for n in range(25)])


async def test_stats_come_back_as_they_were_written_and_apart_from_the_document(storage: Storage):
    stats = b'{"wins":9007199254740991,"best":1e-300,"\\u00fc":-0.5}'
    await settle(storage, registered(1, player_data=b'{"stats":1}'))
    await settle(
        storage,
        PlayerStatsChanged(1, 1, b'{"wins":1}', b"{}"),
        ResultsMarked(1, "r:1"),
        PlayerDocumentReplaced(1, 1, b'{"stats":2}', 1, stats),
        PlayerStatsChanged(1, 1, stats, b'{"stats":2}'),
        ResultsMarked(1, "r:2"),
    )

    player = await storage.accounts.load_player(1)

    assert player is not None
    assert (player.stats, player.results, player.player_data) == (stats, "r:2", b'{"stats":2}')
    (page,) = await storage.accounts.load_documents_page(1, 0, 10)
    assert page == (1, b'{"stats":2}', stats)
