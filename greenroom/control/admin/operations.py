"""The operations: one async function each, in one table, for the control socket and for commands.

They go through the actors, so that a running server never works with outdated state.
"""

from __future__ import annotations

import math
import os
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from typing import Any, TypeVar

import msgspec

from greenroom.actors.flows import games as game_flows
from greenroom.actors.flows.listing import list_players
from greenroom.actors.flows.spread.copies import change_game
from greenroom.actors.game import messages as game_messages
from greenroom.actors.game.messages import DescribeGame, GameView
from greenroom.actors.game.refusals import GameNotFound
from greenroom.actors.game.settings import settings_as_json as shown_settings
from greenroom.actors.kernel.errors import ActorStopped
from greenroom.actors.player.messages import PlayerView
from greenroom.actors.world.audit import Noted, audited
from greenroom.control.admin import (
    auditing,
    cluster,
    cluster_messages,
    discarding,
    lobbies,
    messages,
    players,
    room_messages,
    rooms,
)
from greenroom.control.admin.audit_messages import ListActs
from greenroom.control.admin.context import AdminContext
from greenroom.control.admin.lobby_messages import DiscardLobby, ListLobbies
from greenroom.control.admin.messages import PAGE_PLAYERS_MAX, Operation
from greenroom.control.admin.player_messages import (
    BanPlayer,
    DeletePlayer,
    ExportPlayer,
    UnbanPlayer,
)
from greenroom.control.admin.times import utc_text
from greenroom.control.errors import OperationRefused
from greenroom.control.first_game import (
    LOCAL_OWNER,
    forget_first_game,
    keep_rotated_keys,
    local_owner,
)
from greenroom.persistence.backup import SEQUENCES, TABLES, UNSAVED_TABLES
from greenroom.persistence.settings import StorageSettings
from greenroom.persistence.storage import database_status, missing_rights
from greenroom.setting_masks import masked

OWNER_NAME_CHARACTERS_MAX = 100
KEEP_SECONDS_MAX = 365 * 86_400

Result = TypeVar("Result")


class OperationEntry(msgspec.Struct, frozen=True):
    """One row of the table."""

    arguments: type[Operation[Any]]
    run: Callable[[AdminContext, Any], Awaitable[Any]]


async def run(context: AdminContext, operation: Operation[Result], by: str | None = None) -> Result:
    """Carry out an operation. What changes something is in the audit log first.

    Args:
        context: where.
        operation: what to do.
        by: whom the audit log names; this process's user if not given.

    Raises:
        OperationRefused, Refused: it cannot be done as asked; nothing changed.
        ActorUnavailable: the database or an actor does not answer.
    """
    entry = auditing.entry_of(operation, by or auditing.user_text())
    refusals = (OperationRefused,)
    noting = (
        nullcontext(Noted()) if entry is None else audited(context.world.audit, entry, refusals)
    )
    async with noting as noted:
        result: Result = await OPERATIONS[operation.name].run(context, operation)
        noted.game_id = getattr(result, "game_id", None)
        return result


async def create_owner(context: AdminContext, ask: messages.CreateOwner) -> messages.Owner:
    """Add an owner. Names are unique."""
    name = ask.owner
    if not name.strip() or len(name) > OWNER_NAME_CHARACTERS_MAX or not name.isprintable():
        raise OperationRefused(
            f"An owner's name must be 1 to {OWNER_NAME_CHARACTERS_MAX} characters, "
            "without control characters."
        )
    if await context.world.accounts.find_owner_by_name(name) is not None:
        raise OperationRefused(f"There is already an owner named {name}.")
    return _owner(await context.world.accounts.create_owner(name, ask.plan))


async def list_owners(context: AdminContext, _: messages.ListOwners) -> messages.Owners:
    """List all owners."""
    return messages.Owners([_owner(owner) for owner in await context.world.accounts.load_owners()])


async def show_owner(context: AdminContext, ask: messages.ShowOwner) -> messages.OwnerDetails:
    """Show one owner, and how much of the plan is used."""
    owner = await _owner_named(context, ask.owner)
    world, ledger = context.world, context.world.ledger
    usage = ledger.get_owner_usage(owner.owner_id, owner.plan)
    ledger.start_day_at(world.clock.now())
    games = [game for game in ledger.list_games() if game.owner is usage]
    limits = usage.limits
    return messages.OwnerDetails(
        owner_id=owner.owner_id,
        name=owner.name,
        plan=owner.plan,
        created_at=utc_text(owner.created_at),
        games=_used(sum(world.owns(game.shards[0]) for game in games), limits.games_max),
        players_online=_used(usage.players_online, limits.players_online_max),
        calls_today=_used(usage.calls, limits.calls_per_day_max),
        storage_bytes=_used(usage.storage_bytes, limits.storage_bytes_max),
        rooms=_used(usage.rooms, limits.rooms_max),
        rooms_bytes=_used(usage.bytes_held["rooms"], limits.rooms_bytes_max),
        players_bytes=_used(usage.bytes_held["players"], limits.players_bytes_max),
        games_bytes=_used(usage.bytes_held["games"], math.inf),
        written_bytes_today=_used(usage.written_bytes, limits.written_bytes_per_day_max),
    )


def _used(used: int, limit: float) -> messages.Used:
    return messages.Used(used, None if math.isinf(limit) else int(limit))


async def set_plan(context: AdminContext, ask: messages.SetPlan) -> messages.Owner:
    """Give an owner another plan, and tell the owner's active games."""
    owner = await _owner_named(context, ask.owner)
    await game_flows.set_plan(context.world, owner.owner_id, ask.plan)
    return _owner(msgspec.structs.replace(owner, plan=ask.plan))


async def apply_plan(context: AdminContext, ask: messages.ApplyPlan) -> None:
    """Tell this node's active games a plan that another node has set."""
    owner = await _owner_named(context, ask.owner)
    await game_flows.set_plan(context.world, owner.owner_id, ask.plan)


async def create_game(context: AdminContext, ask: messages.CreateGame) -> messages.GameKeys:
    """Add a game. The owner `local` is created with its first game."""
    owner = (
        await local_owner(context.world.accounts)
        if ask.owner == LOCAL_OWNER
        else await _owner_named(context, ask.owner)
    )
    keys = game_flows.make_game_keys()
    game_id = await game_flows.create_game(context.world, owner, ask.game, keys)
    return _keys(game_id, ask.game, owner.name, keys)


async def list_games(context: AdminContext, _: messages.ListGames) -> messages.Games:
    """List all games."""
    games = await context.world.accounts.load_games()
    return messages.Games(
        [
            messages.Game(
                game_id=game.game_id,
                name=game.name,
                owner=game.owner_name,
                plan=game.plan,
                created_at=utc_text(game.created_at),
                updated_at=utc_text(game.updated_at),
            )
            for game in games
        ]
    )


async def show_game(context: AdminContext, ask: messages.ShowGame) -> messages.GameDetails:
    """Show one game, as its actor sees it."""
    game = await _game(context, ask.game_id)
    return messages.GameDetails(
        game_id=game.game_id,
        name=game.name,
        owner=game.owner_name,
        plan=game.plan,
        created_at=utc_text(game.created_at),
        updated_at=utc_text(game.updated_at),
        data=msgspec.Raw(game.data),
        old_keys=[
            messages.OldKey(
                kind=key.kind,
                replaced_at=utc_text(key.replaced_at),
                expires_at=utc_text(key.expires_at),
            )
            for key in game.old_keys
        ],
        partitions=game.partitions,
    )


async def grow_game(context: AdminContext, ask: messages.GrowGame) -> messages.GrownGame:
    """Give a game more partitions. Nothing of it may be in the memory of a server meanwhile."""
    if context.is_serving:
        raise OperationRefused(
            "A game grows only while no server runs, because all nodes have its partitions in "
            "memory: stop all servers of this database first."
        )
    game = await _game(context, ask.game_id)
    if not game.partitions < ask.partitions <= game_flows.PARTITIONS_MAX:
        raise OperationRefused(
            f"Game {ask.game_id} has {game.partitions} partitions: it can only get more, and at "
            f"most {game_flows.PARTITIONS_MAX}."
        )
    partitions = await context.partitions.grow(ask.game_id, ask.partitions)
    if partitions < ask.partitions:
        raise OperationRefused(
            f"Game {ask.game_id} can have {partitions} partitions now: rooms and lobbies that a "
            "server of an older version made have ids that name the others. Try again once they "
            "have ended."
        )
    return messages.GrownGame(ask.game_id, partitions)


async def rotate_keys(context: AdminContext, ask: messages.RotateKeys) -> messages.RotatedKeys:
    """Give a game new keys. The first game's keys are written to its file, too."""
    game = await _game(context, ask.game_id)
    if not ask.kinds or not 0 <= ask.keep_seconds <= KEEP_SECONDS_MAX:
        raise OperationRefused(f"Old keys can be kept for at most {KEEP_SECONDS_MAX} seconds.")
    keys = game_flows.make_game_keys()
    await game_flows.rotate_game_keys(context.world, ask.game_id, keys, ask.kinds, ask.keep_seconds)
    rotated = messages.RotatedKeys(
        game_id=game.game_id,
        name=game.name,
        owner=game.owner_name,
        api_token=keys.api_token if "project" in ask.kinds else None,
        api_private_token=keys.api_private_token if "admin" in ask.kinds else None,
        old_keys_expire_at=(
            utc_text(context.world.clock.now() + ask.keep_seconds) if ask.keep_seconds else None
        ),
    )
    keep_rotated_keys(
        context.settings.data_dir, ask.game_id, rotated.api_token, rotated.api_private_token
    )
    return rotated


async def revoke_keys(context: AdminContext, ask: messages.RevokeKeys) -> messages.RevokedKeys:
    """Revoke old keys of a game."""
    await _game(context, ask.game_id)
    revoked = await game_flows.revoke_old_keys(context.world, ask.game_id, ask.kinds)
    return messages.RevokedKeys(game_id=ask.game_id, revoked=revoked)


async def change_game_settings(
    context: AdminContext, ask: messages.ChangeGameSettings
) -> messages.GameSettings:
    """Change private settings, if any are given, and return them all. Secrets are not shown."""
    command = game_messages.ChangeGameSettings(ask.assigned, tuple(ask.removed))
    try:
        settings = await change_game(context.world, ask.game_id, command)
    except (ActorStopped, GameNotFound):
        raise _no_game(ask.game_id) from None
    shown = {"game_id": ask.game_id, **shown_settings(settings)}
    return msgspec.convert(shown, messages.GameSettings)


async def delete_game(context: AdminContext, ask: messages.DeleteGame) -> messages.Deleted:
    """Delete a game with everything in it."""
    players = 0

    def count(deleted: int) -> None:
        nonlocal players
        players = deleted

    await context.restore_rooms()
    try:
        await game_flows.delete_game(context.world, ask.game_id, count)
    except GameNotFound:
        raise _no_game(ask.game_id) from None
    forget_first_game(context.settings.data_dir, ask.game_id)
    return messages.Deleted(game_id=ask.game_id, players=players)


async def list_game_players(context: AdminContext, ask: messages.ListPlayers) -> messages.Players:
    """List a page of a game's players. Those in memory are shown as their actors see them."""
    game_id = ask.game_id
    if game_id is None:
        game_id = await only_game(context)
    else:
        await _game(context, game_id)
    limit = min(max(ask.limit, 1), PAGE_PLAYERS_MAX)
    found: list[PlayerView] = []
    async for page in list_players(context.world, game_id, ask.after_id, limit):
        found.extend(page)
    following = found[-1].player_id if len(found) == limit else None
    return messages.Players([players.shown_player(one) for one in found], following)


async def show_tree(context: AdminContext, _: messages.ShowTree) -> Any:
    """Draw the supervision tree."""
    return context.tree()


async def show_settings(
    context: AdminContext, _: messages.ShowSettings
) -> messages.SettingsInForce:
    """Return the settings that this process was started with, without any secret."""
    return messages.SettingsInForce(os.getpid(), masked(context.settings), dict(context.sources))


async def show_schema(context: AdminContext, _: messages.ShowSchema) -> messages.Schema:
    """Return which migrations are applied."""
    return await schema_of(context.conninfo)


async def show_missing_rights(
    context: AdminContext, _: messages.ShowMissingRights
) -> messages.MissingRights:
    """Return which rights the server's role lacks."""
    return await rights_of(context.conninfo)


async def migrate_schema(context: AdminContext, _: messages.MigrateSchema) -> messages.Schema:
    """Return the schema, which was migrated when the context was made."""
    return await schema_of(context.conninfo)


async def show_database_address(
    context: AdminContext, _: messages.ShowDatabaseAddress
) -> messages.DatabaseAddress:
    """Return the database's address."""
    return messages.DatabaseAddress(as_url(context.conninfo))


async def schema_of(conninfo: str) -> messages.Schema:
    """Return which migrations of a database are applied, as `db status` shows them.

    Raises:
        StorageError: the database cannot be reached, or its schema does not fit the code.
    """
    states = await database_status(conninfo, StorageSettings(start_seconds_max=2.0))
    return messages.Schema([messages.Migration(s.version, s.name, s.is_applied) for s in states])


async def rights_of(conninfo: str) -> messages.MissingRights:
    """Return which rights a database's role lacks.

    Raises:
        StorageError: the database cannot be reached.
    """
    names = (*TABLES, *UNSAVED_TABLES, *SEQUENCES)
    settings = StorageSettings(start_seconds_max=2.0)
    return messages.MissingRights(await missing_rights(conninfo, names, settings))


def as_url(conninfo: str) -> str:
    """Return a connection string as a URL, which psql and others take. A URL stays as it is."""
    if "://" in conninfo:
        return conninfo
    from urllib.parse import quote, urlencode

    from psycopg.conninfo import conninfo_to_dict

    parameters = {key: str(value) for key, value in conninfo_to_dict(conninfo).items()}
    database = quote(parameters.pop("dbname", ""), safe="")
    return f"postgresql:///{database}?{urlencode(sorted(parameters.items()), quote_via=quote)}"


async def _owner_named(context: AdminContext, name: str) -> game_messages.Owner:
    owner = await context.world.accounts.find_owner_by_name(name)
    if owner is None:
        raise OperationRefused(f"There is no owner named {name}: see greenroom owner list.")
    return owner


async def _game(context: AdminContext, game_id: int) -> GameView:
    try:
        return await context.world.games.get_ref(game_id).ask(DescribeGame())
    except (ActorStopped, GameNotFound):
        raise _no_game(game_id) from None


async def only_game(context: AdminContext) -> int:
    """Return the game that is meant where none is named.

    Raises:
        OperationRefused: there is none, or there are several.
    """
    games = await context.world.accounts.load_games()
    if len(games) != 1:
        raise OperationRefused(
            f"There are {len(games)} games: say which one; see greenroom game list."
        )
    return games[0].game_id


def _no_game(game_id: int) -> OperationRefused:
    return OperationRefused(f"There is no game {game_id}: see greenroom game list.")


def _keys(game_id: int, name: str, owner: str, keys: game_flows.GameKeys) -> messages.GameKeys:
    return messages.GameKeys(game_id, name, owner, keys.api_token, keys.api_private_token)


def _owner(owner: game_messages.Owner) -> messages.Owner:
    return messages.Owner(owner.owner_id, owner.name, owner.plan, utc_text(owner.created_at))


_FUNCTIONS: dict[type[Operation[Any]], Callable[[AdminContext, Any], Awaitable[Any]]] = {
    messages.CreateOwner: create_owner,
    messages.ListOwners: list_owners,
    messages.ShowOwner: show_owner,
    messages.SetPlan: set_plan,
    messages.ApplyPlan: apply_plan,
    messages.CreateGame: create_game,
    messages.ListGames: list_games,
    messages.ShowGame: show_game,
    messages.RotateKeys: rotate_keys,
    messages.RevokeKeys: revoke_keys,
    messages.ChangeGameSettings: change_game_settings,
    messages.GrowGame: grow_game,
    messages.DeleteGame: delete_game,
    messages.ListPlayers: list_game_players,
    messages.ShowPlayer: players.show_player,
    ListLobbies: lobbies.list_lobbies,
    DiscardLobby: discarding.discard_lobby,
    room_messages.ListRooms: rooms.list_rooms,
    room_messages.ShowRoom: rooms.show_room,
    room_messages.StopRoom: rooms.stop_room,
    room_messages.DiscardRoom: discarding.discard_room,
    room_messages.ShowRoomHistory: rooms.show_room_history,
    ExportPlayer: players.export_player,
    BanPlayer: players.ban_player,
    UnbanPlayer: players.unban_player,
    DeletePlayer: players.delete_player,
    ListActs: auditing.list_acts,
    cluster_messages.ShowCluster: cluster.refuse_alone,
    cluster_messages.DrainNode: cluster.drain,
    cluster_messages.MoveShard: cluster.move,
    cluster_messages.BalanceShards: cluster.balance,
    cluster_messages.ShowLoad: cluster.show_load,
    messages.ShowTree: show_tree,
    messages.ShowSettings: show_settings,
    messages.ShowSchema: show_schema,
    messages.ShowMissingRights: show_missing_rights,
    messages.MigrateSchema: migrate_schema,
    messages.ShowDatabaseAddress: show_database_address,
}
OPERATIONS = {
    arguments.name: OperationEntry(arguments, function)
    for arguments, function in _FUNCTIONS.items()
}
