"""Operations on players: show, ban, unban, export, delete."""

from __future__ import annotations

from contextlib import suppress

import msgspec

from greenroom.actors.flows.bans import ban_player as ban
from greenroom.actors.flows.bans import unban_player as unban
from greenroom.actors.flows.deletion import delete_player as delete
from greenroom.actors.kernel.errors import ActorStopped, ActorUnavailable
from greenroom.actors.player.messages import Ban, DescribePlayer, Player, PlayerView
from greenroom.actors.player.refusals import PlayerNotFound
from greenroom.actors.player.rules import view_player
from greenroom.actors.room.messages import DescribeRoom, ReadRoster
from greenroom.actors.world.ports import ID_MAX
from greenroom.control.admin import player_messages as messages
from greenroom.control.admin.context import AdminContext
from greenroom.control.admin.messages import Player as ShownPlayer
from greenroom.control.admin.messages import PlayerBan, PlayerDetails, ShowPlayer
from greenroom.control.admin.times import utc_text
from greenroom.control.errors import OperationRefused

BAN_REASON_CHARACTERS_MAX = 1000


async def show_player(context: AdminContext, ask: ShowPlayer) -> PlayerDetails:
    """Show one player: the row with the ban, and newer state if the player is in memory."""
    record = await _record(context, ask.player_id)
    player = view_player(record)
    active = context.world.players.find_active(ask.player_id)
    if active is not None:
        with suppress(ActorUnavailable):  # the row will do
            player = await active.ask(DescribePlayer())
    return PlayerDetails(
        **msgspec.structs.asdict(shown_player(player)),
        ban=None if record.ban is None else _ban(record.ban),
        player_data=msgspec.Raw(player.player_data),
        stats=msgspec.Raw(player.stats),
    )


def shown_player(player: PlayerView) -> ShownPlayer:
    """Return what a list of players shows of one."""
    return ShownPlayer(
        player_id=player.player_id,
        game_id=player.game_id,
        player_name=player.player_name,
        player_tag=f"#{player.player_tag}",
        is_online=player.is_online,
        last_login=utc_text(player.last_login),
        last_heartbeat=utc_text(player.last_heartbeat),
        last_logout=utc_text(player.last_logout),
        created_at=utc_text(player.created_at),
        updated_at=utc_text(player.updated_at),
    )


async def export_player(context: AdminContext, ask: messages.ExportPlayer) -> messages.PlayerExport:
    """Return what the database and the player's room hold about one player."""
    await context.restore_rooms()
    record = await _record(context, ask.player_id)
    bans = await context.world.accounts.load_bans(ask.player_id)
    friends = await context.world.friendships.rows.load_friends(ask.player_id)
    return messages.PlayerExport(
        player=shown_player(view_player(record)),
        platform=record.platform,
        platform_id=record.platform_id,
        player_data=msgspec.Raw(record.player_data),
        stats=msgspec.Raw(record.stats),
        bans=[
            messages.PastBan(**msgspec.structs.asdict(_ban(past)), ended_at=utc_text(ended_at))
            for past, ended_at in bans
        ],
        friends=[
            messages.Friend(one.player_id, one.player_name, one.relationship) for one in friends
        ],
        seat=await _seat(context, ask.player_id),
        lobby_id=context.world.lobbies.index.find_seat(ask.player_id),
    )


async def ban_player(context: AdminContext, ask: messages.BanPlayer) -> messages.PlayerBanned:
    """Ban a player, who loses the seat."""
    reason = (ask.reason or "").strip() or None
    if reason is not None and len(reason) > BAN_REASON_CHARACTERS_MAX:
        raise OperationRefused(
            f"A reason must be at most {BAN_REASON_CHARACTERS_MAX} characters: players read it."
        )
    await context.restore_rooms()
    game_id = (await _record(context, ask.player_id)).game_id
    try:
        banned = await ban(context.world, game_id, ask.player_id, ask.duration, reason)
    except PlayerNotFound:
        raise _nobody(ask.player_id) from None
    return messages.PlayerBanned(ask.player_id, _ban(banned))


async def unban_player(context: AdminContext, ask: messages.UnbanPlayer) -> messages.PlayerUnbanned:
    """End a player's ban."""
    game_id = (await _record(context, ask.player_id)).game_id
    try:
        removed = await unban(context.world, game_id, ask.player_id)
    except PlayerNotFound:
        raise _nobody(ask.player_id) from None
    return messages.PlayerUnbanned(ask.player_id, removed)


async def delete_player(
    context: AdminContext, ask: messages.DeletePlayer
) -> messages.PlayerDeleted:
    """Delete a player with everything that is stored about them."""
    await context.restore_rooms()
    try:
        await delete(context.world, ask.player_id)
    except PlayerNotFound:
        raise _nobody(ask.player_id) from None
    return messages.PlayerDeleted(ask.player_id)


async def _record(context: AdminContext, player_id: int) -> Player:
    record = None
    if 1 <= player_id <= ID_MAX:
        record = await context.world.accounts.load_player(player_id)
    if record is None:
        raise _nobody(player_id)
    return record


async def _seat(context: AdminContext, player_id: int) -> messages.Seat | None:
    rooms = context.world.rooms
    room_id = rooms.index.find_seat(player_id)
    if room_id is None:
        return None
    room = rooms.directory.get_ref(room_id)
    try:
        roster, listing = await room.ask(ReadRoster(player_id)), await room.ask(DescribeRoom())
    except ActorStopped:
        return None
    member = next((one for one in roster if one.player_id == player_id), None)
    if member is None:
        return None
    return messages.Seat(
        room_id=room_id,
        room_name=listing.room_name,
        joined_at=utc_text(member.joined_at),
        is_host=member.is_host,
        player_data=msgspec.Raw(member.player_data),
    )


def _ban(ban: Ban) -> PlayerBan:
    return PlayerBan(
        ban_id=ban.ban_id,
        ban_duration=ban.ban_duration,
        ban_reason=ban.ban_reason,
        banned_at=utc_text(ban.banned_at),
        banned_until=utc_text(ban.banned_until),
    )


def _nobody(player_id: int) -> OperationRefused:
    return OperationRefused(f"There is no player {player_id}: see greenroom player list.")
