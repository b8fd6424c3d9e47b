"""The realtime area: a token to connect with, and the address."""

from __future__ import annotations

from typing import Final

from greenroom.actors.flows.realtime import mint_token
from greenroom.actors.room.rules.refusals import NotRealtime
from greenroom.contract.realtime import MINT_TOKEN, PlayerInfo, RealtimeServer, TokenReply
from greenroom.http.caller import PlayerCaller
from greenroom.http.table import Area, Auth, TokenTexts
from greenroom.network.addresses import host_name

TEXTS: Final = TokenTexts(
    key_missing="API token is required",
    token_missing="Player token is required",
    token_invalid="Invalid player token",
)


ENDPOINTS: Final = Area(Auth.PLAYER, TEXTS)


@ENDPOINTS.add(MINT_TOKEN, refusals=(NotRealtime,))
async def token(caller: PlayerCaller) -> TokenReply:
    """Let a member of a realtime room connect."""
    address = caller.world.realtime_address
    if address is None:
        raise NotRealtime
    minted = await mint_token(caller.world, caller.player_id, caller.token_hash)
    where = address()
    return TokenReply(
        token=minted.token,
        player_info=PlayerInfo(
            player_id=caller.player_id,
            player_name=minted.holder.player_name,
            room_id=minted.room_id,
            is_host=minted.holder.is_host,
        ),
        realtime_server=RealtimeServer(
            host=where.choose_host(host_name(caller.host)),
            port=where.port,
            protocol=where.protocol,
            udp_port=where.udp_port,
        ),
    )
