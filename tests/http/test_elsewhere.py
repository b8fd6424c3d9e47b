"""The dispatcher and the port by which other nodes answer: what it sends there, and when."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import cast

import pytest
import trio
import trio.testing
from dispatch_kit import DispatchKit, Gone, json_of
from trio.testing import MockClock
from world_kit import Arena, open_arena

from greenroom.actors.kernel.errors import Moved
from greenroom.actors.kernel.shard_ownership import OwnedShards
from greenroom.actors.world.others import OtherNodes
from greenroom.http import dispatch
from greenroom.http.limits import LimitSettings
from greenroom.http.ports import NOT_HERE, ForwardedRequest, SentCall, SentOn
from greenroom.http.request import Answer, Notes, Request

TROUBLE = ("POST", "/api/trouble.php")


class Like:
    """A call like one before; its answer is the way that it went."""

    is_refused = False

    def __init__(
        self, way: str, calls: list[SentCall], then: Callable[[], None] | None = None
    ) -> None:
        self.way, self.calls, self.then = way, calls, then

    def read(self) -> Answer | None:
        return Answer(200, self.way.encode())

    async def finish(self, make_call: Callable[[], SentCall]) -> Answer:
        self.calls.append(make_call())
        return Answer(200, self.way.encode())

    def drop(self) -> None:
        self.calls.clear()


class Others:
    """The other nodes; they answer everything alike, unless it is to be answered here."""

    def __init__(self) -> None:
        self.has_all = False
        self.way: str | None = None
        self.calls: list[SentCall] = []
        self.questions = 0
        self.is_back = False
        self.sent_on = NOT_HERE

    def is_here(self, _: Request, *, is_players: bool) -> bool:
        return not self.has_all

    def recall_way(self, request: Request, notes: Notes) -> str | None:
        if self.way is None:
            notes.away = None
        return self.way

    def begin_like(
        self, way: str, request: Request, *, only_reads: bool, then: Callable[[], None] | None
    ) -> Like:
        return Like(way, self.calls, then)

    async def answer(self, call: SentCall, sent_on: SentOn = NOT_HERE) -> Answer:
        self.calls.append(call)
        self.sent_on = sent_on
        here = await call.answer_here(0) if self.is_back else NOT_HERE
        return Answer(200, b"{}") if isinstance(here, SentOn) else here

    async def vouches(
        self,
        _: Request,
        vouches_here: Callable[[], Awaitable[bool | SentOn]],
        *,
        is_players: bool,
    ) -> bool:
        self.questions += 1
        return (await vouches_here()) is True if self.is_back else True


@pytest.fixture
async def arena(autojump_clock: MockClock) -> AsyncIterator[Arena]:
    async with open_arena() as arena:
        yield arena


@pytest.fixture
def others() -> Others:
    return Others()


@pytest.fixture
async def stage(arena: Arena, others: Others) -> DispatchKit:
    return DispatchKit(arena, elsewhere=others)


async def test_what_is_here_is_answered_here(stage: DispatchKit, others: Others) -> None:
    assert (await stage.answer(*TROUBLE)).status == 200
    assert not others.calls


async def test_what_is_elsewhere_is_sent_before_any_token_is_looked_at(
    stage: DispatchKit, others: Others
) -> None:
    others.has_all = True
    assert (await stage.answer(*TROUBLE, key="junk")).status == 200
    assert stage.trouble.calls == 0
    assert [call.request.path for call in others.calls] == ["/api/trouble.php"]


async def test_a_call_goes_the_way_of_those_before_while_that_is_known(
    arena: Arena, others: Others
) -> None:
    limits = LimitSettings(register_calls_per_second_address=1.0, rate_burst_seconds=3.0)
    stage = DispatchKit(arena, limits=limits, elsewhere=others)
    notes = Notes()
    assert (await stage.answer(*TROUBLE, notes=notes)).status == 200
    notes.away, others.way = "the way", "{1}"
    assert (await stage.answer(*TROUBLE, notes=notes)).body == b"{1}"
    assert others.calls[0].request.notes is notes
    others.way = None
    assert (await stage.answer(*TROUBLE, notes=notes)).status == 200
    assert notes.away is None
    assert stage.trouble.calls == 2  # here again
    assert len(others.calls) == 1
    notes.away, others.way = "the way", "{1}"
    refused = await stage.answer(*TROUBLE, notes=notes)
    assert refused.status == 429  # both ways are charged to the same allowance
    assert len(others.calls) == 1


async def test_a_known_caller_whose_game_has_left_is_sent_on(
    stage: DispatchKit, others: Others
) -> None:
    notes = Notes()
    assert (await stage.answer(*TROUBLE, notes=notes)).status == 200
    known = notes.known
    assert known is not None
    others.has_all = True
    assert (await stage.answer(*TROUBLE, notes=notes)).status == 200
    assert not others.calls  # who is known is looked for here first
    stage.arena.world.game_index.remove_key(known.key_hash)
    for calls in (1, 2):
        assert (await stage.answer(*TROUBLE, notes=notes)).status == 200
        assert len(others.calls) == calls
        assert notes.known is None


async def test_a_known_caller_goes_on_though_another_call_of_theirs_is_refused_meanwhile(
    stage: DispatchKit, monkeypatch: pytest.MonkeyPatch
) -> None:
    notes = Notes()
    assert (await stage.answer(*TROUBLE, notes=notes)).status == 200

    async def meet_another(*_: object) -> bool:
        notes.known = None
        return True

    monkeypatch.setattr(dispatch, "is_known", meet_another)
    assert (await stage.answer(*TROUBLE, notes=notes)).status == 200


async def test_a_turn_that_met_a_move_is_sent_on(stage: DispatchKit, others: Others) -> None:
    stage.trouble.error = Moved()
    assert (await stage.answer(*TROUBLE)).status == 200
    assert len(others.calls) == 1
    assert stage.dispatcher.in_flight.count == 0


def own(arena: Arena) -> tuple[OwnedShards, int]:
    """Let the arena's node be one of several that owns the game's shard alone."""
    owned, shard = OwnedShards(), arena.world.ledger.get_shard(arena.game.game_id)
    owned.gain(shard, 1)
    arena.world.ownership = owned
    return owned, shard


@pytest.mark.parametrize("comes_back", [False, True])
@pytest.mark.parametrize(
    ("path", "error", "is_sent_on"),
    [
        ("/api/trouble.php", None, False),
        ("/api/trouble.php", Gone(), True),
        ("/api/trouble.php", ValueError(), False),
        ("/api/look.php", None, True),
        ("/api/look.php", Gone(), True),
        ("/api/look.php", ValueError(), True),
    ],
)
async def test_what_was_found_in_a_shard_that_went_away_meanwhile_does_not_count(
    arena: Arena,
    others: Others,
    path: str,
    error: Exception | None,
    *,
    is_sent_on: bool,
    comes_back: bool,
) -> None:
    owned, shard = own(arena)
    stage = DispatchKit(arena, elsewhere=others)
    stage.trouble.error, stage.trouble.gate = error, trio.Event()
    method = "GET" if path == "/api/look.php" else "POST"
    own_answers, forwarded_answers = list[Answer](), list[Answer | SentOn]()
    request = forwarded(arena, method=method, path=path)
    async with trio.open_nursery() as nursery:

        async def answer() -> None:
            own_answers.append(await stage.answer(method, path))

        async def answer_forwarded() -> None:
            forwarded_answers.append(await stage.dispatcher.answer_forwarded(request))

        nursery.start_soon(answer)
        nursery.start_soon(answer_forwarded)
        await trio.testing.wait_all_tasks_blocked()
        assert stage.trouble.calls == 2
        owned.lose(shard)
        if comes_back:
            owned.gain(shard, 1)
        stage.trouble.gate.set()
    assert bool(others.calls) == is_sent_on
    assert isinstance(forwarded_answers[0], SentOn) == is_sent_on
    assert (own_answers[0].status == 200) == (is_sent_on or error is None)


async def test_what_stays_here_counts_though_other_shards_go(arena: Arena, others: Others) -> None:
    owned, shard = own(arena)
    owned.gain(shard ^ 1, 1)
    stage = DispatchKit(arena, elsewhere=others)
    stage.trouble.error, stage.trouble.gate = Gone(), trio.Event()
    async with trio.open_nursery() as nursery:

        async def answer() -> None:
            assert (await stage.answer(*TROUBLE)).status == 404

        nursery.start_soon(answer)
        await trio.testing.wait_all_tasks_blocked()
        owned.lose(shard ^ 1)
        stage.trouble.gate.set()
    assert not others.calls


async def test_a_head_that_comes_again_finds_a_shard_that_went_and_came_back(
    arena: Arena, others: Others
) -> None:
    owned, shard = own(arena)
    stage, notes = DispatchKit(arena, elsewhere=others), Notes()
    for _ in range(2):
        assert (await stage.answer(*TROUBLE, notes=notes)).status == 200
        assert notes.tenure is owned.find_tenure(shard)
    owned.lose(shard)
    await stage.answer(*TROUBLE, notes=notes)
    assert (len(others.calls), notes.tenure) == (1, None)
    owned.gain(shard, 1)
    assert (await stage.answer(*TROUBLE, notes=notes)).status == 200
    assert len(others.calls) == 1
    assert notes.tenure is owned.find_tenure(shard)


async def test_a_head_that_comes_again_is_no_proof_where_games_have_several_shards(
    arena: Arena, others: Others
) -> None:
    _, shard = own(arena)
    stage, notes = DispatchKit(arena, elsewhere=others), Notes()
    assert (await stage.answer(*TROUBLE, notes=notes)).status == 200
    arena.world.ledger.spread[arena.game.game_id] = (shard ^ 1, shard ^ 2)
    await stage.answer(*TROUBLE, notes=notes)
    assert (len(others.calls), notes.tenure) == (1, None)


async def test_a_game_that_has_gone_before_its_call_is_carried_out_is_sent_on(
    arena: Arena, others: Others
) -> None:
    owned, shard = own(arena)
    owned.lose(shard)
    stage = DispatchKit(arena, elsewhere=others)
    await stage.answer(*TROUBLE)
    assert len(others.calls) == 1
    assert stage.trouble.calls == 0


class NothingOpen:
    """The other nodes as the world sees them, while this one brings up all that it owns."""

    def serves(self, _: int) -> bool:
        return False


async def test_a_game_that_is_just_being_brought_up_refuses_nobody(
    arena: Arena, others: Others
) -> None:
    """The shard was lost and came back while the token was looked up: its rooms are not loaded."""
    own(arena)
    arena.world.others = cast("OtherNodes", NothingOpen())
    stage = DispatchKit(arena, elsewhere=others)
    stage.trouble.error = Gone()
    await stage.answer(*TROUBLE)
    assert len(others.calls) == 1
    assert stage.trouble.calls == 0


async def test_what_comes_back_is_answered_here_with_all_checks(
    stage: DispatchKit, others: Others
) -> None:
    others.has_all = others.is_back = True
    stage.trouble.error = Gone()
    assert (await stage.answer(*TROUBLE)).status == 404
    assert (await stage.answer(*TROUBLE, key="junk")).status == 401


async def test_a_move_without_other_nodes_is_a_bug(arena: Arena) -> None:
    alone = DispatchKit(arena)
    alone.trouble.error = Moved()
    assert (await alone.answer(*TROUBLE)).status == 500


@pytest.mark.parametrize(
    ("method", "path", "only_reads"),
    [
        ("GET", "/api/owner.php", True),
        ("HEAD", "/api/owner.php", True),
        ("POST", "/api/echo.php", False),
        ("PUT", "/api/store.php", False),
        ("POST", "/api/trouble.php", False),
    ],
)
async def test_only_what_changes_nothing_may_be_sent_twice(
    stage: DispatchKit, others: Others, method: str, path: str, *, only_reads: bool
) -> None:
    others.has_all = True
    await stage.answer(method, path)
    assert [call.only_reads for call in others.calls] == [only_reads]


async def test_addresses_are_charged_before_a_call_is_sent(arena: Arena, others: Others) -> None:
    limits = LimitSettings(register_calls_per_second_address=1.0, rate_burst_seconds=2.0)
    stage = DispatchKit(arena, limits=limits, elsewhere=others)
    others.has_all = True
    assert [(await stage.answer(*TROUBLE)).status for _ in range(3)] == [200, 200, 429]
    assert len(others.calls) == 2


def forwarded(
    arena: Arena, key: str | None = None, *, method: str = TROUBLE[0], path: str = TROUBLE[1]
) -> ForwardedRequest:
    headers = {"x-api-token": key or arena.keys.api_token}
    return ForwardedRequest(method, path, "", headers, b"", "203.0.113.7")


async def test_a_forwarded_call_is_charged_where_its_game_is(arena: Arena) -> None:
    limits = LimitSettings(register_calls_per_second_address=1.0, rate_burst_seconds=3.0)
    stage = DispatchKit(arena, limits=limits)
    answers = [await stage.dispatcher.answer_forwarded(forwarded(arena)) for _ in range(4)]
    assert [isinstance(answer, Answer) and answer.status for answer in answers] == [
        200,
        200,
        200,
        429,
    ]


async def test_wrong_tokens_of_a_forwarded_call_are_charged_by_who_sent_it(arena: Arena) -> None:
    limits = LimitSettings(failed_tokens_per_second_address=1.0, rate_burst_seconds=1.0)
    stage = DispatchKit(arena, limits=limits)
    for _ in range(5):
        request = forwarded(arena, "junk")
        answer = await stage.dispatcher.answer_forwarded(request)
        assert isinstance(answer, Answer)
        assert answer.status == 401
        assert request.has_failed_token
    assert (await stage.answer(*TROUBLE)).status == 200


async def test_a_forwarded_call_is_never_sent_on(stage: DispatchKit, others: Others) -> None:
    others.has_all = True
    stage.trouble.error = Moved()
    assert await stage.dispatcher.answer_forwarded(forwarded(stage.arena)) == NOT_HERE
    assert not others.calls


async def test_a_forwarded_call_of_an_unknown_endpoint_is_refused(stage: DispatchKit) -> None:
    request = ForwardedRequest("POST", "/api/new.php", "", {}, b"", "203.0.113.7")
    answer = await stage.dispatcher.answer_forwarded(request)
    assert isinstance(answer, Answer)
    assert json_of(answer)["error"] == "Invalid endpoint"


async def test_other_nodes_are_asked_whether_tokens_are_good(
    stage: DispatchKit, others: Others
) -> None:
    request = Request(*TROUBLE, "", {"x-api-token": "junk"}, b"", "203.0.113.7")
    assert not await stage.dispatcher.vouches(request)
    others.has_all = True
    assert await stage.dispatcher.vouches(request)
    others.is_back = True
    assert not await stage.dispatcher.vouches(request)
    assert others.questions == 2
    assert await stage.dispatcher.vouches_forwarded(forwarded(stage.arena))
    assert not await stage.dispatcher.vouches_forwarded(forwarded(stage.arena, "junk"))
