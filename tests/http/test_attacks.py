"""Requests written by hand: smuggling, odd paths, bombs. On either server."""

from __future__ import annotations

import os
import socket
import zlib
from contextlib import suppress
from functools import cache
from pathlib import Path

import pytest
from http_kit import Reply, replies
from server_kit import Api, ServerProcess

from greenroom.http.endpoints import ENDPOINTS
from greenroom.http.table import Auth

SECONDS_MAX = 20.0
ROOMS = "/api/game_room.php"
MEGABYTE = 1 << 20


def spoken(api: Api, data: bytes) -> bytes:
    """Return the answer to some bytes, up to the end of the connection."""
    answer = bytearray()
    with socket.create_connection(api.address, SECONDS_MAX) as connection:
        with suppress(ConnectionError):  # answered and closed before everything was sent
            connection.sendall(data)
            connection.shutdown(socket.SHUT_WR)
        with suppress(ConnectionResetError):  # with something unread: what was said came before
            while part := connection.recv(65_536):
                answer += part
    return bytes(answer)


def asked(api: Api, data: bytes) -> list[Reply]:
    return replies(spoken(api, data))


def head(api: Api, line: str, *headers: str) -> bytes:
    tokens = ("Host: a", f"X-Api-Token: {api.game.key}")
    return "\r\n".join([f"{line} HTTP/1.1", *tokens, *headers, "", ""]).encode("latin-1")


LIST = f"POST {ROOMS}/list"
SMUGGLED = {
    "length and coding": (("Content-Length: 4", "Transfer-Encoding: chunked"), b"0\r\n\r\n"),
    "coding and length": (("Transfer-Encoding: chunked", "Content-Length: 4"), b"0\r\n\r\n"),
    "two codings": (("Transfer-Encoding: chunked", "Transfer-Encoding: identity"), b"0\r\n\r\n"),
    "a coding in a list": (("Transfer-Encoding: identity, chunked",), b"0\r\n\r\n"),
    "a coding that is none": (("Transfer-Encoding: xchunked",), b"0\r\n\r\n"),
    "a coding behind a tab": (("Transfer-Encoding:\tchunked\x0b",), b"0\r\n\r\n"),
    "different lengths": (("Content-Length: 0", "Content-Length: 2"), b"{}"),
    "different lengths in a list": (("Content-Length: 0, 2",), b"{}"),
    "a signed length": (("Content-Length: +2",), b"{}"),
    "a hexadecimal length": (("Content-Length: 0x2",), b"{}"),
    "a length with an underscore": (("Content-Length: 1_0",), b"{}        "),
    "digits of another script": (("Content-Length: \xb2",), b"{}"),
    "a blank before the colon": (("Content-Length : 2",), b"{}"),
    "a header without a name": ((": 2", "Content-Length: 2"), b"{}"),
    "a chunk size that is none": (("Transfer-Encoding: chunked",), b"0x2\r\n{}\r\n0\r\n\r\n"),
    "a huge chunk size": (("Transfer-Encoding: chunked",), b"f" * 17 + b"\r\n{}\r\n0\r\n\r\n"),
    "a chunk size that overflows": (
        ("Transfer-Encoding: chunked",),
        b"10000000000000002\r\n{}\r\n0\r\n\r\n",
    ),
    "a chunk longer than it says": (("Transfer-Encoding: chunked",), b"1\r\n{}\r\n0\r\n\r\n"),
    "a NUL in a header": (("X: \0", "Content-Length: 2"), b"{}"),
    "a CR in a header": (("X: y\rContent-Length: 2",), b"{}"),
}


@pytest.mark.parametrize("name", SMUGGLED)
@pytest.mark.parametrize("line", [LIST, "POST /mcp"])
def test_a_request_of_two_meanings_is_refused_and_nothing_behind_it_is_answered(
    api: Api, line: str, name: str
) -> None:
    headers, body = SMUGGLED[name]
    hidden = head(api, "GET /api/time.php")
    [reply] = asked(api, head(api, line, *headers) + body + hidden)
    assert (reply.status, reply.headers["connection"]) == (400, "close")
    assert b"readable" not in reply.body


def test_what_is_in_a_body_is_no_request(api: Api) -> None:
    hidden = head(api, "GET /api/time.php")
    bodies = (
        (f"Content-Length: {len(hidden)}", hidden),
        ("Transfer-Encoding: chunked", b"%x\r\n%b\r\n0\r\n\r\n" % (len(hidden), hidden)),
        ("Transfer-Encoding: chunked", b'2;a="\n"\r\n{}\r\n0\r\n\r\n'),
        ("Transfer-Encoding: chunked", b"2\r\n{}\r\n0\r\nContent-Length: 99\r\nHost: b\r\n\r\n"),
    )
    for header, body in bodies:
        found = asked(api, head(api, LIST, header) + body)
        assert (body, len(found)) == (body, 1)
        assert b"readable" not in found[0].body


@pytest.mark.parametrize(
    "target",
    [
        "/api/../metrics",
        "/api/%2e%2e/metrics",
        "/api/./time.php",
        "/api//time.php",
        "//api/time.php",
        "/API/time.php",
        "/api/time.php%00",
        "/api/time.php%3Futc=1",
        "/api/time.php;x",
        "/api/time.php%0d%0aX-Evil:%201",
        "/api/%ff%fe",
        "/api/\\..\\time.php",
        "/docs/../metrics",
        "/docs/%2e%2e/%2e%2e/etc/passwd",
        "/docs/%2e%2e%2f%2e%2e%2fetc/passwd",
        "/%2e%2e/%2e%2e/etc/passwd",
        "/..%c0%af..%c0%afetc/passwd",
        "/etc/passwd",
        "//metrics",
        "http://a//api/time.php",
        "http://a/%2e%2e/etc/passwd",
        "file:///etc/passwd",
    ],
)
def test_a_path_leads_where_it_says_or_nowhere(api: Api, target: str) -> None:
    [reply] = asked(api, head(api, f"GET {target}", "Connection: close"))
    assert (reply.status, reply.json["error"]) in {
        (404, "Invalid endpoint"),
        (400, "Invalid HTTP request"),
    }
    assert "x-evil" not in reply.headers
    assert not any(part in reply.body for part in (b"readable", b"greenroom_", b"root:"))


@pytest.mark.parametrize(
    "segment",
    ["%2e%2e", "%00", "%20", "%E2%80%AE", "%ff", "%27%20OR%201=1--", "%25", "*", "a" * 20_000],
)
def test_no_id_in_a_path_is_more_than_an_id_that_nobody_has(api: Api, segment: str) -> None:
    _, token = api.register()
    rows = [row for row in ENDPOINTS if "{" in row.path]
    assert len(rows) >= 6
    for row in rows:
        assert row.auth is Auth.PLAYER
        before, _, after = row.path.partition("{")
        path = before + segment + after.partition("}")[2]
        body = {"status": "completed", "action": "approve"} if row.method != "GET" else None
        reply = api.call(row.method, path, body, player=token)
        assert (row.path, reply.status in {400, 404}) == (row.path, True), reply


@cache
def bomb(window_bits: int) -> bytes:
    """A packed body that is small enough to be taken, and 200 MB if anybody unpacks it."""
    packer = zlib.compressobj(1, wbits=window_bits)
    return packer.compress(b"{" + b" " * (200 * MEGABYTE)) + packer.flush()


def memory_bytes(server: ServerProcess) -> int:
    """Return the memory that a server takes; 0 where that cannot be asked."""
    file = Path(f"/proc/{server.pid}/statm")
    pages = int(file.read_text().split()[1]) if file.exists() else 0
    return pages * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.parametrize("coding", ["gzip", "deflate", "br", "zstd", "gzip, gzip"])
def test_no_body_is_unpacked(api: Api, server: ServerProcess, coding: str) -> None:
    packed = bomb(zlib.MAX_WBITS if coding == "deflate" else zlib.MAX_WBITS | 16)
    before = memory_bytes(server)
    for path in (f"{ROOMS}/list", "/api/game_players.php/register", "/api/censor.php"):
        reply = api.call("POST", path, packed, headers={"Content-Encoding": coding})
        assert (reply.status, reply.json["error"]) == (400, "Invalid JSON body")
    assert memory_bytes(server) - before < 32 * MEGABYTE


@pytest.mark.parametrize(
    "body",
    [
        b"[" * (MEGABYTE - 1),
        b'{"a":' * (MEGABYTE // 5),
        b'{"rules":' + b"[" * 500_000 + b"]" * 500_000 + b"}",
        b'{"a":"' + b"\\" * (MEGABYTE - 10),
        b'{"max_players":' + b"9" * (MEGABYTE - 20) + b"}",
        b'{"max_players":1e' + b"9" * (MEGABYTE - 20) + b"}",
        b'{"max_players":"' + b"9" * (MEGABYTE - 20) + b'"}',
        b"\xef\xbb\xbf{}",
        b"\xff\xfe{\0}\0",
        b'{"room_name":"\\ud800"}',
        b'{"room_name":"a\\u0000"}',
    ],
    ids=lambda body: body[:16].decode("latin-1"),
)
def test_a_body_made_to_hurt_is_refused_and_the_next_call_answered(api: Api, body: bytes) -> None:
    _, token = api.register()
    for path in (f"{ROOMS}/create", "/api/matchmaking.php/create"):
        reply = api.call("POST", path, body, player=token)
        assert (path, reply.status) == (path, 400), reply.body[:200]
    connection = head(api, "PUT /api/game_data.php/player/update", f"Content-Length: {len(body)}")
    token_header = f"X-Game-Player-Token: {token}\r\n\r\n".encode()
    [update] = asked(api, connection.removesuffix(b"\r\n") + token_header + body)
    assert update.status in {200, 400}  # a document is kept as it is, whatever numbers it holds
    assert api.call("GET", "/api/time.php").status == 200


def test_no_log_line_comes_of_an_attack(api: Api, server: ServerProcess) -> None:
    size = Path(server.log).stat().st_size
    for name, (headers, body) in SMUGGLED.items():
        assert (name, len(asked(api, head(api, LIST, *headers) + body))) == (name, 1)
    assert b'"level":"error"' not in server.log.read_bytes()[size:]
