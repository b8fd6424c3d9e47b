"""Lists of rooms and lobbies of several nodes, of which each shard's are told once.

A shard that is moving or just being brought up is asked for again, until a node has it whole.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from typing import Final

import trio

from greenroom.actors.kernel.errors import ActorUnavailable
from greenroom.actors.world.world import World
from greenroom.control.admin.lobby_messages import Lobbies
from greenroom.control.admin.ports import Peers
from greenroom.control.admin.room_messages import Rooms

LIST_SECONDS_MAX: Final = 5.0
"""How long a list waits for shards that nobody has."""
PAUSE_SECONDS: Final = 0.1

AskShards = Callable[[int, list[int]], Awaitable[Rooms | Lobbies]]
"""Asks a node for what it has of these shards."""


class Told:
    """The shards that a node tells of: those asked for that it serves. Take nothing in between.

    Attributes:
        shards: as `Rooms.told`; None if no shards were named.
    """

    __slots__ = ("_found", "_world", "shards")

    def __init__(self, world: World, asked: list[int] | None) -> None:
        """Look which of the shards that were asked for are here, brought up; None for all."""
        self._world = world
        self.shards = None if asked is None else [*filter(world.serves, asked)]
        self._found = None if self.shards is None else frozenset(self.shards)

    def has(self, game_id: int, place_id: str) -> bool:
        """Return whether a room or lobby is to be told of."""
        found = self._found
        return found is None or self._world.ledger.get_shard(game_id, place_id) in found


async def gather_shards(
    peers: Peers, shards: Collection[int], ask: AskShards
) -> list[Rooms | Lobbies]:
    """Return what the nodes have of these shards, each shard told of by one of them.

    Raises:
        ActorUnavailable: nobody has some of them, and nobody did soon.
    """
    until = trio.current_time() + LIST_SECONDS_MAX
    missing, answers = set(shards), list[Rooms | Lobbies]()
    while True:
        await _ask_owners(peers, missing, ask, answers)
        if not missing:
            return answers
        if trio.current_time() > until:
            raise ActorUnavailable(f"{len(missing)} shards are moving or just coming up")
        await trio.sleep(PAUSE_SECONDS)


async def _ask_owners(
    peers: Peers, missing: set[int], ask: AskShards, answers: list[Rooms | Lobbies]
) -> None:
    """Ask every owner for its part of the missing shards, and cross off what was told."""
    owners, wanted = peers.list_owners(), dict[int, list[int]]()
    for shard in sorted(missing & owners.keys()):
        wanted.setdefault(owners[shard], []).append(shard)

    async def ask_one(node_id: int, own: list[int]) -> None:
        try:
            answer = await ask(node_id, own)
        except ActorUnavailable:
            return
        missing.difference_update(own if answer.told is None else answer.told)
        answers.append(answer)

    async with trio.open_nursery() as nursery:
        for node_id, own in wanted.items():
            nursery.start_soon(ask_one, node_id, own)
