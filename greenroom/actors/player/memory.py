"""What a player in memory holds, and how much of the space small documents are sure of. Pure."""

from __future__ import annotations

from typing import Final

from greenroom.actors.player.messages import Player

PLAYER_HELD_BYTES: Final = 2_048
"""What an actor, its record and its places in the indexes take besides name and document."""
SMALL_BYTES: Final = 4_096
"""A document up to this is small."""
LARGE_PART: Final = 0.75
"""Of every limit. The rest is for those whose documents are small, so that others' large ones
hardly ever keep them out."""


def held_bytes(player: Player) -> int:
    """Return what a player holds in memory."""
    return PLAYER_HELD_BYTES + len(player.player_name.encode()) + len(player.player_data)


def part_for(document_bytes: int) -> float:
    """Return which part of a limit a player with so large a document may help to fill."""
    return 1.0 if document_bytes <= SMALL_BYTES else LARGE_PART
