"""Failures between client and server, and retries."""

from __future__ import annotations

import ssl
from contextlib import suppress
from functools import partial
from random import Random
from typing import Any

import pytest
import trio
import trustme
from client_kit import CUT, HALF, NEVER, QUICK, Told, playing, stubbed

from greenroom.client import (
    ApiError,
    Banned,
    ConnectionFailed,
    Game,
    GreenroomError,
    NotFound,
    RateLimited,
    Retries,
    ServerError,
    Unauthorized,
    UnexpectedAnswer,
)
from greenroom.client.retries import decide_pause

TIME = Told(
    {"success": True, "utc": "2026-03-13T14:01:49+00:00", "timestamp": 1, "readable": "2026"}
)
ACCOUNT = Told(
    {
        "success": True,
        "player_id": "7",
        "private_key": "k",
        "player_name": "Ada",
        "player_tag": "#22222222",
        "game_id": 1,
        "auth": "guest",
        "account": "created",
    }
)
BUG = Told({"success": False, "error": "Internal server error"}, 500)


def limited(seconds: float) -> Told:
    return Told({"success": False, "error": "Too many requests", "retry_after": seconds}, 429)


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (400, ApiError),
        (401, Unauthorized),
        (403, Banned),
        (404, NotFound),
        (413, ApiError),
        (429, RateLimited),
        (500, ServerError),
        (503, ServerError),
    ],
)
async def test_each_status_has_its_error(status: int, error: type[ApiError]) -> None:
    told = Told({"success": False, "error": "So it is"}, status)
    async with playing([told], retries=Retries(attempts_max=1)) as (game, _):
        with pytest.raises(ApiError) as caught:
            await game.time()
    assert type(caught.value) is error
    assert (caught.value.status, caught.value.text) == (status, "So it is")


async def test_an_error_is_printed_with_what_to_do() -> None:
    told = Told({"success": False, "error": "Room is full", "hint": "Find another"}, 400)
    async with playing([told]) as (game, _):
        with pytest.raises(ApiError) as caught:
            await game.time()
    assert (str(caught.value), caught.value.hint) == (
        "400: Room is full (Find another)",
        "Find another",
    )


async def test_a_banned_player_is_told_for_how_long_and_why() -> None:
    info = {
        "ban_id": "b",
        "ban_duration": "day",
        "ban_reason": "rude",
        "banned_at": "2026-01-01T00:00:00Z",
        "banned_until": None,
    }
    told = Told({"success": False, "error": "You are banned: rude", "ban_info": info}, 403)
    async with playing([ACCOUNT, told]) as (game, _):
        player = await game.register("Ada")
        with pytest.raises(Banned) as caught:
            await player.document()
    assert caught.value.ban_info is not None
    assert caught.value.ban_info.ban_reason == "rude"
    assert caught.value.ban_info.banned_until is None


async def test_a_refusal_with_status_200_is_one_all_the_same() -> None:
    async with playing([Told({"success": False, "error": "No"})]) as (game, _):
        with pytest.raises(ApiError, match="No"):
            await game.time()


@pytest.mark.parametrize("body", [b"<html>", b"[]", b'{"success":true}', b"\xff", b""])
async def test_an_answer_of_somebody_else_is_an_error_of_its_own(body: bytes) -> None:
    async with playing([Told(body)]) as (game, _):
        with pytest.raises(UnexpectedAnswer):
            await game.time()


async def test_a_proxys_error_page_is_a_server_error() -> None:
    page = Told(b"<html>", 502)
    async with playing([page, page, TIME]) as (game, stub):
        await game.time()
        assert len(stub.asked) == 3


@pytest.mark.parametrize("trouble", [limited(0.01), CUT, HALF, BUG])
async def test_what_is_repeatable_is_repeated(trouble: Told) -> None:
    async with playing([trouble, trouble, TIME]) as (game, stub):
        assert (await game.time()).timestamp == 1
        assert len(stub.asked) == 3


async def test_a_limit_is_waited_for_whatever_the_call() -> None:
    async with playing([limited(0.05), ACCOUNT]) as (game, stub):
        began = trio.current_time()
        await game.register("Ada")
        assert trio.current_time() - began >= 0.05
        assert len(stub.asked) == 2


async def test_the_header_says_how_long_where_the_body_does_not() -> None:
    told = Told(b"<html>", 429, {"Retry-After": "7"})
    async with playing([told], retries=Retries(attempts_max=1)) as (game, _):
        with pytest.raises(RateLimited) as caught:
            await game.time()
    assert caught.value.retry_after == 7


@pytest.mark.parametrize(("trouble", "error"), [(CUT, ConnectionFailed), (BUG, ServerError)])
async def test_what_may_have_happened_is_not_repeated(
    trouble: Told, error: type[GreenroomError]
) -> None:
    async with playing([trouble, ACCOUNT]) as (game, stub):
        with pytest.raises(error):
            await game.register("Ada")
        assert len(stub.asked) == 1


async def test_a_server_that_is_not_there_is_asked_a_few_times() -> None:
    async with stubbed([]) as stub:
        url = stub.url
    async with Game.connect(url, "key", retries=QUICK) as game:
        with pytest.raises(ConnectionFailed) as caught:
            await game.register("Ada")
    assert not caught.value.was_sent


@pytest.mark.parametrize("url", ["127.0.0.1:8080", "localhost", "ws://127.0.0.1:8080", ""])
async def test_an_address_without_http_opens_no_game(url: str) -> None:
    with pytest.raises(ValueError, match="begins with http:// or https://"):
        async with Game.connect(url, "key"):
            pass


async def test_why_a_certificate_is_not_trusted_is_told() -> None:
    theirs = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("127.0.0.1").configure_cert(theirs)

    async def shake_hands(stream: trio.SSLStream[trio.SocketStream]) -> None:
        with suppress(trio.BrokenResourceError):
            await stream.do_handshake()

    async with trio.open_nursery() as nursery:
        serve = partial(trio.serve_ssl_over_tcp, shake_hands, 0, theirs, host="127.0.0.1")
        listeners: list[trio.SSLListener[trio.SocketStream]] = await nursery.start(serve)
        listener = listeners[0].transport_listener
        assert isinstance(listener, trio.SocketListener)
        url = f"https://127.0.0.1:{listener.socket.getsockname()[1]}"
        async with Game.connect(url, "key", retries=Retries(attempts_max=1)) as game:
            with pytest.raises(ConnectionFailed, match="CERTIFICATE_VERIFY_FAILED"):
                await game.time()
        nursery.cancel_scope.cancel()


async def test_a_server_that_does_not_answer_is_not_waited_for_longer_than_allowed() -> None:
    async with playing([NEVER], answer_seconds_max=0.05) as (game, _):
        with pytest.raises(ConnectionFailed, match=r"no answer within 0\.05 s"):
            await game.register("Ada")


async def test_attempts_are_bounded() -> None:
    async with playing([limited(0.0)] * 9) as (game, stub):
        with pytest.raises(RateLimited):
            await game.time()
        assert len(stub.asked) == QUICK.attempts_max


async def test_a_wait_beyond_the_time_allowed_is_not_begun() -> None:
    async with playing([limited(3_600.0)]) as (game, stub):
        with pytest.raises(RateLimited) as caught:
            await game.time()
        assert caught.value.retry_after == 3_600
        assert len(stub.asked) == 1


def decide(error: GreenroomError, **given: Any) -> float | None:
    usual: dict[str, Any] = {"is_repeatable": True, "failures": 1, "seconds": 0.0}
    return decide_pause(Retries(), error, chance=Random(7), **(usual | given))


def test_pauses_grow_up_to_a_bound_and_are_never_shorter_than_asked_for() -> None:
    lost = ConnectionFailed("cut", was_sent=True)
    retries = Retries(attempts_max=100)
    for failures in range(1, 60):
        for seed in range(20):
            wait = decide_pause(
                retries,
                lost,
                is_repeatable=True,
                failures=failures,
                seconds=0,
                chance=Random(seed),
            )
            assert wait is not None
            assert wait <= min(0.1 * 2 ** (failures - 1), 5.0)
    wait = decide(RateLimited(429, "", 4.0))
    assert wait is not None
    assert 4.0 <= wait <= 4.1


@pytest.mark.parametrize(
    ("error", "given", "is_repeated"),
    [
        (RateLimited(429, "", 1.0), {"is_repeatable": False}, True),
        (RateLimited(429, "", 1.0), {"seconds": 29.5}, False),
        (RateLimited(429, "", 1.0), {"failures": 5}, False),
        (ConnectionFailed("", was_sent=True), {}, True),
        (ConnectionFailed("", was_sent=True), {"is_repeatable": False}, False),
        (ConnectionFailed("", was_sent=False), {"is_repeatable": False}, True),
        (ServerError(500, ""), {}, True),
        (ServerError(500, ""), {"is_repeatable": False}, False),
        (ApiError(400, ""), {}, False),
        (Unauthorized(401, ""), {}, False),
        (UnexpectedAnswer(""), {}, False),
    ],
)
def test_only_what_is_safe_is_repeated(
    error: GreenroomError, given: dict[str, Any], is_repeated: bool
) -> None:
    assert (decide(error, **given) is not None) is is_repeated
