"""The endpoint table: every area's rows."""

from __future__ import annotations

from greenroom.http.areas import game_data, players, time
from greenroom.http.table import Endpoint

ENDPOINTS: tuple[Endpoint, ...] = (*players.ENDPOINTS, *game_data.ENDPOINTS, *time.ENDPOINTS)
