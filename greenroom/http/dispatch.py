"""The way from a request to its answer, for every endpoint of the table and every server.

The order of the checks is a part of the contract:

1. the endpoint exists;
2. the address's own limit;
3. the project key;
4. the player token or admin key;
5. the ban;
6. the plan's players;
7. the player's own limit, and the game's for the address;
8. the plan's calls;
9. query and body;
10. whatever the handler finds.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Final, TypeVar

from greenroom.actors.kernel.errors import Moved, Refused
from greenroom.actors.plans.refusals import PLAN_REFUSALS, WRITTEN_TOO_MUCH
from greenroom.actors.world.world import World
from greenroom.config import DEFAULTS
from greenroom.http.auth import TokenInvalid, is_known, know, vouched_caller
from greenroom.http.begun_calls import BegunCall, give
from greenroom.http.bodies import read_query
from greenroom.http.caller import GameCaller, PlayerCaller, find_tenure
from greenroom.http.cors import PREFLIGHT_HEADERS
from greenroom.http.engine_format import FORMATS, converter, encode_engine, type_hints
from greenroom.http.errors import (
    OVERLOAD_RETRY_SECONDS,
    KeyInvalid,
    answer_of,
    body_too_large,
    internal_server_error,
    invalid_endpoint,
    is_too_many,
    too_many_requests,
)
from greenroom.http.inputs import Query
from greenroom.http.limits import ANSWER_BYTES_PER_UNIT, CallLimits, units_of, units_of_answer
from greenroom.http.metrics import Metrics, Sample
from greenroom.http.overload.concurrency import ConcurrencyLimit
from greenroom.http.overload.delayed_refusals import hold_up
from greenroom.http.ports import NOT_HERE, Elsewhere, ForwardedRequest, SentCall, SentOn
from greenroom.http.request import Answer, Notes, Request
from greenroom.http.router import Route, Router
from greenroom.http.streams import ReplyStream, Streamed
from greenroom.http.table import Endpoint
from greenroom.network.addresses import address_key
from greenroom.network.pieces import LARGE_BYTES, Pieces
from greenroom.network.write_shares import COUNTED_BYTES

logger = logging.getLogger(__name__)

T = TypeVar("T")
_NO_QUERY: Query = {}
REASONS_OF_OVERLOAD = ("overload", "requests in flight")
"""Why calls are refused that the server is too slow for."""
SHARE_TRIES: Final = 3
"""How often a call asks for more of a plan that others are spending at the same time."""
_NOTHING = b"{}"
"""A body for requests that have none."""


class Dispatcher:
    """Answers requests. One for the whole server.

    Attributes:
        in_flight: the requests under way.
    """

    def __init__(
        self,
        world: World,
        endpoints: Iterable[Endpoint],
        *,
        limits: CallLimits,
        metrics: Metrics,
        requests_in_flight_max: int,
        address_share_max: float = DEFAULTS.address_share_max,
        elsewhere: Elsewhere | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """Plan every endpoint.

        Args:
            world: what handlers act on.
            endpoints: the table.
            limits: of client addresses and players.
            metrics: where requests are counted.
            requests_in_flight_max: more at once are answered 429; fewer, too, while answers are
                slow (see `overload/concurrency.py`).
            address_share_max: how many times the free places one address may have.
            elsewhere: answers the calls of other nodes' games; None if this node is alone.
            monotonic: seconds, for limits and latencies.

        Raises:
            TypeError, ValueError: the table is wrong.
        """
        self._world = world
        self._ledger = world.ledger
        self._limits = limits
        self.in_flight = ConcurrencyLimit(requests_in_flight_max, address_share_max)
        self._in_flight_max = requests_in_flight_max
        self._pieces = Pieces()
        self._large_work = limits.large_work
        self._elsewhere = elsewhere
        self._monotonic = monotonic
        self._router: Router[Route] = Router()
        for endpoint in endpoints:
            self._router.add(endpoint.method, endpoint.path, Route(endpoint, limits, metrics))
        self._unknown = metrics.add_meter("", "unknown")
        metrics.add_source(self._collect_samples)

    async def answer(self, request: Request) -> Answer:
        """Answer one request under /api/.

        The servers add the CORS headers and leave out the body of an answer to HEAD. An answer's
        stream must be closed (`aclose`) by whoever got it, read or not.

        Args:
            request: the whole request.

        Returns:
            The answer, whatever happens: nothing but a cancellation comes out of here.

        Cancellation: a change whose turn has not begun does not happen (see `Ref.ask`).
        """
        started, notes = self._monotonic(), request.notes
        if notes is None or notes.route is None:
            notes = self._find_route(request)
            if notes is None:
                return await self._answer_unknown(request, started)
        elif notes.away is not None and (begun := self.begin(request)) is not None:
            return await begun.finish()
        route, arguments, key = notes.route, notes.arguments, notes.address_key
        units = units_of(len(request.body))
        entered = self.in_flight.enter(started, key)
        answer: Answer | SentOn
        if entered is None:
            self._limits.refused["requests in flight"] += 1
            answer = too_many_requests(OVERLOAD_RETRY_SECONDS)
        else:
            try:
                retry_seconds = route.limits.admit(key, started, units)
                if retry_seconds:
                    answer = too_many_requests(retry_seconds)
                elif self._elsewhere is not None and not (
                    notes.known is not None  # so it was here before
                    or self._elsewhere.is_here(request, is_players=route.is_players)
                ):
                    answer = NOT_HERE
                else:
                    answer = await self._serve(route, request, arguments, started, units)
            except Moved as moved:
                answer = SentOn(moved.shard, moved.vouched, moved.has_begun)
            except Exception as error:  # noqa: BLE001 - the edge: whatever it is becomes an answer
                answer = self._answer_error(error, route, request, started)
            finally:
                self.in_flight.leave(entered, key)
            if not isinstance(answer, Answer):
                if self._elsewhere is None:
                    answer = _answer_nowhere(route)
                else:
                    call = self._make_call(route, request, arguments, started)
                    answer = await self._elsewhere.answer(call, answer)
        route.meter.count(answer.status, self._monotonic() - started)
        if answer.status == 429 and entered is not None:
            await self._delay_refusal(request, started)
        return answer

    def begin(self, request: Request, then: Callable[[], None] | None = None) -> BegunCall | None:
        """Send a request to the node that has answered others like it; see `Begin`."""
        notes, elsewhere = request.notes, self._elsewhere
        if notes is None or notes.away is None or elsewhere is None:
            return None
        way = elsewhere.recall_way(request, notes)
        if way is None:
            return None
        started, route = self._monotonic(), notes.route
        wait = route.limits.admit(notes.address_key, started, units_of(len(request.body)))
        if wait:
            return BegunCall(request, route, notes.arguments, started, wait, None, True, self)
        sent = elsewhere.begin_like(way, request, only_reads=route.only_reads, then=then)
        return BegunCall(request, route, notes.arguments, started, 0, sent, sent.is_refused, self)

    async def finish(self, call: BegunCall) -> Answer:
        """Return the answer to a call that was begun; see `BegunAnswer`."""
        request, started = call.request, call.started
        if call.sent is None:
            answer = too_many_requests(call.retry_seconds)
        else:
            make_call = partial(self._make_call, call.route, request, call.arguments, started)
            answer = await call.sent.finish(make_call)
        call.route.meter.count(answer.status, self._monotonic() - started)
        if answer.status == 429:
            await self._delay_refusal(request, started)
        return answer

    def _find_route(self, request: Request) -> Notes | None:
        """Return the request's notes, or new ones, with its route; None if there is none."""
        route, arguments = self._router.find(request.method, request.path)
        if route is None:
            return None
        notes = request.notes or Notes()
        notes.route, notes.arguments = route, arguments
        notes.address_key = address_key(request.address)
        return notes

    def answer_forwarded(
        self, request: ForwardedRequest, vouched: int = 0
    ) -> Coroutine[Any, Any, Answer | SentOn]:
        """Answer a request that another node has sent on.

        That node counts it. The client's address is charged here, too: it may ask several nodes.

        Args:
            request: the whole request; whether its tokens were wrong is noted in it.
            vouched: the player whose tokens were good at a third node, which has charged them.

        Returns:
            The answer, as of `answer`; or where to send it: then nothing happened, or it may be
            repeated.

        Cancellation: as for `answer`.
        """
        notes = request.notes
        if notes is None or notes.route is None:
            notes = self._find_route(request)
            if notes is None:
                return give(invalid_endpoint())  # the other node runs another version
        route, arguments, key = notes.route, notes.arguments, notes.address_key
        units = units_of(len(request.body))
        now = self._monotonic()
        retry_seconds = 0 if vouched else route.limits.admit(key, now, units)
        if retry_seconds:
            return give(too_many_requests(retry_seconds))
        return self._answer_here(route, request, arguments, key, units, now, vouched)

    async def _answer_here(  # noqa: PLR0917 - what is known of a call
        self,
        route: Route,
        request: Request,
        arguments: tuple[str, ...],
        key: str,
        units: int,
        now: float,
        vouched: int,
    ) -> Answer | SentOn:
        """Answer a call whose address has been charged, unless another node is to answer it."""
        entered = self.in_flight.enter(now, key)
        if entered is None:
            self._limits.refused["requests in flight"] += 1
            return too_many_requests(OVERLOAD_RETRY_SECONDS)
        try:
            return await self._serve(route, request, arguments, now, units, vouched=vouched)
        except Moved as moved:
            return SentOn(moved.shard, moved.vouched, moved.has_begun)
        except Exception as error:  # noqa: BLE001 - as in `answer`
            return self._answer_error(error, route, request, now)
        finally:
            self.in_flight.leave(entered, key)

    def _answer_error(self, error: Exception, route: Route, request: Request, now: float) -> Answer:
        """Return what an error is answered with; charge the address for a wrong key or token."""
        if isinstance(error, KeyInvalid | TokenInvalid):
            if isinstance(request, ForwardedRequest):
                request.has_failed_token = True
            else:
                self._limits.note_failed_token(request.address, now)
        try:
            return answer_of(error, route.name)
        except Exception:
            logger.exception("%s: its error could not be answered", route.name)
            return internal_server_error()

    def _make_call(
        self, route: Route, request: Request, arguments: tuple[str, ...], now: float
    ) -> SentCall:
        """Return a call for another node; meanwhile it is none of those under way here."""
        key = address_key(request.address)
        return SentCall(
            request,
            route.is_players,
            route.only_reads,
            lambda vouched: self._answer_here(
                route,
                request,
                arguments,
                key,
                units_of(len(request.body)),
                self._monotonic(),
                vouched,
            ),
            lambda: self._limits.note_failed_token(request.address, now),
            lambda size: route.limits.owe(
                request.address, None, self._monotonic(), units_of_answer(size)
            ),
        )

    async def _delay_refusal(self, request: Request, now: float) -> None:
        """Delay a refusal for an address that goes on asking after many refusals.

        Not for a request with a large body, which would be held meanwhile: reading those takes
        turns.
        """
        if len(request.body) < LARGE_BYTES and self._limits.must_wait(request.address, now):
            await hold_up()

    async def vouches(self, request: Request) -> bool:
        """Return whether a request has good tokens, so that its body is worth reading.

        False also if it is refused whatever its body says. Nothing is charged or counted: `answer`
        does that next.

        Args:
            request: without its body.

        Cancellation: the sign of life of a valid player token may have been noted.
        """
        now = self._monotonic()
        route, _ = self._router.find(request.method, request.path)
        if route is None or not route.limits.may_call(request.address, now):
            return False
        elsewhere = self._elsewhere
        is_good: bool | SentOn = NOT_HERE
        if elsewhere is None or elsewhere.is_here(request, is_players=route.is_players):
            is_good = await self._check_tokens(route, request)
        if not isinstance(is_good, SentOn):
            return is_good
        return elsewhere is not None and await elsewhere.vouches(
            request, lambda: self._check_tokens(route, request), is_players=route.is_players
        )

    async def vouches_forwarded(self, request: ForwardedRequest) -> bool | SentOn:
        """Return what `vouches` would, for a request that another node is asked for.

        If another node knows that, return which.

        Cancellation: as for `vouches`.
        """
        route, _ = self._router.find(request.method, request.path)
        return route is not None and await self._check_tokens(route, request)

    async def _check_tokens(self, route: Route, request: Request) -> bool | SentOn:
        """Return whether a request's tokens are good, or which node knows that."""
        now, key = self._monotonic(), address_key(request.address)
        entered = self.in_flight.enter(now, key)
        if entered is None:
            return False
        try:
            await route.authenticate(self._world, route.endpoint.texts, request)
        except Moved as moved:
            return SentOn(moved.shard)
        except Exception:  # noqa: BLE001 - `answer` meets it again, and says what it is
            return False
        finally:
            self.in_flight.leave(entered, key)
        return True

    async def _serve(
        self,
        route: Route,
        request: Request,
        arguments: tuple[str, ...],
        now: float,
        units: int,
        *,
        vouched: int = 0,
    ) -> Answer:
        """Answer a call whose address has been charged; for a vouched player, all has been."""
        endpoint, world, answers = route.endpoint, self._world, self._ledger.needs.answers
        if vouched:
            caller: GameCaller = await vouched_caller(world, endpoint.texts, request, vouched)
        elif (notes := request.notes) is not None and await is_known(world, known := notes.known):
            caller = known.caller  # another call with these notes may have changed them meanwhile
        else:
            caller = await self._authenticate(route, request, answers)
        tenure = None if world.ownership is None else find_tenure(caller, request.notes, vouched)
        if not vouched:
            if (too_many := self._charge_rate(route, caller, now, units)) is not None:
                return too_many
            if (too_many := self._charge_plan(route, request, caller)) is not None:
                too_many = await self._charge_plan_again(too_many, route, request, caller)
                if too_many is not None:
                    return too_many
        if (turns := self._limits.turns).is_on and isinstance(caller, PlayerCaller):
            turns.note_player(address_key(request.address), caller.player_id)
        if request.body_too_large:
            return body_too_large()
        query = read_query(request.query) if request.query else _NO_QUERY
        size, key = len(request.body), ""
        if size >= COUNTED_BYTES:
            key = address_key(request.address)
            if size >= LARGE_BYTES:
                await self._pieces.turn(key)
            key = key if route.writes else ""
            if key and not await self._limits.write_shares.enter(key, size):
                return too_many_requests(self._limits.refuse_disk())
        try:
            if size < LARGE_BYTES:
                read = route.read(request, query)
            else:
                read = await self._read_large(route, request, query)
            handler, given = endpoint.handler, (caller, *arguments, *read)
            try:
                reply = await handler(*given)
            except PLAN_REFUSALS as refusal:
                reply = await self._try_again(refusal, answers, partial(handler, *given))
            if tenure is not None and route.only_reads:
                tenure.check()
        except Exception as error:
            if isinstance(error, Refused):
                who = caller.player_id if isinstance(caller, PlayerCaller) else vouched
                await world.confirm(error, who)
            if tenure is not None and (route.only_reads or isinstance(error, Refused)):
                tenure.check()
            has_moved = isinstance(error, Moved) and not error.vouched
            if not vouched and (has_moved or is_too_many(error)):  # it is counted anew
                self._ledger.give_back_call(caller.game_id, caller.share_address)
            raise
        finally:
            if key:
                self._limits.write_shares.leave(key, size)
        is_engine = query.get("format") in FORMATS
        if isinstance(reply, Streamed):
            return await self._stream(route, request, caller, reply, is_engine=is_engine)
        if is_engine or turns.is_on:
            return await self._encode_in_turn(route, request, caller, reply, is_engine=is_engine)
        return self._end(route, request, caller, route.encoder.encode(reply))

    async def _authenticate(self, route: Route, request: Request, answers: int) -> GameCaller:
        """Return the caller whose tokens a request has; `answers` is as for `_try_again`."""
        authenticate = partial(route.authenticate, self._world, route.endpoint.texts, request)
        if (notes := request.notes) is not None and notes.known is not None:
            notes.known = None
            if (
                self._elsewhere is not None
                and not isinstance(request, ForwardedRequest)
                and not self._elsewhere.is_here(request, is_players=route.is_players)
            ):
                raise Moved  # they were here before, and are known elsewhere now
        try:
            caller = await authenticate()
        except PLAN_REFUSALS as refusal:
            caller = await self._try_again(refusal, answers, authenticate)
        if notes is not None:
            notes.known = know(caller, request)
        return caller

    async def _read_large(self, route: Route, request: Request, query: Query) -> tuple[Any, ...]:
        steps = route.read_in_steps(request, query)
        return await self._large_work.do(address_key(request.address), steps)

    async def _encode_in_turn(
        self, route: Route, request: Request, caller: GameCaller, reply: Any, *, is_engine: bool
    ) -> Answer:
        """Answer with a reply, once its address has a turn: to encode it may take milliseconds."""
        turns, key = self._limits.turns, address_key(request.address)
        if turns.is_on and not turns.take(key):
            await turns.wait(key)
        if not is_engine:
            return self._end(route, request, caller, route.encoder.encode(reply))
        steps = route.encoder.encode_engine(reply)
        return self._end(route, request, caller, await self._large_work.do(key, steps))

    def _end(self, route: Route, request: Request, caller: GameCaller, encoded: bytes) -> Answer:
        """Answer with a reply's JSON, and charge what is large."""
        if len(encoded) >= ANSWER_BYTES_PER_UNIT:
            self._charge_answer(route, request, caller, len(encoded))
        return Answer(200, encoded)

    async def _try_again(
        self, refusal: Refused, answers: int, attempt: Callable[[], Awaitable[T]]
    ) -> T:
        """Do anew what a plan has refused, if this node may get more of the plan from others.

        A refusal has changed nothing.

        Args:
            refusal: raised if there is no more.
            answers: the ledger's `needs.answers` from before the refusal.
            attempt: what was refused.
        """
        needs = self._ledger.needs
        for _ in range(SHARE_TRIES):
            if not await self._world.take_shares() and needs.answers == answers:
                break
            answers = needs.answers
            try:
                return await attempt()
            except PLAN_REFUSALS as error:
                refusal = error
        raise refusal

    def _charge_rate(
        self, route: Route, caller: GameCaller, now: float, units: int
    ) -> Answer | None:
        """Charge a call to its caller; return a refusal if these are too many."""
        if isinstance(caller, PlayerCaller):
            wait = route.limits.admit_player(caller.player_id, now, units)
        else:
            wait = route.limits.admit_game_address(caller.game_id, caller.address, now)
        return too_many_requests(wait) if wait else None

    async def _charge_plan_again(
        self, refusal: Answer, route: Route, request: Request, caller: GameCaller
    ) -> Answer | None:
        """Charge what a plan has refused, if this node may get more of the plan from others."""
        again: Answer | None = refusal
        for _ in range(SHARE_TRIES):
            if again is None or not await self._world.take_shares():
                break
            again = self._charge_plan(route, request, caller)
        return again

    def _charge_plan(self, route: Route, request: Request, caller: GameCaller) -> Answer | None:
        """Charge a call, and what it writes, to the plan; return a refusal if it is too much."""
        ledger, game_id, address = self._ledger, caller.game_id, caller.share_address
        now_unix = self._world.clock.now()
        wait = ledger.count_call(game_id, now_unix, address)
        if wait:
            return too_many_requests(wait)
        # leaving a room, above all, is always possible
        if route.writes and (size := len(request.body)) > len(_NOTHING):
            wait = ledger.count_written(game_id, address, size, now_unix)
            if wait:
                ledger.give_back_call(game_id, address)
                return too_many_requests(wait, WRITTEN_TOO_MUCH)
        return None

    def _charge_answer(self, route: Route, request: Request, caller: GameCaller, size: int) -> None:
        """Charge a large answer, or a part of one, to the caller that it goes to."""
        player_id = caller.player_id if isinstance(caller, PlayerCaller) else None
        address = None if isinstance(request, ForwardedRequest) else request.address
        route.limits.owe(address, player_id, self._monotonic(), units_of_answer(size))

    async def _stream(
        self,
        route: Route,
        request: Request,
        caller: GameCaller,
        streamed: Streamed,
        *,
        is_engine: bool,
    ) -> Answer:
        """Return an answer whose first page is read, so that its errors are answered."""
        convert = None
        if is_engine:
            convert = converter(type_hints(route.endpoint.reply)[streamed.field])

        def encode(page: Sequence[Any]) -> Awaitable[bytes]:
            steps = encode_engine(page, convert)
            return self._large_work.do(address_key(request.address), steps)

        stream = ReplyStream(
            streamed, encode, lambda size: self._charge_answer(route, request, caller, size)
        )
        await stream.read_ahead()
        return Answer(200, b"", stream=stream)

    async def _answer_unknown(self, request: Request, now: float) -> Answer:
        """Answer a request without a row: a preflight of some call, or nothing at all."""
        is_preflight = request.method == "OPTIONS"
        admit = self._limits.get_class("read").admit if is_preflight else self._limits.admit_page
        retry_seconds = admit(address_key(request.address), now)
        if retry_seconds:
            await hold_up()
            return too_many_requests(retry_seconds)
        if is_preflight:
            return Answer(204, b"", PREFLIGHT_HEADERS)
        self._unknown.count(404, 0.0)
        return invalid_endpoint(self._router.list_methods(request.path))

    def _collect_samples(self) -> Iterator[Sample]:
        help_text = "Requests being answered."
        yield Sample("greenroom_http_requests_in_flight", help_text, self.in_flight.count)
        help_text = "How many requests may be answered at once; fewer while answers are slow."
        yield Sample("greenroom_http_requests_in_flight_max", help_text, self._in_flight_max)
        help_text = "Calls and connections refused by limits and plans."
        refused = self._limits.refused + self._ledger.refused + self._world.leaderboards.refused
        # of these a rise from nothing would go unseen
        counts = dict.fromkeys(REASONS_OF_OVERLOAD, 0) | dict(refused)
        for reason, count in sorted(counts.items()):
            labels = {"reason": reason}
            yield Sample("greenroom_refused_calls", help_text, count, labels, "counter")


def _answer_nowhere(route: Route) -> Answer:
    logger.error("%s: an actor has moved, though there is no other node", route.name)
    return internal_server_error()
