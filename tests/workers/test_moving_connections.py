"""Connections of clients move to the worker of their game, with real processes."""

from __future__ import annotations

import http.client
import json
import re
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from waiting import block_until
from workers_kit import WHOLE_GAMES, Crew, crew

from greenroom.control.admin.cluster_messages import DrainNode
from greenroom.control.client import call
from greenroom.control.protocol import socket_path

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Crew]:
    with crew(tmp_path_factory.mktemp("data"), 2, **WHOLE_GAMES) as server:
        yield server


def counted(server: Crew, name: str, **labels: str) -> float:
    """Return a counter of all workers together."""
    text = urllib.request.urlopen(f"{server.ready['http']}/metrics", timeout=60).read().decode()
    found = re.findall(rf"^{name}{{(.*)}} (\S+)$", text, re.MULTILINE)
    wanted = [f'{key}="{value}"' for key, value in labels.items()]
    return sum(float(value) for given, value in found if all(w in given for w in wanted))


def moved(server: Crew, outcome: str = "taken") -> float:
    return counted(server, "greenroom_cluster_connections_moved_total", outcome=outcome)


def sent_on(server: Crew) -> float:
    return counted(server, "greenroom_cluster_calls_sent_total", outcome="answered")


class Client:
    """A client that keeps one connection to one worker."""

    def __init__(self, url: str, key: str) -> None:
        self.connection = http.client.HTTPConnection(str(urlsplit(url).netloc), timeout=60)
        self.key = key
        self.token = ""
        self.number = 0

    def call(self, method: str, path: str, body: object = None) -> dict[str, object]:
        heads = {"X-Api-Token": self.key, "X-Game-Player-Token": self.token}
        encoded = None if body is None else json.dumps(body)
        self.connection.request(method, f"/api/{path}", encoded, heads)
        reply = self.connection.getresponse()
        answer: dict[str, object] = json.loads(reply.read())
        assert reply.status == 200, answer
        assert self.connection.sock is not None, "the connection was closed"
        return answer

    def register(self) -> None:
        answer = self.call("POST", "game_players.php/register", {"player_name": "Bob"})
        self.token = str(answer["private_key"])

    def play(self, calls: int) -> None:
        """Change the own record, and read it back."""
        for _ in range(calls):
            self.number += 1
            self.call("PUT", "game_data.php/player/update", {"number": self.number})
            assert self.call("GET", "game_data.php/player/get")["data"] == {"number": self.number}


@pytest.fixture
def opened() -> Iterator[ExitStack]:
    """Closes what tests open."""
    with ExitStack() as stack:
        yield stack


def clients(opened: ExitStack, server: Crew, count: int = 1) -> list[Client]:
    """Return clients at one worker, of games that live on the other."""
    reached = server.nodes()[0]
    found: list[Client] = []
    for number in range(64):
        client = Client(str(reached.own_http), server.new_game(f"game {number}").key)
        opened.enter_context(closing(client.connection))
        before = sent_on(server)
        client.register()
        if sent_on(server) > before:
            found.append(client)
            if len(found) == count:
                return found
    raise AssertionError("no game lives on the other worker")


def test_a_client_is_answered_by_the_worker_of_its_game_from_the_second_call_on(
    running: Crew, opened: ExitStack
):
    taken = moved(running)
    [client] = clients(opened, running)
    block_until(lambda: moved(running) == taken + 1)
    before = sent_on(running)
    client.play(20)
    assert sent_on(running) == before, "calls are still sent on"
    assert moved(running) == taken + 1


def test_a_client_of_two_games_moves_no_more_than_twice(running: Crew, opened: ExitStack):
    [client] = clients(opened, running)
    home, taken = client.key, moved(running)
    others = [running.new_game(f"else {number}").key for number in range(12)]
    for key in others * 2:
        client.key = key
        client.token = ""
        client.register()
        client.key = home
        client.register()
    assert moved(running) - taken <= 1


def test_connections_move_on_when_their_worker_hands_its_games_over(
    running: Crew, opened: ExitStack
):
    some = clients(opened, running, 3)
    for client in some:
        client.play(2)
    owner = running.nodes()[1]
    call(socket_path(running.data_dir), DrainNode(node=str(owner.node)))
    block_until(lambda: not running.nodes()[1].shards, explain=running.log.read_text)
    for client in some:
        client.play(5)


def test_none_moves_where_that_is_switched_off(data_dir: Path, opened: ExitStack):
    with crew(data_dir, 2, GREENROOM_CONNECTIONS_MOVE="false", **WHOLE_GAMES) as server:
        [client] = clients(opened, server)
        before = sent_on(server)
        client.play(5)
        assert sent_on(server) == before + 10
        assert moved(server) == 0
