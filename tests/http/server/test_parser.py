"""The parser alone: what it accepts, what it refuses, and that no split of the bytes matters."""

from __future__ import annotations

import itertools
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from greenroom.http.request import PAGE_BODY_BYTES_MAX
from greenroom.http.server.head_cache import (
    HEAD_BYTES_MAX,
    HEADS_KNOWN_MAX,
    Head,
    KnownHeads,
)
from greenroom.http.server.parser import (
    HEAD_TOO_LARGE,
    HTTP_2,
    NEED_DATA,
    REQUEST,
    TARGET_BYTES_MAX,
    TARGET_TOO_LONG,
    TOO_LARGE,
    UNKNOWN_METHOD,
    BadRequest,
    RequestParser,
)
from greenroom.network.addresses import INVALID_HOST
from greenroom.network.head_limits import FIELDS_MAX, INVALID_REQUEST, TOO_MANY_FIELDS

H = b"Host: a\r\n"
CHUNKED = b"POST /api/x HTTP/1.1\r\n" + H + b"Transfer-Encoding: chunked\r\n\r\n"


def parser(known: KnownHeads | None = None, **bounds: int) -> RequestParser:
    defaults = {"header_bytes_max": 2_000, "body_bytes_max": 1_000, "drain_bytes_max": 4_000}
    return RequestParser(**(defaults | bounds), known=known or KnownHeads())


def parse(pieces: list[bytes], known: KnownHeads | None = None, **bounds: int) -> list[Any]:
    """Feed pieces; return the requests found, and at the end how it ended."""
    reader = parser(known, **bounds)
    found: list[Any] = []
    for index, piece in enumerate(pieces):
        reader.receive(piece)
        try:
            while (event := reader.read_next()) is not NEED_DATA:
                if event is HTTP_2:
                    unread = b"".join(pieces[index + 1 :])
                    return [*found, ("HTTP_2", reader.take_rest() + unread)]
                if event is TOO_LARGE:
                    found.append("TOO_LARGE")
                else:
                    found.append(
                        (
                            reader.method,
                            reader.path,
                            reader.query,
                            dict(reader.headers),
                            reader.body,
                            reader.keep_alive,
                        )
                    )
        except BadRequest as error:
            return [*found, str(error)]
    return [*found, "MIDWAY" if reader.in_message else "DONE"]


def request_of(method: str, path: str, body: bytes = b"", **more: Any) -> Any:
    headers = {"host": "a"} | more.get("headers", {})
    return (method, path, more.get("query", ""), headers, body, more.get("keep_alive", True))


GOOD = {
    "a GET": (
        b"GET /api/x?q=1&r HTTP/1.1\r\n" + H + b"\r\n",
        [request_of("GET", "/api/x", query="q=1&r")],
    ),
    "escapes in the path": (
        b"GET /api/%78%2Fy%C3%A9 HTTP/1.1\r\n" + H + b"\r\n",
        [request_of("GET", "/api/x/y\u00e9")],
    ),
    "an escaped area name": (
        b"GET /%61pi/x HTTP/1.1\r\n" + H + b"\r\n",
        [request_of("GET", "/api/x")],
    ),
    "bad escapes": (
        b"GET /api/%zz%ff HTTP/1.1\r\n" + H + b"\r\n",
        [request_of("GET", "/api/%zz\ufffd")],
    ),
    "a fragment": (b"GET /api/x#y?z HTTP/1.1\r\n" + H + b"\r\n", [request_of("GET", "/api/x")]),
    "the absolute form": (
        b"GET http://a/api/x?q HTTP/1.1\r\n" + H + b"\r\n",
        [request_of("GET", "/api/x", query="q")],
    ),
    "a body": (
        b"POST /api/x HTTP/1.1\r\n" + H + b"Content-Length: 5\r\n\r\nhe\r\n\r",
        [request_of("POST", "/api/x", b"he\r\n\r", headers={"content-length": "5"})],
    ),
    "a body of nothing": (
        b"POST /api/x HTTP/1.1\r\n" + H + b"Content-Length: 0\r\n\r\n",
        [request_of("POST", "/api/x", headers={"content-length": "0"})],
    ),
    "chunks": (
        CHUNKED + b'3;a="b"\r\n\r\n\r\r\nA\r\n\n\r\n\r\n01234\r\n0\r\n\r\n',
        [
            request_of(
                "POST",
                "/api/x",
                b"\r\n\r\n\r\n\r\n01234",
                headers={"transfer-encoding": "chunked"},
            )
        ],
    ),
    "trailers are thrown away": (
        CHUNKED + b"1\r\nx\r\n0\r\nX-Api-Token: late\r\nHost: b\r\n\r\n",
        [request_of("POST", "/api/x", b"x", headers={"transfer-encoding": "chunked"})],
    ),
    "headers given twice": (
        b"GET /api/x HTTP/1.1\r\n" + H + b"X-Api-Token: a\r\nx-api-token: a\r\n\r\n",
        [request_of("GET", "/api/x", headers={"x-api-token": "a, a"})],
    ),
    "white space round a value": (
        b"GET /api/x HTTP/1.1\r\n" + H + b"X-Api-Token: \t a \t\r\n\r\n",
        [request_of("GET", "/api/x", headers={"x-api-token": "a"})],
    ),
    "bytes beyond ASCII in a value": (
        b"GET /api/x HTTP/1.1\r\n" + H + b"X-Name: \xc3\xa9\r\n\r\n",
        [request_of("GET", "/api/x", headers={"x-name": "\u00c3\u00a9"})],
    ),
    "HTTP/1.0 without Host": (
        b"GET /api/x HTTP/1.0\r\n\r\n",
        [("GET", "/api/x", "", {}, b"", False)],
    ),
    "HTTP/1.0 that stays": (
        b"GET /api/x HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n",
        [("GET", "/api/x", "", {"connection": "Keep-Alive"}, b"", True)],
    ),
    "one that closes": (
        b"GET /api/x HTTP/1.1\r\n" + H + b"Connection: foo, Close\r\n\r\n",
        [request_of("GET", "/api/x", headers={"connection": "foo, Close"}, keep_alive=False)],
    ),
    "an IPv6 host": (
        b"GET /api/x HTTP/1.1\r\nHost: [::1]:8080\r\n\r\n",
        [("GET", "/api/x", "", {"host": "[::1]:8080"}, b"", True)],
    ),
    "empty lines in front": (
        b"\r\n\r\nGET /api/x HTTP/1.1\r\n" + H + b"\r\n",
        [request_of("GET", "/api/x")],
    ),
    "pipelining": (
        b"GET /api/1 HTTP/1.1\r\n" + H + b"\r\n"
        b"POST /api/2 HTTP/1.1\r\n"
        + H
        + b"Content-Length: 4\r\n\r\n\r\n\r\n"
        + CHUNKED
        + b"4\r\n\r\n\r\n\r\n0\r\n\r\n"
        b"GET /api/4 HTTP/1.1\r\n" + H + b"\r\n",
        [
            request_of("GET", "/api/1"),
            request_of("POST", "/api/2", b"\r\n\r\n", headers={"content-length": "4"}),
            request_of("POST", "/api/x", b"\r\n\r\n", headers={"transfer-encoding": "chunked"}),
            request_of("GET", "/api/4"),
        ],
    ),
    "a body that is too large, then a request": (
        b"POST /api/x HTTP/1.1\r\n"
        + H
        + b"Content-Length: 1001\r\n\r\n"
        + b"x" * 1001
        + b"GET /api/x HTTP/1.1\r\n"
        + H
        + b"\r\n",
        ["TOO_LARGE", request_of("GET", "/api/x")],
    ),
    "chunks that are too large, then a request": (
        CHUNKED
        + b"1f4\r\n"
        + b"x" * 500
        + b"\r\n1f5\r\n"
        + b"x" * 501
        + b"\r\n0\r\n\r\n"
        + b"GET /api/x HTTP/1.1\r\n"
        + H
        + b"\r\n",
        ["TOO_LARGE", request_of("GET", "/api/x")],
    ),
    "other paths": (
        b"GET /healthz HTTP/1.1\r\n" + H + b"\r\n"
        b"GET /api HTTP/1.1\r\n" + H + b"\r\n"
        b"POST /x HTTP/1.1\r\n" + H + b"Content-Length: 3\r\n\r\nabc"
        b"OPTIONS * HTTP/1.1\r\n" + H + b"\r\n",
        [
            request_of("GET", "/healthz"),
            request_of("GET", "/api"),
            request_of("POST", "/x", b"abc", headers={"content-length": "3"}),
            request_of("OPTIONS", "*"),
        ],
    ),
    "CONNECT": (
        b"CONNECT a:1 HTTP/1.1\r\n" + H + b"\r\n",
        [request_of("CONNECT", "a:1", keep_alive=False)],
    ),
    "the largest body": (
        b"POST /api/x HTTP/1.1\r\n" + H + b"Content-Length: 1000\r\n\r\n" + b"x" * 1000,
        [request_of("POST", "/api/x", b"x" * 1000, headers={"content-length": "1000"})],
    ),
}

BAD = {
    "bare line feeds": b"GET /api/x HTTP/1.1\nHost: a\n\n",
    "a bare line feed": b"GET /api/x HTTP/1.1\r\nHost: a\nX: y\r\n\r\n",
    "obsolete folding": b"GET /api/x HTTP/1.1\r\n" + H + b"X: y\r\n z\r\n\r\n",
    "white space before the colon": b"GET /api/x HTTP/1.1\r\n" + H + b"X : y\r\n\r\n",
    "white space before the first header": b"GET /api/x HTTP/1.1\r\n " + H + b"\r\n",
    "NUL in a value": b"GET /api/x HTTP/1.1\r\n" + H + b"X: \0\r\n\r\n",
    "CR in a value": b"GET /api/x HTTP/1.1\r\n" + H + b"X: y\rz\r\n\r\n",
    "a header without a name": b"GET /api/x HTTP/1.1\r\n" + H + b": y\r\n\r\n",
    "a header without a colon": b"GET /api/x HTTP/1.1\r\n" + H + b"X\r\n\r\n",
    "two lengths": b"POST /api/x HTTP/1.1\r\n"
    + H
    + b"Content-Length: 1\r\nContent-Length: 1\r\n\r\na",
    "a list of lengths": b"POST /api/x HTTP/1.1\r\n" + H + b"Content-Length: 1, 1\r\n\r\na",
    "a signed length": b"POST /api/x HTTP/1.1\r\n" + H + b"Content-Length: +1\r\n\r\na",
    "a negative length": b"POST /api/x HTTP/1.1\r\n" + H + b"Content-Length: -1\r\n\r\na",
    "a huge length": b"POST /api/x HTTP/1.1\r\n"
    + H
    + b"Content-Length: "
    + b"9" * 30
    + b"\r\n\r\n",
    "a length of many digits": b"POST /api/x HTTP/1.1\r\n"
    + H
    + b"Content-Length: "
    + b"0" * 99
    + b"1\r\n\r\na",
    "length and coding": b"POST /api/x HTTP/1.1\r\n"
    + H
    + b"Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "coding and length": b"POST /api/x HTTP/1.1\r\n"
    + H
    + b"Transfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n0\r\n\r\n",
    "two codings": b"POST /api/x HTTP/1.1\r\n"
    + H
    + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "an unknown coding": b"POST /api/x HTTP/1.1\r\n"
    + H
    + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "identity": b"POST /api/x HTTP/1.1\r\n" + H + b"Transfer-Encoding: identity\r\n\r\n",
    "chunks in HTTP/1.0": b"POST /api/x HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "a chunk size that is none": CHUNKED + b"zz\r\n",
    "a negative chunk": CHUNKED + b"-1\r\n",
    "a huge chunk": CHUNKED + b"F" * 17 + b"\r\n",
    "a chunk longer than said": CHUNKED + b"1\r\nxx\r\n0\r\n\r\n",
    "white space after a chunk size": CHUNKED + b"1 \r\nx\r\n0\r\n\r\n",
    "a bare line feed between chunks": CHUNKED + b"1\nx\r\n0\r\n\r\n",
    "a length among the trailers": CHUNKED + b"0\r\nContent-Length: 3\r\n\r\nGET",
    "endless trailers": CHUNKED + b"0\r\nX: " + b"y" * 3_000 + b"\r\n\r\n",
    "endless chunk extensions": CHUNKED + b"1;" + b"y" * 3_000 + b"\r\nx\r\n0\r\n\r\n",
    "HTTP/2.0 by name": b"GET /api/x HTTP/2.0\r\n" + H + b"\r\n",
    "HTTP/1.2": b"GET /api/x HTTP/1.2\r\n" + H + b"\r\n",
    "HTTP/0.9": b"GET /api/x\r\n\r\n",
    "a space in the path": b"GET /api/x y HTTP/1.1\r\n" + H + b"\r\n",
    "NUL in the path": b"GET /api/x\0 HTTP/1.1\r\n" + H + b"\r\n",
    "bytes beyond ASCII in the path": b"GET /api/\xc3\xa9 HTTP/1.1\r\n" + H + b"\r\n",
    "a TLS handshake": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
}

BAD_HOSTS = {
    "none": b"GET /api/x HTTP/1.1\r\n\r\n",
    "two": b"GET /api/x HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n",
    "a path": b"GET /api/x HTTP/1.1\r\nHost: a/b\r\n\r\n",
    "a user": b"GET /api/x HTTP/1.1\r\nHost: u@a\r\n\r\n",
    "a port that is none": b"GET /api/x HTTP/1.1\r\nHost: a:b\r\n\r\n",
}


def splits(data: bytes) -> list[list[bytes]]:
    """The data whole, at every boundary in two, and byte by byte."""
    pairs = [[data[:cut], data[cut:]] for cut in range(1, len(data))] if len(data) < 3_000 else []
    return [[data], *pairs, [data[i : i + 1] for i in range(len(data))]]


@pytest.mark.parametrize("name", GOOD)
def test_a_good_request_is_understood_however_it_is_split(name: str):
    data, expected = GOOD[name]
    for pieces in splits(data):
        assert parse(pieces) == [*expected, "DONE"]


def test_the_beginning_of_http_2_is_handed_on_byte_for_byte():
    data = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00"
    for pieces in splits(data):
        assert parse(pieces) == [("HTTP_2", data)]


@pytest.mark.parametrize("protocol", ["websocket", "h2c", "TLS/1.2, h2c"])
def test_whoever_asks_for_another_protocol_is_read_as_if_they_had_not(protocol: str):
    upgrade = f"Connection: Upgrade\r\nUpgrade: {protocol}\r\n".encode()
    headers = {"connection": "Upgrade", "upgrade": protocol}
    for framing, rest, body in (
        ({}, b"", b""),
        ({"content-length": "4"}, b"\r\n\r\n", b"\r\n\r\n"),
        ({"transfer-encoding": "chunked"}, b"1\r\na\r\n0\r\n\r\n", b"a"),
    ):
        lines = "".join(f"{name}: {value}\r\n" for name, value in framing.items()).encode()
        head = b"POST /api/x HTTP/1.1\r\n" + H + upgrade + lines + b"\r\n"
        expected = request_of("POST", "/api/x", body, headers=headers | framing, keep_alive=False)
        for pieces in splits(head + rest):
            assert parse(pieces) == [expected, "DONE"]
        known = KnownHeads()
        for _ in range(2):
            assert parse([head + rest], known) == [expected, "DONE"]


def test_http_2_behind_requests_is_noticed_there():
    first = b"POST /api/x HTTP/1.1\r\n" + H + b"Content-Length: 4\r\n\r\n\r\n\r\n"
    second = CHUNKED + b"4\r\n\r\n\r\n\r\n0\r\n\r\n"
    rest = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\nGET /api/x HTTP/1.1\r\n"
    for pieces in splits(first + second + rest):
        *requests, last = parse(pieces)
        assert [request[0] for request in requests] == ["POST", "POST"]
        assert last == ("HTTP_2", rest)


@pytest.mark.parametrize("name", BAD)
def test_a_broken_request_is_refused_however_it_is_split(name: str):
    for pieces in splits(BAD[name]):
        assert parse(pieces)[-1] == INVALID_REQUEST


def test_a_length_of_more_digits_than_int_takes_is_refused():
    length = b"Content-Length: " + b"0" * 5_000 + b"1\r\n\r\na"
    pieces = [b"POST /api/x HTTP/1.1\r\n" + H + length]
    assert parse(pieces, header_bytes_max=10_000) == [INVALID_REQUEST]


@pytest.mark.parametrize("name", BAD_HOSTS)
def test_a_wrong_host_header_is_refused(name: str):
    for pieces in splits(BAD_HOSTS[name]):
        assert parse(pieces) == [INVALID_HOST]


def many(count: int) -> bytes:
    """A head with so many fields besides Host."""
    return b"GET /api/x HTTP/1.1\r\n" + H + b"a:\r\n" * count + b"\r\n"


@pytest.mark.parametrize(
    ("head", "text"),
    [
        (b"GET /api/" + b"x" * 2_000 + b" HTTP/1.1\r\n" + H + b"\r\n", HEAD_TOO_LARGE),
        (b"GET /api/x HTTP/1.1\r\n" + H + b"X: " + b"y" * 2_000 + b"\r\n\r\n", HEAD_TOO_LARGE),
        (many(FIELDS_MAX), TOO_MANY_FIELDS),
        (b"\r\n" * 1_000, TOO_MANY_FIELDS),
    ],
    ids=["path", "value", "count", "empty lines"],
)
def test_a_head_is_bounded(head: bytes, text: str):
    for pieces in splits(head):
        assert parse(pieces) == [text]


def test_as_many_fields_are_read_as_are_allowed_of_each_request_anew():
    data = many(FIELDS_MAX - 1) + CHUNKED + b"0\r\n\r\n" + many(FIELDS_MAX - 1)
    for pieces in ([data], [data[i : i + 1] for i in range(len(data))]):
        *found, end = parse(pieces)
        assert [request[1] for request in found] == ["/api/x"] * 3
        assert end == "DONE"


def test_a_head_of_many_fields_is_refused_before_it_is_read(monkeypatch: pytest.MonkeyPatch):
    seen: list[bytes] = []
    monkeypatch.setattr(
        RequestParser, "on_header", lambda _, name, value: seen.append(name + value)
    )
    assert parse([many(8_000)], header_bytes_max=1 << 15) == [TOO_MANY_FIELDS]
    assert seen == []


def test_trailers_are_bounded_in_number():
    data = CHUNKED + b"3e8\r\n" + b"x" * 1_000 + b"\r\n0\r\n"
    assert parse([data + b"a:\r\n" * 100 + b"\r\n"])[-1] == "DONE"
    assert parse([data + b"a:\r\n" * 1_500 + b"\r\n"]) == [INVALID_REQUEST]


@pytest.mark.parametrize("target", [b"/api/%b", b"/api/x?%b", b"/%b", b"http://a/api/x?%b"])
def test_a_target_is_bounded(target: bytes):
    for length, expected in ((TARGET_BYTES_MAX, "DONE"), (TARGET_BYTES_MAX + 1, TARGET_TOO_LONG)):
        text = target % (b"x" * (length - len(target) + 2))
        sent = b"GET " + text + b" HTTP/1.1\r\n" + H + b"\r\n"
        assert parse([sent[:99], sent[99:]], header_bytes_max=1 << 15)[-1] == expected


def test_a_connection_header_of_many_commas_is_refused():
    sent = b"GET /api/x HTTP/1.1\r\n" + H + b"Connection: " + b"," * 300 + b"\r\n\r\n"
    assert parse([sent]) == [INVALID_REQUEST]


def test_a_method_nobody_knows_is_a_404_and_the_end():
    sent = b"FROB /api/x HTTP/1.1\r\n" + H + b"\r\n"
    for pieces in splits(sent):
        assert parse(pieces) == [UNKNOWN_METHOD]
    reader = parser()
    reader.receive(sent)
    with pytest.raises(BadRequest) as refused:
        reader.read_next()
    assert refused.value.status == 404


@pytest.mark.parametrize("framing", ["length", "chunks"])
def test_a_body_for_another_path_than_the_apis_is_bounded_by_less(framing: str):
    size = PAGE_BODY_BYTES_MAX + 1
    head = b"POST %b HTTP/1.1\r\n" + H
    if framing == "length":
        head += b"Content-Length: %d\r\n\r\n" % size
        rest = b"x" * size
    else:
        head += b"Transfer-Encoding: chunked\r\n\r\n"
        rest = b"%x\r\n%b\r\n0\r\n\r\n" % (size, b"x" * size)
    bounds: dict[str, Any] = {"body_bytes_max": 1 << 20, "drain_bytes_max": 1 << 20}
    assert parse([head % b"/mcp" + rest], **bounds)[0] == "TOO_LARGE"
    [request, end] = parse([head % b"/api/x" + rest], **bounds)
    assert (len(request[4]), end) == (size, "DONE")


def test_a_large_body_is_refused_before_it_has_come():
    head = b"POST /api/x HTTP/1.1\r\n" + H + b"Content-Length: 1000000000\r\n\r\n"
    reader = parser()
    reader.receive(head)
    assert reader.read_next() is TOO_LARGE
    assert reader.is_discarding
    assert not reader.drains


def test_only_so_much_is_thrown_away():
    body = b"2000\r\n" + b"x" * 8_192 + b"\r\n0\r\n\r\n"
    pieces = [body[start : start + 500] for start in range(0, len(body), 500)]
    assert parse([CHUNKED, *pieces]) == ["TOO_LARGE", INVALID_REQUEST]


def test_a_client_that_waits_for_continue_is_noticed():
    head = b"POST /api/x HTTP/1.1\r\n" + H + b"Content-Length: 2\r\nExpect: 100-Continue\r\n\r\n"
    reader = parser()
    reader.receive(head)
    assert reader.read_next() is NEED_DATA
    assert reader.expects_continue
    reader.receive(b"{}")
    assert reader.read_next() is REQUEST
    assert reader.body == b"{}"


def test_an_unfinished_request_is_known_to_be_one():
    assert parse([b"GET /api/x HTT"]) == ["MIDWAY"]
    assert parse([b"POST /api/x HTTP/1.1\r\n" + H + b"Content-Length: 2\r\n\r\nx"]) == ["MIDWAY"]


def test_names_and_hosts_remembered_are_bounded():
    for number in range(3_000):
        name = b"X-%d: y\r\nHost: h%d\r\n\r\n" % (number, number)
        assert parse([b"GET /api/x HTTP/1.1\r\n" + name])[-1] == "DONE"


def test_a_head_that_comes_again_is_not_parsed_again_and_means_the_same():
    head = b"POST /api/x?q HTTP/1.1\r\n" + H + b"Content-Length: 3\r\n\r\n"
    other = b"POST /api/y HTTP/1.1\r\n" + H + b"Content-Length: 2\r\n\r\n"
    data = head + b"abc" + head + b"def" + other + b"gh" + head + b"ijk" + other + b"\r\n"
    headers = {"content-length": "3"}
    expected = [
        request_of("POST", "/api/x", b"abc", query="q", headers=headers),
        request_of("POST", "/api/x", b"def", query="q", headers=headers),
        request_of("POST", "/api/y", b"gh", headers={"content-length": "2"}),
        request_of("POST", "/api/x", b"ijk", query="q", headers=headers),
        request_of("POST", "/api/y", b"\r\n", headers={"content-length": "2"}),
        "DONE",
    ]
    for pieces in splits(data):
        assert parse(pieces) == expected

    reader = parser()
    reader.receive(head + b"abc" + head + b"def")
    assert reader.read_next() is REQUEST
    first = reader.headers
    assert reader.read_next() is REQUEST
    assert reader.headers is first


def test_two_heads_by_turns_are_not_looked_up_again_and_mean_the_same():
    known = KnownHeads()
    get = b"GET /api/x HTTP/1.1\r\n" + H + b"\r\n"
    put = b"PUT /api/y HTTP/1.1\r\n" + H + b"Content-Length: 3\r\n\r\nabc"
    last = b"GET /api/x HTTP/1.1\r\n" + H + b"Connection: close\r\n\r\n"
    by_turns = [get, put, get, put, last, get, put]
    expected = [parse([each])[0] for each in by_turns]
    assert parse([b"".join(by_turns)], known)[:-1] == expected
    for pieces in splits(b"".join(by_turns[:4])):
        assert parse(pieces, known)[:-1] == expected[:4]

    reader = parser(known)
    reader.receive(get + put + (get + put) * 3)
    assert [reader.read_next() for _ in range(2)] == [REQUEST] * 2
    for head in [*known._heads]:
        del known._heads[head]
    assert [reader.read_next() for _ in range(6)] == [REQUEST] * 6
    assert not known._heads
    large = b"GET /api/x HTTP/1.1\r\n" + H + b"X: " + b"a" * HEAD_BYTES_MAX + b"\r\n\r\n"
    reader.receive(get + large + put)
    assert [reader.read_next() for _ in range(3)] == [REQUEST] * 3
    assert len(reader._head_before[0]) <= HEAD_BYTES_MAX


def test_a_head_that_came_over_another_connection_is_not_parsed_again_and_means_the_same():
    get, length = b"GET /api/x HTTP/1.1\r\n" + H, b"Content-Length: 3\r\n\r\n"
    last = get + b"Connection: close\r\n\r\n"
    known = KnownHeads()
    expected = [request_of("GET", "/api/x", b"abc", headers={"content-length": "3"})] * 2
    assert parse([get + length + b"abc" + get + length + b"abc"], known)[:-1] == expected
    for pieces in splits(get + length + b"abc" + get + length + b"abc"):
        assert parse(pieces, known)[:-1] == expected
    assert parse([last], known) == parse([last], known)

    first, second = parser(known), parser(known)
    for reader in (first, second):
        reader.receive(get + length + b"abc")
        assert reader.read_next() is REQUEST
    assert second.headers is first.headers


def test_heads_remembered_are_bounded_and_a_long_one_is_not_or_one_with_a_query():
    known = KnownHeads()
    head = Head("GET", "/api/x", "", {}, keep_alive=True, http_1_0=False, body_bytes=-1)
    for number in range(HEADS_KNOWN_MAX + 1):
        known.remember(b"%d" % number, head)
    assert known.find(b"0") is None
    assert known.find(b"1") is head
    long = b"x" * (HEAD_BYTES_MAX + 1)
    known.remember(long, head)
    known.remember(b"q", msgspec.structs.replace(head, query="since=1"))
    assert known.find(long) is known.find(b"q") is None


def test_a_head_has_notes_once_it_came_twice_from_an_address():
    head = Head("GET", "/api/x", "", {}, keep_alive=True, http_1_0=False, body_bytes=-1)
    assert head.find_notes("203.0.113.1") is None
    notes = head.find_notes("203.0.113.1")
    assert notes is not None
    assert head.find_notes("203.0.113.1") is notes
    assert head.find_notes("203.0.113.2") is None
    assert head.find_notes("203.0.113.1") is None
    assert head.find_notes("203.0.113.1") is not notes


def test_a_request_that_would_be_read_anew_has_no_head():
    reader = parser()
    for data, has_head in (
        (b"GET /api/x HTTP/1.1\r\n" + H + b"\r\n", True),
        (CHUNKED + b"0\r\n\r\n", False),
        (b"GET /api/x HTTP/1.1\r\n" + H + b"\r\n", True),
    ):
        reader.receive(data)
        assert reader.read_next() is REQUEST
        assert (reader.head is not None) == has_head


@pytest.mark.parametrize("between", ["chunks", "a body that is too large, then a request"])
def test_a_head_that_comes_again_after_another_is_understood(between: str):
    data, requests = GOOD[between]
    get, [request] = GOOD["a GET"]
    whole = get + data + get + data + data + get + get
    expected = [request, *requests, request, *requests, *requests, request, request, "DONE"]
    assert parse([whole]) == expected
    assert parse([whole[i : i + 7] for i in range(0, len(whole), 7)]) == expected


@given(st.data())
@settings(max_examples=300)
def test_any_split_of_any_mixture_gives_the_same_requests(data: st.DataObject):
    names = data.draw(st.lists(st.sampled_from(sorted(GOOD)), min_size=1, max_size=5))
    # an HTTP/1.0 request or one that closes is the last of its connection
    names = [n for n in names if "HTTP/1.0" not in n and n != "one that closes"]
    whole = b"".join(GOOD[name][0] for name in names)
    cuts = data.draw(st.lists(st.integers(0, len(whole)), max_size=20).map(sorted))
    edges = [0, *cuts, len(whole)]
    pieces = [whole[a:b] for a, b in itertools.pairwise(edges)]
    expected = [request for name in names for request in GOOD[name][1]]
    known = KnownHeads()
    assert parse(pieces, known) == [*expected, "DONE"]
    assert parse([whole], known) == [*expected, "DONE"]


@given(st.lists(st.binary(max_size=200), max_size=6), st.booleans())
@settings(max_examples=500)
def test_no_bytes_crash_it(pieces: list[bytes], chunked: bool):
    assert parse([CHUNKED, *pieces] if chunked else pieces)
