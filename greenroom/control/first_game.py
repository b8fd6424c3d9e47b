"""The first game: made at the first start, its keys kept in `<data dir>/first-game.json` (0600).

The database has only hashes of keys. So a crash must never leave a game whose keys nobody has:

1. the keys are written, durably, to `first-game.json.new`;
2. the game is created with them;
3. the file gets its final name.

A start that finds the `.new` file goes on where the last one stopped: at step 3 if the game exists,
else at step 2. Any other start makes a game only if the database has none at all. A file that
exists then belongs to another database, used before. It is kept as `first-game.json.old`.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Final

import msgspec
import trio

from greenroom.actors.flows.games import GameKeys, create_game, make_game_keys
from greenroom.actors.game.messages import Owner
from greenroom.actors.kernel.errors import Moved
from greenroom.actors.player.tokens import hash_token
from greenroom.actors.world.ports import Accounts
from greenroom.actors.world.world import World
from greenroom.control.errors import ControlError
from greenroom.control.files import sync_directory, why_not, write_whole
from greenroom.control.ready import FirstGame

FILE_NAME = "first-game.json"
GAME_NAME = "first-game"
LOCAL_OWNER = "local"
"""The owner that every installation has, with the plan `unlimited`."""

SHARD_SECONDS_MAX: Final = 30.0
"""How long a node waits for a shard for the game. The others give it some within seconds."""
PAUSE_SECONDS: Final = 0.1

_logger = logging.getLogger(__name__)


class _Kept(msgspec.Struct, frozen=True):
    """The content of `first-game.json.new`: the keys of a game that may not exist yet."""

    api_token: str
    api_private_token: str


async def local_owner(accounts: Accounts) -> Owner:
    """Return the owner `local`; create it if missing.

    Raises:
        StorageUnavailable: the database does not answer.

    Cancellation: the owner may or may not have been created.
    """
    owner = await accounts.find_owner_by_name(LOCAL_OWNER)
    return owner or await accounts.create_owner(LOCAL_OWNER, "unlimited")


def first_game_file(data_dir: Path) -> Path:
    """Return the path of the file with the first game's keys."""
    return data_dir / FILE_NAME


async def ensure_first_game(world: World, data_dir: Path) -> FirstGame | None:
    """Make the first game if there is no game, and return it only if this call has made it.

    Args:
        world: the world to make it in.
        data_dir: the data directory, which the caller holds.

    Raises:
        ControlError: its file cannot be written or read.
        ActorUnavailable: the database does not answer; the next start goes on.

    Cancellation: the next start goes on from here.
    """
    final = first_game_file(data_dir)
    begun = final.with_name(final.name + ".new")
    try:
        kept = _read_begun(begun)
        if kept is None:
            if await world.accounts.load_games():
                return None
            kept = _begin(begun)
        first_game = await _finish_soon(world, kept)
        write_whole(begun, _encode(first_game))
        if final.exists():
            final.replace(final.with_name(final.name + ".old"))
        begun.replace(final)
        sync_directory(data_dir)
    except OSError as error:
        advice = why_not(error, "name another data directory")
        raise ControlError(f"Cannot keep the first game's keys in {final} {advice}") from None
    return first_game


def keep_rotated_keys(
    data_dir: Path, game_id: int, api_token: str | None, api_private_token: str | None
) -> None:
    """Write new keys into the file if they are those of the first game; `None` is no new key.

    The rotation stands even if the file cannot be written. Then a log line says that the file is
    out of date.
    """
    file = first_game_file(data_dir)
    first_game = read_first_game(file)
    if first_game is None or first_game.game_id != game_id:
        return
    newer = msgspec.structs.replace(
        first_game,
        api_token=api_token or first_game.api_token,
        api_private_token=api_private_token or first_game.api_private_token,
    )
    try:
        write_whole(file, _encode(newer))
    except OSError as error:
        _logger.warning("%s still has the old keys: %s", file, error.strerror)


def forget_first_game(data_dir: Path, game_id: int) -> None:
    """Remove the file if the first game was deleted."""
    file = first_game_file(data_dir)
    first_game = read_first_game(file)
    if first_game is None or first_game.game_id != game_id:
        return
    try:
        file.unlink(missing_ok=True)
    except OSError as error:
        _logger.warning("%s is of a deleted game: %s", file, error.strerror)


def read_first_game(file: Path) -> FirstGame | None:
    """Return what a first game's file holds, or `None` if it is missing or not ours."""
    try:
        return msgspec.json.decode(file.read_bytes(), type=FirstGame)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return None


def _read_begun(begun: Path) -> _Kept | None:
    try:
        return msgspec.json.decode(begun.read_bytes(), type=_Kept)
    except FileNotFoundError:
        return None
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise ControlError(f"{begun} is damaged: look into it, then remove it.") from None


def _begin(begun: Path) -> _Kept:
    keys = make_game_keys()
    kept = _Kept(keys.api_token, keys.api_private_token)
    write_whole(begun, msgspec.json.encode(kept))
    return kept


async def _finish_soon(world: World, kept: _Kept) -> FirstGame:
    """Create the game, once this node has a shard for it: one that started late has none yet."""
    with trio.move_on_after(SHARD_SECONDS_MAX):
        while True:
            try:
                return await _finish(world, kept)
            except Moved:
                await trio.sleep(PAUSE_SECONDS)
    return await _finish(world, kept)


async def _finish(world: World, kept: _Kept) -> FirstGame:
    """Create the game unless an earlier start has created it."""
    accounts = world.accounts
    game = await accounts.find_game_by_api_key(hash_token(kept.api_token))
    if game is not None:
        game_id, owner_name = game.game_id, game.owner_name
    else:
        owner = await local_owner(accounts)
        keys = GameKeys(kept.api_token, kept.api_private_token)
        game_id, owner_name = await create_game(world, owner, GAME_NAME, keys), owner.name
    return FirstGame(
        game_id=game_id,
        name=GAME_NAME,
        owner=owner_name,
        api_token=kept.api_token,
        api_private_token=kept.api_private_token,
    )


def _encode(first_game: FirstGame) -> bytes:
    """Return the file's content, with one key a line because people read it."""
    return msgspec.json.format(msgspec.json.encode(first_game), indent=2) + b"\n"
