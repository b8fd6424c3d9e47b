"""Hands shards of this node over to another: to drain it, to balance, or because somebody says so.

1. Prepare: what has changed is written ahead, jobs and sign-ins are waited for. Then the next owner
   reads the shards ahead. Everything is served on.
2. Say goodbye: members of rooms are asked to come back, and what they still send is served.
3. In one synchronous step, the change of owner is queued behind all that was queued before, and the
   actors of the shards are out of reach. Calls for them wait from now on. What is left of them in
   memory is cleared away later.
4. Once that is durable, the next owner is told, with who was connected and what they miss. Nothing
   is told before, for the change might yet be refused.
5. The next owner reads what was written since it read ahead, opens the shards, and the calls go
   there.

This node may die at any of these steps. Before the change is durable it is the owner, and others
take over from it. Afterwards the next owner finds its shards when it looks at the database.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import groupby
from operator import attrgetter
from typing import Any, Final

import trio

from greenroom.actors.kernel.errors import ActorUnavailable
from greenroom.bus.bus import BusError
from greenroom.cluster.messenger import BusMessage, Messenger, UnreadableMessage
from greenroom.cluster.news import (
    Draining,
    HaveReadAhead,
    MapChanged,
    ReadAhead,
    TakeAudiences,
    Taken,
    TakeShards,
)
from greenroom.cluster.placement import Move, moves_to_leave
from greenroom.cluster.ports import Parted, Residents
from greenroom.cluster.probes import Probe
from greenroom.cluster.shard_map import ShardMap

_logger = logging.getLogger(__name__)

SHARDS_AT_ONCE: Final = 8
"""Shards that are handed over in one step."""
ACTORS_AT_ONCE: Final = 2_000
"""Actors in them, if it is not one shard alone: all of them wait for the last. That is 300 rooms of
six players."""
EMPTY_SHARDS_AT_ONCE: Final = 64
"""The same where nobody is in them."""
TAKE_SECONDS_MAX: Final = 2.0
"""How long the next owner may take to say that it knows. It finds out by itself, too."""
READ_AHEAD_SECONDS_MAX: Final = 0.9
"""How long the next owner may read ahead. What it has not read then, it reads when it owns it. A
node that cannot be reached costs each group no more than that, and `TAKE_SECONDS_MAX`."""
LAST_CALLS_SECONDS_MAX: Final = 0.5
"""How long a node that has nothing left waits for calls that are on their way to it."""
RETRY_SECONDS: Final = 0.2
"""How long to wait before the next try, if no shard could be handed over."""


class HandOverRefused(Exception):
    """Shards cannot be handed over; the text says why, and what to do."""


class HandOver:
    """Moves shards away from this node, one group at a time."""

    def __init__(
        self,
        shards: ShardMap[Any],
        residents: Residents,
        messenger: Messenger,
        draw_epochs: Callable[[int], Awaitable[list[int]]],
        look: Callable[[], None],
        *,
        is_taker: Callable[[int], bool],
    ) -> None:
        """Prepare.

        Args:
            shards: who owns what.
            residents: the actors of this node.
            messenger: the way to the other nodes.
            draw_epochs: returns so many epochs that are higher than all before.
            look: has shards opened again that stay here after all.
            is_taker: returns whether a node takes shards, as of now.
        """
        self._shards = shards
        self._residents = residents
        self._messenger = messenger
        self._draw_epochs = draw_epochs
        self._look = look
        self._is_taker = is_taker
        self._turn = trio.Lock()
        self.moved = 0
        """Shards handed over since the start."""
        messenger.know(Taken, HaveReadAhead)

    # What is asked for.

    async def move(self, shards: Iterable[int], to_node: int) -> int:
        """Hand over shards; return how many were. Those that are not open here are left out.

        Args:
            shards: which.
            to_node: the next owner.

        Raises:
            HandOverRefused: the other node is this one, is not there, or is about to stop; some may
                have been handed over.
            ActorUnavailable: the database does not answer; some may have been handed over.

        Cancellation: what has been handed over so far stays so.
        """
        self._check_taker(to_node)
        moved = 0
        for group in self._group(shards):
            moved += await self._hand_over(group, to_node)
        return moved

    def _check_taker(self, to_node: int) -> None:
        if to_node == self._shards.node_id or not self._is_taker(to_node):
            raise HandOverRefused(f"node {to_node} takes no shards from here; see cluster status")

    async def drain(
        self, takers: Callable[[], Collection[int]], seconds_max: float, *, waits: bool = False
    ) -> int:
        """Hand over everything; return how many shards are left.

        Args:
            takers: returns the nodes that take shards, as of now.
            seconds_max: how long to try. What is left then, others take over once this node ends.
            waits: while no node takes any, wait for one.

        Without `waits` this node is about to stop. So it stays until what is on its way here has
        come: a change that was sent to a node which is gone would be answered 500.

        Cancellation: what has been handed over so far stays so.
        """
        self._messenger.tell_all(Draining(stays=waits))
        with trio.move_on_after(seconds_max):
            while owned := self._shards.list_owned():
                owners = dict.fromkeys(owned, self._shards.node_id)
                moves = moves_to_leave(self._shards.node_id, takers(), owners)
                if not moves and not waits:
                    break
                if not await self.carry_out(moves):
                    await trio.sleep(RETRY_SECONDS)
        if not waits:
            await self._take_last_calls()
        return len(self._shards.list_owned())

    async def _take_last_calls(self) -> None:
        """Stay until the other nodes know that nothing is here, and what they sent has come.

        Each has heard by its answer who owns what, and sent all that it sends here.
        """
        others = [n.node_id for n in self._shards.iterate_nodes()]
        async with trio.open_nursery() as nursery:
            for node_id in others:
                if node_id != self._shards.node_id:
                    nursery.start_soon(self._take_last_of, node_id)

    async def _take_last_of(self, node_id: int) -> None:
        """Stay until another node knows, or is silent for long."""
        with suppress(BusError, UnreadableMessage):
            await self._messenger.ask(node_id, Probe(), seconds_max=LAST_CALLS_SECONDS_MAX)

    async def carry_out(self, moves: Iterable[Move]) -> int:
        """Carry moves out, node by node; return how many shards were moved."""
        moved = 0
        to_node = attrgetter("to_node")
        for node_id, group in groupby(sorted(moves, key=to_node), key=to_node):
            try:
                moved += await self.move([move.shard for move in group], node_id)
            except (HandOverRefused, ActorUnavailable) as error:
                _logger.warning("shards stay here for now: %s", error)
        return moved

    def _group(self, shards: Iterable[int]) -> list[list[int]]:
        """Return shards that are open here in groups, the empty ones first and many at a time."""
        mine = sorted({shard for shard in shards if self._shards.is_mine(shard)})
        empty = [shard for shard in mine if self._residents.is_empty(shard)]
        others = {s: self._residents.count_actors(s) for s in sorted({*mine}.difference(empty))}
        return [*_slices(empty, EMPTY_SHARDS_AT_ONCE), *_pack(others)]

    # One group.

    async def _hand_over(self, wanted: Sequence[int], to_node: int) -> int:
        """Take one group through the five steps; return how many shards were handed over."""
        async with self._turn:
            shards = [shard for shard in wanted if self._shards.is_mine(shard)]
            if not shards:
                return 0
            await self._residents.prepare(shards)
            await self._have_read_ahead(shards, to_node)
            self._check_taker(to_node)  # that, and the groups before this one, may have taken long
            epochs = dict(zip(shards, await self._draw_epochs(len(shards)), strict=True))
            self._shards.begin_leaving(shards)
            try:
                await self._residents.say_goodbye(shards)
                await self._residents.writing.acquire()
            except BaseException:
                self._stay(shards)
                raise
            try:
                still = {shard: e for shard, e in epochs.items() if self._shards.is_mine(shard)}
                self._shards.end_leaving(epochs.keys() - still.keys())
                parted = self._queue(still, to_node)
            finally:
                self._residents.writing.release()
            return 0 if parted is None else await self._settle(parted, still, to_node)

    async def _have_read_ahead(self, shards: Sequence[int], to_node: int) -> None:
        """Have the next owner read shards ahead; what comes of it only decides how long it takes.

        While nobody is in them, there is little to read.
        """
        lived_in = tuple(shard for shard in shards if not self._residents.is_empty(shard))
        if not lived_in:
            return
        try:
            message = ReadAhead(lived_in)
            await self._messenger.ask(to_node, message, seconds_max=READ_AHEAD_SECONDS_MAX)
        except (BusError, UnreadableMessage) as error:
            _logger.info("node %d does not read shards ahead: %s", to_node, error)

    def _queue(self, still: Mapping[int, int], to_node: int) -> Parted | None:
        """Queue the change, and let go of the shards; None if they stay."""
        if not still:
            return None
        self._shards.shut(still)
        try:
            return self._residents.hand_over(still, to_node)
        except ActorUnavailable as error:
            _logger.warning("shards stay here for now: %s", error)
            self._shards.open(still)
            self._shards.end_leaving(still)
            return None

    async def _settle(self, parted: Parted, still: Mapping[int, int], to_node: int) -> int:
        """Tell the next owner once the change is durable; return how many shards have gone."""
        gone: dict[int, int] = {}
        with trio.CancelScope(shield=True):  # the outcome must be known
            gone = {shard: still[shard] for shard in await parted.settle()}
        if len(gone) < len(still):
            _logger.error("%d shards could not be handed over", len(still) - len(gone))
            for piece in [] if gone else parted.audiences:
                self._residents.adopt(piece)
            self._stay(still.keys() - gone.keys())
        for shard, epoch in gone.items():
            self._shards.note_owner(shard, to_node, epoch)
        self.moved += len(gone)
        if gone:
            await self._tell(gone, to_node, parted.audiences)
        return len(gone)

    def _stay(self, shards: Iterable[int]) -> None:
        """Open shards again that were not handed over."""
        self._shards.end_leaving(shards)
        self._look()

    async def _tell(
        self, epochs: Mapping[int, int], to_node: int, audiences: Sequence[bytes]
    ) -> None:
        """Tell the next owner, with the audiences, and then everybody."""
        owners = tuple(epochs.items())
        first, *others = audiences or (b"",)
        shards = tuple(epochs)
        messages: list[BusMessage] = [TakeShards(owners, first, has_more=bool(others))]
        for number, piece in enumerate(others, 1):
            messages.append(TakeAudiences(shards, piece, has_more=number < len(others)))
        self._messenger.tell_all(MapChanged(to_node, owners))
        for message in messages:
            try:
                await self._messenger.ask(to_node, message, seconds_max=TAKE_SECONDS_MAX)
            except (BusError, UnreadableMessage) as error:
                _logger.warning("node %d finds its shards by itself: %s", to_node, error)
                return


def _slices(shards: list[int], length: int) -> list[list[int]]:
    return [shards[at : at + length] for at in range(0, len(shards), length)]


def _pack(sizes: Mapping[int, int]) -> Iterator[list[int]]:
    """Yield groups of shards, by how many actors each has; one that has too many goes alone."""
    group: list[int] = []
    actors = 0
    for shard, size in sizes.items():
        if group and (len(group) == SHARDS_AT_ONCE or actors + size > ACTORS_AT_ONCE):
            yield group
            group, actors = [], 0
        group.append(shard)
        actors += size
    if group:
        yield group
