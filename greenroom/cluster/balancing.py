"""Moves shards by load: a service on each node. Each measures; one of them asks all, and decides.

The owner of shard 0 decides. Should two nodes take themselves for it, as while it moves, nothing
breaks: what either decides, the owner of the shard carries out by the usual hand-over, or refuses.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Annotated, Any, Final, Protocol

import msgspec
import trio

from greenroom.actors.kernel.errors import ActorUnavailable
from greenroom.actors.kernel.shards import SHARDS
from greenroom.bus.bus import BusError
from greenroom.cluster.balance_rule import Balancer, WeighedMove
from greenroom.cluster.hand_over import HandOver, HandOverRefused
from greenroom.cluster.load_meter import LoadMeter, Measure
from greenroom.cluster.messenger import BusMessage, Messenger, UnreadableMessage
from greenroom.cluster.shard_map import ShardMap

_logger = logging.getLogger(__name__)

ROUND_SECONDS: Final = 5.0
"""How often nodes measure, and how often the one that decides asks them."""
REST_SECONDS: Final = 2.0
"""How long nothing moves after a move."""
ASK_SECONDS_MAX: Final = 2.0
"""How long a node may take to tell its load. One that takes longer takes no part in the round."""
MOVE_SECONDS_MAX: Final = 30.0
"""How long a move may take; jobs and sign-ins are waited for."""
DECIDING_SHARD: Final = 0
"""The shard whose owner decides."""


class AskLoad(BusMessage, frozen=True):
    """How much load do your shards have?"""


class LoadTold(BusMessage, frozen=True):
    """The load of the sender's shards."""

    rates: Annotated[tuple[tuple[int, float], ...], msgspec.Meta(max_length=SHARDS)]
    """Shards that were measured, each with its turns a second."""


class MoveForLoad(BusMessage, frozen=True):
    """Hand one of your shards over to another node, which has less load."""

    shard: int
    to_node: int


class MovedForLoad(BusMessage, frozen=True):
    """The answer: says whether that was done."""

    is_moved: bool


class BalanceState(msgspec.Struct, frozen=True):
    """The balance of load, as the node that decides sees it."""

    next: WeighedMove | None
    """The move that is under way."""
    why: str
    """Why it is, or why nothing moves."""
    moved: int
    """Shards that this node has had moved since its start."""


class Members(Protocol):
    """The part of `Membership` that moving needs: takers of shards, and the hand-over."""

    @property
    def hand_over(self) -> HandOver:
        """Return what hands shards of this node over."""
        ...

    def list_takers(self) -> list[int]:
        """Return the nodes that take shards."""
        ...


class Balancing:
    """One for each node of a cluster."""

    def __init__(
        self,
        shards: ShardMap[Any],
        messenger: Messenger,
        members: Members,
        turns: Callable[[Collection[int]], Awaitable[Mapping[int, int]]],
        meter: LoadMeter,
        *,
        is_on: bool = True,
        balancer: Callable[[], Balancer] = Balancer,
    ) -> None:
        """Register what it answers; nothing is measured before `run`.

        Args:
            shards: who owns what.
            messenger: the way to the other nodes.
            members: who takes shards, and hands over those of this node.
            turns: counts the turns that shards of this node have had.
            meter: makes rates of these.
            is_on: False if shards should stay where they are; their load is measured all the same.
            balancer: makes what decides.
        """
        self._shards = shards
        self._messenger = messenger
        self._members = members
        self._turns = turns
        self._meter = meter
        self._is_on = is_on
        self._new_balancer = balancer
        self._balancer = balancer()
        self._moving: WeighedMove | None = None
        self._why = "nothing has been measured yet"
        self.moved = 0
        """Shards that this node, deciding, has had moved since its start."""
        messenger.answer(AskLoad, self._tell_load)
        messenger.answer(MoveForLoad, self._move_for_load)
        messenger.know(LoadTold, MovedForLoad)

    @property
    def measure(self) -> Measure:
        """Return the load of this node over the last seconds."""
        return self._meter.last

    @property
    def state(self) -> BalanceState | None:
        """Return how the balance is; None if another node decides."""
        if not self._decides:
            return None
        why = self._why if self._is_on else "it is switched off: balance_shards is false"
        return BalanceState(self._moving, why, self.moved)

    @property
    def _decides(self) -> bool:
        return self._shards.is_mine(DECIDING_SHARD)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Measure, and decide when it is up to this node, until cancelled.

        Cancellation: a move that is under way may have been done.
        """
        task_status.started()
        while True:
            await self._measure()
            if not self._decides:
                self._balancer = self._new_balancer()  # another's measures are not ours
            elif self._is_on:
                await self._balance()
            await trio.sleep(ROUND_SECONDS)

    async def _measure(self) -> None:
        """Measure this node; several nodes may not have begun at the same moment."""
        epochs = {s: e for s, e in self._shards.list_owned().items() if self._shards.is_mine(s)}
        self._meter.measure(epochs, await self._turns(epochs))

    # The node that decides.

    async def _balance(self) -> None:
        """Ask all nodes once, and then move shards one after the other for the rest of the round.

        What moves keeps the weight that it had. So the next decision sees it at its new node.
        """
        rates = await self._ask_all()
        if len(rates) < len(self._members.list_takers()):
            _logger.info("%d nodes take no part in the balance of load now", len(rates))
        self._balancer.note({shard: rate for each in rates.values() for shard, rate in each})
        nodes = sorted(rates)
        deadline = trio.current_time() + ROUND_SECONDS
        while self._decides and trio.current_time() < deadline:
            able = set(self._members.list_takers())
            decision = self._balancer.decide(
                [node_id for node_id in nodes if node_id in able],
                self._shards.list_owners(),
                trio.current_time(),
            )
            self._why = decision.why
            if decision.next is None:
                return
            await self._carry_out(decision.next)
            await trio.sleep(REST_SECONDS)

    async def _ask_all(self) -> dict[int, tuple[tuple[int, float], ...]]:
        """Return the rates of all nodes that take part, by node."""
        me = self._shards.node_id
        found = {me: tuple(self._meter.last.rates.items())}

        async def ask(node_id: int) -> None:
            told = await self._ask(node_id, AskLoad(), ASK_SECONDS_MAX)
            if isinstance(told, LoadTold):
                found[node_id] = told.rates

        async with trio.open_nursery() as nursery:
            for node_id in self._members.list_takers():
                if node_id != me:
                    nursery.start_soon(ask, node_id)
        return found

    async def _carry_out(self, chosen: WeighedMove) -> None:
        """Ask a shard's owner to move it."""
        move = chosen.move
        self._moving = chosen
        try:
            is_moved = await self._have_moved(move.shard, move.from_node, move.to_node)
        finally:
            self._moving = None
        self._balancer.note_tried(move.shard, trio.current_time())
        if is_moved:
            self.moved += 1
            _logger.info(
                "shard %d with %.0f turns a second has moved from node %d to node %d: %s",
                *(move.shard, chosen.weight, move.from_node, move.to_node, self._why),
            )
            await self._wait_known(move.shard, move.from_node)
        else:
            _logger.warning("shard %d stays at node %d for now", move.shard, move.from_node)

    async def _have_moved(self, shard: int, from_node: int, to_node: int) -> bool:
        """Have the owner of a shard hand it over; return whether it did."""
        if from_node == self._shards.node_id:
            return await self._try_move(shard, to_node)
        answer = await self._ask(from_node, MoveForLoad(shard, to_node), MOVE_SECONDS_MAX)
        return isinstance(answer, MovedForLoad) and answer.is_moved

    async def _wait_known(self, shard: int, from_node: int) -> None:
        """Wait until the map here shows that a shard has moved, which all nodes are told."""
        with trio.move_on_after(ASK_SECONDS_MAX):
            while self._shards.find_owner(shard) == from_node:
                await self._shards.wait_changed()

    async def _ask(self, node_id: int, message: BusMessage, seconds_max: float) -> object:
        """Return a node's answer, None if there is none that can be read."""
        try:
            return await self._messenger.ask(node_id, message, seconds_max=seconds_max)
        except (BusError, UnreadableMessage) as error:
            _logger.info("node %d takes no part in the balance of load: %s", node_id, error)
            return None

    # Every node.

    async def _tell_load(self, _: int, __: AskLoad) -> BusMessage:
        return LoadTold(tuple(self._meter.last.rates.items()))

    async def _move_for_load(self, _: int, wanted: MoveForLoad) -> BusMessage:
        return MovedForLoad(await self._try_move(wanted.shard, wanted.to_node))

    async def _try_move(self, shard: int, to_node: int) -> bool:
        """Hand a shard of this node over; return whether that was done."""
        try:
            moved = await self._members.hand_over.move([shard], to_node) if self._is_on else 0
        except (HandOverRefused, ActorUnavailable) as error:
            _logger.warning("shard %d stays here for now: %s", shard, error)
            return False
        return bool(moved)
