"""nginx, Caddy and HAProxy as `deploy/` has them, in front of both servers.

A proxy on the same machine is loopback to the server, and trusted. A client that could speak
through it as the proxy would read `/metrics`, and choose the address that limits see.
"""

from __future__ import annotations

import itertools
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import h2.config
import h2.connection
import pytest
import trio
import trio_websocket
from http_kit import UPGRADES
from proxy_kit import HOST, PROXIES, Front, running_proxy
from realtime_kit import Client
from server_kit import KINDS, Game, ServerProcess, serving

pytestmark = pytest.mark.slow

REGISTER = "/api/game_players.php/register"
ALLOWED = 4
"""How many players an address may register, or realtime connections open, at once."""
SETTINGS = {
    "GREENROOM_TRUSTED_PROXIES": "127.0.0.1/32",
    "GREENROOM_HTTP2_CLEAR_FROM": "127.0.0.1/32",  # not even so
    "GREENROOM_PUBLIC_HOST": HOST,
    "GREENROOM_RATE_BURST_SECONDS": "4000",
    "GREENROOM_REGISTER_CALLS_PER_SECOND_ADDRESS": "0.001",
    "GREENROOM_REALTIME_CONNECTIONS_PER_SECOND_ADDRESS": "0.001",
}
SECRET = b"greenroom_storage"
"""In `/metrics`, and nowhere else."""

_addresses = (f"127.0.{a}.{b}" for a, b in itertools.product(range(7, 99), range(1, 99)))


@pytest.fixture(scope="session", params=KINDS)
def server(
    request: pytest.FixtureRequest, new_database: Callable[[], str]
) -> Iterator[ServerProcess]:
    with serving(
        "--database-url", new_database(), "--server", request.param, **SETTINGS
    ) as process:
        yield process


@pytest.fixture(scope="module", params=PROXIES)
def front(request: pytest.FixtureRequest, server: ServerProcess) -> Iterator[Front]:
    directory = Path(tempfile.mkdtemp(prefix="greenroom-proxy-"))
    directory.chmod(0o755)
    try:
        with running_proxy(request.param, server, directory) as running:
            yield running
    finally:
        shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture(scope="module")
def game(server: ServerProcess) -> Game:
    return server.new_game()


@pytest.fixture
def address() -> str:
    """An address that nobody has called from."""
    return next(_addresses)


def http_2() -> bytes:
    """Return the first bytes of an HTTP/2 client that wants to read `/metrics`."""
    connection = h2.connection.H2Connection(h2.config.H2Configuration())
    connection.initiate_connection()
    head = {":method": "GET", ":path": "/metrics", ":authority": "localhost", ":scheme": "http"}
    connection.send_headers(1, list(head.items()), end_stream=True)
    return connection.data_to_send()


@pytest.mark.parametrize("upgrade", UPGRADES)
def test_no_upgrade_makes_a_tunnel(front: Front, address: str, upgrade: str):
    asked = b"GET /healthz HTTP/1.1\r\nHost: %b\r\n%b\r\n" % (HOST.encode(), UPGRADES[upgrade])
    local = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    for behind in (http_2(), local):
        for pieces in ((asked, behind), (asked + behind,)):
            answer = front.exchange(address, *pieces, b"GET / HTTP/1.0\r\n\r\n")
            assert b" 101 " not in answer
            assert SECRET not in answer
            if behind is local:
                assert answer.startswith((b"HTTP/1.1 200 ", b"HTTP/1.1 400 "))


def test_nobody_opens_a_tunnel_with_connect(front: Front, address: str):
    for target in (b"127.0.0.1:80", b"localhost:8080", b"/metrics"):
        asked = b"CONNECT %b HTTP/1.1\r\nHost: %b\r\n\r\n" % (target, target)
        answer = front.exchange(address, asked + http_2(), b"GET / HTTP/1.0\r\n\r\n")
        assert SECRET not in answer
        # Caddy itself says 200, and no more, for a host that it does not have
        assert not answer.startswith(b"HTTP/1.1 2") or b"\r\nContent-Length: 0\r\n" in answer


@pytest.mark.parametrize(
    "target", ["/metrics", "/metrics/", "/%6detrics", "//metrics", "/x/../metrics", "/metrics?x=y"]
)
def test_the_operators_page_is_not_for_the_world(front: Front, address: str, target: str):
    for host in (HOST, "localhost", "127.0.0.1", f"{HOST}\r\nX-Forwarded-For: 127.0.0.1"):
        asked = f"GET {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
        assert SECRET not in front.exchange(address, asked.encode())
    absolute = f"GET http://localhost{target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
    assert SECRET not in front.exchange(address, absolute.encode() + b"\r\n")
    assert front.call(address, "GET", target)[0] in {301, 307, 308, 400, 404}


@pytest.mark.parametrize(
    "name", ["X-Forwarded-For", "X-Real-IP", "Forwarded", "x-forwarded-for", "X_Forwarded_For"]
)
def test_nobody_chooses_the_address_that_limits_see(front: Front, game: Game, name: str):
    address, another = next(_addresses), next(_addresses)

    def register(sender: str, claimed: str) -> int:
        headers = {"X-Api-Token": game.key, name: claimed}
        status, _ = front.call(sender, "POST", REGISTER, {"player_name": "Ada"}, headers)
        return status

    forged = [another] * ALLOWED + ["203.0.113.7", "127.0.0.1", f"{another}, 127.0.0.1", "::1"]
    dress = "for={}" if name == "Forwarded" else "{}"
    statuses = [register(address, dress.format(each)) for each in forged]
    assert statuses == [200] * ALLOWED + [429] * (len(forged) - ALLOWED)
    assert register(another, "203.0.113.9") == 200  # nor is anybody else shut out


def test_a_player_plays_through_the_proxy(front: Front, game: Game, address: str):
    key = {"X-Api-Token": game.key}
    status, player = front.call(address, "POST", REGISTER, {"player_name": "Ada"}, key)
    assert status == 200, player
    key["X-Game-Player-Token"] = player["private_key"]
    room = {"room_name": "here", "max_players": 4, "realtime": True}
    assert front.call(address, "POST", "/api/game_room.php/create", room, key)[0] == 200
    status, minted = front.call(address, "POST", "/api/realtime.php/token", {}, key)
    assert status == 200, minted

    async def connect() -> None:
        stream = await front.stream(front.ports.wss, address)
        headers = [(b"X-Realtime-Token", minted["token"].encode())]
        with trio.fail_after(30):
            async with trio.open_nursery() as nursery:
                connection = await trio_websocket.wrap_client_stream(
                    nursery, stream, HOST, "/", extra_headers=headers
                )
                client = Client(connection)
                await client.expect("connected")
                await client.send({"type": "udp_open"})  # who is behind a proxy is not local
                told = (await client.expect("error"))["data"]["message"]
                assert "over wss alone" in told
                await connection.aclose()

    trio.run(connect)


def test_realtime_connections_are_counted_by_who_opens_them(front: Front, address: str):
    statuses = []
    for n in range(ALLOWED + 2):
        opening = (
            f"GET / HTTP/1.1\r\nHost: {HOST}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
            f"X-Forwarded-For: 203.0.113.{n}\r\nSec-WebSocket-Version: 13\r\n"
            "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
        )
        answer = front.first_answer(address, opening.encode(), front.ports.wss)
        statuses.append(int(answer.split()[1]))
    assert statuses == [101] * ALLOWED + [429] * 2


SMUGGLED = b"GET /smuggled HTTP/1.1\r\nHost: localhost\r\nX: "
EMPTY = b"\r\n\r\n0\r\n\r\n"
SHAPES = {
    "both lengths": b"Content-Length: %d\r\nTransfer-Encoding: chunked" + EMPTY,
    "the other way": b"Transfer-Encoding: chunked\r\nContent-Length: %d" + EMPTY,
    "two lengths": b"Content-Length: 0\r\nContent-Length: %d\r\n\r\n",
    "a list of lengths": b"Content-Length: 0, %d\r\n\r\n",
    "a signed length": b"Content-Length: +%d\r\n\r\n",
    "a blank before the colon": b"Content-Length: %d\r\nTransfer-Encoding : chunked" + EMPTY,
    "an unknown coding": b"Content-Length: %d\r\nTransfer-Encoding: xchunked" + EMPTY,
    "two codings": b"Content-Length: %d\r\nTransfer-Encoding: chunked, x" + EMPTY,
    "a vertical tab": b"Content-Length: %d\r\nTransfer-Encoding: \x0bchunked" + EMPTY,
    "folded": b"Content-Length: %d\r\nTransfer-Encoding:\r\n chunked" + EMPTY,
    "a bare line feed": b"Content-Length: %d\r\nX: y\nTransfer-Encoding: chunked" + EMPTY,
    "an upgrade with a body": b"Content-Length: %d\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n",
    "a body that a client forbids": b"Content-Length: %d\r\nConnection: Content-Length\r\n\r\n",
}
"""Requests whose end two readers may see in different places; the number is the smuggled part's."""


@pytest.mark.parametrize("shape", SHAPES)
def test_no_request_is_smuggled_into_anothers_connection(front: Front, shape: str):
    """The proxy keeps its connections to the server; what is left in one would meet the next."""
    address, another = next(_addresses), next(_addresses)
    for path in (b"/api/time.php", b"/healthz"):
        head = b"POST " + path + b" HTTP/1.1\r\nHost: " + HOST.encode() + b"\r\n"
        front.first_answer(address, head + SHAPES[shape] % len(SMUGGLED) + SMUGGLED)
        for _ in range(3):
            status, answer = front.call(another, "GET", "/healthz")
            assert (status, answer["success"]) == (200, True)
