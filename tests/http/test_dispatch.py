"""The dispatcher: the order of its checks, and an answer whatever happens."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator

import pytest
import trio
from dispatch_kit import DispatchKit, Gone, json_of
from trio.testing import MockClock
from world_kit import Arena, add_game, open_arena

from greenroom.actors.flows.bans import ban_player
from greenroom.actors.flows.register import register_player
from greenroom.actors.kernel.errors import (
    ActorCrashed,
    ActorStopped,
    CommitUnsettled,
    MailboxFull,
    Refused,
    StorageUnavailable,
)
from greenroom.actors.player.tokens import ADMIN_KEY, PLAYER_TOKEN, PROJECT_KEY, make_token
from greenroom.contract.refusals import HINTS, METHOD_HINTS, PATH_HINT
from greenroom.http import dispatch
from greenroom.http.limits import REFUSALS, LimitSettings
from greenroom.http.request import Request
from greenroom.network.pieces import LARGE_BYTES


@pytest.fixture
async def arena(autojump_clock: MockClock) -> AsyncIterator[Arena]:
    async with open_arena() as arena:
        yield arena


@pytest.fixture
async def stage(arena: Arena) -> DispatchKit:
    return DispatchKit(arena)


# Routing


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/api/echo.php"),
        ("PUT", "/api/echo.php"),
        ("DELETE", "/api/echo.php"),
        ("post", "/api/echo.php"),
        ("POST", "/api/echo"),
        ("POST", "/api/echo.php/more"),
        ("POST", "/api/Echo.php"),
        ("POST", "//api/echo.php"),
        ("GET", "/api/"),
        ("GET", "/api"),
        ("GET", ""),
        ("POST", "/api/room.php//join"),
        ("POST", "/api/room.php/a/b/join"),
        ("HEAD", "/api/echo.php"),
    ],
)
async def test_unknown_paths_and_wrong_methods_are_an_invalid_endpoint(
    stage: DispatchKit, method: str, path: str
) -> None:
    answer = await stage.answer(method, path, b"not json", key=None)

    assert answer.status == 404
    found = json_of(answer)
    assert found.pop("hint") in {PATH_HINT, *METHOD_HINTS.values()}
    assert found == {"success": False, "error": "Invalid endpoint"}


@pytest.mark.parametrize("path", ["/api/echo.php", "/api/echo.php/", "/api/echo.php//"])
async def test_a_trailing_slash_is_tolerated(stage: DispatchKit, path: str) -> None:
    answer = await stage.answer("POST", path, b'{"word":"hi"}')

    assert answer.status == 200
    assert answer.body == b'{"success":true,"word":"hi","number":null,"player_data":null}'


async def test_arguments_of_the_path_reach_the_handler(stage: DispatchKit) -> None:
    answer = await stage.answer("POST", "/api/room.php/ab12/join/")

    assert json_of(answer) == {"success": True, "seen": "ab12"}


async def test_a_path_without_arguments_goes_before_one_with(stage: DispatchKit) -> None:
    answer = await stage.answer("POST", "/api/room.php/leave/join")

    assert json_of(answer)["seen"] == "none"


async def test_head_is_answered_as_get(stage: DispatchKit) -> None:
    got = await stage.answer("GET", "/api/owner.php", admin=stage.arena.keys.api_private_token)
    head = await stage.answer("HEAD", "/api/owner.php", admin=stage.arena.keys.api_private_token)

    assert (head.status, head.body) == (got.status, got.body) == (200, got.body)


@pytest.mark.parametrize("path", ["/api/echo.php", "/api/unknown.php"])
async def test_a_preflight_is_answered_204_with_what_may_be_sent(
    stage: DispatchKit, path: str
) -> None:
    answer = await stage.answer("OPTIONS", path, key=None)

    headers = dict(answer.headers)
    assert (answer.status, answer.body) == (204, b"")
    assert headers["Access-Control-Allow-Methods"] == "GET, POST, PUT, OPTIONS"
    for name in ("Content-Type", "X-Api-Token", "X-Game-Player-Token", "X-Realtime-Token"):
        assert name in headers["Access-Control-Allow-Headers"]


# Tokens


async def test_the_callers_of_each_class_are_made(stage: DispatchKit) -> None:
    player_id, token = await stage.register()
    game_id = stage.arena.game.game_id

    player = await stage.answer("POST", "/api/who.php/am/i", token=token)
    owner = await stage.answer("GET", "/api/owner.php", admin=stage.arena.keys.api_private_token)

    assert json_of(player)["seen"] == f"player {player_id}"
    assert json_of(owner)["seen"] == f"owner of {game_id}"


JUNK = ["junk", "x" * 100_000, "ünï", "\x00", "a, b", make_token(PROJECT_KEY, bytes(64))]


@pytest.mark.parametrize("key", JUNK)
async def test_a_bad_project_key_is_a_401_with_its_message(stage: DispatchKit, key: str) -> None:
    answer = await stage.answer("POST", "/api/echo.php", key=key)

    assert answer.status == 401
    assert json_of(answer) == {
        "success": False,
        "error": "Invalid API token",
        "message": "Authentication failed",
        "hint": HINTS["Invalid API token"],
    }


@pytest.mark.parametrize(
    ("key", "token", "error"),
    [
        (None, None, "no key"),
        (None, "given", "no key"),
        ("bad", None, "Invalid API token"),
        ("bad", "given", "Invalid API token"),
        ("", None, "no token"),
        ("", "", "no token"),
        ("", "junk", "bad token"),
        ("", make_token(PLAYER_TOKEN, bytes(64)), "bad token"),
    ],
)
async def test_the_key_is_checked_before_the_player_token(
    stage: DispatchKit, key: str | None, token: str | None, error: str
) -> None:
    answer = await stage.answer("POST", "/api/who.php/am/i", b"[", key=key, token=token)

    assert answer.status == 401
    assert json_of(answer)["error"] == error


async def test_an_empty_key_counts_as_missing(stage: DispatchKit) -> None:
    request = Request("POST", "/api/echo.php", "", {"x-api-token": ""}, b"", "192.0.2.1")

    assert json_of(await stage.dispatcher.answer(request))["error"] == "no key"


@pytest.mark.parametrize(
    ("admin", "error"),
    [(None, "no token"), ("junk", "bad token"), (make_token(ADMIN_KEY, bytes(64)), "bad token")],
)
async def test_the_admin_key_is_checked(stage: DispatchKit, admin: str | None, error: str) -> None:
    answer = await stage.answer("GET", "/api/owner.php", admin=admin)

    assert (answer.status, json_of(answer)["error"]) == (401, error)


async def test_tokens_of_another_game_open_nothing(stage: DispatchKit) -> None:
    other, keys = await add_game(stage.arena.world, "Other")
    world = stage.arena.world
    player = await register_player(world, other.game, "Bob", b"{}")

    foreign = await stage.answer("POST", "/api/who.php/am/i", token=player.token)
    admin = await stage.answer("GET", "/api/owner.php", admin=keys.api_private_token)

    assert (foreign.status, json_of(foreign)["error"]) == (401, "other game")
    assert (admin.status, json_of(admin)["error"]) == (401, "bad token")


async def test_tokens_of_the_wrong_kind_open_nothing(stage: DispatchKit) -> None:
    _, token = await stage.register()
    keys = stage.arena.keys

    as_key = await stage.answer("POST", "/api/echo.php", key=token)
    as_admin = await stage.answer("GET", "/api/owner.php", admin=keys.api_token)
    as_player = await stage.answer("POST", "/api/who.php/am/i", token=keys.api_private_token)

    assert [as_key.status, as_admin.status, as_player.status] == [401, 401, 401]


async def test_the_banned_are_told_so_before_their_body_is_looked_at(stage: DispatchKit) -> None:
    player_id, token = await stage.register()
    game_id = stage.arena.game.game_id
    ban = await ban_player(stage.arena.world, game_id, player_id, "forever", "Cheating")

    answer = await stage.answer("POST", "/api/who.php/am/i", b"not json", token=token)

    assert answer.status == 403
    assert json_of(answer) == {
        "success": False,
        "error": "You are banned: Cheating. This is a permanent ban.",
        "ban_info": {
            "ban_id": ban.ban_id,
            "ban_duration": "forever",
            "ban_reason": "Cheating",
            "banned_at": "2023-11-14T22:13:20Z",
            "banned_until": None,
        },
    }


# Bodies, queries, replies


async def test_tokens_are_checked_before_the_body(stage: DispatchKit) -> None:
    answer = await stage.answer("POST", "/api/echo.php", b"not json", key="bad")

    assert answer.status == 401


async def test_a_body_that_is_too_large_is_refused_after_everything_else(
    stage: DispatchKit,
) -> None:
    headers = {"x-api-token": stage.arena.keys.api_token}

    async def status(path: str, headers: dict[str, str]) -> int:
        request = Request("POST", path, "", headers, b"", "203.0.113.7", body_too_large=True)
        return (await stage.dispatcher.answer(request)).status

    assert await status("/api/echo.php", headers) == 413
    assert await status("/api/echo.php", {"x-api-token": "bad"}) == 401
    assert await status("/api/nothing.php", headers) == 404


@pytest.mark.parametrize("body", [b"", b"null", b"{}", b'{"unknown":[1]}'])
async def test_calls_without_arguments_may_send_any_form_of_nothing(
    stage: DispatchKit, body: bytes
) -> None:
    _, token = await stage.register()

    assert (await stage.answer("POST", "/api/who.php/am/i", body, token=token)).status == 200


@pytest.mark.parametrize("body", [b"[]", b"word", b'"x"', b"1", b"\xff", b"{" * 100_000])
async def test_calls_without_arguments_refuse_what_is_no_object(
    stage: DispatchKit, body: bytes
) -> None:
    _, token = await stage.register()

    answer = await stage.answer("POST", "/api/who.php/am/i", body, token=token)

    assert (answer.status, json_of(answer)["error"]) == (400, "Invalid JSON body")


async def test_a_whole_body_document_reaches_the_handler_verbatim(stage: DispatchKit) -> None:
    sent = b'{ "b": 1.0, "a": 123456789012345678901234567890, "a": null }'

    answer = await stage.answer("PUT", "/api/store.php", b"\n" + sent + b"\n")

    assert json_of(answer)["seen"] == sent.decode()


@pytest.mark.parametrize("body", [b"", b"null", b"[]", b'"{}"', b"{}{}"])
async def test_only_an_object_is_a_document(stage: DispatchKit, body: bytes) -> None:
    answer = await stage.answer("PUT", "/api/store.php", body)

    assert (answer.status, json_of(answer)["error"]) == (400, "Invalid JSON body")


@pytest.mark.parametrize("name", ["engine", "unity"])
async def test_the_engine_variant_turns_documents_into_strings(
    stage: DispatchKit, name: str
) -> None:
    body = b'{"word":"hi","player_data":{"a": 1.0}}'

    answer = await stage.answer("POST", "/api/echo.php", body, query=f"x=1&format={name}")

    assert answer.body == (
        b'{"success":true,"word":"hi","number":null,"player_data_json":"{\\"a\\":1.0}"}'
    )


@pytest.mark.parametrize("query", ["format=json", "format=", "Format=engine", "format", "%ff=%fe"])
async def test_any_other_format_is_the_plain_one(stage: DispatchKit, query: str) -> None:
    body = b'{"word":"hi","player_data":{"a": 1.0}}'

    answer = await stage.answer("POST", "/api/echo.php", body, query=query)

    assert answer.body == (b'{"success":true,"word":"hi","number":null,"player_data":{"a": 1.0}}')


async def test_a_query_without_end_is_refused(stage: DispatchKit) -> None:
    answer = await stage.answer("POST", "/api/echo.php", b"{}", query="a=1&" * 1000)

    assert (answer.status, json_of(answer)["error"]) == (400, "Too many query parameters")


async def whole(stage: DispatchKit, query: str) -> bytes:
    answer = await stage.answer("GET", "/api/list.php", query=query)
    assert answer.status == 200
    assert answer.stream is not None
    body = b"".join([chunk async for chunk in answer.stream])
    await answer.stream.aclose()  # type: ignore[attr-defined]
    return body


async def test_a_streamed_reply_is_one_object_with_the_count_behind(stage: DispatchKit) -> None:
    entry = b'{"id":%d,"rules":{"a": 1.0}},{"id":%d,"rules":null}'

    assert await whole(stage, "") == (
        b'{"success":true,"entries":[' + entry % (0, 0) + b'],"count":2}'
    )
    assert await whole(stage, "pages=3") == (
        b'{"success":true,"entries":[' + entry % (0, 0) + b"," + entry % (2, 2) + b'],"count":4}'
    )
    assert await whole(stage, "pages=0") == b'{"success":true,"entries":[],"count":0}'


async def test_a_streamed_reply_has_an_engine_variant(stage: DispatchKit) -> None:
    assert await whole(stage, "pages=1&format=engine") == (
        b'{"success":true,"entries":[{"id":0,"rules_json":"{\\"a\\":1.0}"},'
        b'{"id":0,"rules_json":"{}"}],"count":2}'
    )


async def test_an_error_on_the_way_to_the_first_page_is_an_answer(stage: DispatchKit) -> None:
    answer = await stage.answer("GET", "/api/list.php", query="fail_at=0")

    assert (answer.status, json_of(answer)["error"]) == (404, "Thing not found")
    assert stage.pages is not None
    assert stage.pages.is_closed


async def test_an_error_later_breaks_the_stream_off(stage: DispatchKit) -> None:
    answer = await stage.answer("GET", "/api/list.php", query="pages=3&fail_at=2")

    assert answer.stream is not None
    with pytest.raises(Gone):
        async for _ in answer.stream:
            pass


@pytest.mark.parametrize(
    ("query", "error"),
    [
        ("pages=many", "pages must be an integer"),
        ("pages=1.5", "pages must be an integer"),
        ("pages=" + "9" * 5000, "pages must be an integer"),
        ("pages=%00", "pages must be an integer"),
    ],
)
async def test_a_query_that_does_not_fit_is_refused(
    stage: DispatchKit, query: str, error: str
) -> None:
    answer = await stage.answer("GET", "/api/list.php", query=query)

    assert (answer.status, json_of(answer)["error"]) == (400, error)


# Errors


@pytest.mark.parametrize(
    ("error", "status", "text"),
    [
        (Gone(), 404, "Thing not found"),
        (Refused("No."), 400, "No."),
        (MailboxFull("full"), 429, "Too many requests"),
        (StorageUnavailable("away"), 429, "Too many requests"),
        (ActorStopped("gone"), 500, "Internal server error"),
        (ActorCrashed("bug"), 500, "Internal server error"),
        (CommitUnsettled("late"), 500, "Internal server error"),
        (ValueError("secret"), 500, "Internal server error"),
        (RecursionError(), 500, "Internal server error"),
        (ExceptionGroup("many", [ValueError()]), 500, "Internal server error"),
        (Refused("\ud800"), 500, "Internal server error"),
    ],
)
async def test_every_error_becomes_its_answer_and_the_next_call_is_served(
    stage: DispatchKit, error: Exception, status: int, text: str
) -> None:
    stage.trouble.error = error
    answer = await stage.answer("POST", "/api/trouble.php")
    stage.trouble.error = None

    assert answer.status == status
    assert json_of(answer)["error"] == text
    assert json_of(answer)["success"] is False
    assert (await stage.answer("POST", "/api/trouble.php")).status == 200


async def test_overload_says_when_to_come_back(stage: DispatchKit) -> None:
    stage.trouble.error = StorageUnavailable("away")

    answer = await stage.answer("POST", "/api/trouble.php")

    assert json_of(answer)["retry_after"] == 2
    assert answer.headers == (("Retry-After", "2"),)


async def test_a_bug_is_logged_with_its_traceback_and_nothing_of_the_request(
    stage: DispatchKit, caplog: pytest.LogCaptureFixture
) -> None:
    stage.trouble.error = ValueError("broken")
    with caplog.at_level(logging.DEBUG, "greenroom.http"):
        await stage.answer("POST", "/api/trouble.php", b'{"password":"hunter2"}', query="q=hunter2")

    (record,) = caplog.records
    assert record.getMessage() == "POST /api/trouble.php failed"
    assert record.exc_info is not None
    assert "hunter2" not in caplog.text
    assert stage.arena.keys.api_token not in caplog.text


async def test_a_refusal_is_not_logged(
    stage: DispatchKit, caplog: pytest.LogCaptureFixture
) -> None:
    stage.trouble.error = Gone()
    await stage.answer("POST", "/api/trouble.php")

    assert not caplog.records


async def test_only_a_cancellation_comes_out(stage: DispatchKit, autojump_clock: MockClock) -> None:
    stage.trouble.gate = trio.Event()
    with trio.move_on_after(1) as scope:
        await stage.answer("POST", "/api/trouble.php")
    stage.trouble.gate = None

    assert scope.cancelled_caught
    assert (await stage.answer("POST", "/api/trouble.php")).status == 200


# Limits


async def test_more_requests_than_fit_are_turned_away_at_once(arena: Arena) -> None:
    stage = DispatchKit(arena, in_flight_max=4)  # of which one address has two
    stage.trouble.gate = trio.Event()
    async with trio.open_nursery() as nursery:
        for _ in range(2):
            nursery.start_soon(stage.answer, "POST", "/api/trouble.php")
        await trio.testing.wait_all_tasks_blocked()
        turned_away = await stage.answer("POST", "/api/trouble.php")
        calls = stage.trouble.calls
        stage.trouble.gate.set()

    assert (turned_away.status, calls) == (429, 2)
    assert (await stage.answer("POST", "/api/trouble.php")).status == 200


async def test_a_class_of_calls_is_limited_by_address_before_tokens_are_looked_at(
    arena: Arena,
) -> None:
    limits = LimitSettings(register_calls_per_second_address=0.1)
    stage = DispatchKit(arena, limits=limits)  # a burst of 2, then one in ten seconds

    statuses = [(await stage.answer("POST", "/api/trouble.php")).status for _ in range(2)]
    limited = await stage.answer("POST", "/api/trouble.php", key=None)
    elsewhere = await stage.answer("POST", "/api/trouble.php", address="203.0.113.8")
    other = await stage.answer("POST", "/api/echo.php", b'{"word":"hi"}')
    stage.seconds = 10.0
    later = await stage.answer("POST", "/api/trouble.php")

    assert statuses == [200, 200]
    assert (limited.status, json_of(limited)["retry_after"]) == (429, 10)
    assert (elsewhere.status, other.status, later.status) == (200, 200, 200)


async def test_wrong_tokens_count_against_their_address_and_missing_ones_do_not(
    arena: Arena,
) -> None:
    limits = LimitSettings(failed_tokens_per_second_address=0.05, rate_burst_seconds=40)
    stage = DispatchKit(arena, limits=limits)  # two wrong ones, then one in twenty seconds
    _, token = await stage.register()

    for _ in range(5):
        assert (await stage.answer("POST", "/api/who.php/am/i", key=None)).status == 401
        assert (await stage.answer("POST", "/api/who.php/am/i")).status == 401
    assert (await stage.answer("POST", "/api/who.php/am/i", key="bad")).status == 401
    assert (await stage.answer("POST", "/api/who.php/am/i", token="bad")).status == 401
    limited = await stage.answer("POST", "/api/who.php/am/i", token=token)
    neighbour = await stage.answer("POST", "/api/who.php/am/i", token=token, address="192.0.2.1")
    stage.seconds = 20.0
    later = await stage.answer("POST", "/api/who.php/am/i", token=token)

    assert (limited.status, json_of(limited)["retry_after"]) == (429, 20)
    assert (neighbour.status, later.status) == (200, 200)


# Metrics


async def test_answers_are_counted_by_endpoint_and_status(stage: DispatchKit) -> None:
    await stage.answer("POST", "/api/echo.php", b'{"word":"hi"}')
    await stage.answer("POST", "/api/echo.php/", b"[")
    await stage.answer("GET", "/api/nowhere.php")
    page = await stage.metrics.answer(
        Request("GET", "/metrics", "", {"host": "localhost"}, b"", "127.0.0.1")
    )

    text = page.body.decode()
    endpoint = 'endpoint="/api/echo.php",method="POST"'
    assert f'greenroom_http_requests_total{{{endpoint},status="200"}} 1.0' in text
    assert f'greenroom_http_requests_total{{{endpoint},status="400"}} 1.0' in text
    assert 'greenroom_http_requests_total{endpoint="unknown",method="",status="404"} 1.0' in text
    assert f"greenroom_http_request_seconds_count{{{endpoint}}} 2.0" in text
    assert "greenroom_http_requests_in_flight 0.0" in text


# Refusals of those who go on


async def test_who_goes_on_asking_after_a_thousand_refusals_waits_for_each(
    arena: Arena, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = DispatchKit(arena, limits=LimitSettings(register_calls_per_second_address=0.001))
    waits: list[str] = []

    async def refused(address: str, body: bytes = b"") -> int:
        async def hold_up() -> None:
            waits.append(address)

        monkeypatch.setattr(dispatch, "hold_up", hold_up)
        request = Request("POST", "/api/trouble.php", "", {}, body, address)
        return (await stage.dispatcher.answer(request)).status

    statuses = [await refused("203.0.113.7") for _ in range(1 + int(REFUSALS.burst))]
    assert statuses[1:] == [429] * int(REFUSALS.burst)
    assert waits == []
    assert await refused("203.0.113.7") == 429
    assert await refused("203.0.113.7", b" " * LARGE_BYTES) == 429  # would be held meanwhile
    await refused("203.0.113.8")
    assert await refused("203.0.113.8") == 429
    assert waits == ["203.0.113.7"]


# What is in no row


@pytest.mark.parametrize(
    ("method", "status", "reason"),
    [("GET", 404, "pages by address"), ("OPTIONS", 204, "read by address")],
)
async def test_what_no_row_is_there_for_is_charged_to_its_address(
    arena: Arena, method: str, status: int, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rates = LimitSettings(pages_per_second_address=0.1, read_calls_per_second_address=0.1)
    stage = DispatchKit(arena, limits=rates)
    request = Request(method, "/api/nothing.php", "", {}, b"", "203.0.113.7")
    waits: list[float] = []

    async def hold_up() -> None:
        waits.append(stage.seconds)

    monkeypatch.setattr(dispatch, "hold_up", hold_up)
    answers = [await stage.dispatcher.answer(request) for _ in range(3)]
    assert waits == [0.0]  # for the refusal alone
    assert [answer.status for answer in answers] == [status, status, 429]
    assert dict(answers[2].headers)["Retry-After"] == "10"
    assert stage.limits.refused == {reason: 1}
