"""Players in a world over a store, their calls under way, and what befalls the server.

Everything is real but the database. Calls run at once, beside each other; a step is a moment.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Hashable
from functools import partial
from typing import Any
from unittest.mock import patch

import msgspec
import trio
from machine_history import Asked, Chronicle
from machine_ledger import Ledger
from machine_stats import BEHAVIOUR
from machine_store import Store
from stepped_run import SteppedRun
from waiting import until
from world_kit import KitStudio, add_game, keeper_of, open_world

from greenroom import actor_settings
from greenroom.actors.flows.games import GameKeys
from greenroom.actors.flows.identify import (
    GameIdentity,
    PlayerIdentity,
    identify_game,
    identify_player,
)
from greenroom.actors.flows.register import register_player
from greenroom.actors.kernel.cell import Cell
from greenroom.actors.kernel.errors import ActorUnavailable, CommitUnsettled, Refused
from greenroom.actors.player.messages import DescribePlayer
from greenroom.actors.services.sweep import sweep_for_ever
from greenroom.actors.world.world import World
from greenroom.supervisors.dynamic import DynamicSupervisor

LIMITS = msgspec.structs.replace(actor_settings.room_limits(), updates_max=6)
MOMENT_SECONDS = 0.02
REST_SECONDS = 40.0
"""Seconds in which everything comes to rest.

Calls are answered, actors that crash too often get another chance, timers that the closed gate
refused are repeated, and lost departures made good.
"""
CALL_SECONDS_MAX = 60.0
"""A call asks actors a few times, who have at most 10 s each for a turn and 10 s for a commit."""


class Scene(msgspec.Struct, frozen=True):
    """The place of one call."""

    world: World
    game: GameIdentity
    identity: PlayerIdentity
    chronicle: Chronicle
    call: Call

    def asks(
        self,
        key: Hashable,
        action: str,
        given: object = None,
        reads: Callable[[Any], object] = lambda _: None,
    ) -> None:
        """Tell the chronicle what is about to be asked, and what its result is, given the reply."""
        operation = self.chronicle.begin(self.player_id, key, action, given)
        self.call.asked.append((operation, reads))

    @property
    def player_id(self) -> int:
        return self.identity.player_id


class Call:
    """One player's call, and how it was answered."""

    def __init__(self, name: str, player_id: int, since: int) -> None:
        self.name = name
        self.player_id = player_id
        self.since = since
        self.began = trio.current_time()
        self.scope = trio.CancelScope()
        self.reply: Any = None
        self.error: Exception | None = None
        self.asked: list[Asked] = []

    @property
    def is_done(self) -> bool:
        return self.error is None and not self.scope.cancelled_caught


class Mined(dict[Any, Any]):
    """The handlers of one incarnation, of which the nth that is called crashes."""

    def __init__(self, handlers: Any, turns: int) -> None:
        super().__init__(handlers)
        self._turns = turns

    def __getitem__(self, command_type: Any) -> Any:
        self._turns -= 1
        if self._turns == 0:
            raise RuntimeError("a planted crash")
        return super().__getitem__(command_type)


def exploding(apply: Callable[[Any], None], events: int) -> Callable[[Any], None]:
    """Return an `apply` that crashes when it has applied the nth event."""
    left = events

    def explode(event: Any) -> None:
        nonlocal left
        apply(event)
        left -= 1
        if left == 0:
            raise RuntimeError("a planted crash, half-way")

    return explode


class MachineWorld:
    """A world, its players, and all that can happen to them; every method is one step."""

    world: World
    game: GameIdentity

    def __init__(self, players: int) -> None:
        """Open a world with so many players; `close` must be called."""
        self._chance = patch("os.urandom", random.Random(1).randbytes)
        self._chance.start()
        self.store: Store
        self.ledger = Ledger()
        self.chronicle = Chronicle()
        self.calls: list[Call] = []
        self.problems: list[BaseException] = []
        self.tokens: list[str] = []
        self.ids: list[int] = []
        self._keys: GameKeys | None = None
        self._life: trio.CancelScope
        self._services: trio.CancelScope
        self._over: trio.Event
        self._marks = 0
        self._stage = SteppedRun()
        self.run = self._stage.run
        try:
            self.run(lambda: self._begin(players))
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End everything."""
        try:
            self._stage.close()
        finally:
            self._chance.stop()

    # The server's lives.

    async def _begin(self, players: int) -> None:
        self.store = Store()
        self._stage.nursery.start_soon(self.store.run)
        await self._stage.nursery.start(self._live)
        for number in range(players):
            self.tokens.append("")
            self.ids.append(0)
            await self.register(number)

    async def register(self, number: int) -> None:
        """Let a new player have this number from now on."""
        new = await register_player(self.world, self.game.game, f"Player {number}", b"{}")
        self.tokens[number], self.ids[number] = new.token, new.player_id

    async def _live(self, *, task_status: trio.TaskStatus[None]) -> None:
        """Be a server from its start to its end."""
        self._life, self._services, self._over = (
            trio.CancelScope(),
            trio.CancelScope(),
            trio.Event(),
        )
        self.store.observers[:] = [self.ledger.take, self.chronicle.take]
        with self._life:
            studio = KitStudio(BEHAVIOUR)  # it remembers no more than a process does
            async with open_world(self.store, room_limits=LIMITS, studio=studio) as self.world:
                if self._keys is None:
                    _, self._keys = await add_game(self.world)
                game = await identify_game(self.world, self._keys.api_token)
                assert game is not None
                self.game = game
                keeper = keeper_of(self.world, self.store, studio)
                with self._services:
                    async with trio.open_nursery() as nursery:
                        await nursery.start(
                            lambda task_status: studio.run_service(task_status=task_status)
                        )
                        await nursery.start(keeper.run)
                        await nursery.start(sweep_for_ever, self.world)
                        task_status.started()
                        await trio.sleep_forever()
        self._over.set()

    def restart(self, durable: int, *, is_clean: bool) -> None:
        """End the server and start it again.

        Args:
            durable: how many of the changes on their way to the database still arrive there.
            is_clean: whether it has the time to write snapshots.
        """
        self.run(lambda: self._restart(durable, is_clean=is_clean))

    async def _restart(self, durable: int, *, is_clean: bool) -> None:
        store = self.store
        store.commit_first(durable)
        store.set_away(is_away=True)
        store.lose_pending()
        for call in self.calls:
            call.scope.cancel()
        await until(lambda: not self.calls, CALL_SECONDS_MAX)
        assert not store.pending, "a change was taken while the database was away"
        store.journals.away = not is_clean
        self._services.cancel()
        await trio.sleep(MOMENT_SECONDS)
        self._life.cancel()
        await self._over.wait()
        store.release()
        await self._stage.nursery.start(self._live)

    # Calls.

    def mark(self) -> bytes:
        """Return a document that nobody else sends."""
        self._marks += 1
        return b'{"mark":%d}' % self._marks

    def call(
        self,
        number: int,
        act: Callable[[Scene], Awaitable[Any]],
        proof: Callable[[Call], bool] | None = None,
        *,
        name: str = "",
        mark: bytes | None = None,
    ) -> Call:
        """Have a player call.

        Args:
            number: of the player.
            act: what the call does.
            proof: whether what it did is durable; asked at the moment when it is answered.
            name: of the call, for messages.
            mark: what its events carry; they may not be durable if it was not done.
        """
        return self.run(lambda: self._launch(name, number, act, proof, mark))

    async def _launch(
        self,
        name: str,
        number: int,
        act: Callable[[Scene], Awaitable[Any]],
        proof: Callable[[Call], bool] | None,
        mark: bytes | None,
    ) -> Call:
        call = Call(name, self.ids[number], len(self.ledger.log))
        self.calls.append(call)

        async def run() -> None:
            try:
                await self._carry_out(call, number, act)
                if call.is_done:
                    self.chronicle.answered(call.asked, call.reply)
                else:
                    self.chronicle.failed(call.asked, call.error)
                if call.is_done and proof is not None:
                    assert proof(call), f"{call.name} was acknowledged and is not durable"
                elif not call.is_done and mark is not None and not _is_unsettled(call):
                    self.ledger.annul(mark)
            except Exception as problem:  # noqa: BLE001 - it fails the step, not the run
                self.problems.append(problem)
            finally:
                self.calls.remove(call)

        self._stage.nursery.start_soon(run)
        return call

    async def _carry_out(
        self, call: Call, number: int, act: Callable[[Scene], Awaitable[Any]]
    ) -> None:
        try:
            with call.scope:
                identity = await identify_player(self.world, self.game, self.tokens[number])
                scene = Scene(self.world, self.game, identity, self.chronicle, call)
                call.reply = await act(scene)
        except (Refused, ActorUnavailable) as error:
            call.error = error

    def finish(self, call: Call) -> Any:
        """Wait for an answer; return the reply."""
        self.moment(1.0)
        assert call not in self.calls, f"{call.name} is not answered"
        if call.error is not None:
            raise call.error
        return call.reply

    def cancel(self, number: int) -> None:
        """Have one of the callers under way go away."""
        if self.calls:
            call = self.calls[number % len(self.calls)]
            self.run(lambda: self._cancel(call))

    async def _cancel(self, call: Call) -> None:
        call.scope.cancel()

    # Time.

    def moment(self, seconds: float = MOMENT_SECONDS) -> None:
        """Let time pass, and raise what went wrong in it."""
        self.run(partial(trio.sleep, seconds))
        for problem in (*self.ledger.problems, *self.problems):
            raise problem

    def rest(self) -> None:
        """Let everything come to rest, with a database that works and no crash to come."""
        self.run(self._clear)
        self.moment(REST_SECONDS)
        assert not self.calls, f"not answered: {[call.name for call in self.calls]}"

    async def _clear(self) -> None:
        for directory in self.directories():
            for cell in directory._cells.values():
                if cell.actor is not None:
                    vars(cell.actor).pop("handlers", None)
                    vars(cell.actor).pop("apply", None)
        self.store.release()

    # Faults.

    def directories(self) -> list[DynamicSupervisor[Any]]:
        world = self.world
        places = (world.rooms.directory, world.lobbies.directory)
        found: tuple[object, ...] = (*places, world.players, world.friendships.directory)
        return [d for d in found if isinstance(d, DynamicSupervisor)]

    def cells(self, kind: str) -> list[Cell[Any]]:
        return [c for d in self.directories() if d.kind == kind for c in d._cells.values()]

    def mine(self, kind: str, number: int, turns: int, *, is_half_way: bool) -> None:
        """Let an actor crash at one of its next turns, or when it has applied some events."""
        found = [cell.actor for cell in self.cells(kind) if cell.actor is not None]
        if not found:
            return
        actor = found[number % len(found)]
        if is_half_way:
            vars(actor)["apply"] = exploding(type(actor).apply.__get__(actor), turns)
        else:
            vars(actor)["handlers"] = Mined(type(actor).handlers, turns)

    def hold(self) -> None:
        """Let nothing become durable by itself."""
        self.store.hold()

    def commit(self, count: int) -> None:
        """Make the first changes that wait durable."""
        self.run(lambda: self._do(lambda: self.store.commit_first(count)))

    def refuse(self) -> None:
        """Let the database refuse the change that has waited longest."""
        if self.store.pending:
            self.run(lambda: self._do(self.store.refuse_first))

    def close_gate(self) -> None:
        """Take the database away."""
        self.run(lambda: self._do(lambda: self.store.set_away(is_away=True)))

    def release(self) -> None:
        """Bring the database back, and let it work by itself."""
        self.run(lambda: self._do(self.store.release))

    async def _do(self, act: Callable[[], None]) -> None:
        act()

    # What players see.

    def tag(self, number: int) -> str:
        """Return a player's tag."""
        player = self.world.players.get_ref(self.ids[number])
        return self.run(lambda: player.ask(DescribePlayer())).player_tag


def _is_unsettled(call: Call) -> bool:
    return isinstance(call.error, CommitUnsettled)
