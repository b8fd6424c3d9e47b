"""Stand-ins for a room's connections and studio in a test, which record what is sent."""

from __future__ import annotations

from collections.abc import Collection, Container, Generator, Iterable, Mapping
from contextlib import contextmanager
from typing import Any

import msgspec

from greenroom.actors.room.ports import Accepted, Happened, Message, Receive, Settled
from greenroom.actors.room.rules.state import KnownStats
from greenroom.actors.room.studio_messages import NoteStats
from greenroom.behaviour import Refused, RoomBehaviour
from greenroom.behaviour.effects import ResultOrder, Run
from greenroom.behaviour.registry import instance_of
from greenroom.behaviour.runner import Watch
from greenroom.behaviour.stats import Number, Stats, write
from greenroom.behaviour.view import View
from greenroom.contract.allowed_values import RequestId
from greenroom.testing.checks import CheckFailed, attributes, check_attributes

BEHAVIOUR = "harness:Behaviour"


class Heard(msgspec.Struct, frozen=True):
    """Something that a member was told: a message's command, or an event's name, and the data."""

    command: str
    data: Any


def _heard(message: Message) -> Heard:
    if isinstance(message, Receive):
        return Heard(message.command, msgspec.json.decode(message.data))
    if isinstance(message, Settled):
        return Heard("action_result", msgspec.json.decode(msgspec.json.encode(message)))
    return Heard(message.event, dict(message.data))


class HarnessConnections:
    """`Connections` that record what each member was told."""

    def __init__(self) -> None:
        """Start without connections."""
        self.members: set[int] = set()
        self.heard: dict[int, list[Heard]] = {}
        self.views: dict[int, View] = {}

    def cut(self, player_id: int) -> None:
        """End a member's connection, and drop what it held."""
        self.members.discard(player_id)
        self.views.pop(player_id, None)

    def get_connected(self, room_id: str) -> Container[int]:  # noqa: ARG002
        """Return the ids of connected members."""
        return self.members

    def push(
        self,
        room_id: str,  # noqa: ARG002
        player_ids: Iterable[int],
        message: Message,
    ) -> None:
        """Record a message for some members."""
        for player_id in player_ids:
            if player_id in self.members:
                self.heard.setdefault(player_id, []).append(_heard(message))

    def push_others(
        self,
        room_id: str,
        message: Receive,
        members: Mapping[int, Any],
        request_id: RequestId | None = None,  # noqa: ARG002
    ) -> bool:
        """Record a message for all but the sender; return False if not all are connected."""
        if self.members != set(members):
            return False
        self.push(room_id, sorted(self.members - {message.sender_id}), message)
        return True

    def push_all(self, room_id: str, message: Message) -> None:
        """Record a message for everybody."""
        self.push(room_id, sorted(self.members), message)

    def push_unreliable(
        self,
        room_id: str,
        player_ids: Iterable[int] | None,
        message: Receive,
        stream: int | str | None,  # noqa: ARG002
    ) -> None:
        """Tell some members, or all, something that may be lost; here it never is."""
        self.push(room_id, sorted(self.members) if player_ids is None else player_ids, message)

    def push_state(
        self,
        room_id: str,  # noqa: ARG002
        player_ids: Iterable[int],
        message: Happened,
    ) -> None:
        """Bring some members' views up to date."""
        data = msgspec.json.encode(message.data)
        for player_id in player_ids:
            if player_id in self.members:
                view = self.views.setdefault(player_id, View())
                view.take(message.event, msgspec.json.decode(data))
                assert not view.is_lost, (player_id, message)

    def answer(self, room_id: str, player_id: int, answer: Accepted) -> None:
        """Drop the answer to a sender; only what others say is recorded."""

    def may_store(
        self,
        room_id: str,  # noqa: ARG002
        player_id: int,  # noqa: ARG002
        size: int,  # noqa: ARG002
        request_id: RequestId | None = None,  # noqa: ARG002
    ) -> bool:
        """Let everybody store what they say."""
        return True

    def refuse(
        self,
        room_id: str,
        player_id: int,
        reason: str | None,
        retry_seconds: int | None = None,
        request_id: RequestId | None = None,
    ) -> None:
        """Keep this from them, too: here nothing waits, and is refused to who says it."""

    def part(self, room_id: str, player_id: int) -> None:  # noqa: ARG002
        """Cut somebody off who has left."""
        self.cut(player_id)

    def end(self, room_id: str) -> None:  # noqa: ARG002
        """Cut everybody off."""
        self.members.clear()


class HarnessStudio:
    """`Studio` of one behaviour; jobs wait for the test, errors are the test's."""

    def __init__(
        self, behaviour: type[RoomBehaviour[Any]], seed: int, stats: dict[int, dict[str, Number]]
    ) -> None:
        """Serve this behaviour, with this seed and the stats of all players."""
        self._stats = stats
        self.written = 0
        """The number of the last order that is written into documents and stats."""
        self.watch: Watch = self._look_on
        self.behaviour = behaviour
        self._seed = seed
        self._made: RoomBehaviour[Any] | None = None
        self.errors: list[Exception] = []
        self.jobs: list[Run] = []
        self.results: list[tuple[int, ResultOrder]] = []

    def draw_seed(self) -> int:
        """Return the seed."""
        return self._seed

    def choose(self, game_id: int, rules: bytes) -> str | None:  # noqa: ARG002
        """Return the name of the one behaviour."""
        return BEHAVIOUR

    def make(self, name: str) -> RoomBehaviour[Any]:
        """Return a new instance; raises BehaviourBug where it fails."""
        made = self._made = instance_of(self.behaviour, name, self.watch)
        return made

    @contextmanager
    def _look_on(self, hook: str) -> Generator[None]:
        """Note a hook that refuses and has changed what cannot be undone."""
        behaviour = self._made
        before = {} if behaviour is None else attributes(behaviour)
        try:
            yield
        except Refused:
            if behaviour is not None:
                self._check(before, behaviour, hook)
            raise

    def _check(self, before: dict[str, str], behaviour: RoomBehaviour[Any], hook: str) -> None:
        try:
            check_attributes(before, behaviour, hook)
        except CheckFailed as error:
            self.errors.append(error)

    def report(
        self,
        room_id: str,  # noqa: ARG002
        error: Exception,
        payload: object,  # noqa: ARG002
        outcome: str = "",  # noqa: ARG002
    ) -> None:
        """Keep an error for the test to raise."""
        self.errors.append(error)

    def run(self, room_id: str, work: Run) -> None:  # noqa: ARG002
        """Keep a job for the test to finish."""
        self.jobs.append(work)

    def deliver(self, room_id: str, number: int, result: ResultOrder) -> None:  # noqa: ARG002
        """Keep a result until the turn has ended."""
        self.results.append((number, result))

    def get_declared(self, game_id: int) -> Stats:  # noqa: ARG002
        """Return the stats of the one behaviour."""
        return self.behaviour.stats

    def find_known_stats(self, room_id: str, player_id: int) -> KnownStats:  # noqa: ARG002
        """Return a player's stats as they are now."""
        return KnownStats(write(self._stats.get(player_id, {})), self.written)

    def note(self, player_id: int) -> NoteStats:
        """Return what tells the room a player's stats."""
        known = self.find_known_stats("", player_id)
        return NoteStats(player_id, known.stats, known.written)

    def refresh_stats(self, room_id: str, player_ids: Collection[int]) -> None:
        """Do nothing: the room has heard of every change."""
