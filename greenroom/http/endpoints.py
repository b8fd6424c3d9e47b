"""The endpoint table: every area's rows."""

from __future__ import annotations

from greenroom.http.areas import censor, game_data, players, time
from greenroom.http.table import Endpoint

ENDPOINTS: tuple[Endpoint, ...] = (
    *players.ENDPOINTS,
    *game_data.ENDPOINTS,
    *censor.ENDPOINTS,
    *time.ENDPOINTS,
)
