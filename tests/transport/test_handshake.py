"""Answers of the realtime port to a first request, whatever it is."""

from __future__ import annotations

import socket
import ssl
from contextlib import AsyncExitStack

import msgspec
import pytest
import trio
import trio_websocket
import trustme
from http_kit import exchange, read_all, replies
from realtime_kit import Client, RealtimeKit, open_stage

from greenroom.actors.room.messages import KickMember
from greenroom.http.limits import CallLimits, LimitSettings
from greenroom.network.addresses import INVALID_HOST
from greenroom.network.head_limits import FIELDS_MAX
from greenroom.network.sockets import ListenError
from greenroom.network.target import OTHER_HOST
from greenroom.transport import listener as websocket
from greenroom.transport.arrival.handshake import (
    HEAD_BYTES_MAX,
    INVALID_HANDSHAKE,
    NotAnOpening,
    Opening,
    overloaded,
    read_opening,
)
from greenroom.transport.messages import ClientKind

UPGRADE = {
    "Host": "a",
    "Upgrade": "websocket",
    "Connection": "keep-alive, Upgrade",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
    "Sec-WebSocket-Version": "13",
}


def opening(to: str = "/", **changes: str | None) -> Opening:
    headers = UPGRADE | {name.replace("_", "-"): text for name, text in changes.items()}
    lines = [f"{name}: {text}" for name, text in headers.items() if text is not None]
    return read_opening("\r\n".join([f"GET {to} HTTP/1.1", *lines, "", ""]).encode())


def request(*more: str) -> bytes:
    """A whole request for a WebSocket."""
    lines = [f"{name}: {text}" for name, text in UPGRADE.items()]
    return "\r\n".join(["GET / HTTP/1.1", *lines, *more, "", ""]).encode()


async def status_of(stage: RealtimeKit, head: bytes) -> int:
    """Return the status that a request is answered with."""
    return int((await exchange(stage.port.port, head)).split()[1])


@pytest.mark.parametrize(
    ("head", "status", "text"),
    [
        (b"GET /rooms HTTP/1.1\r\nHost: a\r\n\r\n", 404, "Invalid endpoint"),
        (b"POST / HTTP/1.1\r\nHost: a\r\n\r\n", 404, "Invalid endpoint"),
        (b"\x16\x03\x01", 400, "Invalid HTTP request"),
        (b"PRI * HTTP/2.0\r\n\r\n", 400, "Invalid HTTP request"),
        (b"", 400, "Invalid HTTP request"),
        (b"GET / HTTP/1.1\r\nHost: a\r\nUPGRADE: websocket\r\n\r\n", 426, INVALID_HANDSHAKE),
        (b"GET / HTTP/1.1\r\n\r\n", 400, INVALID_HOST),
        (b"GET / HTTP/1.1\r\nUpgrade: websocket\r\n\r\n", 400, INVALID_HOST),
    ],
)
def test_what_is_no_opening_is_refused(head: bytes, status: int, text: str):
    with pytest.raises(NotAnOpening) as other:
        read_opening(head)
    [reply] = replies(other.value.answer)
    assert (reply.status, reply.json) == (status, {"success": False, "error": text})


@pytest.mark.parametrize(
    "changes",
    [
        {"Connection": "keep-alive"},
        {"Connection": None},
        {"Sec_WebSocket_Key": None},
        {"Sec_WebSocket_Key": "short"},
        {"Sec_WebSocket_Key": "AAAA"},
        {"Sec_WebSocket_Version": "8"},
        {"Sec_WebSocket_Version": None},
    ],
)
def test_a_broken_opening_is_refused(changes: dict[str, str | None]):
    with pytest.raises(NotAnOpening) as other:
        opening("/", **changes)
    [reply] = replies(other.value.answer)
    assert reply.json["error"] == "Invalid WebSocket handshake"


@pytest.mark.parametrize("target", ["/", "/?client=json"])
@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_the_root_is_there(target: str, method: str):
    with pytest.raises(NotAnOpening) as other:
        read_opening(f"{method} {target} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
    [reply] = replies(other.value.answer, heads=(0,) if method == "HEAD" else ())
    assert (reply.status, reply.headers["content-length"]) == (200, "2")
    assert reply.body == (b"" if method == "HEAD" else b"OK")
    assert reply.headers["content-type"] == "text/plain; charset=utf-8"
    assert reply.headers["access-control-allow-origin"] == "*"


def test_the_accepted_key_is_that_of_the_standard():
    answer = opening().answer
    assert b"\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n" in answer
    assert b"Sec-WebSocket-Protocol" not in answer


def test_no_extension_is_agreed_to():
    offered = opening(Sec_WebSocket_Extensions="permessage-deflate; client_max_window_bits")
    assert b"xtensions" not in offered.answer


@pytest.mark.parametrize(
    ("target", "changes", "token"),
    [
        ("/", {}, None),
        ("/?token=abc", {}, None),
        ("/", {"X_Realtime_Token": ""}, None),
        ("/", {"X_Realtime_Token": "abc"}, "abc"),
        ("/", {"Sec_WebSocket_Protocol": "greenroom.v1, token.abc"}, "abc"),
        ("/", {"Sec_WebSocket_Protocol": "greenroom.v1,token."}, None),
        ("/", {"X_Realtime_Token": "x", "Sec_WebSocket_Protocol": "token.abc"}, "x"),
        ("/", {"Sec_WebSocket_Protocol": "token.abc, token.def"}, "abc"),
        ("/", {"Sec_WebSocket_Protocol": "abc, Token.abc, greenroom.v1token.abc"}, None),
        ("/", {"Cookie": "token=abc; X-Realtime-Token=abc"}, None),
        ("/", {"Authorization": "Bearer abc"}, None),
        ("/", {"X_Game_Player_Token": "abc"}, None),
        ("/?X-Realtime-Token=abc&protocol=token.abc", {}, None),
        ("/#token.abc", {}, None),
    ],
)
def test_tokens_come_by_header_or_subprotocol(
    target: str, changes: dict[str, str | None], token: str | None
):
    assert opening(target, **changes).token == token


def test_the_servers_choice_of_subprotocols_never_holds_the_token():
    answer = opening(Sec_WebSocket_Protocol="token.abc, greenroom.v1").answer
    assert b"Sec-WebSocket-Protocol: greenroom.v1\r\n" in answer
    assert b"abc" not in answer


@pytest.mark.parametrize("origin", ["https://evil.example", "null", ""])
def test_a_page_of_any_origin_is_as_good_as_its_token_and_no_better(origin: str):
    assert opening(Origin=origin).token is None  # nothing that a browser adds by itself counts
    assert opening(Origin=origin, X_Realtime_Token="abc").answer == opening().answer


def test_many_subprotocols_are_read_and_answered_with_none_of_the_clients():
    offered = ", ".join([*(f"p{n}" for n in range(1_000)), "greenroom.v1", "token.abc"])
    found = opening(Sec_WebSocket_Protocol=offered)
    assert found.token == "abc"
    assert found.answer.count(b"Sec-WebSocket-Protocol") == 1
    hostile = opening(Sec_WebSocket_Protocol="greenroom.v1\tX: y, greenroom.v2, token.a b")
    assert b"Sec-WebSocket-Protocol" not in hostile.answer


@pytest.mark.parametrize("protocol", ["h2c", "TLS/1.0, h2c", "websockets"])
def test_no_protocol_but_websocket_is_changed_to(protocol: str):
    with pytest.raises(NotAnOpening) as other:
        opening(Upgrade=protocol, HTTP2_Settings="AAMAAABkAAQAoAAAAAIAAAAA")
    [reply] = replies(other.value.answer)
    assert (reply.status, reply.body, reply.headers["connection"]) == (200, b"OK", "close")


def test_an_opening_without_a_body_may_say_so():
    assert opening(Content_Length="0").host == "a"


def test_http_1_0_knows_no_host():
    with pytest.raises(NotAnOpening) as other:
        read_opening(b"GET / HTTP/1.0\r\n\r\n")
    assert replies(other.value.answer)[0].status == 200


def test_an_opening_for_another_host_than_its_header_is_refused():
    assert opening("http://A:80/", Host="a").host == "A"
    with pytest.raises(NotAnOpening) as other:
        opening("http://other.example/", Host="localhost")
    [reply] = replies(other.value.answer)
    assert (reply.status, reply.json["error"]) == (400, OTHER_HOST)


@pytest.mark.parametrize(
    "host", [None, "a b", "a, b", "a/b", "a\r\nHost: b", "a\r\nHost: a", "[x]"]
)
def test_an_opening_is_for_one_host(host: str | None):
    with pytest.raises(NotAnOpening) as other:
        opening(Host=host)
    [reply] = replies(other.value.answer)
    assert (reply.status, reply.json["error"]) == (400, INVALID_HOST)


@pytest.mark.parametrize(
    "more",
    [
        b"Content-Length: 1\r\nContent-Length: 2\r\n",
        b"Content-Length: 1\r\nTransfer-Encoding: chunked\r\n",
        b"Content-Length: 5\r\n",
        b"Content-Length: 00005\r\n",
        b"Content-Length: 0\r\nContent-Length: 0\r\n",
        b"Transfer-Encoding: chunked\r\n",
        b"Transfer-Encoding: identity\r\n",
        b"transfer-encoding:\r\n",
        b"X : y\r\n",
        b"X: y\r\n z\r\n",
        b"X: y\nZ: z\r\n",
        b"X: \0\r\n",
        b"X-Realtime-Token: a\rb\r\n",
    ],
)
def test_an_opening_of_two_meanings_is_refused(more: bytes):
    head = request().removesuffix(b"\r\n") + more + b"\r\n"
    with pytest.raises(NotAnOpening) as other:
        read_opening(head)
    [reply] = replies(other.value.answer)
    assert (reply.status, reply.json["error"]) == (400, "Invalid HTTP request")


@pytest.mark.parametrize(
    ("head", "text"),
    [
        (request(*["a:"] * FIELDS_MAX), "Too many header fields"),
        (request().replace(b" / ", b" /?%b " % (b"a=b&" * 1_000)), "Invalid HTTP request"),
    ],
    ids=["fields", "query"],
)
def test_an_opening_of_more_than_anybody_says_is_refused(head: bytes, text: str):
    with pytest.raises(NotAnOpening) as other:
        read_opening(head)
    [reply] = replies(other.value.answer)
    assert (reply.status, reply.json["error"]) == (400, text)


@pytest.mark.parametrize(
    ("query", "kind", "resume"),
    [
        ("", ClientKind.JSON, None),
        ("?client=json", ClientKind.JSON, None),
        ("?client=nonsense&resume=", ClientKind.JSON, None),
        ("?client=engine&resume=ab.7", ClientKind.ENGINE, ("ab", 7)),
        ("?resume=ab.7&client=unity", ClientKind.ENGINE, ("ab", 7)),
        ("?resume=ab", ClientKind.JSON, ("", 0)),
        ("?resume=ab.%C2%B2", ClientKind.JSON, ("", 0)),
        ("?resume=ab." + "9" * 5_000, ClientKind.JSON, ("", 0)),
    ],
)
def test_the_query_says_what_the_client_is(
    query: str, kind: ClientKind, resume: tuple[str, int] | None
):
    found = opening("/" + query)
    assert (found.kind, found.resume) == (kind, resume)


def test_one_connection_too_many_is_told_when_to_come_back():
    [reply] = replies(overloaded(5))
    assert (reply.status, reply.headers["retry-after"]) == (429, "5")
    assert reply.json == {"success": False, "error": "Too many requests", "retry_after": 5}


# Over sockets.


async def test_the_port_answers_whatever_clients_do():
    async with open_stage() as stage:
        number = stage.port.port
        for _ in range(3):
            [reply] = replies(await exchange(number, b"GET / HT", b"TP/1.1\r\nHost: a\r\n\r\n"))
            assert reply.body == b"OK"
            gone = await trio.open_tcp_stream("127.0.0.1", number)
            gone.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            await gone.aclose()
        options = msgspec.structs.replace(stage.port._options, port=number)
        taken = type(stage.port)(options, stage.arena.world, stage.hub)
        with pytest.raises(ListenError, match="another program"):
            await taken.run()


async def test_a_head_that_does_not_end_is_bounded_and_one_that_does_not_come_is_given_up():
    async with open_stage(handshake_seconds_max=0.2) as stage:
        stream = await trio.open_tcp_stream("127.0.0.1", stage.port.port)
        async with stream:
            await stream.send_all(b"GET / HTTP/1.1\r\nX: " + b"y" * HEAD_BYTES_MAX)
            assert b" 400 Bad Request" in await read_all(stream)
        stream = await trio.open_tcp_stream("127.0.0.1", stage.port.port)
        async with stream:
            assert await read_all(stream) == b""


async def test_more_connections_than_allowed_are_refused():
    async with open_stage(connections_max=2, connections_per_address_max=1) as stage:
        async with stage.connected(0):
            [reply] = replies(await exchange(stage.port.port, b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"))
            assert (reply.status, reply.json["retry_after"]) == (429, 5)


def by_address(**settings: float) -> CallLimits:
    """Limits that a test can reach, and that give way to nobody while it lasts."""
    return CallLimits(LimitSettings(rate_burst_seconds=200, **settings))


async def test_an_address_connects_as_often_as_its_limit_says():
    limits = by_address(realtime_connections_per_second_address=0.01)
    async with open_stage(limits=limits) as stage:
        token = await stage.token(0)
        for _ in range(2):
            async with stage.dial(token) as client:
                await client.expect("connected")
        [reply] = replies(await exchange(stage.port.port, request(f"X-Realtime-Token: {token}")))
        assert reply.status == 429
        assert 90 < reply.json["retry_after"] <= 100
        assert reply.headers["retry-after"] == str(reply.json["retry_after"])
        assert limits.refused == {"realtime connections by address": 1}


async def test_refused_connections_that_nobody_ends_are_ended_and_bounded(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(websocket, "REFUSALS_MAX", 1)
    limits = by_address(realtime_connections_per_second_address=0.005)
    async with open_stage(limits=limits, close_seconds_max=0.2) as stage:
        await exchange(stage.port.port, b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        answers = list[bytes]()
        async with AsyncExitStack() as stack:
            for is_last in (False, False, True):
                if is_last:
                    with trio.fail_after(5):
                        while stage.port._refusals:
                            await trio.lowlevel.checkpoint()
                stream = await trio.open_tcp_stream("127.0.0.1", stage.port.port)
                answers.append(await read_all(await stack.enter_async_context(stream)))
        assert [b" 429 " in answer for answer in answers] == [True, False, True]


async def test_behind_a_trusted_proxy_each_client_has_their_own_limit():
    limits = by_address(realtime_connections_per_second_address=0.01)
    async with open_stage(limits=limits, trusted_proxies=("127.0.0.1",)) as stage:
        ada = request("X-Forwarded-For: 6.6.6.6, 203.0.113.1")
        bob = request("X-Forwarded-For: 203.0.113.2")
        statuses = [await status_of(stage, head) for head in (ada, ada, ada, bob, bob, bob)]
        assert statuses == [101, 101, 429, 101, 101, 429]
    async with open_stage(limits=by_address(realtime_connections_per_second_address=0.01)) as stage:
        statuses = [await status_of(stage, head) for head in (ada, ada, bob)]
        assert statuses == [101, 101, 429]


async def test_whoever_brings_wrong_tokens_is_refused_before_they_are_looked_at():
    limits = by_address(failed_tokens_per_second_address=0.01)
    async with open_stage(limits=limits) as stage:
        for token in ("0" * 64, "nonsense"):
            async with stage.dial(token) as client:
                assert (await client.closed()) == (1008, "Invalid token")
        [reply] = replies(await exchange(stage.port.port, request("X-Realtime-Token: x")))
        assert reply.status == 429
        assert limits.refused == {"failed tokens by address": 1}


async def test_tokens_that_were_good_and_none_at_all_are_not_held_against_anybody():
    limits = by_address(failed_tokens_per_second_address=0.01)
    async with open_stage(limits=limits) as stage:
        token = await stage.token(1)
        await stage.room.ask(KickMember(stage.player_id(0), stage.player_id(1)))
        for _ in range(3):
            async with stage.dial(None) as client:
                assert (await client.closed())[1] == "Token required"
            async with stage.dial(token) as client:
                assert (await client.closed())[1] == "Token invalidated"


def tls_contexts() -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """A server's, and one of clients that trust it."""
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(context)
    trusting = ssl.create_default_context()
    authority.configure_trust(trusting)
    return context, trusting


async def test_the_channel_speaks_tls():
    context, trusting = tls_contexts()
    async with open_stage(tls=lambda: context) as stage:
        url = f"wss://localhost:{stage.port.port}/"
        clients = []
        async with trio.open_nursery() as nursery:
            for number in range(2):
                headers = [(b"X-Realtime-Token", (await stage.token(number)).encode())]
                connection = await trio_websocket.connect_websocket_url(
                    nursery, url, trusting, extra_headers=headers
                )
                clients.append(Client(connection))
                await clients[-1].expect("connected")
            for size in (1, 70_000):
                await clients[0].say("x", ["y" * 30] * (size // 40))
                assert (await clients[1].expect("receive"))["command"] == "x"
                await clients[0].expect("sent")
            junk = await trio.open_tcp_stream("localhost", stage.port.port)
            async with junk:
                await junk.send_all(b"GET / HTTP/1.1\r\n\r\n")
                await read_all(junk)
            for client in clients:
                await client.connection.aclose()
            nursery.cancel_scope.cancel()


CLOSE_NOTIFY = b""
"""The peer says goodbye in TLS alone."""


@pytest.mark.parametrize(
    "last_words",
    [
        CLOSE_NOTIFY,
        b"\x17\x03\x03\x00\x20" + bytes(32),
        b"\x16\x03\x03\x00\x04" + bytes(4),
        b"GET / HTTP/1.1\r\n\r\n",
    ],
    ids=["close_notify", "forged record", "handshake again", "no record"],
)
async def test_who_breaks_tls_ends_their_own_connection_alone(last_words: bytes):
    context, trusting = tls_contexts()
    async with open_stage(tls=lambda: context) as stage:
        url = f"wss://localhost:{stage.port.port}/"
        token = (await stage.token(0)).encode()
        async with trio_websocket.open_websocket_url(
            url, trusting, extra_headers=[(b"X-Realtime-Token", token)]
        ) as connection:
            client = Client(connection)
            await client.expect("connected")
            plain = await trio.open_tcp_stream("localhost", stage.port.port)
            broken = trio.SSLStream(plain, trusting, server_hostname="localhost")
            await broken.send_all(request(f"X-Realtime-Token: {await stage.token(1)}"))
            await broken.receive_some()
            if last_words is CLOSE_NOTIFY:
                with pytest.raises(ssl.SSLError):
                    broken._ssl_object.unwrap()
                last_words = broken._outgoing.read()
            await plain.send_all(last_words)
            await client.say("x")
            await read_all(plain)
            await trio.aclose_forcefully(plain)
            await client.expect("sent")
            await client.nothing_more()
