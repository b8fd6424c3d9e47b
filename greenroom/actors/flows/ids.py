"""Ids of what players make: rooms, lobbies, join requests and invites."""

from __future__ import annotations

import os

from greenroom.actors.kernel.shards import ID_BYTES, new_id
from greenroom.actors.world.world import World


def make_id(world: World, game_id: int) -> str:
    """Return a new id, which names the shard of the game."""
    return new_id(world.ledger.shard_of(game_id), os.urandom(ID_BYTES))
