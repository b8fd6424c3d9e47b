"""Questions of nodes about games that live on several of them; implements `OtherNodes`.

A question goes to the owners of partitions. A node answers for the partitions that it serves, and
only if these are the ones that it was asked for. So a partition that moves meanwhile is neither
missed nor counted twice: all are asked again. Questions may be asked twice, and must bear that.

Bounds: the bus's for asks under way, `SECONDS_MAX` for each question, and `ANSWER_SECONDS_MAX` for
each answer; after that a node is asked again.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Annotated, Any, Final, Protocol, TypeVar

import msgspec
import trio

from greenroom.actors.kernel.errors import ActorUnavailable, StorageUnavailable
from greenroom.actors.kernel.shard_ownership import TenureOfSeveral
from greenroom.actors.kernel.shards import SHARDS
from greenroom.actors.leaderboard.movers import ANSWER_SECONDS_MAX
from greenroom.actors.world.others import Question, ServedHere
from greenroom.actors.world.world import World
from greenroom.bus.bus import BusError
from greenroom.cluster.calls.messages import NotOwner, Shard
from greenroom.cluster.messenger import BusMessage, Messenger, UnreadableMessage
from greenroom.cluster.shard_map import NOBODY, ShardMap
from greenroom.persistence.nodes.records import NodeRow

_logger = logging.getLogger(__name__)

SECONDS_MAX: Final = 5.0
"""How long a question is asked at most; who asks it holds a client's call."""
PAUSE_SECONDS: Final = 0.02
PAUSE_SECONDS_MAX: Final = 0.2

ANY_SHARDS: Final = ()
"""A question that a node answers whatever it serves."""

Handlers = Mapping[type[Question], Callable[[World, Any], Awaitable[msgspec.Struct]]]
AnyAnswer = TypeVar("AnyAnswer", bound=msgspec.Struct)
Shards = Annotated[tuple[Shard, ...], msgspec.Meta(max_length=SHARDS)]


class AskNode(BusMessage, frozen=True):
    """Asks for what a node has of some partitions; answered with `NodeTold` or `NotOwner`."""

    kind: str
    question: bytes
    shards: Shards
    """The ones that it is asked for."""
    others: Shards = ()
    """Further partitions of the game, which it must not serve."""


class NodeTold(BusMessage, frozen=True):
    """The answer of a node; `is_given` is false if it could not be found out."""

    answer: bytes
    is_given: bool = True


class LiveNodes(Protocol):
    """The nodes as the database has them."""

    async def read_nodes(self) -> list[NodeRow]:
        """Return them; some may have ended."""
        ...


class AskedAnew(Exception):
    """A node serves other partitions than it was asked for, or was not reached."""


class Asking:
    """Asks other nodes, and answers them."""

    def __init__(
        self,
        world: World,
        handlers: Handlers,
        shards: ShardMap[Any],
        messenger: Messenger,
        nodes: LiveNodes,
    ) -> None:
        """Ask over a messenger.

        Args:
            world: what this node answers from.
            handlers: answer each type of question.
            shards: who owns what.
            messenger: the way to other nodes.
            nodes: which there are.
        """
        self._world = world
        self._handlers = handlers
        self._types = {kind.__name__: kind for kind in handlers}
        self._shards = shards
        self._messenger = messenger
        self._nodes = nodes
        self.serves = shards.is_mine
        self.count_rooms_in = shards.count_rooms_in
        self.count_nodes = shards.count_nodes
        messenger.answer(AskNode, self._answer)
        messenger.know(NodeTold, NotOwner)

    # Asking.

    async def ask(
        self,
        game_id: int,  # noqa: ARG002 - for the protocol; a shard is enough here
        shard: int,
        question: Question,
        answer: type[AnyAnswer],
    ) -> AnyAnswer:
        """See `OtherNodes`."""
        until, pause = trio.current_time() + SECONDS_MAX, PAUSE_SECONDS
        while True:
            left = until - trio.current_time()
            node_id = await self._shards.wait_for_owner(shard, left)
            if question.of_others and node_id == self._shards.node_id:
                raise ServedHere
            try:
                return await self._ask_one(node_id, question, answer, (shard,), (), until)
            except AskedAnew:
                pause = await _pause(pause, until)

    async def gather(
        self, game_id: int, question: Question, answer: type[AnyAnswer]
    ) -> list[AnyAnswer]:
        """See `OtherNodes`."""
        shards = self._world.ledger.find_shards(game_id)
        until, pause = trio.current_time() + SECONDS_MAX, PAUSE_SECONDS
        while True:
            found = await self._gather_once(shards, question, answer, until)
            if found is not None:
                return found
            pause = await _pause(pause, until)

    async def _gather_once(
        self, shards: tuple[int, ...], question: Question, answer: type[AnyAnswer], until: float
    ) -> list[AnyAnswer] | None:
        """Return the answers of all nodes, None if they did not fit together."""
        wanted: dict[int, list[int]] = {}
        for shard in shards:
            node_id = await self._shards.wait_for_owner(shard, until - trio.current_time())
            wanted.setdefault(node_id, []).append(shard)
        found: dict[int, AnyAnswer] = {}
        me = self._shards.node_id

        async def ask_one(node_id: int, own: list[int]) -> None:
            others = tuple(shard for shard in shards if shard not in own)
            try:
                found[node_id] = await self._ask_one(
                    node_id, question, answer, tuple(own), others, until
                )
            except AskedAnew:
                nursery.cancel_scope.cancel()

        async with trio.open_nursery() as nursery:
            # the same bound for this node's own answer, so that all are of about one moment
            nursery.cancel_scope.deadline = min(trio.current_time() + ANSWER_SECONDS_MAX, until)
            for node_id, own in wanted.items():
                if node_id != me:
                    nursery.start_soon(ask_one, node_id, own)
            if me in wanted:
                await ask_one(me, wanted[me])
        if len(found) < len(wanted):
            return None
        return [found[node_id] for node_id in sorted(found, key=lambda one: (one != me, one))]

    async def ask_all(
        self,
        game_id: int,  # noqa: ARG002 - any node may have heard of any game
        question: Question,
        answer: type[AnyAnswer],
        *,
        seconds_max: float,
    ) -> None:
        """See `OtherNodes`."""
        until = trio.current_time() + seconds_max
        others = await self._live_nodes()
        try:
            async with trio.open_nursery() as nursery:
                for node_id in others:
                    nursery.start_soon(self._ask_until_gone, node_id, question, answer, until)
        except* ActorUnavailable as errors:
            raise StorageUnavailable("another node does not answer") from errors

    async def _ask_until_gone(
        self, node_id: int, question: Question, answer: type[AnyAnswer], until: float
    ) -> None:
        pause = PAUSE_SECONDS
        while True:
            try:
                await self._ask_one(node_id, question, answer, ANY_SHARDS, (), until)
            except AskedAnew:
                pause = await _pause(pause, until)
                if node_id not in await self._live_nodes():
                    return
            else:
                return

    async def _live_nodes(self) -> list[int]:
        """Return the nodes that have not ended, without this one."""
        rows, me = await self._nodes.read_nodes(), self._shards.node_id
        return [row.node_id for row in rows if row.node_id != me and not row.has_ended]

    async def _ask_one(  # noqa: PLR0917 - one question, and all that bounds it
        self,
        node_id: int,
        question: Question,
        answer: type[AnyAnswer],
        shards: tuple[int, ...],
        others: tuple[int, ...],
        until: float,
    ) -> AnyAnswer:
        """Return what a node answers for just these partitions, before a moment.

        Raises:
            AskedAnew: it has others, or gave no answer.
        """
        if node_id == self._shards.node_id:
            told = await self._find(question, shards, others)
            if isinstance(told, NotOwner):
                raise AskedAnew
            return told  # type: ignore[return-value]  # the handler of this question makes it
        ask = AskNode(type(question).__name__, msgspec.msgpack.encode(question), shards, others)
        try:
            seconds = min(ANSWER_SECONDS_MAX, max(until - trio.current_time(), 0.0))
            reply = await self._messenger.ask(node_id, ask, seconds_max=seconds)
        except (BusError, UnreadableMessage) as error:
            raise AskedAnew from error
        if isinstance(reply, NotOwner) and reply.owner != self._shards.node_id:
            self._shards.note_owner(reply.shard, reply.owner, reply.epoch)
        if not isinstance(reply, NodeTold) or not reply.is_given:
            raise AskedAnew
        return msgspec.msgpack.decode(reply.answer, type=answer)

    # Answering.

    async def _answer(self, sender: int, asked: AskNode) -> BusMessage:
        kind = self._types.get(asked.kind)
        if kind is None:
            _logger.warning("node %d asks for %s, which is not known here", sender, asked.kind)
            return NodeTold(b"", is_given=False)
        question = msgspec.msgpack.decode(asked.question, type=kind)
        try:
            told = await self._find(question, asked.shards, asked.others)
        except AskedAnew:
            return NodeTold(b"", is_given=False)
        return told if isinstance(told, NotOwner) else NodeTold(msgspec.msgpack.encode(told))

    async def _find(
        self, question: Question, shards: tuple[int, ...], others: tuple[int, ...]
    ) -> msgspec.Struct:
        """Return this node's answer, or `NotOwner`.

        Raises:
            AskedAnew: it could not be found out, or is not for just these partitions.
        """
        wrong = self._find_wrong(shards, others)
        if wrong is not None:
            return self._make_not_owner(wrong)
        ownership = self._world.ownership
        try:
            tenure = TenureOfSeveral(ownership, shards) if shards and ownership else None
            told = await self._handlers[type(question)](self._world, question)
            if tenure is not None:
                tenure.check()
        except ActorUnavailable as error:
            _logger.debug("%s: %r", type(question).__name__, error)
            raise AskedAnew from error
        wrong = self._find_wrong((), others)
        return told if wrong is None else self._make_not_owner(wrong)

    def _find_wrong(self, shards: tuple[int, ...], others: tuple[int, ...]) -> int | None:
        """Return a partition that is not as it was asked for, None if all are.

        One that is just being brought up is not served yet, but some of it is in memory.
        """
        is_mine = self._shards.is_mine
        for shard in shards:
            if not is_mine(shard):
                return shard
        return next(filter(self._shards.owns, others), None)

    def _make_not_owner(self, shard: int) -> NotOwner:
        owner = self._shards.find_owner(shard)
        return NotOwner(shard, NOBODY if owner is None else owner, self._shards.get_epoch(shard))


async def _pause(seconds: float, until: float) -> float:
    """Wait before a question is asked anew; return how long the next time.

    Raises:
        StorageUnavailable: it would take too long.
    """
    if trio.current_time() + seconds > until:
        raise StorageUnavailable("another node does not answer; try again in a moment")
    await trio.sleep(seconds)
    return min(2 * seconds, PAUSE_SECONDS_MAX)
