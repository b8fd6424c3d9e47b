"""The first game: made once, and no crash leaves a game whose keys nobody has."""

from __future__ import annotations

import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock
from world_kit import Memory, open_world

from greenroom.actors.flows.identify import identify_game
from greenroom.actors.kernel.shard_ownership import OwnedShards
from greenroom.app import open_admin_context
from greenroom.config import Settings
from greenroom.control import first_game
from greenroom.control.admin import messages
from greenroom.control.admin.operations import run
from greenroom.control.errors import ControlError
from greenroom.control.first_game import ensure_first_game, first_game_file, read_first_game
from greenroom.control.ready import FirstGame


class Crash(BaseException):
    """The process dies here."""


def settings(data_dir: Path, database_url: str) -> Settings:
    return Settings(data_dir=data_dir, database_url=database_url)


async def start(data_dir: Path, database_url: str) -> FirstGame | None:
    """Do what a start does, in a world of its own; leave no exception in a group."""
    crash: BaseException | None = None
    made = None
    async with open_admin_context(settings(data_dir, database_url)) as context:
        try:
            made = await ensure_first_game(context.world, data_dir)
        except (Crash, ControlError) as error:
            crash = error
    if crash is not None:
        raise crash
    return made


async def check(data_dir: Path, database_url: str) -> None:
    """There is one game, and the keys in the file open it."""
    kept = read_first_game(first_game_file(data_dir))
    assert kept is not None
    async with open_admin_context(settings(data_dir, database_url)) as context:
        (game,) = await context.world.accounts.load_games()
        assert (game.game_id, game.name, game.owner_name) == (kept.game_id, "first-game", "local")
        assert game.plan == "unlimited"
        assert await identify_game(context.world, kept.api_token) is not None


async def test_the_first_start_makes_it_and_later_ones_do_not(
    data_dir: Path, database_url: str
) -> None:
    made = await start(data_dir, database_url)
    assert made == read_first_game(first_game_file(data_dir))
    assert stat.S_IMODE(first_game_file(data_dir).stat().st_mode) == 0o600
    assert await start(data_dir, database_url) is None
    await check(data_dir, database_url)
    assert "gr_" not in repr(made)


async def test_a_node_that_has_no_shard_yet_waits_for_one(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    made: list[FirstGame | None] = []
    owned = OwnedShards()
    async with open_world(Memory(), ownership=owned) as world, trio.open_nursery() as nursery:

        async def make() -> None:
            made.append(await ensure_first_game(world, tmp_path))

        nursery.start_soon(make)
        await trio.sleep(1)
        assert not made
        owned.gain(5, 1)
    assert made == [read_first_game(first_game_file(tmp_path))]


async def test_where_there_are_games_already_none_is_made(
    data_dir: Path, database_url: str
) -> None:
    async with open_admin_context(settings(data_dir, database_url)) as context:
        await run(context, messages.CreateGame(game="mine", owner="local"))
    assert await start(data_dir, database_url) is None
    assert not first_game_file(data_dir).exists()


@pytest.mark.parametrize("name", ["write_whole", "create_game", "sync_directory"])
@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
@pytest.mark.parametrize("call_number", [1, 2])
async def test_a_crash_at_any_step_is_made_up_for_by_the_next_start(  # noqa: PLR0917 (parameters)
    data_dir: Path,
    database_url: str,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    before: bool,
    call_number: int,
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(first_game, name, crashing(getattr(first_game, name), before, call_number))
        try:
            await start(data_dir, database_url)
        except Crash:
            pass
        else:
            assert call_number == 2, "that step is there only once"
    await start(data_dir, database_url)
    await check(data_dir, database_url)


def crashing(function: Callable[..., Any], before: bool, call_number: int) -> Callable[..., Any]:
    calls = 0

    def count() -> bool:
        nonlocal calls
        calls += 1
        return calls == call_number

    def sync(*args: Any, **kwargs: Any) -> Any:
        is_it = count()
        if is_it and before:
            raise Crash
        result = function(*args, **kwargs)
        if is_it:
            raise Crash
        return result

    async def asynchronous(*args: Any) -> Any:
        is_it = count()
        if is_it and before:
            raise Crash
        result = await function(*args)
        if is_it:
            raise Crash
        return result

    return asynchronous if function.__name__ == "create_game" else sync


async def test_rotated_keys_of_the_first_game_are_kept_too(
    data_dir: Path, database_url: str
) -> None:
    made = await start(data_dir, database_url)
    assert made is not None
    async with open_admin_context(settings(data_dir, database_url)) as context:
        keys = await run(context, messages.RotateKeys(game_id=made.game_id))
        assert await identify_game(context.world, made.api_token) is None
    kept = read_first_game(first_game_file(data_dir))
    assert kept is not None
    assert (kept.api_token, kept.api_private_token) == (keys.api_token, keys.api_private_token)
    await check(data_dir, database_url)


async def test_the_file_goes_with_the_first_game_and_with_no_other(
    data_dir: Path, database_url: str
) -> None:
    made = await start(data_dir, database_url)
    assert made is not None
    async with open_admin_context(settings(data_dir, database_url)) as context:
        other = await run(context, messages.CreateGame(game="other", owner="local"))
        await run(context, messages.DeleteGame(game_id=other.game_id))
        assert first_game_file(data_dir).exists()
        await run(context, messages.DeleteGame(game_id=made.game_id))
        assert not first_game_file(data_dir).exists()


async def test_another_database_gets_a_first_game_of_its_own(
    data_dir: Path, database_url: str
) -> None:
    other = b'{"of": "another database"}'
    first_game_file(data_dir).write_bytes(other)
    assert await start(data_dir, database_url) is not None
    await check(data_dir, database_url)
    assert (data_dir / "first-game.json.old").read_bytes() == other


async def test_a_damaged_file_is_told_about(data_dir: Path, database_url: str) -> None:
    (data_dir / "first-game.json.new").write_bytes(b"nonsense")
    with pytest.raises(ControlError, match="is damaged"):
        await start(data_dir, database_url)
    (data_dir / "first-game.json.new").unlink()
    (data_dir / "first-game.json.new").mkdir()
    with pytest.raises(ControlError, match="Cannot keep the first game's keys"):
        await start(data_dir, database_url)
