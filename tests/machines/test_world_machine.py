"""A whole world driven at random against a small model, with every fault that a server can meet.

The same seeds every time; `MACHINE_SECONDS=600 TEST_SEED=1000 scripts/test tests/machines` goes on
for so long, each batch with the next seed. A failure prints the steps that led to it, and its
seed.
"""

from __future__ import annotations

import itertools
import logging
import os
import sys
import time
from collections.abc import Callable, Iterator

import hypothesis
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from machine_calls import Calls
from machine_checks import WorldChecks
from machine_ledger import Key
from machine_reads import COUNTED, Reads
from machine_stat_calls import StatCalls
from machine_stats import DECLARED, Wanted
from machine_world import MachineWorld
from seeds import SEED

from greenroom.actors.friendship.messages import Pair
from greenroom.actors.seating.invite_messages import InviteAnswer
from greenroom.behaviour.stats import OPERATIONS

LONG_SECONDS = int(os.environ.get("MACHINE_SECONDS", "0"))
BATCHES = 15
SECONDS_MAX = 30
"""A slow computer runs fewer batches."""
BATCH = settings(
    max_examples=10,
    stateful_step_count=50,
    deadline=None,
    database=None,
    phases=[Phase.generate],  # to shrink so many steps takes minutes, and gains little
    report_multiple_bugs=False,
    suppress_health_check=[HealthCheck.too_slow],
)
PLAYERS = 5
PLAYER = st.integers(0, PLAYERS - 1)
PASSING = PLAYERS
"""The player who is deleted now and then, and followed by another."""
ASTRAY = PLAYERS * 6
WHO = st.integers(0, ASTRAY + PLAYERS - 1)
"""Somebody for whom it makes sense; now and then just anybody."""
NUMBER = st.integers(0, 5)
SIZE = st.integers(2, 4)
STEPS = st.integers(1, 8)
WORD = st.sampled_from(["all", "all", "host", "others", "specific"])
WAY = st.sampled_from(["create room", "create lobby", "room", "lobby"])
KIND = st.sampled_from(["room", "room", "lobby", "friendship", "player"])
SECONDS = st.sampled_from([1, 1, 12, 12, 12, 130, 310])
IS = st.booleans()
WANTED = st.builds(
    Wanted,
    name=st.sampled_from([name for name in DECLARED if name != COUNTED]),
    operation=st.sampled_from(OPERATIONS),
    value=st.integers(-2, 9),
    condition=st.sampled_from(["", "", "if_unset", "if_equals", "if_less_than", "if_more_than"]),
    limit=st.integers(1, 3),
    of=st.sampled_from([None, *DECLARED]),
)
CHANGES = st.lists(WANTED, min_size=1, max_size=4)
WHOSE = st.integers(0, PASSING)


def somewhere(kind: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Try what needs a room, or a lobby, only while there is one: else there is little to find."""
    return precondition(lambda self: bool(self.ledger.open(kind)))


in_some_room, in_some_lobby = somewhere("room"), somewhere("lobby")


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """Crashes that are planted are logged by the thousand."""
    logger = logging.getLogger("greenroom")
    before = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    yield
    logger.setLevel(before)


class WorldMachine(RuleBasedStateMachine):
    """Players come and go, act, tell, and make friends; the server bears what befalls it."""

    machine: MachineWorld | None = None
    calls: Calls
    stat_calls: StatCalls
    reads: Reads
    checks: WorldChecks
    held = 0
    hurried = 0

    @initialize(
        is_befriended=IS, has_room=IS, has_lobby=IS, host_switch=IS, by_requests=IS, counts=IS
    )
    def open(  # noqa: PLR0917 (hypothesis names them)
        self,
        is_befriended: bool,
        has_room: bool,
        has_lobby: bool,
        host_switch: bool,
        by_requests: bool,
        counts: bool,
    ) -> None:
        self.machine = MachineWorld(PLAYERS + 1)
        self.calls = Calls(self.machine)
        self.stat_calls = StatCalls(self.machine)
        self.reads = Reads(self.machine)
        self.checks = WorldChecks(self.machine)
        self.ledger = self.machine.ledger
        if is_befriended:
            for number, other in itertools.permutations(range(PLAYERS), 2):
                self.calls.befriend(number, other)
        if has_room:
            self.create_room(0, 3, host_switch, is_locked=False, counts=counts)
            self.stage.moment()
            for number in (1, 2):
                self.join_room(number, 0, knows_password=True)
        if has_lobby:
            self.create_lobby(3, 3, host_switch, by_requests, can_leave=True)

    @property
    def stage(self) -> MachineWorld:
        assert self.machine is not None
        return self.machine

    def key(self, kind: str, number: int, *, by_requests: bool = False) -> Key:
        """Name a place that is open, best one of this sort, or one that is not there (any more)."""
        open_places = self.ledger.open(kind)
        places = [place for place in open_places if place.by_requests == by_requests]
        places = places or open_places or [*self.ledger.places.values()]
        places = [place for place in places if place.key[0] == kind]
        return places[number % len(places)].key if places else (kind, "0" * 32)

    def standing(self, who: int) -> int:
        """Choose a player without a seat."""
        seated = {player_id for player_id, _ in self.ledger.seats()}
        return self._of(who, [i for i in self.stage.ids if i not in seated])

    def member(self, kind: str, who: int) -> int:
        """Choose a member of some room, or lobby."""
        return self._of(who, [i for place in self.ledger.open(kind) for i in place.members])

    def host(self, kind: str, who: int) -> int:
        """Choose the host of one."""
        return self._of(who, [place.host_id for place in self.ledger.open(kind)])

    def mate(self, number: int, kind: str, who: int) -> int:
        """Choose somebody who is in the same place as a player."""
        place = self.ledger.place_of(self.stage.ids[number], kind)
        members = [] if place is None else [*place.members]
        return self._of(who, [i for i in members if i != self.stage.ids[number]])

    def _of(self, who: int, player_ids: list[int]) -> int:
        if who >= ASTRAY or not player_ids:
            return who % PLAYERS
        return self.stage.ids.index(player_ids[who % len(player_ids)])

    # Rooms.

    @rule(who=WHO, size=SIZE, host_switch=IS, is_locked=IS, counts=IS)
    def create_room(
        self, who: int, size: int, host_switch: bool, is_locked: bool, counts: bool
    ) -> None:
        self.calls.create_room(
            self.standing(who),
            size,
            host_switch=host_switch,
            is_locked=is_locked,
            counts=counts,
        )

    @in_some_room
    @rule(who=WHO, number=NUMBER, knows_password=IS)
    def join_room(self, who: int, number: int, knows_password: bool) -> None:
        key = self.key("room", number)
        self.calls.join(self.standing(who), key, knows_password=knows_password)

    @in_some_room
    @rule(who=WHO, number=NUMBER)
    def join_room_again(self, who: int, number: int) -> None:
        """Join more often than leave."""
        self.calls.join(self.standing(who), self.key("room", number))

    @rule(who=WHO, number=NUMBER, ways=st.lists(WAY, min_size=2, max_size=4))
    def take_seats(self, who: int, number: int, ways: list[str]) -> None:
        """Try several at once."""
        for way in ways:
            if way == "create room":
                self.create_room(who, 3, host_switch=True, is_locked=False, counts=True)
            elif way == "create lobby":
                self.create_lobby(who, 3, host_switch=True, by_requests=False, can_leave=True)
            else:
                self.calls.join(self.standing(who), self.key(way, number))

    @in_some_room
    @rule(who=WHO)
    def leave_room(self, who: int) -> None:
        self.calls.leave_room(self.member("room", who))

    @in_some_room
    @rule(who=WHO, whom=WHO)
    def kick_from_room(self, who: int, whom: int) -> None:
        host = self.host("room", who)
        self.calls.kick_from_room(host, self.mate(host, "room", whom))

    @in_some_room
    @rule(who=WHO)
    def stop_room(self, who: int) -> None:
        self.calls.stop_room(self.host("room", who))

    @rule(player=PLAYER, is_banned=IS)
    def leave_the_game(self, player: int, is_banned: bool) -> None:
        act = self.calls.ban if is_banned else self.calls.log_out
        act(player)

    # Updates and actions.

    @in_some_room
    @rule(who=WHO, word=WORD)
    def send_updates(self, who: int, word: str) -> None:
        self.calls.send_updates(self.member("room", who), word)

    @in_some_room
    @rule(who=WHO)
    def poll(self, who: int) -> None:
        self.calls.poll(self.member("room", who))

    @in_some_room
    @rule(crowd=st.lists(WHO, min_size=2, max_size=5), word=WORD)
    def chat(self, crowd: list[int], word: str) -> None:
        """Send and read, all at the same time."""
        for who in crowd:
            self.send_updates(who, word)
            self.poll(who)

    @in_some_room
    @rule(who=WHO, word=WORD)
    def send_actions(self, who: int, word: str) -> None:
        self.calls.send_actions(self.member("room", who), word)

    def asked(self) -> list[tuple[str, int]]:
        """Return the actions that wait, and for whom."""
        places = self.ledger.open("room")
        return [(i, asked.target_id) for place in places for i, asked in place.actions.items()]

    @precondition(lambda self: self.asked())
    @rule(who=WHO, number=NUMBER)
    def complete(self, who: int, number: int) -> None:
        action_id, target_id = self.asked()[number % len(self.asked())]
        self.calls.complete(self._of(who, [target_id]), action_id)

    # Stats.

    def counted(self) -> list[int]:
        """Return who sits in a room that changes stats."""
        places = [p for p in self.ledger.open("room") if p.key[1] in self.ledger.stats.counting]
        return [player_id for place in places for player_id in place.members]

    @precondition(lambda self: self.counted())
    @rule(crowd=st.lists(WHO, min_size=1, max_size=3), changes=CHANGES)
    def change_stats_in_room(self, crowd: list[int], changes: list[Wanted]) -> None:
        for who in crowd:
            self.stat_calls.change_in_room(self._of(who, self.counted()), changes)

    @rule(player=WHOSE, changes=CHANGES)
    def change_stats_by_service(self, player: int, changes: list[Wanted]) -> None:
        by_stat = {each.name: each for each in changes}  # one operation for each, as over REST
        request_id = f"r{len(self.ledger.stats.requested)}"
        self.stat_calls.change_by_service(player, request_id, [*by_stat.values()])

    @precondition(lambda self: self.ledger.stats.requested)
    @rule(player=WHOSE, number=NUMBER)
    def send_request_again(self, player: int, number: int) -> None:
        recent = self.ledger.stats.recent(self.stage.ids[player])
        recent = [each for each in recent if each[0] == "r"]
        if recent:
            self.stat_calls.change_by_service(player, recent[number % len(recent)], ())

    @rule(player=WHOSE)
    def replace_document(self, player: int) -> None:
        self.stat_calls.replace_document(player)

    @precondition(lambda self: self.ledger.stats.values.get(self.stage.ids[PASSING]))
    @rule()
    def delete_player(self) -> None:
        self.stat_calls.delete(PASSING)

    # Lobbies.

    @rule(who=WHO, size=SIZE, host_switch=IS, by_requests=IS, can_leave=IS)
    def create_lobby(
        self, who: int, size: int, host_switch: bool, by_requests: bool, can_leave: bool
    ) -> None:
        self.calls.create_lobby(
            self.standing(who),
            size,
            host_switch=host_switch,
            by_requests=by_requests,
            can_leave=can_leave,
        )

    @in_some_lobby
    @rule(who=WHO, number=NUMBER)
    def join_lobby(self, who: int, number: int) -> None:
        self.calls.join(self.standing(who), self.key("lobby", number))

    @precondition(lambda self: any(place.by_requests for place in self.ledger.open("lobby")))
    @rule(who=WHO, number=NUMBER)
    def request(self, who: int, number: int) -> None:
        self.calls.request(self.standing(who), self.key("lobby", number, by_requests=True))

    def requests(self) -> list[tuple[str, int]]:
        """Return the requests that wait, and for which host."""
        return [(i, place.host_id) for place in self.ledger.open("lobby") for i in place.requests]

    @precondition(lambda self: self.requests())
    @rule(who=WHO, number=NUMBER, is_approved=IS)
    def answer_request(self, who: int, number: int, is_approved: bool) -> None:
        request_id, host_id = self.requests()[number % len(self.requests())]
        host = self._of(who, [host_id])
        self.calls.answer_request(host, request_id, is_approved=is_approved)

    @in_some_lobby
    @rule(who=WHO)
    def leave_lobby(self, who: int) -> None:
        self.calls.leave_lobby(self.member("lobby", who))

    @in_some_room
    @rule(who=WHO)
    def leave_what_was_a_lobby(self, who: int) -> None:
        self.calls.leave_lobby(self.member("room", who))

    @in_some_lobby
    @rule(who=WHO, whom=WHO)
    def kick_from_lobby(self, who: int, whom: int) -> None:
        host = self.host("lobby", who)
        self.calls.kick_from_lobby(host, self.mate(host, "lobby", whom))

    @precondition(lambda self: any(self.ledger.seats()))
    @rule(who=WHO, has_started=IS)
    def remove_lobby(self, who: int, has_started: bool) -> None:
        self.calls.remove_lobby(self.host("room" if has_started else "lobby", who))

    @in_some_lobby
    @rule(who=WHO)
    def start_lobby(self, who: int) -> None:
        self.calls.start_lobby(self.host("lobby", who))

    # Friends and invites.

    @rule(player=PLAYER, other=PLAYER)
    def befriend(self, player: int, other: int) -> None:
        self.calls.befriend(player, other)

    @precondition(lambda self: self.courted())
    @rule(number=NUMBER, player=WHO, accepts=IS)
    def answer_friend(self, number: int, player: int, accepts: bool) -> None:
        """Accept or decline what somebody has asked."""
        courted = self.courted()
        pair, by = courted[number % len(courted)]
        own = self._of(player, [pair.low_id + pair.high_id - by])
        act = self.calls.accept if accepts else self.calls.decline
        act(own, self.stage.ids.index(by))

    def courted(self) -> list[tuple[Pair, int]]:
        """Return who has asked to be friends and waits."""
        friendships = self.ledger.friendships.items()
        return [(pair, by) for pair, (status, by) in friendships if status == "pending"]

    @precondition(lambda self: self.ledger.friendships)
    @rule(player=PLAYER, other=PLAYER)
    def end_friendship(self, player: int, other: int) -> None:
        self.calls.end(player, other)

    @precondition(lambda self: self.ledger.friendships and any(self.ledger.seats()))
    @rule(who=WHO, whom=WHO)
    def invite(self, who: int, whom: int) -> None:
        host = self._of(who, [player_id for player_id, _ in self.ledger.seats()])
        self.calls.invite(host, self.standing(whom))

    def invited(self) -> list[int]:
        """Return who has an invite that is not answered."""
        places = self.ledger.places.values()
        return [i for place in places for i, (_, done) in place.invites.items() if not done]

    @precondition(lambda self: self.invited())
    @rule(who=WHO, number=NUMBER, accepts=IS)
    def answer_invite(self, who: int, number: int, accepts: bool) -> None:
        answer: InviteAnswer = "accepted" if accepts else "declined"
        self.calls.answer_invite(self._of(who, self.invited()), number, answer)

    # What single objects say of themselves.

    @rule(player=PLAYER, other=PLAYER)
    def read_relationship(self, player: int, other: int) -> None:
        if player != other:
            self.reads.relationship(player, other)

    @in_some_room
    @rule(who=WHO)
    def read_roster(self, who: int) -> None:
        self.reads.roster(self.member("room", who))

    @rule(player=PLAYER, crowd=st.lists(IS, min_size=1, max_size=4))
    def use_document(self, player: int, crowd: list[bool]) -> None:
        """Replace a document and read it, all at the same time."""
        for is_read in crowd:
            act = self.reads.document if is_read else self.reads.replace_document
            act(player)

    @rule(player=PLAYER, visits=st.lists(st.integers(0, 2), min_size=1, max_size=4))
    def visit(self, player: int, visits: list[int]) -> None:
        """Count some visits at the same time, a few of them under an id that was used before."""
        for back in visits:
            recent = self.ledger.stats.recent(self.stage.ids[player])
            known = [each for each in recent if each[0] == "v"]
            new = f"v{len(self.ledger.stats.requested)}"
            self.reads.visit(player, known[-back] if 0 < back <= len(known) else new)

    # Time and faults.

    @rule(steps=STEPS)
    def hurry(self, steps: int) -> None:
        """Let later calls begin before earlier ones have got anywhere."""
        self.hurried = steps

    @rule(seconds=SECONDS)
    def wait(self, seconds: int) -> None:
        self.stage.moment(seconds)

    @rule(kind=KIND, number=NUMBER, turns=st.integers(1, 4), is_half_way=IS)
    def mine(self, kind: str, number: int, turns: int, is_half_way: bool) -> None:
        self.stage.mine(kind, number, turns, is_half_way=is_half_way)

    @rule(steps=STEPS)
    def hold(self, steps: int) -> None:
        """Let nothing become durable by itself."""
        self.held = steps
        self.stage.hold()

    @precondition(lambda self: self.stage.store.pending)
    @rule(count=st.integers(1, 3))
    def commit(self, count: int) -> None:
        self.stage.commit(count)

    @precondition(lambda self: self.stage.store.pending)
    @rule()
    def refuse(self) -> None:
        self.stage.refuse()

    @precondition(lambda self: self.stage.calls)
    @rule(number=NUMBER)
    def cancel(self, number: int) -> None:
        self.stage.cancel(number)

    @rule(steps=STEPS)
    def close_gate(self, steps: int) -> None:
        """Take the database away."""
        self.held = steps
        self.stage.close_gate()

    @rule(durable=st.integers(0, 3), is_clean=IS)
    def restart(self, durable: int, is_clean: bool) -> None:
        self.stage.restart(durable, is_clean=is_clean)

    @rule()
    def rest(self) -> None:
        self.checks.rest()
        self.stage.chronicle.check()

    @invariant()
    def holds(self) -> None:
        self.held -= 1
        if self.held == 0:
            self.stage.release()
        self.hurried -= 1
        if self.hurried <= 0:
            self.stage.moment()
        self.checks.moment()

    def teardown(self) -> None:
        if self.machine is None:
            return
        try:
            if sys.exc_info()[0] is None:  # no step has failed
                self.checks.rest()
                self.machine.restart(0, is_clean=False)
                self.checks.rest()
                self.machine.chronicle.check()
        finally:
            self.machine.close()


def run_machine(machine: type[WorldMachine], seed: int) -> None:
    """Run a machine with one seed; a failure says which."""
    seeded = hypothesis.seed(seed)(type(machine.__name__, (machine,), {}))
    try:
        run_state_machine_as_test(seeded, settings=BATCH)
    except BaseException as error:
        error.add_note(f"TEST_SEED={seed} makes these steps again")
        raise


@pytest.mark.chance
@pytest.mark.slow
@pytest.mark.timeout(LONG_SECONDS + 600)
def test_the_world_stands_whatever_befalls_it():
    began = time.monotonic()
    for number in itertools.count():
        run_machine(WorldMachine, SEED + number)
        seconds = time.monotonic() - began
        if seconds > (LONG_SECONDS or SECONDS_MAX) or (not LONG_SECONDS and number + 1 >= BATCHES):
            break
