"""A plan that the nodes of a simulated cluster share: spent everywhere, and in the end whole.

What a node had counted in its last second is lost with it. So much more may be spent.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import trio
from sim_checks import checker
from sim_node import CALLS, ProcessGone, SimNode

from greenroom.actors.flows.games import create_game, make_game_keys
from greenroom.actors.game.messages import Owner
from greenroom.actors.kernel.errors import StorageUnavailable
from greenroom.actors.kernel.shards import home_shard

LIMITED: Final = Owner(owner_id=2, name="limited", plan="pro", created_at=0)
ROUNDS_SECONDS: Final = 8.0
"""Within so long, at rest, all that has no node is adopted, and all that nobody uses is free."""
TRIES: Final = 3


class SharedPlan:
    """The plan, the one game that spends it, and what was spent."""

    def __init__(self, *, is_shared: bool) -> None:
        self.game_id = 0
        self._is_shared = is_shared
        """False if the game has one partition: then a hand-over loses what is not written."""
        self.spent = 0
        self.unsure = 0
        """Calls of which nobody knows whether they were counted."""
        self._lost = 0

    async def add(self, nodes: Iterable[SimNode]) -> None:
        """Make the game at the node of its home."""
        (home,) = [node for node in nodes if node.world.owns(home_shard(LIMITED.owner_id))]
        self.game_id = await home.perform(
            lambda: create_game(home.world, LIMITED, "Shared", make_game_keys()), 10.0
        )

    async def spend(self, node: SimNode) -> bool:
        """Spend a call at a node; return whether there was one."""
        world = node.world

        async def count() -> bool:
            for _ in range(TRIES):
                shards = world.ledger.find_shards(self.game_id)
                if not any(map(world.serves, shards)):
                    return False
                if not world.ledger.count_call(self.game_id, world.clock.now()):
                    return True
                if not await world.take_shares():
                    return False
            return False

        try:
            counted: bool = await node.perform(count, 20.0)
        except ProcessGone:
            self.unsure += 1
            return False
        except StorageUnavailable:
            return False
        self.spent += counted
        return counted

    def watch(self, node: SimNode) -> None:
        """Note what a node loses that hands the game over, if the game has one partition."""
        usage = node.keeper.usage
        let_go = usage.let_go

        def note_and_let_go(game_ids: Iterable[int]) -> None:
            gone = list(game_ids)
            if not self._is_shared and self.game_id in gone:
                self._lost += self._unsaved(node)
            let_go(gone)

        usage.let_go = note_and_let_go  # type: ignore[method-assign]

    def note_end(self, node: SimNode) -> None:
        """Note what is lost with a node."""
        if node.up.is_set():
            self._lost += self._unsaved(node)

    def _unsaved(self, node: SimNode) -> int:
        """Return how many calls a node has counted and not written."""
        if self._is_shared:
            return _unsaved(node, self.game_id)
        game = node.world.ledger.find_game(self.game_id)
        row = node.line.server.database.rows.usage.rows.get(self.game_id)
        return 0 if game is None else max(0, game.calls - (0 if row is None else row.calls))

    def check(self, nodes: Iterable[SimNode]) -> None:
        """Check that no more was spent than there is."""
        lost = self._lost + sum(self._unsaved(node) for node in nodes if _has_ended(node))
        with checker("shares"):
            assert self.spent <= CALLS + lost, f"{self.spent} of {CALLS} were spent, {lost} lost"

    async def check_at_rest(self, nodes: list[SimNode]) -> None:
        """Spend the rest, and check that all could be spent, and is counted once."""
        if not self._is_shared:
            return
        for _ in range(3):
            await trio.sleep(ROUNDS_SECONDS / 3)
            for node in nodes:
                while await self.spend(node):
                    pass
        await trio.sleep(ROUNDS_SECONDS / 3)
        games = [node.world.ledger.find_game(self.game_id) for node in nodes]
        counted = sum(game.calls for game in games if game is not None)
        self.check(nodes)
        with checker("shares"):
            assert counted == CALLS, f"{counted} of {CALLS} are counted, {self.spent} were spent"
            most = self.spent + self.unsure
            assert counted <= most, f"{counted} are counted, and {most} were spent at most"


def _unsaved(node: SimNode, game_id: int) -> int:
    """Return how many calls a node has counted and not written, or not even begun to."""
    parts = node.keeper.usage._parts
    held = [part for part in (*parts._list_own(), *parts._left) if part.saved.game_id == game_id]
    return sum(max(0, parts._make_row(part).calls - part.saved.calls) for part in held)


def _has_ended(node: SimNode) -> bool:
    row = node.line.server.database.nodes[node.node_id]
    return row.ended_at is not None
