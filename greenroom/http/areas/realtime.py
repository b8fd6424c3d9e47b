"""The realtime area: a token to connect with, and where."""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from greenroom.actors.flows.realtime import mint_token
from greenroom.actors.room.rules.refusals import NotRealtime
from greenroom.addresses import host_name
from greenroom.http.caller import PlayerCaller
from greenroom.http.fields import Reply
from greenroom.http.table import Auth, Endpoint, TokenTexts

TEXTS: Final = TokenTexts(
    key_missing="API token is required",
    token_missing="Player token is required",
    token_invalid="Invalid player token",
)


class PlayerInfo(msgspec.Struct, kw_only=True):
    """Who may connect."""

    player_id: int
    player_name: str
    room_id: str
    is_host: bool


class RealtimeServer(msgspec.Struct, kw_only=True):
    """Where to connect."""

    host: str
    port: int
    protocol: Literal["ws", "wss"]
    udp_port: int


class TokenReply(Reply, kw_only=True):
    """A token, good for five minutes."""

    token: str
    player_info: PlayerInfo
    realtime_server: RealtimeServer


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
            host=where.host or host_name(caller.host),
            port=where.port,
            protocol=where.protocol,
            udp_port=where.udp_port,
        ),
    )


ENDPOINTS: Final = (
    Endpoint(
        method="POST",
        path="/api/realtime.php/token",
        auth=Auth.PLAYER,
        texts=TEXTS,
        reply=TokenReply,
        handler=token,
        summary="Get a token for the realtime connection",
        refusals=(NotRealtime,),
    ),
)
