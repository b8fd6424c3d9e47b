"""The other nodes as flows see them: what they ask each other; `cluster.asking` implements it.

A question is answered from what one node has in memory. Whoever answers asks nobody else, so nodes
do not wait for each other. Only `PullPlayer` may wait for a flow that asks, for as long as both are
allowed to last.
"""

from __future__ import annotations

from typing import ClassVar, Protocol, TypeVar

import msgspec


class Question(msgspec.Struct, frozen=True, array_like=True):
    """Something that a node is asked. Fields that are added later need defaults."""

    of_others: ClassVar[bool] = False
    """True if a node does not ask itself, but gets `ServedHere`."""


class ServedHere(Exception):
    """The node that asks serves the shard itself by now, and nothing was asked."""


AnyAnswer = TypeVar("AnyAnswer", bound=msgspec.Struct)


class OtherNodes(Protocol):
    """The nodes that have partitions of the games that this one has, too."""

    def serves(self, shard: int) -> bool:
        """Return whether this node owns a shard and has brought it up."""
        ...

    def count_rooms_in(self, shard: int) -> int | None:
        """Return how many rooms and lobbies another node has in a shard, as it told last.

        None if it has not told, or no other node has the shard.
        """
        ...

    def count_nodes(self) -> int:
        """Return how many nodes there are, this one included."""
        ...

    async def ask(
        self, game_id: int, shard: int, question: Question, answer: type[AnyAnswer]
    ) -> AnyAnswer:
        """Ask the owner of a shard, which may be this node.

        Args:
            game_id: the game that the question is about.
            shard: one of its partitions.
            question: see `flows.spread.questions`.
            answer: what is answered.

        Raises:
            ActorUnavailable: there is no answer in time; what was asked for may have happened.
            ServedHere: this node is the owner, and the question is one of others.

        Cancellation: what was asked for may have happened.
        """
        ...

    async def gather(
        self, game_id: int, question: Question, answer: type[AnyAnswer]
    ) -> list[AnyAnswer]:
        """Ask every node that has partitions of a game, this one included.

        Together the answers cover each partition once, as each was at some moment in between.

        Raises:
            ActorUnavailable: some did not answer in time.

        Cancellation changes nothing that the question does not.
        """
        ...

    async def ask_all(
        self, game_id: int, question: Question, answer: type[AnyAnswer], *, seconds_max: float
    ) -> None:
        """Ask every other node that may know a game, until each has answered or has ended.

        Raises:
            ActorUnavailable: some have done neither in time.

        Cancellation: some may have been asked.
        """
        ...
