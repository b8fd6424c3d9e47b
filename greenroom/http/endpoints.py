"""The endpoint table: every area's rows, and those that POST /mcp calls as tools."""

from __future__ import annotations

from msgspec.structs import replace

from greenroom.http.areas import (
    censor,
    friends,
    game_data,
    invites,
    leaderboard,
    matchmaking,
    matchmaking_host,
    matchmaking_seat,
    players,
    realtime,
    room_exchange,
    room_host,
    rooms,
    time,
    tools,
)
from greenroom.http.table import Endpoint

ENDPOINTS: tuple[Endpoint, ...] = (
    *players.ENDPOINTS,
    *game_data.ENDPOINTS,
    *rooms.ENDPOINTS,
    *room_host.ENDPOINTS,
    *room_exchange.ENDPOINTS,
    *matchmaking.ENDPOINTS,
    *matchmaking_seat.ENDPOINTS,
    *matchmaking_host.ENDPOINTS,
    *realtime.ENDPOINTS,
    *friends.ENDPOINTS,
    *invites.ENDPOINTS,
    *censor.ENDPOINTS,
    *leaderboard.ENDPOINTS,
    *time.ENDPOINTS,
)


def tool_rows(endpoints: tuple[Endpoint, ...]) -> tuple[Endpoint, ...]:
    """Return the rows that have a tool's name as that tool: called with a body, at `/mcp/<tool>`.

    Nothing routes these paths from outside; the dispatcher checks, limits and counts what
    `mcp.py` asks of them as it does for every other call.
    """
    return tuple(
        replace(row, method="POST", path=f"/mcp/{row.tool}", body=row.input, query=None)
        for row in endpoints
        if row.tool
    )


TOOLS: tuple[Endpoint, ...] = tool_rows((*ENDPOINTS, *tools.ENDPOINTS))
