"""Steam's answers, good, bad and worse, over a real socket: only a clear yes is a yes."""

from __future__ import annotations

import json
import logging
import socket
import ssl
from collections.abc import AsyncIterator, Iterator
from typing import Any

import msgspec
import pytest
import trio
import trustme
from steam_kit import APP_ID, KEY, STEAM_ID, SteamServer

from greenroom.actors.game.settings import GameSettings
from greenroom.actors.world.platform import PlatformUser
from greenroom.actors.world.refusals import (
    BannedByPublisher,
    InvalidPlatformTicket,
    PlatformUnavailable,
)
from greenroom.http.platforms import client as platform_client
from greenroom.http.platforms.steam import Steam, SteamGame

TICKET = bytes.fromhex("14000000ff")
GOOD = {"result": "OK", "steamid": STEAM_ID, "vacbanned": False, "publisherbanned": False}


@pytest.fixture
def steam() -> Iterator[SteamServer]:
    with SteamServer() as server:
        server.ticket(TICKET.hex())
        yield server


def game_on(provider: Steam, **changes: Any) -> SteamGame:
    settings = GameSettings(steam_app_id=APP_ID, steam_publisher_key=KEY)
    game = provider.find_platform(msgspec.structs.replace(settings, **changes))
    assert game is not None
    return game


@pytest.fixture
async def game(steam: SteamServer, nursery: trio.Nursery) -> AsyncIterator[SteamGame]:
    provider = Steam(steam.url, 5.0)
    await nursery.start(provider.run)
    yield game_on(provider)
    nursery.cancel_scope.cancel()


def test_a_game_needs_both_of_steams_settings():
    provider = Steam("http://127.0.0.1:1", 1.0)
    for settings in (
        GameSettings(),
        GameSettings(steam_app_id=480),
        GameSettings(steam_publisher_key=KEY),
    ):
        assert provider.find_platform(settings) is None


async def test_a_good_ticket_says_whose_it_is(game: SteamGame, steam: SteamServer):
    assert await game.authenticate(TICKET, None) == PlatformUser("steam", STEAM_ID)

    (question,) = steam.questions
    assert question.parameters == {"appid": "480", "ticket": TICKET.hex()}
    assert question.headers["x-webapi-key"] == KEY


async def test_the_identity_is_passed_on_as_it_is(game: SteamGame, steam: SteamServer):
    steam.ticket("aa", identity="my game&x=1 ü")

    assert (await game.authenticate(b"\xaa", "my game&x=1 ü")).platform_id == STEAM_ID
    for identity in (None, "", "my game"):
        with pytest.raises(InvalidPlatformTicket):
            await game.authenticate(b"\xaa", identity)
    with pytest.raises(InvalidPlatformTicket):
        await game.authenticate(TICKET, "an identity that the client did not pass")


async def test_who_is_banned_by_the_publisher_stays_out_and_by_vac_does_not(
    game: SteamGame, steam: SteamServer
):
    steam.ticket("aa", flags={"publisherbanned": True})
    steam.ticket("bb", flags={"vacbanned": True})

    with pytest.raises(BannedByPublisher):
        await game.authenticate(b"\xaa", None)
    assert (await game.authenticate(b"\xbb", None)).platform_id == STEAM_ID


@pytest.mark.parametrize("code", [3, 100, 101, 102, 103])
@pytest.mark.parametrize("status", [200, 400])
async def test_an_error_object_is_an_invalid_ticket(
    game: SteamGame, steam: SteamServer, code: int, status: int
):
    error = {"errorcode": code, "errordesc": "no"}
    steam.answer_json({"response": {"error": error}}, status)

    with pytest.raises(InvalidPlatformTicket):
        await game.authenticate(TICKET, None)


@pytest.mark.parametrize(
    "content",
    [
        {},
        [],
        None,
        {"response": {}},
        {"response": None},
        {"response": {"params": {}}},
        {"response": {"params": GOOD | {"result": "Ok"}}},
        {"response": {"params": GOOD | {"result": True}}},
        {"response": {"params": GOOD | {"steamid": ""}}},
        {"response": {"params": GOOD | {"steamid": "0"}}},
        {"response": {"params": GOOD | {"steamid": int(STEAM_ID)}}},
        {"response": {"params": GOOD | {"steamid": "9" * 21}}},
        {"response": {"params": GOOD | {"steamid": "7\n"}}},
        {"response": {"params": GOOD | {"steamid": "\u0667\u0667"}}},
        {"response": {"params": GOOD | {"publisherbanned": "no"}}},
        {"response": {"params": {k: v for k, v in GOOD.items() if k != "publisherbanned"}}},
        {"params": GOOD},
    ],
)
async def test_an_answer_of_another_shape_signs_nobody_in(
    game: SteamGame, steam: SteamServer, content: object
):
    steam.answer_json(content)

    with pytest.raises(PlatformUnavailable):
        await game.authenticate(TICKET, None)


@pytest.mark.parametrize("status", [201, 204, 301, 302, 400, 401, 403, 404, 429, 500, 502, 503])
async def test_another_status_signs_nobody_in(game: SteamGame, steam: SteamServer, status: int):
    good = json.dumps({"response": {"params": GOOD}}).encode()
    steam.answer_bytes(b"<html>" if status == 400 else good, status)

    with pytest.raises(PlatformUnavailable):
        await game.authenticate(TICKET, None)


async def test_a_redirect_is_not_followed(game: SteamGame, steam: SteamServer):
    steam.raw = f"HTTP/1.1 302 x\r\nLocation: {steam.url}/x\r\nContent-Length: 0\r\n\r\n".encode()

    with pytest.raises(PlatformUnavailable):
        await game.authenticate(TICKET, None)
    assert len(steam.questions) == 1


OK_HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n"


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"garbage\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n",
        OK_HEAD,
        OK_HEAD + b'{"response":{"params":',
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n\xff\xfe",
        b"HTTP/1.1 200 OK\r\nContent-Length: 3000\r\n\r\n" + b"[" * 3000,
        b"HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n" + b" " * 70_000,
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
        b"1000\r\n" + b" " * 4096 + b"\r\n" + b"zz",
        b"HTTP/1.1 200 OK\r\nx: " + b"y" * 300_000,
    ],
    ids=range(10),
)
async def test_an_answer_cut_off_too_long_or_garbled_signs_nobody_in(
    game: SteamGame, steam: SteamServer, raw: bytes
):
    steam.raw = raw

    with trio.fail_after(4), pytest.raises(PlatformUnavailable):
        await game.authenticate(TICKET, None)
    steam.behave()
    assert (await game.authenticate(TICKET, None)).platform_id == STEAM_ID


async def test_silence_is_waited_for_a_bounded_time(steam: SteamServer, nursery: trio.Nursery):
    provider = Steam(steam.url, 0.1)
    await nursery.start(provider.run)
    steam.is_silent = True

    with trio.fail_after(2), pytest.raises(PlatformUnavailable):
        await game_on(provider).authenticate(TICKET, None)
    nursery.cancel_scope.cancel()


async def test_only_so_many_ask_at_once(
    game: SteamGame, steam: SteamServer, nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
):
    steam.is_silent = True
    for _ in range(platform_client.CALLS_MAX):
        nursery.start_soon(game.authenticate, TICKET, None)
    await trio.testing.wait_all_tasks_blocked(0.05)

    with trio.fail_after(1), pytest.raises(PlatformUnavailable):
        await game.authenticate(TICKET, None)
    nursery.cancel_scope.cancel()


async def test_nobody_at_the_address_signs_nobody_in(nursery: trio.Nursery):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and nobody listens
        provider = Steam(f"http://127.0.0.1:{taken.getsockname()[1]}", 2.0)
        stopped = game_on(provider)
        with pytest.raises(PlatformUnavailable):
            await stopped.authenticate(TICKET, None)  # not even running
        await nursery.start(provider.run)
        with pytest.raises(PlatformUnavailable):
            await game_on(provider).authenticate(TICKET, None)
    nursery.cancel_scope.cancel()


async def test_a_certificate_of_nobody_known_signs_nobody_in(
    nursery: trio.Nursery, caplog: pytest.LogCaptureFixture
):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("127.0.0.1").configure_cert(context)

    async def serve(stream: trio.SocketStream) -> None:
        async with trio.SSLStream(stream, context, server_side=True) as secured:
            try:
                await secured.do_handshake()
                await secured.receive_some()
            except (trio.BrokenResourceError, ssl.SSLError):
                return

    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    nursery.start_soon(trio.serve_listeners, serve, [listener])
    provider = Steam(f"https://127.0.0.1:{listener.socket.getsockname()[1]}", 5.0)
    await nursery.start(provider.run)

    with pytest.raises(PlatformUnavailable):
        await game_on(provider).authenticate(TICKET, None)
    assert "TLS failed" in caplog.text
    nursery.cancel_scope.cancel()


async def test_a_wrong_key_is_the_operators_business_and_no_secret_is_logged(
    steam: SteamServer, nursery: trio.Nursery, caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.DEBUG)
    provider = Steam(steam.url, 5.0)
    await nursery.start(provider.run)
    wrong = "F" * 32

    with pytest.raises(PlatformUnavailable):
        await game_on(provider, steam_publisher_key=wrong).authenticate(TICKET, None)
    await game_on(provider).authenticate(TICKET, None)
    with pytest.raises(InvalidPlatformTicket):
        await game_on(provider, steam_app_id=1).authenticate(TICKET, None)

    assert "look at the game's publisher key" in caplog.text
    for secret in (wrong, KEY, TICKET.hex(), STEAM_ID):
        assert secret not in caplog.text
    nursery.cancel_scope.cancel()


async def test_a_persona_is_told_or_not_but_never_an_error(game: SteamGame, steam: SteamServer):
    user = PlatformUser("steam", STEAM_ID)
    assert await game.fetch_persona_name(user) is None
    steam.personas[STEAM_ID] = "Gabe ⚙"
    assert await game.fetch_persona_name(user) == "Gabe ⚙"
    steam.answer_bytes(b"busy", 503)
    assert await game.fetch_persona_name(user) is None
    steam.answer_json({"response": {"players": [{"steamid": "1", "personaname": "Else"}]}})
    assert await game.fetch_persona_name(user) is None
