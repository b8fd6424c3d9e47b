"""A room with a behaviour, driven by hand, without trio, sockets or a database.

It is the server's own room. Time stands still unless a test calls `advance`, and randomness comes
from the seed. After every turn it is checked that a refusal has changed nothing, and that the state
comes back the same from a snapshot.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any, Generic, Literal, TypeVar

import msgspec

from greenroom import actor_settings
from greenroom.actors.kernel.errors import Refused as KernelRefused
from greenroom.actors.kernel.message import Changed, Command
from greenroom.actors.room.index import RoomIndex
from greenroom.actors.room.messages import (
    CompleteAction,
    CreateRoom,
    JoinRoom,
    KickMember,
    LeaveRoom,
    NoteSignOfLife,
    NoteSilence,
    PollUpdates,
    ReadPending,
    RoomRole,
    SendActions,
    SendUpdates,
    StopRoom,
)
from greenroom.actors.room.rules.channel import SendMessage
from greenroom.actors.room.rules.codec import event_of
from greenroom.actors.room.rules.events import ActionProcessed, NewMember, RoomEvent
from greenroom.actors.room.rules.groups import read_targets
from greenroom.actors.room.rules.state import Room as RoomState
from greenroom.actors.room.studio_messages import (
    NoteConnection,
    NoteDelivered,
    ReloadBehaviour,
    ShowState,
    TakeResult,
    Tick,
)
from greenroom.actors.studio_room.actor import StudioRoomActor
from greenroom.actors.studio_room.host import BehaviourHost
from greenroom.actors.studio_room.turn import Turn
from greenroom.behaviour import JobFailed, Refused, Room, RoomBehaviour
from greenroom.behaviour.effects import ChangeStat, ResultOrder, UpdatePlayer
from greenroom.behaviour.runner import Runner
from greenroom.behaviour.stats import Number, apply
from greenroom.behaviour.view import View
from greenroom.contract.allowed_values import GroupWord
from greenroom.testing.checks import check_snapshot, check_unchanged, check_views
from greenroom.testing.clock import HandClock, HandTimers
from greenroom.testing.stand_ins import BEHAVIOUR, HarnessConnections, HarnessStudio, Heard

State = TypeVar("State")
Reply = TypeVar("Reply")

TURNS_MAX = 10_000
"""How many turns one call may cause. A room that takes more never comes to rest."""


class Outcome(msgspec.Struct, frozen=True):
    """The outcome of an action."""

    action_id: str
    status: Literal["pending", "completed", "failed"]
    response_data: Any = None


class RoomHarness(Generic[State]):
    """One room.

    Attributes:
        documents: the fields of players' documents that `room.update_player` has written.
        stats: players' stats, by player; `set_stats` sets them as if elsewhere.
        events: all events so far, as the journal has them.
    """

    def __init__(
        self,
        behaviour: type[RoomBehaviour[State]],
        *,
        rules: Mapping[str, Any] | None = None,
        seed: int = 0,
        max_players: int = 16,
        host_switch: bool = True,
        can_leave: bool = True,
    ) -> None:
        """Prepare a room; it opens when the first player joins.

        Args:
            behaviour: the class to be tested.
            rules: the rules that the room's creator gives.
            seed: the seed of the room's chance.
            max_players: 2 to 16.
            host_switch: True if the room goes on when its host leaves.
            can_leave: True if members other than the host may leave.
        """
        self.documents: dict[int, dict[str, Any]] = {}
        self.stats: dict[int, dict[str, Number]] = {}
        self.events: list[RoomEvent] = []
        self._clock = HandClock()
        self._connections = HarnessConnections()
        self._studio = HarnessStudio(behaviour, seed, self.stats)
        self._options = {
            "max_players": max_players,
            "host_switch": host_switch,
            "can_leave": can_leave,
            "rules": msgspec.json.encode(dict(rules or {})),
        }
        self._actor = self._make_actor(None)
        self._players = 0
        self._is_shown = True
        """False while members have not been shown all changes; changes by messages are shown by the
        next tick."""
        self._calls = 0
        self._open()

    # Reading the room.

    @property
    def room(self) -> Room[State]:
        """Return the room as hooks see it.

        Raises:
            LookupError: the room is not open yet, or has ended.
        """
        return self._runner.room

    @property
    def state(self) -> State:
        """Return the behaviour's state.

        Raises:
            LookupError: the room is not open yet, or has ended.
        """
        return self.room.state

    @property
    def is_open(self) -> bool:
        """Return whether a player has joined and the room has not ended."""
        return self._host is not None

    @property
    def has_been_open(self) -> bool:
        """Return whether any player has ever joined."""
        return self._actor.is_created

    @property
    def host_id(self) -> int:
        """Return the host's player id."""
        return self._state.host_id

    @property
    def now(self) -> float:
        """Return the time, in Unix seconds."""
        return self._clock.time()

    # Coming and going.

    def join(
        self, name: str = "", *, data: Mapping[str, Any] | None = None, connected: bool = True
    ) -> int:
        """Let a player join, the first as host; return the player's id: 1, 2, ….

        Args:
            name: the player's name; `Player 1` and so on without one.
            data: the player's `player_data`.
            connected: True for a player with a realtime connection, False for one who polls.

        Raises:
            Refused: the player may not join.
        """
        player_id = self._players + 1
        name = name or f"Player {player_id}"
        encoded = msgspec.json.encode(dict(data or {}))
        if connected:
            self._connections.members.add(player_id)
        try:
            if self._actor.is_created:
                self._ask(JoinRoom(player_id=player_id, player_name=name, player_data=encoded))
            else:
                self._create(NewMember(player_id, name, encoded, self._clock.now()))
        except Refused:
            self._connections.cut(player_id)
            raise
        self._players = player_id
        return player_id

    def leave(self, player_id: int) -> None:
        """Let a player leave.

        Raises:
            Refused: the player may not leave.
        """
        self._ask(LeaveRoom(player_id))

    def kick(self, player_id: int) -> None:
        """Let the host kick a player."""
        self._ask(KickMember(self.host_id, player_id))

    def stop(self) -> None:
        """Let the host stop the room."""
        self._ask(StopRoom(self.host_id))

    def drop(self, player_id: int) -> None:
        """Cut a player's connection."""
        self._connections.cut(player_id)
        self._ask(NoteConnection(player_id, False))

    def reconnect(self, player_id: int) -> None:
        """Connect a player again."""
        self._connections.members.add(player_id)
        self._ask(NoteConnection(player_id, True))

    def go_offline(self, player_id: int) -> None:
        """Let a player fall silent; the seat is kept for `seat_grace_seconds`."""
        self._connections.cut(player_id)
        self._ask(NoteSilence(player_id))

    def come_back(self, player_id: int) -> None:
        """Let a silent player call again."""
        self._ask(NoteSignOfLife(player_id))

    def set_stats(self, player_id: int, stats: Mapping[str, Number]) -> None:
        """Set stats of a player, as the studio's own services do; who is here, the room is told.

        A player's id is known before they join: 1, 2, ….
        """
        self.stats.setdefault(player_id, {}).update(stats)
        if self.is_open:
            self._ask(self._studio.note(player_id))

    # What players send.

    def act(
        self,
        player_id: int,
        action_type: str,
        data: Mapping[str, Any] | None = None,
        *,
        to: GroupWord = "host",
        to_ids: Iterable[int] = (),
    ) -> Outcome:
        """Send an action, and return its outcome, or the first one's if there are several targets.

        Raises:
            Refused: it was not sent.
        """
        encoded = msgspec.json.encode(dict(data or {}))
        targets = read_targets(to, list(to_ids) or None)
        self._calls += 1
        seed = hashlib.blake2b(self._calls.to_bytes(8, "big"), digest_size=16).digest()
        sent = self._ask(
            SendActions(
                player_id=player_id,
                targets=targets,
                action_type=action_type,
                request_data=encoded,
                seed=seed,
            )
        )
        if not sent.ids:
            raise Refused("nobody was there to be asked")
        for event in reversed(self.events):
            if isinstance(event, ActionProcessed) and event.action_id == sent.ids[0]:
                response = event.response_data
                decoded = None if response is None else msgspec.json.decode(response)
                return Outcome(event.action_id, event.status, decoded)
        return Outcome(sent.ids[0], "pending")

    def pending(self, player_id: int) -> list[tuple[str, str, Any]]:
        """Return the actions that wait for a player: id, type and data of each."""
        return [
            (action.action_id, action.action_type, msgspec.json.decode(action.request_data))
            for action in self._ask(ReadPending(player_id))
        ]

    def complete(
        self,
        player_id: int,
        action_id: str,
        data: Mapping[str, Any] | None = None,
        *,
        status: Literal["completed", "failed"] = "completed",
    ) -> None:
        """Let a player answer an action that waits for them.

        Args:
            player_id: the target of the action.
            action_id: the id; see `pending`.
            data: the `response_data`.
            status: whether the player has done it.

        Raises:
            Refused: it does not wait for this player, or the behaviour takes no such answer.
        """
        response = None if data is None else msgspec.json.encode(dict(data))
        self._ask(CompleteAction(player_id, action_id, status, response))

    def update(
        self,
        player_id: int,
        update_type: str,
        data: Mapping[str, Any] | None = None,
        *,
        to: GroupWord = "host",
        to_ids: Iterable[int] = (),
    ) -> int:
        """Send an update over HTTP; return for how many members it was stored.

        Raises:
            Refused: it was not sent.
        """
        command = SendUpdates(
            player_id=player_id,
            targets=read_targets(to, list(to_ids) or None),
            update_type=update_type,
            data=msgspec.json.encode(dict(data or {})),
        )
        return len(self._ask(command).ids)

    def say(
        self,
        player_id: int,
        command: str,
        data: Any = None,
        *,
        to: GroupWord = "all",
        to_ids: Iterable[int] = (),
    ) -> None:
        """Send a realtime message.

        Raises:
            Refused: the `error` frame that a client would get, or the player has no connection.
        """
        if player_id not in self._connections.members:
            raise Refused("the player is not connected")
        targets = read_targets(to, list(to_ids) or None)
        self._ask(SendMessage(player_id, command, msgspec.json.encode(data), targets))

    def heard(self, player_id: int) -> list[Heard]:
        """Return what a connected player was told since the last call, oldest first."""
        return self._connections.heard.pop(player_id, [])

    def polled(self, player_id: int) -> list[Heard]:
        """Return all stored updates of a player, as polling shows them."""
        page = self._ask(PollUpdates(player_id, read_targets("all", None), None))
        return [Heard(u.update_type, msgspec.json.decode(u.data)) for u in page.updates]

    def ask_state(self, player_id: int) -> None:
        """Let a player's client ask for the whole state, as after a missed delta."""
        self._ask(ShowState(player_id))

    def view(self, player_id: int) -> View:
        """Return the state that a connected player's client holds: `.shared`, `.private`.

        It is made only of what the client was told, by applying the deltas. It is None for a client
        that has been told nothing yet, or is not connected.
        """
        return self._connections.views.get(player_id) or View()

    # Time, jobs, restarts.

    def advance(self, seconds: float) -> None:
        """Let time pass; timers and ticks come in order, each at its time."""
        until = self._clock.seconds + seconds
        self._run_due(until)
        self._clock.seconds = until
        self._settle()

    @property
    def jobs(self) -> int:
        """Return how many jobs of `room.run` wait."""
        return len(self._studio.jobs)

    def finish_job(self, result: object | JobFailed) -> None:
        """End the oldest job of `room.run` with this result; its function is not called."""
        work = self._studio.jobs.pop(0)
        self._ask(TakeResult(work.on_done, result))

    def restart(self) -> None:
        """Simulate a crash and a restart from snapshot and journal, as by `kill -9`.

        Changes that only ticks and realtime messages have made since the last snapshot are kept
        here, as after an orderly stop.
        """
        state, host = self._state, self._open_host
        host.save()
        state.kept = host.memory.saved
        self._actor = self._make_actor(msgspec.convert(msgspec.to_builtins(state), RoomState))
        self._open()
        self._settle()

    def reload(self, behaviour: type[RoomBehaviour[State]]) -> None:
        """Load a changed behaviour, as `greenroom serve --reload` does.

        Args:
            behaviour: the changed class.

        Raises:
            BehaviourBug: it cannot use the room's state; the room goes on with the old class.
        """
        self._studio.behaviour = behaviour
        self._ask(ReloadBehaviour())

    # The part of the server.

    @property
    def _host(self) -> BehaviourHost | None:
        return self._actor.host

    @property
    def _open_host(self) -> BehaviourHost:
        host = self._host
        if host is None:
            raise LookupError("the room is not open")
        return host

    @property
    def _runner(self) -> Runner[State]:
        return self._open_host.runner

    @property
    def _state(self) -> RoomState:
        state = self._actor.state
        if state is None:
            raise LookupError("nobody has joined yet")
        return state

    def _make_actor(self, state: RoomState | None) -> StudioRoomActor:
        index, limits = RoomIndex(), actor_settings.room_limits()
        around = (index, self._clock, limits, self._connections)
        actor = StudioRoomActor(state, *around, self._studio)
        actor.input.is_enabled = False
        return actor

    def _open(self) -> None:
        self._timers = HandTimers(self._clock)
        self._actor.timers = self._timers  # type: ignore[assignment]  # all that a room uses
        self._actor.on_start()

    def _create(self, host: NewMember) -> None:
        command = CreateRoom(
            room_id="0" * 32,
            game_id=1,
            room_name=None,
            password_hash=None,
            join_token="0" * 16,
            realtime=True,
            host_id=host.player_id,
            members=(host,),
            behaviour=BEHAVIOUR,
            **self._options,  # type: ignore[arg-type]
        )
        self._ask(command)

    def _ask(self, command: Command[RoomRole, Reply]) -> Reply:
        """Give the room a turn, and all turns that follow at once; return the reply."""
        before = None if self._host is None else self._host.runner.save()
        try:
            reply: Reply = self._turn(command)
        except KernelRefused as refused:
            if before is not None and self._host is not None:
                check_unchanged(before, self._runner, f"a refused {type(command).__name__}")
            self._raise_errors()
            raise Refused(str(refused)) from None
        self._settle()
        return reply

    def _turn(self, command: Command[RoomRole, Any]) -> Any:
        actor = self._actor
        result = actor.handlers[type(command)](actor, command)
        if isinstance(command, SendMessage) and self._runner.behaviour.tick_hz is not None:
            self._is_shown = False
        elif isinstance(command, Tick) or isinstance(result, Changed):
            self._is_shown = True
        if not isinstance(result, Changed):
            return result
        for event in result.events:
            actor.apply(event)
            self.events.append(event_of(event))  # type: ignore[arg-type]  # a room's are entries
        for act in actor.put_off:
            act()
        actor.put_off = ()
        if result.once_durable is not None:
            result.once_durable()
        return result.reply

    def _settle(self) -> None:
        """Do what is due at once, then check."""
        self._run_due(self._clock.seconds)
        host = self._host
        if host is not None:
            Turn(host, self._clock.time(), self._connections.members, self._studio.report)
            self._raise_errors()
            check_snapshot(host.runner)
            if self._is_shown and not self._actor.is_paused:
                check_views(host.runner, self._connections.views)
        self._raise_errors()

    def _run_due(self, until: float) -> None:
        """Run the turns that are due until then, in order, each at its time."""
        for _ in range(TURNS_MAX):
            self._write_results()
            due = self._timers.take_next(until)
            if due is None:
                return
            self._clock.seconds = max(self._clock.seconds, due[0])
            self._turn(due[1])
            self._raise_errors()
        raise AssertionError(f"the room has not come to rest after {TURNS_MAX} turns")

    def _write_results(self) -> None:
        """Write the results of rooms into players' documents and stats, each once."""
        results, self._studio.results = self._studio.results, []
        for number, result in results:
            if number > self._studio.written:
                self._studio.written = number
                self._write(result)
            noted = self._studio.note(result.player_id) if isinstance(result, ChangeStat) else None
            self._turn(NoteDelivered(number, noted))

    def _write(self, result: ResultOrder) -> None:
        if isinstance(result, ChangeStat):
            apply(self.stats.setdefault(result.player_id, {}), result.change)
        elif isinstance(result, UpdatePlayer):
            document = self.documents.setdefault(result.player_id, {})
            document |= {name: msgspec.json.decode(v) for name, v in result.fields.items()}

    def _raise_errors(self) -> None:
        """Raise the first error that a hook has met."""
        errors, self._studio.errors = self._studio.errors, []
        if errors:
            raise errors[0]
