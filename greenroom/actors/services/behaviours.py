"""The studio's side of the server: behaviours for rooms, their jobs, and results for players."""

from __future__ import annotations

import itertools
import logging
import os
from collections.abc import Awaitable, Callable, Collection
from typing import Any

import trio

from greenroom.actors.flows.spread.results import write_elsewhere
from greenroom.actors.kernel.directory import Directory
from greenroom.actors.kernel.errors import ActorStopped, ActorUnavailable, Moved, Refused
from greenroom.actors.player.messages import WriteResult, WriteStats
from greenroom.actors.player.results import last_written
from greenroom.actors.room.messages import RoomRole
from greenroom.actors.room.rules.state import KnownStats
from greenroom.actors.room.studio_messages import NoteDelivered, NoteStats, TakeResult
from greenroom.actors.services.jobs import Jobs
from greenroom.actors.studio_room.refusals import RefusedByBehaviour
from greenroom.actors.world.world import World
from greenroom.behaviour import RoomBehaviour
from greenroom.behaviour import errors as behaviour_errors
from greenroom.behaviour.effects import ChangeStat, ResultOrder, Run, UpdatePlayer
from greenroom.behaviour.errors import HookTooSlow, shown
from greenroom.behaviour.registry import Registry
from greenroom.behaviour.runner import Watch, unwatched
from greenroom.behaviour.sources import Sources
from greenroom.behaviour.stats import Stats
from greenroom.foreign_objects import describe_error

RETRY_SECONDS = 2.0
"""When a result is tried again that could not be written."""
PAYLOAD_CHARACTERS_MAX = 500
"""Characters of a hook's arguments that go into the log."""
REPORT_SECONDS = 1.0
"""Seconds after a report in which failures of the same room are only counted, for the next report.
"""
REPORTED_ROOMS_MAX = 10_000

_logger = logging.getLogger(__name__)


class BehaviourService:
    """`Studio` for all rooms of a world, and the service that does what they set off."""

    def __init__(
        self,
        registry: Registry,
        job_seconds_max: float,
        world: Callable[[], World],
        watch: Watch = unwatched,
    ) -> None:
        """Prepare; jobs and results wait until `run_service`.

        Args:
            registry: the behaviours.
            job_seconds_max: how long a job may take.
            world: returns the world that the rooms are in. It is built after this, for its rooms
                need this, and anew at every start of the server.
            watch: watches over every hook.
        """
        self._world = world
        self.watch = watch
        self._registry = registry
        self._nursery: trio.Nursery | None = None
        self._jobs = Jobs(watch, job_seconds_max, self._tell)
        self._job_numbers = itertools.count(1)
        self._reported: dict[str, tuple[float, int]] = {}
        self.hook_failures = {"raised": 0, "interrupted": 0}
        """Hooks that failed: they raised, or took longer than they may."""
        self._results: dict[str, dict[int, ResultOrder]] = {}
        self._stale: dict[str, set[int]] = {}
        """Members whose stats their rooms are to be told, by room."""
        self._stale_waiter = trio.lowlevel.ParkingLot()

    async def run_service(
        self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """Do what rooms set off, until cancelled; jobs under way are then given up."""
        try:
            async with trio.open_nursery() as nursery:
                self._nursery = nursery
                self._jobs.begin(nursery)
                self._world().player_index.stats_changed = self.tell_stats
                for room_id, results in self._results.items():
                    nursery.start_soon(self._deliver_all, room_id, results)
                task_status.started()
                await self._refresh_stale()
        finally:
            self._nursery = None
            self._jobs.end()

    # For whoever reloads behaviours.

    @property
    def rooms(self) -> Directory[RoomRole]:
        """Return the rooms of the world as it is now."""
        return self._world().rooms.directory

    @property
    def sources(self) -> Sources:
        """Return the files that behaviours are made of."""
        return self._registry.sources

    def reload(self) -> None:
        """Load all behaviours anew; rooms have to be told.

        Raises:
            BehaviourBug: one cannot be loaded, or takes as long as no hook may; then all stay as
                they were.
        """
        with self.watch("importing behaviours"):
            self._registry.reload()

    # For rooms; see `Studio`.

    def draw_seed(self) -> int:
        """Return 64 random bits, for the chance of a new room."""
        return int.from_bytes(os.urandom(8), "big")

    def choose(self, game_id: int, rules: bytes) -> str | None:
        """Return the name of the behaviour of a new room; None for a plain one.

        Raises:
            RefusedByBehaviour: there is to be no room of this type.
        """
        try:
            return self._registry.choose(game_id, rules)
        except behaviour_errors.Refused as refused:
            raise RefusedByBehaviour(str(refused)) from None

    def make(self, name: str) -> RoomBehaviour[Any]:
        """Return a new instance.

        Raises:
            BehaviourBug: there is none of this name (any more), or it cannot be made.
        """
        return self._registry.make(name, self.watch)

    def report(self, room_id: str, error: Exception, payload: object, outcome: str = "") -> None:
        """Log what went wrong in a hook, with its stack and what it was called with."""
        self.hook_failures["interrupted" if isinstance(error, HookTooSlow) else "raised"] += 1
        now = trio.current_time()
        reported_at, untold = self._reported.pop(room_id, (-REPORT_SECONDS, 0))
        if now - reported_at < REPORT_SECONDS and not outcome:
            self._reported[room_id] = (reported_at, untold + 1)
            return
        self._reported[room_id] = (now, 0)
        if len(self._reported) > REPORTED_ROOMS_MAX:
            del self._reported[next(iter(self._reported))]
        said = "" if payload is None else f"; with {_shown(payload)}"
        more = f"; {untold} failures before it were not told" if untold else ""
        if outcome:
            more += f"; {outcome}"
        _logger.error(
            "behaviour of room %s: %s%s%s",
            room_id,
            error,
            said,
            more,
            exc_info=describe_error(error),
        )

    def run(self, room_id: str, work: Run) -> None:
        """Do what a room wants done outside its turn, and tell it what came of it."""
        self._jobs.start(room_id, work)

    def deliver(self, room_id: str, number: int, result: ResultOrder) -> None:
        """Write a result to a player's record, and tell the room when it is durable.

        Results of a room are written one after the other, in their order.
        """
        if room_id in self._results:
            self._results[room_id].setdefault(number, result)
            return
        results = self._results[room_id] = {number: result}
        if self._nursery is not None:
            self._nursery.start_soon(self._deliver_all, room_id, results)

    # Stats.

    def get_declared(self, game_id: int) -> Stats:
        """Return the stats that a game's behaviours declare."""
        return self._registry.get_stats(game_id)

    def find_known_stats(self, room_id: str, player_id: int) -> KnownStats | None:
        """Return a player's stats as they are now; None for a player who is not in memory."""
        found = self._world().player_index.find_stats(player_id)
        if found is None:
            return None
        stats, results = found
        return KnownStats(stats, last_written(results, room_id))

    def refresh_stats(self, room_id: str, player_ids: Collection[int]) -> None:
        """Tell a room the stats of these members, from the database if need be."""
        self._stale.setdefault(room_id, set()).update(player_ids)
        self._stale_waiter.unpark_all()

    def tell_stats(self, player_id: int, source: str) -> None:
        """Tell the room where a player sits of their stats, unless it has changed them itself."""
        room_id = self._world().rooms.index.find_seat(player_id)
        if room_id is not None and room_id != source:
            self._notify(room_id, player_id)

    def _notify(self, room_id: str, player_id: int) -> None:
        note = self._note(room_id, player_id)
        if note is not None:
            self.rooms.get_ref(room_id).notify(note)

    def _note(self, room_id: str, player_id: int) -> NoteStats | None:
        known = self.find_known_stats(room_id, player_id)
        return None if known is None else NoteStats(player_id, known.stats, known.written)

    async def _refresh_stale(self) -> None:
        """Tell rooms the stats of members, room by room, until cancelled."""
        while True:
            if not self._stale:
                await self._stale_waiter.park()
                continue
            room_id = next(iter(self._stale))
            for player_id in self._stale.pop(room_id):
                player = self._world().players.get_ref(player_id)
                read = WriteStats(())  # brings them to memory
                refusal = await self._persist(lambda: player.ask(read))  # noqa: B023 - awaited here
                if refusal is None:
                    self._notify(room_id, player_id)
                else:
                    _logger.info("no stats of player %d to read again: %s", player_id, refusal)

    # Results, and what came of jobs.

    async def _deliver_all(self, room_id: str, results: dict[int, ResultOrder]) -> None:
        """Write a room's results until none waits: none does once the room is let go."""
        while results:
            number = next(iter(results))
            if await self._deliver(room_id, number, results[number]):
                results.pop(number, None)
            else:  # a later one must not be written before it: it would then count as written
                await trio.sleep(RETRY_SECONDS)
        if self._results.get(room_id) is results:
            del self._results[room_id]

    def list_under_way(self, room_id: str) -> set[tuple[str, str, int]]:
        """Return the jobs and results of a room that are under way, each by its number."""
        jobs = {("job", room_id, number) for number in self._jobs.list_numbers(room_id)}
        return jobs | {("result", room_id, number) for number in self._results.get(room_id, ())}

    def let_go(self, room_id: str) -> None:
        """Forget what a room waits for that is another node's now; it sets results off again."""
        self._results.pop(room_id, {}).clear()
        self._stale.pop(room_id, None)
        self._reported.pop(room_id, None)

    async def _deliver(self, room_id: str, number: int, result: ResultOrder) -> bool:
        """Write a result, however long the database is away; then tell the room, likewise.

        Return whether that is done. It is not if the player has gone to another node, and it is not
        known where. As a rule the room has gone, too.
        """
        world, player_id = self._world(), result.player_id
        player, command = world.players.get_ref(player_id), _command(room_id, number, result)
        refusal = await self._persist(lambda: player.ask(command))
        if isinstance(refusal, Moved):
            moved = refusal
            refusal = await self._persist(
                lambda: write_elsewhere(world, room_id, player_id, command, moved)
            )
        if refusal is None:
            _logger.info("a result of room %s was written", room_id)
        elif isinstance(refusal, Moved):
            return False
        else:
            _logger.warning("a result of room %s was not written: %s", room_id, refusal)
        room = self.rooms.get_ref(room_id)
        if isinstance(result, ChangeStat):
            await self._persist(
                lambda: room.ask(NoteDelivered(number, self._note(room_id, result.player_id)))
            )
        else:
            await self._persist(lambda: room.ask(NoteDelivered(number)))
        return True

    async def _persist(self, ask: Callable[[], Awaitable[Any]]) -> Exception | None:
        """Ask until there is an answer; return the refusal, if it is one."""
        while True:
            try:
                await ask()
            except (Refused, ActorStopped, Moved) as error:
                return error
            except ActorUnavailable:
                await trio.sleep(RETRY_SECONDS)
            else:
                return None

    def _tell(self, room_id: str, work: Run, result: object) -> None:
        """Tell a room what came of a job, if it is there, and again while the database is away."""
        command, again = TakeResult(work.on_done, result), f"job {next(self._job_numbers)}"
        try:
            self.rooms.get_ref(room_id).tell(command, again=again)
        except ActorUnavailable as error:
            _logger.warning("room %s did not get the result of a job: %s", room_id, error)


def _command(room_id: str, number: int, result: ResultOrder) -> WriteResult | WriteStats:
    """Return what a player is asked to write."""
    if isinstance(result, ChangeStat):
        return WriteStats((result.change,), room_id, number)
    assert isinstance(result, UpdatePlayer)
    return WriteResult(room_id, number, result.fields)


def _shown(payload: object) -> str:
    """Return the beginning of what a hook was called with; it came from a client."""
    said = shown(payload)  # it may be nested as deep as the stack, or hold an endless number
    return said if len(said) <= PAYLOAD_CHARACTERS_MAX else said[:PAYLOAD_CHARACTERS_MAX] + "…"
