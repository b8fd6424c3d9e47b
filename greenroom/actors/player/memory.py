"""Memory that a player holds, and the share of it that is reserved for small documents. Pure."""

from __future__ import annotations

from typing import Final

from greenroom.actors.player.messages import Player
from greenroom.behaviour.stats import NO_STATS

PLAYER_HELD_BYTES: Final = 2_048
"""Bytes for an actor, its record and its places in the indexes.

Name, document and stats are not in it."""
SMALL_BYTES: Final = 4_096
"""Bytes up to which a document is small."""
LARGE_PART: Final = 0.75
"""The part of every limit that large documents may fill.

The rest is for players with small documents, so that large ones hardly ever keep them out.
"""


def held_bytes(player: Player) -> int:
    """Return what a player holds in memory."""
    return new_bytes(player.player_name, player.player_data) + stats_bytes(player.stats)


def new_bytes(player_name: str, player_data: bytes) -> int:
    """Return what a new player holds in memory, who has no stats yet."""
    return PLAYER_HELD_BYTES + len(player_name.encode()) + len(player_data)


def stats_bytes(stats: bytes) -> int:
    """Return what stats count beside a document; none count nothing."""
    return 0 if stats == NO_STATS else len(stats)


def part_for(document_bytes: int) -> float:
    """Return the part of a limit that players with a document of this size may fill."""
    return 1.0 if document_bytes <= SMALL_BYTES else LARGE_PART
