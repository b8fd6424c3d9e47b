"""Keeps this node a member of its cluster: renews its lease, sees who is dead, takes shards over.

A node looks at the rows of all nodes four times a second, and renews its own lease once a second.
It does both over a connection of its own, so a busy committer keeps it from neither. What it sees
goes into the map of shards. Shards of the dead are taken over by those who live, each its own
share. `ShardOpener` brings them up; `HandOver` moves them while everybody lives.

No write relies on any of this: Postgres refuses those of a node that was taken over.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Awaitable, Callable, Collection, Mapping
from functools import partial
from typing import Final

import msgspec
import trio

from greenroom.actors.kernel.errors import ActorUnavailable
from greenroom.cluster.connectivity import ConnectivityMonitor
from greenroom.cluster.failure_detector import Evidence, Verdict, judge
from greenroom.cluster.hand_over import READ_AHEAD_SECONDS_MAX, HandOver
from greenroom.cluster.lease_guard import Guard
from greenroom.cluster.messenger import BusMessage, Messenger
from greenroom.cluster.news import (
    Draining,
    HaveReadAhead,
    MapChanged,
    NodeAlive,
    NodeGone,
    ReadAhead,
    TakeAudiences,
    Taken,
    TakeShards,
)
from greenroom.cluster.placement import Move, moves_to_balance, moves_to_leave, share_of
from greenroom.cluster.ports import Connected, Records, Residents
from greenroom.cluster.probes import Probes
from greenroom.cluster.shard_map import NOBODY, ShardMap
from greenroom.cluster.shard_opener import ShardOpener
from greenroom.persistence.errors import StorageFenced
from greenroom.persistence.nodes.records import Look, NodeRow, NodeState

_logger = logging.getLogger(__name__)

LOOK_SECONDS: Final = 0.25
ALONE_LOOK_SECONDS: Final = 1.0
"""The same while there is no other node."""
ALIVE_SECONDS: Final = 0.5
BALANCE_SECONDS: Final = 1.0
"""How often empty shards are given to nodes on which they belong."""
CUT_OFF_SECONDS: Final = 10.0
"""A node that has been without the bus for so long, while others have it, hands its shards over."""
UNCLAIMED_SECONDS: Final = 3.0
"""How long after its start a node leaves shards alone that nobody has: other nodes may come."""


Take = Callable[[], Awaitable[Mapping[int, int]]]
"""Takes shards; returns the epoch of each."""


class MembershipOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of membership."""

    lease_seconds: float = 3.0
    """How long a lease is good after it was renewed, by the clock of Postgres."""
    nodes_expected: int = 1
    """How many nodes are being started together; shards that nobody has are shared out once so many
    are there."""


class Membership:
    """A service; one for each node of a cluster. It can be run once."""

    def __init__(
        self,
        options: MembershipOptions,
        *,
        records: Records,
        bus: Connected,
        messenger: Messenger,
        shards: ShardMap[NodeRow],
        guard: Guard,
        residents: Residents,
    ) -> None:
        """Prepare; nothing is read before `run`. Register what it hears on the messenger.

        Args:
            options: times, and how many nodes are expected.
            records: the rows of all nodes; this node's is there already.
            bus: says whether this node is on it.
            messenger: sends and receives over the bus.
            shards: the map, which is filled from here.
            guard: trusts the lease as long as it may be trusted.
            residents: the actors of this node.
        """
        self._options = options
        self._records = records
        self._bus = bus
        self._messenger = messenger
        self._shards = shards
        self._guard = guard
        self._residents = residents
        self._connectivity = ConnectivityMonitor(guard.read_clock)
        self._opening = ShardOpener(shards, residents, guard, self._note_opened)
        self.hand_over = HandOver(
            shards,
            residents,
            messenger,
            records.draw_epochs,
            self._opening.look,
            is_taker=lambda node_id: node_id in self.list_takers(),
        )
        self.is_draining = False
        """True once this node takes no more shards and hands over what it has."""
        self._stays = True
        """False once this node is about to stop: then it takes over from nobody."""
        self._rows: dict[int, NodeRow] = {}
        self._draining: set[int] = set()
        self._stopping: set[int] = set()
        self._reaped: set[int] = set()
        self._probes = Probes(messenger, self.look_soon)
        self._taking: set[int] = set()
        """Nodes whose shards are being taken, `NOBODY` for those that no node has had."""
        self._described: tuple[NodeState, bool] | None = None
        self._is_moving = self._have_all_come = False
        self._renewed_at = self._balanced_at = -math.inf
        self._started_at = 0.0
        self._look_now = trio.Event()
        self._nursery: trio.Nursery | None = None
        self.taken_over = 0
        """Shards taken over from dead nodes since the start."""
        self._when_taken_over: list[Callable[[int], object]] = []
        self._listen()
        guard.stop_with(self._suspend)

    # The service.

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Keep this node a member until cancelled; report started after the first look.

        Raises:
            StorageFenced: this node was taken over; it must stop, and be started anew.
            StorageUnavailable: the database does not answer at the start.

        Cancellation ends it at once; the row stays as it is, for storage to end.
        """
        self._started_at = trio.current_time()
        fenced: list[BaseException] = []
        trio.lowlevel.add_instrument(self._guard)
        try:
            await self._renew()
            self._note(await self._records.look())
            async with trio.open_nursery() as self._nursery:
                self._nursery.start_soon(self._opening.run)
                self._nursery.start_soon(self._tell_for_ever)
                task_status.started()
                await self._look_for_ever()
        except* StorageFenced as group:  # alone, not in a group: it ends the server
            fenced += group.exceptions
        finally:
            self._nursery, self._is_moving = None, False
            self._taking.clear()
            self._probes.clear()
            trio.lowlevel.remove_instrument(self._guard)
        raise StorageFenced(f"{fenced[0]}")

    async def drain(
        self, seconds_max: float, leaving: Collection[int] = (), *, waits: bool = False
    ) -> int:
        """Hand over everything to other nodes; return how many shards are left.

        Args:
            seconds_max: how long to try.
            leaving: nodes that are about to stop, too, and so get nothing.
            waits: see `HandOver.drain`.

        With `waits` the node stays. If then no other is left, it takes over from the last of them,
        and hands that over to the next that comes.

        Cancellation: what has been handed over so far stays so, and no shards are taken any more.
        """
        self.is_draining, self._stays = True, waits and self._stays
        self._stopping.update(leaving)
        self.look_soon()
        return await self.hand_over.drain(self.list_takers, seconds_max, waits=waits)

    async def balance(self) -> int:
        """Move shards to the nodes on which they belong, whoever is in them; return how many.

        Cancellation: what has been moved so far stays so.
        """
        return await self.hand_over.carry_out(self._find_misplaced())

    def note_dead(self, node_id: int) -> None:
        """Take note that the process of a node was reaped by its parent; take its shards over."""
        self._reaped.add(node_id)
        self.look_soon()

    def call_when_taken_over(self, tell: Callable[[int], object]) -> None:
        """Call a function with each node of which this one takes shards over."""
        self._when_taken_over.append(tell)

    def look_soon(self) -> None:
        """Look at the database now, and not only with the next tick: something has happened."""
        self._look_now.set()

    async def wait_served(self, seconds_max: float) -> bool:
        """Wait until every shard has an owner that lives, and all of this node's are open.

        Args:
            seconds_max: how long to wait at most.

        Returns:
            Whether it is so.

        Cancellation ends the wait.
        """
        with trio.move_on_after(seconds_max):
            while not self.is_served:
                await self._shards.wait_changed()
        return self.is_served

    @property
    def is_needed(self) -> bool:
        """Return whether this node is to serve: it is not drained, or stays and is the last."""
        return not self.is_draining or (self._stays and not self.list_takers())

    @property
    def is_served(self) -> bool:
        """Return whether every shard has a living owner, and all of this node's are open.

        After a hard stop the rows of the dead are as they were, for some seconds.
        """
        if not self._shards.is_whole or self._opening.list_pending():
            return False
        owners = self._shards.list_owning_nodes() - {self._shards.node_id}
        return all(map(self._is_alive, owners))

    # The lease, and looking.

    async def _look_for_ever(self) -> None:
        """Renew, look, judge and take over, until this node was taken over itself."""
        while True:
            self._look_now = trio.Event()
            try:
                await self._tick()
            except ActorUnavailable as error:
                self._note_blind(error)
            seconds = LOOK_SECONDS if self._list_others() else ALONE_LOOK_SECONDS
            if not self._guard.is_trusted or not self._shards.is_whole:
                seconds = LOOK_SECONDS
            with trio.move_on_after(seconds):
                await self._look_now.wait()

    async def _tick(self) -> None:
        """Do what is due."""
        now = trio.current_time()
        if now - self._renewed_at >= self._options.lease_seconds / 3 or not self._guard.is_trusted:
            await self._renew()
        self._note(await self._records.look())
        await self._describe()
        self._residents.tidy()
        self._take_over_the_dead()
        self._take_unclaimed()
        if now - self._balanced_at >= BALANCE_SECONDS:
            self._balanced_at = now
            self._move_what_should_move()

    async def _renew(self) -> None:
        """Renew the lease.

        Raises:
            StorageFenced: this node was taken over.
            StorageUnavailable: it is not known whether it was renewed.
        """
        sent_at = self._guard.read_clock()
        if not await self._records.renew():
            raise StorageFenced("Another node has taken over from this one, which stops")
        self._renewed_at = trio.current_time()
        if self._guard.note_renewed(sent_at):
            self._opening.look()

    def _note(self, look: Look) -> None:
        """Take in what a look has shown."""
        self._connectivity.note_database(answers=True)
        self._note_bus()
        self._rows = {row.node_id: row for row in look.nodes}
        living = [row for row in look.nodes if not row.has_ended]
        ids = {row.node_id for row in living}
        for node_id in self._connectivity.list_known() - ids:
            self._connectivity.forget(node_id)
        self._reaped &= ids
        self._draining &= ids
        self._stopping &= ids
        self._probes.keep_only(ids)
        self._shards.note_nodes(living)
        for row in look.nodes:
            if row.has_ended:
                self._shards.note_gone(row.node_id)
        news = self._shards.note_owners(look.owners)
        mine = [shard for shard in news if self._shards.owns(shard)]
        if mine:  # handed over, and nobody has told us yet
            self._opening.expect_audiences(mine)
            self._opening.look()

    def _note_blind(self, error: ActorUnavailable) -> None:
        """Take note that Postgres has not answered; stop if the bus is gone, too."""
        if self._connectivity.database_answers:
            _logger.warning("the rows of the nodes cannot be read: %s", error)
        self._connectivity.note_database(answers=False)
        self._note_bus()
        if self._list_others() and not self._connectivity.is_on_bus:
            self._guard.distrust("neither Postgres nor the bus can be reached")

    def _note_bus(self) -> None:
        self._connectivity.note_bus(self._bus.connected_since)

    def _suspend(self) -> None:
        """Let go of everything at once; the guard calls this outside of any task."""
        owned = list(self._shards.list_owned())
        self._shards.suspend()
        self._residents.suspend(owned)
        self.look_soon()

    async def _describe(self) -> None:
        """Write in our row what others should know, if it has changed."""
        state: NodeState = "up" if self._shards.is_whole else "starting"
        if self.is_draining:
            state = "draining" if self._stays else "stopping"
        elif self._described is not None and self._described[0] == "up":
            state = "up"
        described = state, self._connectivity.is_on_bus
        if described != self._described:
            await self._records.describe(state=state, is_on_bus=described[1])
            self._described = described

    def _list_others(self) -> list[NodeRow]:
        """Return the other nodes that have not ended, as far as is known."""
        me = self._shards.node_id
        return [r for r in self._rows.values() if r.node_id != me and not r.has_ended]

    def list_takers(self) -> list[int]:
        """Return the nodes that take shards: those that live, and are not drained.

        One that is about to stop gives to drained ones that stay, if there are no others.
        """
        me = self._shards.node_id
        mine = self._rows.get(me)
        stayers = {
            row.node_id: row.state
            for row in self._list_others()
            if row.node_id not in self._stopping | self._reaped
            and row.state != "stopping"
            and (row.is_on_bus or not self._connectivity.is_on_bus)
            and (mine is None or row.protocol == mine.protocol)
            and self._shards.find_node(row.node_id) is not None
        }
        takers = [n for n, s in stayers.items() if s != "draining" and n not in self._draining]
        if not takers and not self._stays:
            return list(stayers)
        return takers if self.is_draining or self._is_cut_off() else [me, *takers]

    def _is_cut_off(self) -> bool:
        """Return whether this node alone has been without the bus for long."""
        is_long = self._connectivity.seconds_off_bus >= CUT_OFF_SECONDS
        return is_long and any(row.is_on_bus for row in self._list_others())

    def _take_over_the_dead(self) -> None:
        """Judge every other node, and take our share of the shards of those that are dead."""
        for row in self._list_others():
            verdict = self._judge(row)
            if verdict is Verdict.SUSPECT and self._nursery is not None:
                self._probes.probe(row.node_id, self._nursery)
            elif verdict in (Verdict.DEAD, Verdict.EXPIRED):
                self._take_over(row.node_id, proven=verdict is Verdict.DEAD)
        for node_id in self._find_ended_owners():
            self._take_over(node_id, proven=False, has_ended=True)

    def _judge(self, row: NodeRow) -> Verdict:
        evidence = Evidence(
            is_reaped=row.node_id in self._reaped,
            has_session=row.has_lock,
            answers=self._probes.answers.get(row.node_id),
            lease_seconds_left=row.lease_seconds,
        )
        if row.has_lock:
            self._probes.answers.pop(row.node_id, None)
        return judge(evidence, self._connectivity.read_connectivity(), self._options.lease_seconds)

    def _is_alive(self, node_id: int) -> bool:
        """Return whether nothing speaks for a node's death: it renews its lease, has a session."""
        row = self._rows.get(node_id)
        if row is None or row.has_ended or node_id in self._reaped:
            return False
        renews = row.lease_seconds > self._options.lease_seconds / 2  # it does so in each third
        return renews and (row.has_lock or self._probes.answers.get(node_id) is True)

    def _find_ended_owners(self) -> list[int]:
        """Return nodes that have ended, or have no row any more, and own shards still."""
        living = {self._shards.node_id, *(row.node_id for row in self._list_others())}
        return sorted(self._shards.list_owning_nodes() - living)

    def _take_over(self, dead: int, *, proven: bool, has_ended: bool = False) -> None:
        """Take our share of the shards of a dead node; who comes second gets none.

        Args:
            dead: the node.
            proven: True if it is dead for certain, though its lease may still run.
            has_ended: True if its row says so: it has stopped in order, or others have ended it.
        """
        takers = [node_id for node_id in self.list_takers() if node_id != dead]
        if not takers and self.is_draining and self._stays:  # better a drained node than none
            takers = [self._shards.node_id]
        if self._shards.node_id in takers and self._may_claim():
            owned = self._shards.list_shards_of(dead)
            share = share_of(self._shards.node_id, takers, owned)
            if share or proven or not owned:  # who owns nothing is ended, too, or it stays a taker
                take = partial(self._records.take_over, dead, share, proven=proven)
                self._take(dead, take, has_ended=has_ended)

    def _take_unclaimed(self) -> None:
        """Take our share of the shards that no node has ever had."""
        me, takers = self._shards.node_id, self.list_takers()
        if me in takers and self._may_claim():
            share = share_of(me, takers, self._shards.list_unclaimed())
            if share:
                self._take(NOBODY, partial(self._records.take_free, share))

    def _take(self, whose: int, take: Take, *, has_ended: bool = False) -> None:
        """Take shards in a task of its own: it may wait for locks, and the lease must not."""
        if whose not in self._taking and self._nursery is not None:
            self._taking.add(whose)
            self._nursery.start_soon(partial(self._carry_out, whose, take, has_ended=has_ended))

    async def _carry_out(self, whose: int, take: Take, *, has_ended: bool) -> None:
        try:
            taken = await take()
        except ActorUnavailable as error:
            _logger.warning("shards could not be taken yet: %s", error)
            return
        finally:
            self._taking.discard(whose)
        if taken and whose != NOBODY:
            self.taken_over += len(taken)
            if has_ended:  # after any restart: it is no fault
                _logger.info("took over %d shards of node %d, which has ended", len(taken), whose)
            else:
                _logger.warning("node %d is gone; took over %d of its shards", whose, len(taken))
            self._shards.note_gone(whose)
            self._connectivity.forget(whose)
            self._messenger.tell_all(NodeGone(whose))
            for tell in self._when_taken_over:
                tell(whose)
        self._note_taken(taken)

    def _may_claim(self) -> bool:
        """Return whether all nodes that start together have come, or have had time to.

        One that is drained has come, though it takes nothing.
        """
        if not self._have_all_come:
            waited = trio.current_time() - self._started_at
            others = self._list_others()
            drained = [r.node_id for r in others if r.state in {"draining", "stopping"}]
            there = {*self.list_takers(), *filter(self._is_alive, drained)}
            enough = len(there) >= self._options.nodes_expected
            self._have_all_come = enough or waited >= UNCLAIMED_SECONDS
        return self._have_all_come and self._guard.is_trusted

    def _note_taken(self, epochs: Mapping[int, int]) -> None:
        """Take note of shards that are ours now, and tell everybody."""
        me = self._shards.node_id
        for shard, epoch in epochs.items():
            self._shards.note_owner(shard, me, epoch)
        if epochs:
            self._messenger.tell_all(MapChanged(me, tuple(epochs.items())))
            self._opening.look()

    def _move_what_should_move(self) -> None:
        """Give empty shards to nodes on which they belong; all if we are cut off or drained.

        Who is drained has some again after it had to take over.
        """
        if self._is_moving or not self._stays or self._nursery is None:
            return
        if not self._guard.is_trusted:
            return
        moves = self._find_misplaced()
        if not (self._is_cut_off() or self.is_draining):
            moves = [move for move in moves if self._residents.is_empty(move.shard)]
        if moves:
            self._is_moving = True
            self._nursery.start_soon(self._move, moves)

    async def _move(self, moves: list[Move]) -> None:
        try:
            await self.hand_over.carry_out(moves)
        finally:
            self._is_moving = False

    def _find_misplaced(self) -> list[Move]:
        """Return the moves of our open shards to the nodes on which they belong."""
        me, takers = self._shards.node_id, self.list_takers()
        mine = {shard: me for shard in self._shards.list_owned() if self._shards.is_mine(shard)}
        return moves_to_balance(takers, mine) if me in takers else moves_to_leave(me, takers, mine)

    # The bus.

    def _listen(self) -> None:
        """Register what other nodes tell and ask."""
        board = self._messenger
        board.hear(MapChanged, self._hear_map_changed)
        board.hear(NodeGone, lambda _, gone: self._hear_gone(gone.node_id))
        board.hear(NodeAlive, self._hear_alive)
        board.hear(Draining, self._hear_draining)
        board.answer(ReadAhead, self._read_ahead)
        board.answer(TakeShards, self._take_shards)
        board.answer(TakeAudiences, self._take_audiences)

    def _hear_map_changed(self, _: int, news: MapChanged) -> None:
        for shard, epoch in news.owners:
            if news.node_id != self._shards.node_id:
                self._shards.note_owner(shard, news.node_id, epoch)

    def _hear_gone(self, node_id: int) -> None:
        """Look whether it is true that a node has ended."""
        if node_id != self._shards.node_id and node_id in self._rows:
            self.look_soon()

    def _hear_draining(self, sender: int, news: Draining) -> None:
        (self._draining if news.stays else self._stopping).add(sender)

    def _hear_alive(self, sender: int, alive: NodeAlive) -> None:
        self._connectivity.note_alive(sender, database_answers=alive.database_answers)
        if alive.rooms is not None:
            self._shards.note_rooms(sender, dict(alive.rooms))
        if sender not in self._rows:
            self.look_soon()

    async def _read_ahead(self, _: int, wanted: ReadAhead) -> BusMessage:
        """Read shards that are about to be handed over to us."""
        with trio.move_on_after(READ_AHEAD_SECONDS_MAX):
            try:
                await self._residents.read_ahead(wanted.shards)
            except ActorUnavailable as error:
                _logger.info("shards that are to come here are not read ahead: %s", error)
        return HaveReadAhead()

    async def _take_shards(self, _: int, taken: TakeShards) -> BusMessage:
        """Take note of shards that were handed over to us, and bring them up."""
        owners = dict(taken.owners)
        news = [s for s, e in owners.items() if self._shards.note_owner(s, self._shards.node_id, e)]
        owned = self._shards.list_owned()
        ours = [s for s, e in owners.items() if owned.get(s) == e]
        self._adopt(ours, taken.audiences, has_more=taken.has_more)
        if news:
            self._opening.look()
        return Taken()

    async def _take_audiences(self, _: int, taken: TakeAudiences) -> BusMessage:
        self._adopt(taken.shards, taken.audiences, has_more=taken.has_more)
        return Taken()

    def _adopt(self, shards: Collection[int], audiences: bytes, *, has_more: bool) -> None:
        """Adopt audiences of shards that are being brought up here."""
        ours = [s for s in shards if self._shards.owns(s) and not self._shards.is_mine(s)]
        if audiences and ours:
            self._residents.adopt(audiences)
        self._opening.note_audiences(ours, has_more=has_more)

    async def _tell_for_ever(self) -> None:
        """Tell the others twice a second that this node is there."""
        while True:
            rooms = tuple(self._residents.count_rooms().items())
            self._messenger.tell_all(NodeAlive(self._connectivity.database_answers, rooms))
            for _ in range(2):
                self._note_bus()
                self._trust_on()
                await trio.sleep(ALIVE_SECONDS / 2)

    def _trust_on(self) -> None:
        """Trust the lease on while no node can reach Postgres: nobody can take over."""
        others = [row.node_id for row in self._list_others()]
        at = self._connectivity.find_last_outage(others)
        if at is not None:
            self._guard.note_unreachable_for_all(at, self._options.lease_seconds / 2)

    def _note_opened(self, shards: list[int]) -> None:  # noqa: ARG002
        """Tell others soon that this node has come up; the calls that waited come before a look."""
        if self._described is None or self._described[0] == "starting":
            self.look_soon()
