"""Operators' operations, carried out on a real database through real actors."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest
from waiting import until

from greenroom.actors.flows.bans import ban_player
from greenroom.actors.flows.identify import identify_admin, identify_game
from greenroom.actors.flows.register import register_player
from greenroom.actors.game.messages import ReadGameSettings, ReplaceGameDocument
from greenroom.actors.game.refusals import GameNameRefused, GameSettingRefused, TooManyOldKeys
from greenroom.actors.game.rules import OLD_KEYS_MAX
from greenroom.actors.services.old_keys import forget_old_keys
from greenroom.app import open_admin_context
from greenroom.config import Settings
from greenroom.control.admin import messages, player_messages
from greenroom.control.admin.context import AdminContext
from greenroom.control.admin.operations import as_url, run
from greenroom.control.errors import DataDirInUse, OperationRefused


@asynccontextmanager
async def opened(data_dir: Path, database_url: str) -> AsyncIterator[AdminContext]:
    async with open_admin_context(
        Settings(data_dir=data_dir, database_url=database_url)
    ) as context:
        yield context


async def new_game(context: AdminContext, name: str = "game") -> messages.GameKeys:
    return await run(context, messages.CreateGame(game=name, owner="local"))


async def new_player(context: AdminContext, keys: messages.GameKeys, name: str = "Ada") -> int:
    game = await identify_game(context.world, keys.api_token)
    assert game is not None
    made = await register_player(context.world, game.game, name, b'{"gold":1}')
    return made.player_id


async def test_owners_are_added_listed_and_given_plans(data_dir: Path, database_url: str) -> None:
    async with opened(data_dir, database_url) as context:
        made = await run(context, messages.CreateOwner(owner="Studio", plan="free"))
        assert (made.name, made.plan) == ("Studio", "free")
        with pytest.raises(OperationRefused, match="already an owner named Studio"):
            await run(context, messages.CreateOwner(owner="Studio", plan="pro"))
        for name in ("", "  ", "a\nb", "x" * 101):
            with pytest.raises(OperationRefused, match="owner's name must be"):
                await run(context, messages.CreateOwner(owner=name, plan="pro"))
        changed = await run(context, messages.SetPlan(owner="Studio", plan="pro"))
        assert changed.plan == "pro"
        with pytest.raises(OperationRefused, match="no owner named Nobody"):
            await run(context, messages.SetPlan(owner="Nobody", plan="pro"))
        owners = (await run(context, messages.ListOwners())).owners
        assert [(owner.name, owner.plan) for owner in owners] == [("Studio", "pro")]


async def test_a_new_game_opens_with_its_keys_and_only_its_owners_plan_counts(
    data_dir: Path, database_url: str
) -> None:
    async with opened(data_dir, database_url) as context:
        await run(context, messages.CreateOwner(owner="Studio", plan="free"))
        keys = await run(context, messages.CreateGame(game="Chess", owner="Studio"))
        assert await identify_game(context.world, keys.api_token) is not None
        await run(context, messages.SetPlan(owner="Studio", plan="standard"))
        shown = await run(context, messages.ShowGame(game_id=keys.game_id))
        assert (shown.name, shown.owner, shown.plan) == ("Chess", "Studio", "standard")
        (listed,) = (await run(context, messages.ListGames())).games
        assert (listed.game_id, listed.plan) == (keys.game_id, "standard")
        assert "gr_" not in repr(keys)
    async with opened(data_dir, database_url) as context:
        assert await identify_game(context.world, keys.api_token) is not None


async def test_a_game_needs_an_owner_and_a_name(data_dir: Path, database_url: str) -> None:
    async with opened(data_dir, database_url) as context:
        with pytest.raises(OperationRefused, match="no owner named Nobody"):
            await run(context, messages.CreateGame(game="x", owner="Nobody"))
        with pytest.raises(GameNameRefused):
            await run(context, messages.CreateGame(game="a\x1bb", owner="local"))
        assert (await run(context, messages.ListGames())).games == []


async def test_rotated_keys_replace_the_old_ones_at_once(data_dir: Path, database_url: str) -> None:
    async with opened(data_dir, database_url) as context:
        old = await new_game(context)
        new = await run(context, messages.RotateKeys(game_id=old.game_id))
        assert new.api_token is not None
        assert await identify_game(context.world, old.api_token) is None
        assert await identify_game(context.world, new.api_token) is not None


async def opens(context: AdminContext, api_token: str) -> bool:
    return await identify_game(context.world, api_token) is not None


async def opens_all(context: AdminContext, api_token: str, private: str) -> bool:
    game = await identify_game(context.world, api_token)
    return game is not None and await identify_admin(game, private)


async def test_one_kind_of_key_is_rotated_and_the_other_stays(
    data_dir: Path, database_url: str
) -> None:
    async with opened(data_dir, database_url) as context:
        old = await new_game(context)
        ask = messages.RotateKeys(game_id=old.game_id, kinds=("admin",))
        new = await run(context, ask)
        assert (new.api_token, new.old_keys_expire_at) == (None, None)
        assert new.api_private_token is not None
        assert "gr_" not in repr(new)
        assert not await opens_all(context, old.api_token, old.api_private_token)
        assert await opens_all(context, old.api_token, new.api_private_token)
        ask = messages.RotateKeys(game_id=old.game_id, kinds=("project",))
        newer = await run(context, ask)
        assert newer.api_private_token is None
        assert newer.api_token is not None
        assert not await opens(context, old.api_token)
        assert await opens_all(context, newer.api_token, new.api_private_token)


async def test_old_keys_that_are_kept_are_listed_survive_restarts_and_are_revoked_at_once(
    data_dir: Path, database_url: str
) -> None:
    async with opened(data_dir, database_url) as context:
        old = await new_game(context)
        new = await run(context, messages.RotateKeys(game_id=old.game_id, keep_seconds=3_600))
        assert new.api_token is not None
        assert new.api_private_token is not None
    for _ in range(2):  # the second time it is rotated again, without keeping the admin key
        async with opened(data_dir, database_url) as context:
            for key in (old.api_token, new.api_token):  # from the database, then from memory
                assert await opens_all(context, key, old.api_private_token)
                assert await opens_all(context, key, new.api_private_token)
            assert not await opens(context, old.api_private_token)
            shown = await run(context, messages.ShowGame(game_id=old.game_id))
            assert [key.kind for key in shown.old_keys] == ["project", "admin"]
            assert shown.old_keys[0].expires_at == new.old_keys_expire_at
    async with opened(data_dir, database_url) as context:
        ask = messages.RotateKeys(game_id=old.game_id, kinds=("admin",))
        await run(context, ask)
        shown = await run(context, messages.ShowGame(game_id=old.game_id))
        assert [key.kind for key in shown.old_keys] == ["project"], "the leaked key is dead"
        revoked = await run(context, messages.RevokeKeys(game_id=old.game_id))
        assert revoked.revoked == 1
        assert not await opens(context, old.api_token)
        assert await opens(context, new.api_token)
        assert (await run(context, messages.RevokeKeys(game_id=old.game_id))).revoked == 0


async def test_old_keys_are_bounded_in_number_and_time(data_dir: Path, database_url: str) -> None:
    async with opened(data_dir, database_url) as context:
        game_id = (await new_game(context)).game_id
        for _ in range(OLD_KEYS_MAX // 2):
            await run(context, messages.RotateKeys(game_id=game_id, keep_seconds=60))
        with pytest.raises(TooManyOldKeys, match="revoke some first"):
            await run(context, messages.RotateKeys(game_id=game_id, keep_seconds=60))
        with pytest.raises(OperationRefused, match="at most"):
            await run(context, messages.RotateKeys(game_id=game_id, keep_seconds=10**9))
        await run(context, messages.RotateKeys(game_id=game_id))
        shown = await run(context, messages.ShowGame(game_id=game_id))
        assert shown.old_keys == []


async def test_an_expired_key_opens_nothing_and_its_hash_is_removed(
    data_dir: Path, database_url: str
) -> None:
    async with opened(data_dir, database_url) as context:
        old = await new_game(context)
        await run(context, messages.RotateKeys(game_id=old.game_id, keep_seconds=1))

        async def is_expired() -> bool:
            return not await opens(context, old.api_token)

        await until(is_expired)
        assert await context.world.accounts.find_games_with_old_keys() == [old.game_id]
        await forget_old_keys(context.world)
        assert await context.world.accounts.find_games_with_old_keys() == []


async def test_private_settings_are_kept_and_their_secret_is_not_told(
    data_dir: Path, database_url: str
) -> None:
    secret = "0123456789abcdef0123456789ABCDEF"
    async with opened(data_dir, database_url) as context:
        game_id = (await new_game(context)).game_id
        shown = await run(context, messages.ChangeGameSettings(game_id=game_id))
        assert shown == messages.GameSettings(game_id, None, "not set", True, [], "string")
        assigned = {"steam_publisher_key": secret, "steam_app_id": "480"}
        ask = messages.ChangeGameSettings(game_id=game_id, assigned=assigned)
        assert secret not in repr(ask)
        assert await run(context, ask) == messages.GameSettings(
            game_id, 480, "set", True, [], "string"
        )
        wrong = {"clients_write_player_data": "false", "steam_app_id": "x"}
        with pytest.raises(GameSettingRefused, match="steam_app_id must be"):
            await run(context, messages.ChangeGameSettings(game_id=game_id, assigned=wrong))
        with pytest.raises(OperationRefused, match="no game 99"):
            await run(context, messages.ChangeGameSettings(game_id=99))
    async with opened(data_dir, database_url) as context:
        kept = await context.world.games.get_ref(game_id).ask(ReadGameSettings())
        assert (kept.steam_app_id, kept.steam_publisher_key) == (480, secret)
        ask = messages.ChangeGameSettings(game_id=game_id, removed=["steam_publisher_key"])
        assert await run(context, ask) == messages.GameSettings(
            game_id, 480, "not set", True, [], "string"
        )


async def test_a_deleted_game_is_gone_with_its_players(data_dir: Path, database_url: str) -> None:
    async with opened(data_dir, database_url) as context:
        keys, other = await new_game(context), await new_game(context, "other")
        player_id, kept_id = await new_player(context, keys), await new_player(context, other)
        deleted = await run(context, messages.DeleteGame(game_id=keys.game_id))
        assert (deleted.game_id, deleted.players) == (keys.game_id, 1)
        assert await identify_game(context.world, keys.api_token) is None
        with pytest.raises(OperationRefused, match=f"no player {player_id}"):
            await run(context, messages.ShowPlayer(player_id=player_id))
        assert (await run(context, messages.ShowPlayer(player_id=kept_id))).game_id == other.game_id
        for operation in (
            messages.DeleteGame(game_id=keys.game_id),
            messages.ShowGame(game_id=keys.game_id),
            messages.RotateKeys(game_id=keys.game_id),
            messages.ListPlayers(game_id=keys.game_id, after_id=0, limit=1),
        ):
            with pytest.raises(OperationRefused, match=f"no game {keys.game_id}"):
                await run(context, operation)


async def test_documents_are_shown_as_they_are_stored(data_dir: Path, database_url: str) -> None:
    document = b'{"z":1, "a":12345678901234567890123, "f":1.50}'
    async with opened(data_dir, database_url) as context:
        keys = await new_game(context)
        await context.world.games.get_ref(keys.game_id).ask(ReplaceGameDocument(document))
        shown = await run(context, messages.ShowGame(game_id=keys.game_id))
        assert document in msgspec.json.encode(shown)


async def test_players_are_listed_page_by_page(data_dir: Path, database_url: str) -> None:
    async with opened(data_dir, database_url) as context:
        keys = await new_game(context)
        ids = [await new_player(context, keys, f"Player {n}") for n in range(5)]
        listed: list[int] = []
        after: int | None = 0
        while after is not None:
            page = await run(context, messages.ListPlayers(game_id=None, after_id=after, limit=2))
            listed.extend(player.player_id for player in page.players)
            after = page.next_after_id
        assert listed == ids
        await new_game(context, "second")
        with pytest.raises(OperationRefused, match="There are 2 games: say which one"):
            await run(context, messages.ListPlayers(game_id=None, after_id=0, limit=2))


async def test_a_player_is_shown_with_their_document_and_their_ban(
    data_dir: Path, database_url: str
) -> None:
    async with opened(data_dir, database_url) as context:
        keys = await new_game(context)
        player_id = await new_player(context, keys)
        shown = await run(context, messages.ShowPlayer(player_id=player_id))
        assert (shown.player_name, shown.is_online, shown.ban) == ("Ada", True, None)
        assert bytes(shown.player_data) == b'{"gold":1}'
        assert shown.player_tag.startswith("#")
        await ban_player(context.world, keys.game_id, player_id, "week", "spam")
        banned = await run(context, messages.ShowPlayer(player_id=player_id))
        assert banned.ban is not None
        assert (banned.ban.ban_duration, banned.ban.ban_reason) == ("week", "spam")
    async with opened(data_dir, database_url) as context:
        passive = await run(context, messages.ShowPlayer(player_id=player_id))
        assert passive.ban == banned.ban
        assert bytes(passive.player_data) == b'{"gold":1}'


@pytest.mark.parametrize("number", [-1, 0, 2**63 - 1, 2**63, 2**80])
async def test_ids_that_nobody_has_are_no_ids(
    data_dir: Path, database_url: str, number: int
) -> None:
    async with opened(data_dir, database_url) as context:
        with pytest.raises(OperationRefused, match="There is no player"):
            await run(context, messages.ShowPlayer(player_id=number))
        with pytest.raises(OperationRefused, match="There is no game"):
            await run(context, messages.ShowGame(game_id=number))


async def test_the_schema_and_the_address_of_the_database_are_told(
    data_dir: Path, database_url: str
) -> None:
    async with opened(data_dir, database_url) as context:
        schema = await run(context, messages.ShowSchema())
        assert schema.migrations
        assert all(migration.is_applied for migration in schema.migrations)
        assert await run(context, messages.MigrateSchema()) == schema
        address = await run(context, messages.ShowDatabaseAddress())
        assert address.url.startswith("postgresql:///")


def test_an_address_becomes_a_url() -> None:
    assert as_url("postgres://a:b@c/d") == "postgres://a:b@c/d"
    spaced = as_url("host=/a/b user=u dbname='x y' password='p@ss w'")
    assert spaced == "postgresql:///x%20y?host=%2Fa%2Fb&password=p%40ss%20w&user=u"


async def test_two_offices_on_one_data_directory_exclude_each_other(
    data_dir: Path, database_url: str
) -> None:
    async with opened(data_dir, database_url):
        with pytest.raises(DataDirInUse, match="A greenroom command"):
            async with opened(data_dir, database_url):
                pass


async def test_a_player_is_banned_pardoned_exported_and_deleted(
    data_dir: Path, database_url: str
) -> None:
    async with opened(data_dir, database_url) as context:
        player_id = await new_player(context, await new_game(context))
        ban = player_messages.BanPlayer(player_id=player_id, duration="hour", reason="First")
        await run(context, ban)
        ban = player_messages.BanPlayer(player_id=player_id, duration="week", reason=" Second ")
        banned = await run(context, ban)
        assert (banned.ban.ban_reason, banned.ban.ban_duration) == ("Second", "week")
        ban = player_messages.BanPlayer(player_id=player_id, duration="week", reason="x" * 1001)
        with pytest.raises(OperationRefused, match="at most 1000 characters"):
            await run(context, ban)
        unban = player_messages.UnbanPlayer(player_id=player_id)
        assert (await run(context, unban)).bans_removed == 1
        assert (await run(context, unban)).bans_removed == 0

        held = await run(context, player_messages.ExportPlayer(player_id=player_id))

        assert held.player.player_id == player_id
        assert {(past.ban_reason, past.ended_at is None) for past in held.bans} == {
            ("First", False),
            ("Second", False),
        }
        assert bytes(held.player_data) == b'{"gold":1}'
        assert (held.platform, held.seat, held.lobby_id) == (None, None, None)
        assert held.friends == []
        text = msgspec.json.encode(held)
        assert b"hash" not in text
        assert b"token" not in text
        delete = player_messages.DeletePlayer(player_id=player_id)
        assert (await run(context, delete)).player_id == player_id
    async with opened(data_dir, database_url) as context:
        for operation in (delete, unban, ban, player_messages.ExportPlayer(player_id=player_id)):
            with pytest.raises(OperationRefused, match=f"no player {player_id}|at most 1000"):
                await run(context, operation)
