"""Paths outside `/api/`, over real sockets: which part answers, and what it is charged to."""

from __future__ import annotations

import pytest
import trio
from http_kit import Echo, exchange, hello, replies, serving

from greenroom.http.limits import (
    ANSWER_BYTES_PER_UNIT,
    CONNECTIONS_A_BROKEN_ONE,
    CallLimits,
    LimitSettings,
)
from greenroom.http.overload import delayed_refusals as refusals
from greenroom.http.overload.delayed_refusals import HOLD_UP_SECONDS
from greenroom.http.overload.pass_budget import PassBudget
from greenroom.http.request import PAGE_BODY_BYTES_MAX, Answer, Request
from greenroom.http.server.hypercorn_server import HypercornServer
from greenroom.http.server.parser import TARGET_BYTES_MAX, TARGET_TOO_LONG
from greenroom.http.site.front import EveryMethod, Front, Routes
from greenroom.http.site.static import Static
from greenroom.network.head_limits import FIELDS_MAX, TOO_MANY_FIELDS

H = b"Host: a\r\n"
SERVERS = ["greenroom", "hypercorn"]
HERE = "127.0.0.1"
BURST = 4
"""The burst of the limits that a test sets; not one more comes while it runs."""
STATIC = Static(b"x" * (10 * ANSWER_BYTES_PER_UNIT), "text/plain; charset=utf-8", packed=b"packed")


async def _every_method(request: Request) -> Answer:
    return Answer(200, b'{"length":%d}' % len(request.body))


ROUTES: Routes = {
    "/healthz": hello,
    "/page": hello,
    "/static": STATIC.answer,
    "/mcp": EveryMethod(_every_method),
}


@pytest.fixture(autouse=True)
def hold_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Refusals are not waited for, but where that is what is tested."""
    monkeypatch.setattr(refusals, "HOLD_UP_SECONDS", 0.0)


def limits(**rates: float) -> CallLimits:
    """Limits of which some allow so many at once, and then nothing for an hour."""
    given = {f"{name}_per_second_address": count / 3_600 for name, count in rates.items()}
    return CallLimits(LimitSettings(rate_burst_seconds=3_600, **given))


def request(method: str, path: str, *fields: bytes, body: bytes = b"") -> bytes:
    head = [b"%b %b HTTP/1.1" % (method.encode(), path.encode()), b"Host: a", *fields]
    if body:
        head.append(b"Content-Length: %d" % len(body))
    return b"\r\n".join([*head, b"", body])


async def ask(port: int, *sent: bytes) -> list[int]:
    """Send each on a connection of its own; return the statuses of what comes back."""
    heads = (0,) if sent[0].startswith(b"HEAD") else ()
    answers = [await exchange(port, each) for each in sent]
    return [reply.status for answer in answers for reply in replies(answer, heads=heads)]


async def test_the_reference_server_sees_no_page_and_no_404(monkeypatch: pytest.MonkeyPatch):
    async def serve(*_: object) -> None:
        raise AssertionError("handed over")

    monkeypatch.setattr(HypercornServer, "serve", serve)
    async with serving(routes=ROUTES) as running:
        for method, path, status in (
            ("GET", "/healthz", 200),
            ("GET", "/static", 200),
            ("POST", "/mcp", 200),
            ("PUT", "/page", 404),
            ("GET", "/nope", 404),
            ("FROB", "/page", 404),
            ("OPTIONS", "/page", 204),
            ("OPTIONS", "*", 404),
        ):
            assert await ask(running.port, request(method, path)) == [status], (method, path)


@pytest.mark.parametrize("server", SERVERS)
@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/page", 200),
        ("HEAD", "/page", 200),
        ("GET", "/nope", 404),
        ("DELETE", "/page", 404),
        ("OPTIONS", "/page", 204),
        ("OPTIONS", "*", 404),
        ("POST", "/mcp", 200),
    ],
)
async def test_whatever_is_outside_the_api_is_charged_to_its_address(
    server: str, method: str, path: str, status: int
):
    given = limits(pages=BURST)
    async with serving(server=server, routes=ROUTES, limits=given) as running:
        sent = request(method, path)
        assert await ask(running.port, *[sent] * BURST) == [status] * BURST
        [refused] = replies(
            await exchange(running.port, sent), heads=(0,) if method == "HEAD" else ()
        )
        assert refused.status == 429
        assert int(refused.headers["retry-after"]) > 100
        assert given.refused == {"pages by address": 1}
        others = [request("GET", "/api/x"), request("GET", "/healthz")]
        assert await ask(running.port, *others) == [200, 200]


async def test_a_method_that_nobody_knows_is_charged_as_a_broken_request():
    given = limits(connections=BURST * (1 + CONNECTIONS_A_BROKEN_ONE))
    async with serving(routes=ROUTES, limits=given) as running:
        sent = request("FROB", "/page")
        assert await ask(running.port, *[sent] * BURST) == [404] * BURST
        assert await ask(running.port, request("GET", "/page")) == [429]


@pytest.mark.parametrize(
    "sent",
    [b"@\r\n\r\n", request("GET", "/x", *[b"a:"] * 8_000), request("GET", "/x", b"Host: /")],
    ids=["garbage", "fields", "host"],
)
async def test_broken_requests_use_up_the_connections_of_their_address(sent: bytes):
    given = limits(connections=BURST * (1 + CONNECTIONS_A_BROKEN_ONE))
    async with serving(limits=given) as running:
        assert await ask(running.port, *[sent] * BURST) == [400] * BURST
        assert await ask(running.port, request("GET", "/api/x")) == [429]
        assert given.refused == {"connections by address": 1}


@pytest.mark.parametrize("server", SERVERS)
async def test_a_page_counts_by_what_is_sent_of_it(server: str):
    given = limits(pages=3 * BURST)
    async with serving(server=server, routes=ROUTES, limits=given) as running:
        whole = request("GET", "/static")
        assert await ask(running.port, request("HEAD", "/static")) == [200]
        packed = request("GET", "/static", b"Accept-Encoding: gzip")
        assert await ask(running.port, packed) == [200]
        assert await ask(running.port, whole) == [200]  # eleven, where ten are left
        assert await ask(running.port, whole, packed) == [429, 429]


@pytest.mark.parametrize("server", SERVERS)
async def test_probes_have_an_allowance_that_nothing_else_uses_up(server: str):
    given = limits(pages=1, probes=BURST, failed_tokens=1)
    async with serving(server=server, routes=ROUTES, limits=given) as running:
        assert await ask(running.port, *[request("GET", "/nope")] * 2) == [404, 429]
        given.note_failed_token(HERE, 0.0)
        probe = request("GET", "/healthz")
        assert await ask(running.port, *[probe] * (BURST + 1)) == [200] * BURST + [429]
        assert given.refused["probes by address"] == 1


@pytest.mark.parametrize("server", SERVERS)
async def test_under_overload_everything_is_shed_but_probes_and_preflights(
    server: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(
        PassBudget, "is_behind", property(lambda _: True, lambda *_: None), raising=False
    )
    monkeypatch.setattr(PassBudget, "must_refuse", lambda *_: True)
    async with serving(server=server, routes=ROUTES) as running:
        for path in ("/page", "/nope", "/static", "/mcp", "/api/x"):
            [refused] = replies(await exchange(running.port, request("GET", path)))
            assert (refused.status, refused.headers["retry-after"]) == (429, "1"), path
        assert await ask(running.port, request("GET", "/healthz")) == [200]
        assert await ask(running.port, request("OPTIONS", "/page")) == [204]


@pytest.mark.parametrize("server", SERVERS)
@pytest.mark.parametrize("path", ["/api/x", "/page", "/healthz"])
async def test_a_head_beyond_its_bounds_is_refused_and_ends_the_connection(server: str, path: str):
    fields = [b"X-%d: y" % number for number in range(FIELDS_MAX - 1)]
    long = f"{path}?{'x' * (TARGET_BYTES_MAX - len(path) - 1)}"
    async with serving(server=server, routes=ROUTES) as running:
        assert await ask(running.port, request("GET", path, *fields)) == [200]
        assert await ask(running.port, request("GET", long)) == [200]
        for sent, text in (
            (request("GET", path, *fields, b"Y: z"), TOO_MANY_FIELDS),
            (request("GET", long + "x"), TARGET_TOO_LONG),
        ):
            [refused] = replies(await exchange(running.port, sent))
            assert (refused.status, refused.json["error"]) == (400, text)
            assert refused.headers["connection"] == "close"


@pytest.mark.parametrize("server", SERVERS)
async def test_a_body_outside_the_api_is_bounded_by_less(server: str):
    async with serving(server=server, routes=ROUTES) as running:
        body = b"x" * PAGE_BODY_BYTES_MAX
        sent = [request("POST", path, body=body + b"x") for path in ("/mcp", "/api/x")]
        assert await ask(running.port, *sent) == [413, 200]
        assert await ask(running.port, request("POST", "/mcp", body=body)) == [200]


@pytest.mark.parametrize("server", SERVERS)
async def test_behind_a_trusted_proxy_each_client_has_an_allowance_of_its_own(server: str):
    given = limits(pages=1)
    async with serving(
        server=server, routes=ROUTES, limits=given, trusted_proxies=(HERE,)
    ) as running:
        one, other = (request("GET", "/page", b"X-Forwarded-For: 203.0.113.%d" % n) for n in (1, 2))
        assert await ask(running.port, one, one, other) == [200, 429, 200]


async def test_a_pipeline_of_pages_and_calls_keeps_its_order():
    paths = ("/page", "/api/x", "/static", "/nope", "/api/x", "/healthz")
    async with serving(routes=ROUTES) as running:
        sent = b"".join(request("GET", path) for path in paths)
        found = replies(await exchange(running.port, sent))
        assert [reply.status for reply in found] == [200, 200, 200, 404, 200, 200]
        assert found[2].body == STATIC.answer(Request("GET", "", "", {}, b"", "")).body


async def test_who_asks_for_too_much_waits_for_the_refusal_and_others_do_not(
    autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(refusals, "HOLD_UP_SECONDS", HOLD_UP_SECONDS)
    front = Front(Echo(), ROUTES, limits(pages=1, probes=1))

    async def seconds(path: str, address: str = HERE) -> tuple[int, float]:
        began = trio.current_time()
        answer = await front.answer(Request("GET", path, "", {}, b"", address))
        return answer.status, round(trio.current_time() - began, 6)

    for path in ("/page", "/healthz"):
        assert await seconds(path) == (200, 0.0)
        assert await seconds(path) == (429, HOLD_UP_SECONDS)
    assert await seconds("/nope") == (429, HOLD_UP_SECONDS)
    assert await seconds("/api/x") == (200, 0.0)
    assert await seconds("/page", "203.0.113.7") == (200, 0.0)
