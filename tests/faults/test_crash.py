"""A handler made to crash, in a whole server over real sockets: one caller alone hears of it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import trio
from server_kit import TrioClient

from greenroom import app
from greenroom.actors.player.actor import PlayerActor
from greenroom.actors.player.messages import ReplacePlayerDocument
from greenroom.config import Settings
from greenroom.control.ready import Ready

REGISTER = "/api/game_players.php/register"
GET = "/api/game_data.php/player/get"
UPDATE = "/api/game_data.php/player/update"


class Live:
    """A server in this process, and clients of its first game."""

    def __init__(self, ready: Ready) -> None:
        assert ready.first_game is not None
        self._key = ready.first_game.api_token
        port = int(ready.http.rpartition(":")[2])
        self._server: Any = SimpleNamespace(address=("127.0.0.1", port))

        self.clients: list[TrioClient] = []

    def client(self) -> TrioClient:
        client = TrioClient(self._server, self._key)
        self.clients.append(client)
        return client

    async def player(self, client: TrioClient) -> str:
        status, answer = await client.call("POST", REGISTER, b'{"player_name":"Ada"}')
        assert status == 200, answer
        return str(answer["private_key"])


@pytest.fixture
async def live(database_url: str, data_dir: Path, nursery: trio.Nursery) -> AsyncIterator[Live]:
    settings = Settings(
        data_dir=data_dir, database_url=database_url, port=0, realtime_port=0, udp_port=0
    )
    announced = trio.Event()
    said: list[Ready] = []

    def announce(ready: Ready) -> None:
        said.append(ready)
        announced.set()

    nursery.start_soon(lambda: app.serve(settings, announce=announce))
    with trio.fail_after(30):
        await announced.wait()
    live = Live(said[0])
    yield live
    for client in live.clients:
        await client.close()


@pytest.fixture
def poisoned(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bug: a document that says `poison` crashes its player half-way through the change."""
    real = PlayerActor.handlers[ReplacePlayerDocument]

    def replace(actor: PlayerActor, command: ReplacePlayerDocument) -> Any:
        if b"poison" in command.player_data:
            actor._player.player_data = b'{"half":"done"}'
            raise RuntimeError("a bug in the handler")
        return real(actor, command)

    handlers: dict[Any, Any] = {**PlayerActor.handlers, ReplacePlayerDocument: replace}
    monkeypatch.setattr(PlayerActor, "handlers", handlers)


@pytest.mark.usefixtures("poisoned")
async def test_a_crash_answers_500_to_its_caller_alone_and_the_last_good_state_returns(
    live: Live, caplog: pytest.LogCaptureFixture
) -> None:
    client, neighbour = live.client(), live.client()
    token, other = await live.player(client), await live.player(neighbour)
    for each, player in ((client, token), (neighbour, other)):
        assert (await each.call("PUT", UPDATE, b'{"good":1}', player))[0] == 200

    status, answer = await client.call("PUT", UPDATE, b'{"a":"poison"}', token)

    assert (status, answer["error"]) == (500, "Internal server error")
    for each, player in ((client, token), (neighbour, other)):
        status, answer = await each.call("GET", GET, player=player)
        assert (status, answer["data"]) == (200, {"good": 1})
    assert "poison" not in caplog.text, "a command's contents are nobody's business"


@pytest.mark.usefixtures("poisoned")
async def test_callers_queued_behind_a_crash_are_served_by_the_next_life(live: Live) -> None:
    first = live.client()
    token = await live.player(first)
    statuses: list[int] = []

    async def call(body: bytes) -> None:
        statuses.append((await live.client().call("PUT", UPDATE, body, token))[0])

    async with trio.open_nursery() as nursery:
        for number in range(40):
            body = b'{"a":"poison"}' if number == 7 else b'{"n":%d}' % number
            nursery.start_soon(call, body)
    assert sorted(statuses) == [200] * 39 + [500]


@pytest.mark.usefixtures("poisoned")
async def test_a_player_who_keeps_crashing_costs_their_neighbours_nothing(live: Live) -> None:
    client, neighbour = live.client(), live.client()
    token, other = await live.player(client), await live.player(neighbour)
    for _ in range(10):
        status, _ = await client.call("PUT", UPDATE, b'{"a":"poison"}', token)
        assert status == 500
        assert (await neighbour.call("PUT", UPDATE, b'{"good":1}', other))[0] == 200
