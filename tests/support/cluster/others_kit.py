"""Nodes in memory that ask each other without a bus: the port `OtherNodes` over other worlds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import msgspec
from shard_kit import Node

from greenroom.actors.flows.spread.questions import ANSWERS
from greenroom.actors.kernel.errors import StorageUnavailable
from greenroom.actors.world.others import Question, ServedHere

AnyAnswer = TypeVar("AnyAnswer", bound=msgspec.Struct)


class WorldsNearby:
    """The other nodes, as one of them sees them. What they say is packed and read, as on a bus."""

    def __init__(self, own: Node, nodes: Sequence[Node]) -> None:
        self.own = own
        self.nodes = nodes
        self.asked: list[tuple[Node, Question]] = []
        self.silent: set[int] = set()
        """Places in `nodes` of those that do not answer."""

    def serves(self, shard: int) -> bool:
        return self.own.owned.owns(shard)

    def count_rooms_in(self, shard: int) -> int | None:
        for node in self.nodes:
            if node.owned.owns(shard):
                return node.world.ledger.rooms_in[shard]
        return None

    def count_nodes(self) -> int:
        return len(self.nodes)

    async def ask(
        self, game_id: int, shard: int, question: Question, answer: type[AnyAnswer]
    ) -> AnyAnswer:
        for node in self.nodes:
            if node.owned.owns(shard):
                if question.of_others and node is self.own:
                    raise ServedHere
                return await self._ask_one(node, question, answer)
        raise StorageUnavailable(f"nobody has shard {shard}")

    async def gather(
        self, game_id: int, question: Question, answer: type[AnyAnswer]
    ) -> list[AnyAnswer]:
        shards = self.own.world.ledger.find_shards(game_id)
        asked = [node for node in self.nodes if any(map(node.owned.owns, shards))]
        asked.sort(key=lambda node: node is not self.own)
        return [await self._ask_one(node, question, answer) for node in asked]

    async def ask_all(
        self, game_id: int, question: Question, answer: type[AnyAnswer], *, seconds_max: float
    ) -> None:
        for node in self.nodes:
            if node is not self.own:
                await self._ask_one(node, question, answer)

    async def _ask_one(self, node: Node, question: Question, answer: type[AnyAnswer]) -> AnyAnswer:
        if self.nodes.index(node) in self.silent:
            raise StorageUnavailable("the node does not answer")
        self.asked.append((node, question))
        kind = type(question)
        read = msgspec.msgpack.decode(msgspec.msgpack.encode(question), type=kind)
        told = await ANSWERS[kind](node.world, read)
        return msgspec.msgpack.decode(msgspec.msgpack.encode(told), type=answer)


def join(*nodes: Node) -> list[WorldsNearby]:
    """Let nodes over one database ask each other; return what each sees of the others."""
    views = [WorldsNearby(node, nodes) for node in nodes]
    for node, view in zip(nodes, views, strict=True):
        node.world.join(view)
    return views
