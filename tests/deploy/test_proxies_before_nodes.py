"""nginx and HAProxy as `deploy/cluster/` has them, before machines that are drained and killed."""

from __future__ import annotations

import http.client
import itertools
import json
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import NamedTuple

import pytest
import trio
import trio_websocket
from balancer_kit import BALANCERS, StandingMachine, balancing
from machines_kit import running, wait_together
from nats_kit import NatsProcess
from proxy_kit import HOST, SECONDS_MAX, Front, free_ports
from realtime_kit import Client
from server_kit import Api, Game, data_directory
from waiting import block_until

from greenroom.control.admin.cluster_messages import DrainNode
from greenroom.control.client import call
from greenroom.control.protocol import socket_path

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

HERE = "127.0.0.1"
CALLERS = 4
PROGRESS = 5
"""Calls of each caller after each step."""
GET = "/api/game_data.php/player/get"
UPDATE = "/api/game_data.php/player/update"
SETTINGS = {
    "GREENROOM_TRUSTED_PROXIES": "127.0.0.1/32",
    "GREENROOM_PUBLIC_HOST": HOST,
    "GREENROOM_DRAIN_SECONDS": "2",
}
DOUBTFUL = {0, 500, 502}
"""Answers to a change that was under way at a machine that died: it may have happened.

HAProxy closes the connection of a client whose call was lost, and tells nothing (0).
"""


@pytest.fixture
def machines(new_database: Callable[[], str]) -> Iterator[list[StandingMachine]]:
    """Two machines, each with one node, on one NATS server and one database."""
    with data_directory() as directory, ExitStack() as stack:
        nats = NatsProcess(directory).start()
        stack.callback(nats.stop)
        one, two = free_ports(8)[4:6], free_ports(8)[6:8]
        database = new_database()
        standing: list[StandingMachine] = [
            StandingMachine(directory / name, nats.url(), database, (http, realtime), **SETTINGS)
            for name, (http, realtime) in (("one", one), ("two", two))
        ]
        stack.enter_context(running(standing))
        yield standing


@pytest.fixture(params=BALANCERS)
def front(request: pytest.FixtureRequest, machines: list[StandingMachine]) -> Iterator[Front]:
    """A balancer before both, and before a third one that is not there."""
    with data_directory() as directory:
        directory.chmod(0o755)
        with balancing(request.param, machines, directory) as balancer:
            yield balancer


class Answer(NamedTuple):
    """The answer to a call; status 0 is none."""

    changes: bool
    status: int
    content: bytes


def register(front: Front, game: Game, name: str) -> dict[str, str]:
    """Register a player; return the headers of their calls."""
    headers = {"X-Api-Token": game.key}
    body = {"player_name": name}
    status, made = front.call(HERE, "POST", "/api/game_players.php/register", body, headers)
    assert status == 200, made
    return headers | {"X-Game-Player-Token": str(made["private_key"])}


class Caller:
    """A player who changes their document and reads it, over one connection as long as it lasts."""

    def __init__(self, front: Front, game: Game, number: int) -> None:
        self._front = front
        self._headers = register(front, game, f"Ada {number}")
        self._connection: http.client.HTTPConnection | None = None
        self.answers: list[Answer] = []
        self.acknowledged = 0
        """The last change that was answered 200."""

    def run(self, stop: threading.Event) -> None:
        """Call until told to stop."""
        try:
            for number in itertools.takewhile(lambda _: not stop.is_set(), itertools.count(1)):
                self._change_and_read(number)
        finally:
            self._forget()

    def _change_and_read(self, number: int) -> None:
        if self._call("PUT", UPDATE, {"n": number}).status == 200:
            self.acknowledged = number
        read = self._call("GET", GET)
        if read.status == 200:
            found = json.loads(read.content)["data"].get("n", 0)
            assert self.acknowledged <= found <= number, (self.acknowledged, found, number)

    def _call(self, method: str, path: str, body: object = None) -> Answer:
        raw = None if body is None else json.dumps(body)
        try:
            if self._connection is None:
                self._connection = http.client.HTTPConnection(HOST, timeout=SECONDS_MAX)
                self._connection.sock = self._front.connect(self._front.ports.https, HERE)
            self._connection.request(method, path, raw, self._headers)
            response = self._connection.getresponse()
            answer = Answer(raw is not None, response.status, response.read())
            if response.will_close:
                self._forget()
        except (OSError, http.client.HTTPException) as error:
            self._forget()
            answer = Answer(raw is not None, 0, repr(error).encode())
        self.answers.append(answer)
        return answer

    def _forget(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None


class Crowd:
    """Callers at work, each in a thread and a game of their own."""

    def __init__(self, callers: Sequence[Caller]) -> None:
        self._callers = callers

    @property
    def answers(self) -> list[Answer]:
        return [answer for caller in self._callers for answer in caller.answers]

    def goes_on(self) -> None:
        """Wait until everybody was answered some more calls as they wished."""

        def served(caller: Caller) -> int:
            return sum(answer.status == 200 for answer in caller.answers)

        before = [served(caller) for caller in self._callers]
        block_until(
            lambda: all(
                served(caller) >= old + 2 * PROGRESS
                for caller, old in zip(self._callers, before, strict=True)
            ),
            explain=lambda: self.answers[-CALLERS:],
        )

    def refused(self) -> list[Answer]:
        return [answer for answer in self.answers if answer.status != 200]


@contextmanager
def crowd(front: Front, machine: StandingMachine) -> Iterator[Crowd]:
    """Have callers at work; what one of them finds wrong fails the test."""
    callers = [Caller(front, machine.new_game(f"game {n}"), n) for n in range(CALLERS)]
    wrong: list[BaseException] = []
    stop = threading.Event()

    def work(caller: Caller) -> None:
        try:
            caller.run(stop)
        except BaseException as error:
            wrong.append(error)
            raise

    threads = [threading.Thread(target=work, args=(caller,)) for caller in callers]
    for thread in threads:
        thread.start()
    try:
        yield Crowd(callers)
    finally:
        stop.set()
        for thread in threads:
            thread.join(SECONDS_MAX)
    assert not wrong, wrong


def drain(machine: StandingMachine) -> None:
    """Have a machine hand over everything, as `greenroom cluster drain` does."""
    own = machine.own_node()
    call(socket_path(machine.data_dir), DrainNode(node=str(own)))
    block_until(
        lambda: not any(node.shards for node in machine.nodes() if node.node == own),
        explain=machine.log.read_text,
    )


@pytest.mark.long
def test_nobody_notices_that_machines_are_deployed_one_after_the_other(
    machines: list[StandingMachine], front: Front
) -> None:
    with crowd(front, machines[0]) as players:
        players.goes_on()
        for machine in machines:
            drain(machine)
            players.goes_on()
            assert machine.stop() == 0, machine.log.read_text()
            players.goes_on()
            machine.start()
            machine.pids()
            wait_together(machines)
            players.goes_on()
    assert players.refused() == []


def test_a_machine_that_stops_hands_over_before_it_refuses_anybody(
    machines: list[StandingMachine], front: Front
) -> None:
    with crowd(front, machines[0]) as players:
        players.goes_on()
        assert machines[0].stop() == 0, machines[0].log.read_text()
        players.goes_on()
    assert players.refused() == []


@pytest.mark.long
def test_a_machine_that_dies_costs_the_changes_that_it_had(
    machines: list[StandingMachine], front: Front
) -> None:
    with crowd(front, machines[0]) as players:
        players.goes_on()
        machines[1].kill_all()
        players.goes_on()
        refused = players.refused()
        machines[1].start()
        machines[1].pids()
        wait_together(machines)
        players.goes_on()
        assert players.refused() == refused  # its return costs nothing
    changes = [answer for answer in refused if answer.changes]
    assert {answer.status for answer in changes} <= DOUBTFUL, changes
    assert len(changes) <= CALLERS  # what was under way, and nothing later
    assert [answer for answer in refused if not answer.changes] == []


def relayed(machines: Sequence[StandingMachine], game: Game) -> int:
    """Return how many realtime connections the machines have passed on, as `/metrics` says."""
    total = 0.0
    for machine in machines:
        text = Api(machine.address, game).call("GET", "/metrics").body.decode()
        found = re.findall(r"^greenroom_cluster_relayed_total{.*} (\S+)$", text, re.MULTILINE)
        total += sum(map(float, found))
    return int(total)


def open_room(front: Front, game: Game) -> str:
    """Make a realtime room; return the token that its host connects with."""
    headers = register(front, game, "Ada")
    room = {"room_name": "here", "max_players": 4, "realtime": True}
    status, opened = front.call(HERE, "POST", "/api/game_room.php/create", room, headers)
    assert status == 200, opened
    status, minted = front.call(HERE, "POST", "/api/realtime.php/token", {}, headers)
    assert status == 200, minted
    return str(minted["token"])


async def connect(front: Front, token: str) -> bool:
    """Connect, and hear one's own word, over whichever machine the balancer takes.

    Return whether that was so. A client is told to come back (429) while their room moves, which
    machines that are just up may have it do.
    """
    refusals: list[BaseException] = []
    try:
        await talk(front, token)
    except* trio_websocket.ConnectionRejected as refused:
        refusals.extend(refused.exceptions)
    assert {getattr(refusal, "status_code", refusal) for refusal in refusals} <= {429}
    return not refusals


async def talk(front: Front, token: str) -> None:
    """Connect, and hear one's own word."""
    with trio.fail_after(SECONDS_MAX):
        stream = await front.stream(front.ports.wss, HERE)
        async with stream, trio.open_nursery() as nursery:
            connection = await trio_websocket.wrap_client_stream(
                nursery, stream, HOST, "/", extra_headers=[(b"X-Realtime-Token", token.encode())]
            )
            client = Client(connection)
            await client.expect("connected")
            await client.nothing_more()
            await connection.aclose()


def test_realtime_connections_that_reach_the_wrong_machine_are_relayed(
    machines: list[StandingMachine], front: Front
) -> None:
    game = machines[0].new_game()
    token = open_room(front, game)
    connections = itertools.count(1)

    def are_both_reached() -> bool:
        made = next(connections)
        return trio.run(connect, front, token) and 1 <= relayed(machines, game) < made

    block_until(are_both_reached)
