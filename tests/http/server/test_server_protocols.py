"""HTTP/2 and TLS over real sockets."""

from __future__ import annotations

import contextlib
import ssl
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import h2.config
import h2.connection
import h2.events
import httpx
import pytest
import trio
from certificate_kit import lock_key
from http_kit import UPGRADES, Running, exchange, read_all, replies, serving
from waiting import until

from greenroom.http.limits import CallLimits, LimitSettings
from greenroom.http.overload import delayed_refusals as refusals
from greenroom.http.server import hypercorn_server
from greenroom.http.server.parser import HTTP_2_IN_CLEAR, TARGET_BYTES_MAX, TARGET_TOO_LONG
from greenroom.network.certificate import Certificate
from greenroom.network.head_limits import FIELDS_MAX, TOO_MANY_FIELDS
from greenroom.network.tls import TlsError

H = b"Host: a\r\n"
GET = b"GET /api/x HTTP/1.1\r\n" + H + b"\r\n"
UPGRADE = (
    b"GET /chat HTTP/1.1\r\n" + H + b"Upgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
)
SERVERS = ["greenroom", "hypercorn"]


PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


# HTTP/2


def serving_http_2(**options: Any) -> AbstractAsyncContextManager[Running]:
    """A server that speaks HTTP/2 without TLS with this machine."""
    return serving(http2_clear_from=("127.0.0.1",), **options)


def post(body: bytes, path: bytes = b"/api/x") -> bytes:
    return b"POST %b HTTP/1.1\r\n%bContent-Length: %d\r\n\r\n%b" % (path, H, len(body), body)


class Http2:
    """A client of one HTTP/2 connection."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        self.stream = stream
        config = h2.config.H2Configuration(header_encoding="utf-8")
        self.connection = h2.connection.H2Connection(config)
        self.connection.initiate_connection()

    async def take_back_requests(self) -> None:
        """Ask again and again, and take it back at once."""
        while True:
            stream_id = self.connection.get_next_available_stream_id()
            self.connection.send_headers(stream_id, _head("GET", "/api/x"), end_stream=True)
            self.connection.reset_stream(stream_id)
            await self.stream.send_all(self.connection.data_to_send())

    async def request(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        *,
        end: bool = True,
        fields: Sequence[tuple[str, str]] = (),
    ) -> tuple[int, dict[str, str], bytes]:
        return await self.ask([*_head(method, path), *fields], body, end=end)

    async def ask(
        self, head: list[tuple[str, str]], body: bytes = b"", *, end: bool = True
    ) -> tuple[int, dict[str, str], bytes]:
        """Ask with all of the head given; see `request`."""
        stream_id = self.connection.get_next_available_stream_id()
        self.connection.send_headers(stream_id, head, end_stream=end and not body)
        for start in range(0, len(body), 16_000):
            part = body[start : start + 16_000]
            last = start + 16_000 >= len(body)
            self.connection.send_data(stream_id, part, end_stream=end and last)
        await self.stream.send_all(self.connection.data_to_send())
        status, headers, received = 0, dict[str, str](), b""
        while True:
            data = await self.stream.receive_some()
            assert data, "closed"
            for event in self.connection.receive_data(data):
                if isinstance(event, h2.events.ResponseReceived):
                    headers = {str(k): str(v) for k, v in event.headers}
                    status = int(headers[":status"])
                elif isinstance(event, h2.events.DataReceived):
                    received += event.data or b""
                    self.connection.acknowledge_received_data(
                        event.flow_controlled_length or 0, stream_id
                    )
                elif isinstance(event, h2.events.StreamEnded):
                    return status, headers, received
                elif isinstance(event, h2.events.StreamReset):
                    return 0, headers, received
            await self.stream.send_all(self.connection.data_to_send())


def _head(method: str, path: str) -> list[tuple[str, str]]:
    return [(":method", method), (":path", path), (":authority", "a"), (":scheme", "http")]


@pytest.mark.parametrize("server", SERVERS)
async def test_over_http_2_too_a_method_in_lower_case_is_none(server: str):
    async with serving_http_2(server=server) as running:
        client = Http2(await trio.open_tcp_stream("127.0.0.1", running.port))
        for method, path in (("get", "/healthz"), ("Get", "/healthz"), ("options", "/api/x")):
            status, _, body = await client.request(method, path)
            assert (status, b"Invalid endpoint" in body) == (404, True), method
        fields = [(f"x-{number}", "y") for number in range(FIELDS_MAX)]
        assert (await client.request("get", "/healthz", fields=fields))[0] == 404
        assert (await client.request("GET", "/healthz"))[0] == 200
        await client.stream.aclose()


@pytest.mark.parametrize("server", SERVERS)
async def test_http_2_in_the_clear_reaches_the_same_endpoints(server: str):
    async with serving_http_2(server=server, body_bytes_max=10_000) as running:
        client = Http2(await trio.open_tcp_stream("127.0.0.1", running.port))
        status, headers, body = await client.request("POST", "/api/x?q=1", b"hello")
        assert (status, headers["access-control-allow-origin"]) == (200, "*")
        assert b'"query":"q=1"' in body
        assert b'"body":"hello"' in body
        assert (await client.request("GET", "/healthz"))[0] == 200
        assert (await client.request("GET", "/nope"))[0] == 404
        assert (await client.request("POST", "/api/x", b"x" * 20_000))[0] == 413
        assert (await client.request("GET", "/api/stream"))[2] == b'{"success":true,"players":[]}'
        for path in ("/api/stream", "/healthz"):
            status, _, body = await client.request("HEAD", path)
            assert (status, body) == (200, b"")
        status, headers, body = await client.request("OPTIONS", "/healthz")
        assert (status, body) == (204, b"")
        assert headers["access-control-max-age"] == "86400"
        assert not {"content-type", "content-length"} & headers.keys()
        assert (await client.request("GET", "/api/x"))[0] == 200
        await client.stream.aclose()


async def test_http_2_is_bounded_and_charged_like_http_1(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(refusals, "HOLD_UP_SECONDS", 0.0)
    limits = CallLimits(LimitSettings(pages_per_second_address=0.2))
    async with serving_http_2(limits=limits) as running:
        client = Http2(await trio.open_tcp_stream("127.0.0.1", running.port))
        fields = [(f"x-{number}", "y") for number in range(FIELDS_MAX)]
        status, _, body = await client.request("GET", "/api/x", fields=fields)
        assert (status, TOO_MANY_FIELDS.encode() in body) == (400, True)
        status, _, body = await client.request("GET", "/api/x?" + "y" * TARGET_BYTES_MAX)
        assert (status, TARGET_TOO_LONG.encode() in body) == (400, True)
        statuses = [(await client.request("GET", path))[0] for path in ("/sync", "/nope", "/sync")]
        assert statuses == [200, 404, 429]
        assert limits.refused == {"pages by address": 1}
        assert (await client.request("GET", "/api/x"))[0] == 200
        await client.stream.aclose()


@pytest.mark.parametrize("server", SERVERS)
@pytest.mark.parametrize("path", [b"/api/x", b"/healthz", b"/nope"])
@pytest.mark.parametrize("upgrade", UPGRADES)
async def test_nobody_is_given_another_protocol_because_they_ask(
    server: str, path: bytes, upgrade: str
):
    """Not even who may speak HTTP/2 in the clear: through a proxy it would be anybody."""
    asked = b"GET " + path + b" HTTP/1.1\r\n" + H + UPGRADES[upgrade] + b"\r\n"
    async with serving(server=server, http2_clear_from=("127.0.0.1",)) as running:
        for behind in (b"", GET, PREFACE + b"\0\0\0\4\0\0\0\0\0"):
            [answer] = replies(await exchange(running.port, asked + behind))
            assert answer.status == (404 if path == b"/nope" else 200)
            assert answer.headers["connection"] == "close"


@pytest.mark.parametrize("server", SERVERS)
@pytest.mark.parametrize("upgrade", UPGRADES)
async def test_a_body_is_read_of_who_asks_for_another_protocol(server: str, upgrade: str):
    chunked = b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"
    async with serving(server=server) as running:
        for body in (b"Content-Length: 5\r\n\r\nhello", chunked):
            request = b"POST /api/x HTTP/1.1\r\n" + H + UPGRADES[upgrade] + body
            for pieces in ([request, GET], [request[:40], request[40:] + GET], [*each(request)]):
                [answer] = replies(await exchange(running.port, *pieces))
                assert (answer.status, answer.json["body"]) == (200, "hello")


def each(data: bytes) -> Iterator[bytes]:
    return (data[at : at + 1] for at in range(len(data)))


@pytest.mark.parametrize("server", SERVERS)
async def test_nobody_gets_a_tunnel(server: str):
    for form in (b"a:1", b"/api/x", b"/healthz", b"*"):
        connect = b"CONNECT " + form + b" HTTP/1.1\r\n" + H + b"\r\n"
        async with serving(server=server) as running:
            [answer] = replies(await exchange(running.port, connect + GET))
            assert answer.status >= 400 or form == b"/api/x"
            assert answer.headers["connection"] == "close"


@pytest.mark.parametrize("server", SERVERS)
async def test_nobody_gets_a_tunnel_over_http_2_and_whoever_asks_is_charged(
    server: str, monkeypatch: pytest.MonkeyPatch
):
    """Hypercorn answered them itself, three thousand a second, and no limit knew of it."""
    monkeypatch.setattr(refusals, "HOLD_UP_SECONDS", 0.0)
    limits = CallLimits(LimitSettings(pages_per_second_address=0.15))
    plain = [(":method", "CONNECT"), (":authority", "a")]
    websocket = [*_head("CONNECT", "/chat"), (":protocol", "websocket")]
    heads = [plain, websocket, [*websocket, ("sec-websocket-version", "13")], websocket]
    async with serving_http_2(server=server, limits=limits) as running:
        client = Http2(await trio.open_tcp_stream("127.0.0.1", running.port))
        statuses = [(await client.ask(head, end=False))[0] for head in heads]
        assert statuses == [404, 404, 404, 429]
        assert limits.refused == {"pages by address": 1}
        assert (await client.request("GET", "/api/x"))[0] == 200
        await client.stream.aclose()


@pytest.mark.parametrize("server", SERVERS)
@pytest.mark.parametrize("allowed", [(), ("127.0.0.2", "10.0.0.0/8")])
async def test_http_2_in_the_clear_is_for_whom_a_setting_names(
    server: str, allowed: tuple[str, ...]
):
    trusted = ("127.0.0.1",)  # whoever may say for whom they speak may not for that reason speak it
    options: Any = {"http2_clear_from": allowed, "trusted_proxies": trusted}
    async with serving(server=server, **options) as running:
        for rest in (b"", b"\0\0\0\4\0\0\0\0\0", GET):
            [answer] = replies(await exchange(running.port, PREFACE + rest))
            assert (answer.status, answer.json["error"]) == (400, HTTP_2_IN_CLEAR)
            assert answer.headers["connection"] == "close"


@pytest.mark.parametrize("server", SERVERS)
async def test_http_2_in_the_clear_begins_with_the_connection_or_not_at_all(server: str):
    async with serving(server=server, http2_clear_from=("127.0.0.1",)) as running:
        first, second = replies(await exchange(running.port, GET + PREFACE))
        assert first.status == 200
        assert (second.status, second.json["error"]) == (400, HTTP_2_IN_CLEAR)


async def test_an_http_2_body_that_does_not_come_is_answered_400():
    async with serving_http_2(request_seconds_max=0.2) as running:
        client = Http2(await trio.open_tcp_stream("127.0.0.1", running.port))
        status, _, body = await client.request("POST", "/api/x", b"hello", end=False)
        assert status == 400
        assert b"Request timed out" in body
        await client.stream.aclose()


async def test_broken_http_2_harms_nobody():
    async with serving_http_2(idle_seconds_max=0.3) as running:
        for rest in (
            b"",
            b"\xff" * 100,
            b"\0\0\0\4\0\0\0\0\0" + b"\0" * 64,
            b"GET / HTTP/1.1\r\n\r\n",
        ):
            await exchange(running.port, PREFACE + rest)
        client = Http2(await trio.open_tcp_stream("127.0.0.1", running.port))
        assert (await client.request("GET", "/api/x"))[0] == 200
        await client.stream.aclose()
        await until(lambda: running.connections == 0)


async def test_streams_that_are_opened_and_reset_end_their_connection_after_so_many(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(hypercorn_server, "REQUESTS_A_CONNECTION_MAX", 50)
    async with serving_http_2() as running:
        client = Http2(await trio.open_tcp_stream("127.0.0.1", running.port))
        with pytest.raises(trio.BrokenResourceError):
            await client.take_back_requests()
        await client.stream.aclose()
        await until(lambda: running.connections == 0)


async def test_http_2_bodies_are_bounded_together():
    async with serving_http_2(bodies_bytes_max=150_000, body_bytes_max=100_000) as running:
        client = Http2(await trio.open_tcp_stream("127.0.0.1", running.port))
        assert (await client.request("POST", "/api/x", b"x" * 60_000))[0] == 429
        assert (await client.request("POST", "/api/x", b"x" * 40_000))[0] == 200
        await client.stream.aclose()


async def test_http_2_answers_are_bounded_together():
    async with serving_http_2(answers_bytes_max=1_000_000) as running:
        client = Http2(await trio.open_tcp_stream("127.0.0.1", running.port))
        assert (await client.request("GET", "/api/large"))[0] == 429
        assert (await client.request("GET", "/api/x"))[0] == 200
        await client.stream.aclose()


# TLS


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A certificate for localhost, its key, and its authority."""
    trustme = pytest.importorskip("trustme")
    directory = tmp_path_factory.mktemp("tls")
    authority = trustme.CA()
    issued = authority.issue_cert("localhost", "127.0.0.1")
    issued.private_key_and_cert_chain_pem.write_to_path(directory / "both.pem")
    issued.private_key_pem.write_to_path(directory / "key.pem")
    issued.cert_chain_pems[0].write_to_path(directory / "cert.pem")
    authority.cert_pem.write_to_path(directory / "ca.pem")
    authority.issue_cert("localhost").private_key_pem.write_to_path(directory / "foreign.pem")
    lock_key(directory / "key.pem", directory / "locked.pem")
    names = ("both", "key", "cert", "ca", "foreign", "locked")
    return {name: str(directory / f"{name}.pem") for name in names}


@pytest.fixture
def trusting(certificate: dict[str, str]) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=certificate["ca"])


@pytest.fixture
async def tls_server(certificate: dict[str, str]) -> AsyncIterator[Running]:
    async with serving(
        tls=Certificate(Path(certificate["cert"]), Path(certificate["key"])).get_http_context,
        handshake_seconds_max=0.5,
    ) as running:
        yield running


async def open_tls(port: int, context: ssl.SSLContext) -> trio.SSLStream[trio.SocketStream]:
    plain = await trio.open_tcp_stream("127.0.0.1", port)
    stream = trio.SSLStream(plain, context, server_hostname="localhost", https_compatible=True)
    try:
        await stream.do_handshake()
    except trio.BrokenResourceError:
        await trio.aclose_forcefully(stream)
        raise
    return stream


async def test_https_serves_the_fast_path_and_the_rest(
    tls_server: Running, trusting: ssl.SSLContext
):
    assert tls_server.server.scheme == "https"
    stream = await open_tls(tls_server.port, trusting)
    for request in (GET, post(b"x" * 60_000), GET.replace(b"/api/x", b"/healthz"), GET):
        await stream.send_all(request)
        data = bytearray()
        while b"}" not in data:
            data += await stream.receive_some()
        assert data.startswith(b"HTTP/1.1 200")
    await stream.aclose()


async def test_https_offers_http_2(tls_server: Running, trusting: ssl.SSLContext):
    trusting.set_alpn_protocols(["h2", "http/1.1"])
    stream = await open_tls(tls_server.port, trusting)
    assert stream.selected_alpn_protocol() == "h2"
    client = Http2(stream)
    status, _, body = await client.request("POST", "/api/x", b"hello")
    assert status == 200
    assert b'"body":"hello"' in body
    await trio.aclose_forcefully(stream)


async def test_https_answers_an_ordinary_client(
    tls_server: Running, certificate: dict[str, str], trusting: ssl.SSLContext
):
    base = f"https://127.0.0.1:{tls_server.port}"
    for http2 in (False, True):
        context = ssl.create_default_context(cafile=certificate["ca"])
        async with httpx.AsyncClient(http2=http2, verify=context) as client:
            answer = await client.post(f"{base}/api/x", content=b"hello")
            assert answer.http_version == ("HTTP/2" if http2 else "HTTP/1.1")
            assert answer.json()["body"] == "hello"
            assert (await client.get(f"{base}/healthz")).status_code == 200


async def test_old_tls_is_refused(tls_server: Running, certificate: dict[str, str]):
    context = ssl.create_default_context(cafile=certificate["ca"])
    context.minimum_version = ssl.TLSVersion.MINIMUM_SUPPORTED
    with pytest.warns(DeprecationWarning, match="TLSv1_1"):
        context.maximum_version = ssl.TLSVersion.TLSv1_1
    with pytest.raises(trio.BrokenResourceError):
        await open_tls(tls_server.port, context)


async def test_a_handshake_that_does_not_happen_ends(tls_server: Running):
    for sent in (b"", GET, b"\x16\x03\x01"):
        stream = await trio.open_tcp_stream("127.0.0.1", tls_server.port)
        await stream.send_all(sent)
        with contextlib.suppress(trio.BrokenResourceError):
            assert b"HTTP" not in await read_all(stream)
        await stream.aclose()
    await until(lambda: tls_server.connections == 0)


def test_a_certificate_that_cannot_be_used_is_one_clear_sentence(
    certificate: dict[str, str], tmp_path_factory: pytest.TempPathFactory
):
    missing = tmp_path_factory.mktemp("empty") / "none.pem"
    other = missing.with_name("other.pem")
    other.write_text("nonsense")
    cases: list[Any] = [
        (certificate["cert"], missing, "cannot be read: No such file"),
        (missing, certificate["key"], "cannot be read: No such file"),
        (other, certificate["key"], "cannot be used with its key"),
        (certificate["cert"], missing.parent, "is not a file"),
        (certificate["cert"], certificate["foreign"], "does not belong to the first certificate"),
        (certificate["ca"], certificate["key"], "does not belong to the first certificate"),
        (certificate["cert"], certificate["locked"], "is encrypted: give one without a password"),
    ]
    for certificate_file, key_file, text in cases:
        with pytest.raises(TlsError, match=text):
            Certificate(Path(certificate_file), Path(key_file))
    both = Path(certificate["both"])
    assert Certificate(both, both).validity.find_state() == "valid"
