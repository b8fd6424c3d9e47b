"""The ingress's side of forwarding: sends calls of games on other nodes to their owners.

A call is sent on whole, in one hop; its owner never sends it further. What did not run is sent
again, for `WAIT_SECONDS_MAX` in all: to whoever owns the shard then, or owns the one that the node
has named. So a shard that moves makes calls wait, and refuses none.

A call that only reads is also sent again if its answer was lost, or after a while without one. It
then goes to the next owner, if there is one. A change is sent again to the same node alone, under
the same number, so it is carried out once. If that node is gone, the change may have happened, and
is answered 500.

Bounds: the bus's for calls under way to a node, those of `WaitingRoom` for calls that wait. Beyond
either a call is answered 429.
"""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import aclosing
from functools import partial
from typing import Any, Final, Generic, TypeVar

import msgspec
import trio

from greenroom.actors.world.world import World
from greenroom.bus.bus import BusError, BusLost, MessageTooLong, NobodyThere, TooBusy, TooSlow
from greenroom.cluster.calls.like_calls import KnownWay, LikeCall
from greenroom.cluster.calls.locator import Locator
from greenroom.cluster.calls.long_answers import PartsLost, RemoteParts
from greenroom.cluster.calls.messages import (
    DropParts,
    ForwardCall,
    Forwarded,
    ForwardLike,
    NextPart,
    NotKnown,
    NotOwner,
    Part,
    Vouched,
    forward_of,
    question_of,
)
from greenroom.cluster.calls.reply_cache import KEEP_SECONDS
from greenroom.cluster.calls.targets import Destination, Targets
from greenroom.cluster.calls.waiting import TooManyWait, WaitingRoom
from greenroom.cluster.messenger import (
    BegunAsk,
    BusMessage,
    Garbled,
    Messenger,
    Unreadable,
    UnreadableMessage,
    reader,
)
from greenroom.cluster.shard_map import NoOwner, ShardMap
from greenroom.config import DEFAULTS
from greenroom.http.errors import (
    OVERLOAD_RETRY_SECONDS,
    answer_of,
    body_too_large,
    internal_server_error,
    too_many_requests,
)
from greenroom.http.limits import ANSWER_BYTES_PER_UNIT
from greenroom.http.metrics import Sample
from greenroom.http.ports import NOT_HERE, SentCall, SentOn
from greenroom.http.request import Answer, Notes, Request
from greenroom.network.addresses import address_key

_logger = logging.getLogger(__name__)

WAIT_SECONDS_MAX: Final = 5.0
"""How long a call waits at most for somebody who serves its shard."""
ANSWER_SECONDS_MAX: Final = 50.0
"""How long an answer is waited for; the connection waits a little longer."""
SILENCE_SECONDS_MAX: Final = 5.0
"""How long a node may be silent before it is asked again: a message may be lost, and nobody know.
Its answers to changes are kept for twice as long."""
LEARN_SECONDS_MAX: Final = KEEP_SECONDS
"""How long a node is asked what came of a change, while it cannot be reached: it keeps its answers
no longer."""
PAUSE_SECONDS: Final = 0.02
"""The first pause before a call is sent again; each one is twice as long as that before."""
PAUSE_SECONDS_MAX: Final = 0.5
WARN_SECONDS: Final = 1.0
"""Answers that did not come are logged once in so many seconds."""

HOPS_AT_ONCE: Final = 4
"""Times that a node may name another one before a call pauses."""

_Here = TypeVar("_Here", Answer, bool)


class OutcomeUnknown(Exception):
    """The owner has the call, or had it, and nobody knows what came of it."""


class Unanswered(Exception):
    """No node has answered a question in time. It changes nothing, so it may be asked again."""


class _Found(msgspec.Struct, frozen=True, gc=False):
    """The answer of a node."""

    node_id: int
    reply: BusMessage


class _Sent(msgspec.Struct, gc=False):
    """A message that a node has been sent, whose answer is waited for."""

    target: Destination
    node_id: int
    message: BusMessage
    begun: BegunAsk


class _Way(msgspec.Struct, Generic[_Here], gc=False):
    """How a call, or a question about it, is answered: here, or by another node."""

    request: Request
    is_players: bool
    answer_here: Callable[[int], Awaitable[_Here | SentOn]]
    """Answers it on this node for a vouched player, or 0, unless another is to."""
    send: Callable[[Request, Destination, int, float], _Sent]
    """Sends it to a node, which has until a time to answer."""
    wait: Callable[[_Sent, float], Awaitable[BusMessage | None]]
    """Waits until a time for the answer; None if nothing ran, or it may run twice."""
    has_begun: bool = False
    """A node has begun to carry it out, and sent it on."""


class Forwarding:
    """Sends calls to the owners of their games; implements `Elsewhere` of the dispatcher."""

    def __init__(
        self,
        world: World,
        locator: Locator,
        shards: ShardMap[Any],
        messenger: Messenger,
        *,
        address_share_max: float = DEFAULTS.address_share_max,
    ) -> None:
        """Send calls over a messenger.

        Args:
            world: the games and players in memory here.
            locator: finds the shards of others.
            shards: says who owns them.
            messenger: the way to other nodes.
            address_share_max: how many times what is free one address may hold.
        """
        self._shards = shards
        self._messenger = messenger
        self._waiting = WaitingRoom(address_share_max)
        self._targets = Targets(world, locator, shards, self._waiting)
        self.is_here = self._targets.is_here
        self._number = 0
        self._warned_at = -WARN_SECONDS
        self.counts = Counter[str]()
        shards.call_when_gone(messenger.give_up)
        messenger.know(Forwarded, NotKnown, Part, Vouched, NotOwner)
        self.read_packed = reader((Unreadable, Forwarded, NotKnown, NotOwner))
        """Reads what calls are answered with; raises Garbled."""

    @property
    def waiting(self) -> int:
        """Return how many calls wait for somebody who serves their shard."""
        return self._waiting.calls

    def read_samples(self) -> Iterator[Sample]:
        """Yield what the metrics show."""
        help_text = "Calls that this node has sent on to others, by what came of them."
        for outcome in ("answered", "again", "unknown", "refused"):
            labels = {"outcome": outcome}
            count = self.counts[outcome]
            yield Sample("greenroom_cluster_calls_sent", help_text, count, labels, "counter")
        help_text = "Calls that wait until a node serves their shard."
        yield Sample("greenroom_cluster_calls_waiting", help_text, self.waiting)

    # What the dispatcher asks.

    def recall_way(self, request: Request, notes: Notes) -> KnownWay | None:
        """See `Elsewhere`."""
        way: KnownWay = notes.away
        if way.map_version == self._shards.version and not request.body_too_large:
            return way
        notes.away = None
        return None

    def begin_like(
        self,
        way: KnownWay,
        request: Request,
        *,
        only_reads: bool,
        then: Callable[[], None] | None,
    ) -> LikeCall:
        """See `Elsewhere`."""
        if only_reads:
            number, seconds = 0, SILENCE_SECONDS_MAX
        else:
            number = self._number = self._number + 1
            seconds = ANSWER_SECONDS_MAX
        message, silence = ForwardLike(way.like, number, request.body), SILENCE_SECONDS_MAX
        if way.leaves_together:
            begun = self._messenger.begin_together(way.node_id, message, seconds, silence)
        else:
            begun = self._messenger.begin(
                way.node_id, message, seconds_max=seconds, wait_seconds_max=silence
            )
        begun.then = then
        return LikeCall(begun, way, request, number, begun.is_over, self)

    async def finish_like(self, like: LikeCall, make_call: Callable[[], SentCall]) -> Answer:
        """Return the answer to a call that was sent on like one before; see `BegunElsewhere`."""
        reply = await self.wait(like.begun)
        if isinstance(reply, Forwarded) and not reply.parts:
            self.counts["answered"] += 1
            return _take(make_call(), like.way.node_id, reply)
        request, target, sent = like.request, Destination(like.way.shard), None
        assert request.notes is not None
        request.notes.away = None
        if not isinstance(reply, NotKnown):
            message = forward_of(request, target.shard, target.vouched, like.number)
            sent = _Sent(target, like.way.node_id, message, like.begun)
        return await self.answer(make_call(), sent=sent)

    async def answer(
        self, call: SentCall, sent_on: SentOn = NOT_HERE, sent: _Sent | None = None
    ) -> Answer:
        """See `Elsewhere`; a message may have been sent already.

        Nearly always it is known whom to ask, and they answer. That is done here; all else is
        `_answer`'s.
        """
        try:
            if sent is None and sent_on is NOT_HERE and (sent := self._begin(call)) is not None:
                reply = await self.wait(sent.begun)
                if isinstance(reply, Forwarded) and not reply.parts:
                    self.counts["answered"] += 1
                    self._note_way(call, sent, reply)
                    return _take(call, sent.node_id, reply)
            return await self._answer(call, sent_on, sent)
        except (TooBusy, TooManyWait, NoOwner, Unanswered):
            self.counts["refused"] += 1
            return too_many_requests(OVERLOAD_RETRY_SECONDS)
        except MessageTooLong:
            return body_too_large()
        except (OutcomeUnknown, PartsLost, BusError, UnreadableMessage) as error:
            self.counts["unknown"] += 1
            self._warn(call.request.path, error)
            return internal_server_error()
        except Exception as error:  # noqa: BLE001 - the edge: whatever it is becomes an answer
            return answer_of(error, call.request.path)

    async def wait(self, begun: BegunAsk) -> BusMessage | None:
        """Return a node's answer; None for none: whoever waits for it again gets the same."""
        try:
            return self._messenger.read_packed(await begun.wait())
        except (BusError, Garbled):
            return None

    def _note_way(self, call: SentCall, sent: _Sent, reply: Forwarded) -> None:
        """Note how calls like this one are sent on, if their node knows them."""
        notes, shards, shard = call.request.notes, self._shards, sent.target.shard
        if notes is not None and reply.like and shards.find_owner(shard) == sent.node_id:
            notes.away = KnownWay(
                shards.version, sent.node_id, shard, reply.like, reply.takes_together
            )

    def _warn(self, path: str, error: Exception) -> None:
        """Log that an owner did not answer; once for the many calls that a node takes along."""
        now = trio.current_time()
        if now - self._warned_at >= WARN_SECONDS:
            self._warned_at = now
            _logger.warning("%s: no answer from the owner of its game: %r", path, error)

    async def vouches(
        self,
        request: Request,
        vouches_here: Callable[[], Awaitable[bool | SentOn]],
        *,
        is_players: bool,
    ) -> bool:
        """See `Elsewhere`."""
        try:
            target = await self._targets.find(request, is_players=is_players)
            if target is None:
                return False
            way = _Way(
                request, is_players, lambda _: vouches_here(), self._send_question, self._ask_again
            )
            found = await self._reach(way, target)
        except Exception:  # noqa: BLE001 - `answer` meets it again, and says what it is
            return False
        if isinstance(found, bool):
            return found
        return isinstance(found.reply, Vouched) and found.reply.is_good

    # How calls are sent.

    def _begin(self, call: SentCall) -> _Sent | None:
        """Send a call on at once, if it is known where it belongs, and that is not here."""
        target = self._targets.recall(call.request)
        if target is None:
            return None
        node_id = self._shards.find_owner(target.shard)
        if not node_id or node_id == self._shards.node_id:
            return None
        if call.only_reads:
            number, seconds = 0, SILENCE_SECONDS_MAX
        else:
            self._number += 1
            number, seconds = self._number, ANSWER_SECONDS_MAX
        message = forward_of(call.request, target.shard, target.vouched, number)
        begun = self._messenger.begin(
            node_id, message, seconds_max=seconds, wait_seconds_max=SILENCE_SECONDS_MAX
        )
        return _Sent(target, node_id, message, begun)

    async def _answer(self, call: SentCall, sent_on: SentOn, sent: _Sent | None) -> Answer:
        request, is_players = call.request, call.is_players
        if sent is not None:
            target = sent.target
        elif sent_on.shard is not None:
            begin = Destination(sent_on.shard)
            target = self._targets.follow(begin, sent_on, request, is_players=is_players)
        else:
            found_out = await self._targets.find(request, is_players=is_players)
            if found_out is None:  # what opens nothing is refused here
                answer = await call.answer_here(0)
                if isinstance(answer, SentOn):
                    return too_many_requests(OVERLOAD_RETRY_SECONDS)
                return answer
            target = found_out
        if call.only_reads:
            send, wait = self._send_read, self._ask_again
        else:
            send, wait = self._send_change, self._wait_once
        way = _Way(request, is_players, call.answer_here, send, wait, sent_on.has_begun)
        try:
            found = await self._reach(way, target, sent)
        except (TooManyWait, NoOwner) as error:
            if way.has_begun:
                raise OutcomeUnknown(f"it had begun: {error}") from error
            raise
        if isinstance(found, _Found):
            self.counts["answered"] += 1
            answer = await self._unpack(call, found.node_id, found.reply)
        else:
            answer = found
        if answer.status == 429 and way.has_begun:
            raise OutcomeUnknown("it had begun when it was refused")
        return answer

    async def _reach(
        self, way: _Way[_Here], target: Destination, sent: _Sent | None = None
    ) -> _Here | _Found:
        """Have whoever serves a shard answer, or whoever they name, and return what is said.

        Args:
            way: how it is answered; its request waits meanwhile.
            target: where it belongs, as far as is known.
            sent: if it has been sent there already.

        Raises:
            TooManyWait, NoOwner: nobody serves it in time; nothing ran.
            Unanswered: no answer came in time; it changes nothing.
            OutcomeUnknown, BusError, UnreadableMessage: it may have run.
        """
        request, hops, sent_on = way.request, 0, NOT_HERE
        until, pause = math.inf, PAUSE_SECONDS
        began = trio.current_time() if sent is None else sent.begun.began
        answer_until = began + ANSWER_SECONDS_MAX
        while True:
            node_id = self._shards.find_owner(target.shard) if sent is None else sent.node_id
            if not node_id or node_id == self._shards.node_id:
                until = min(until, trio.current_time() + WAIT_SECONDS_MAX)
                node_id = await self._wait_for_owner(request, target.shard, until)
            if node_id == self._shards.node_id:
                answer = await way.answer_here(target.vouched)
                if not isinstance(answer, SentOn):
                    return answer
                sent_on = answer
            else:
                if sent is None:
                    sent = way.send(request, target, node_id, answer_until)
                reply = await way.wait(sent, answer_until)
                if isinstance(reply, NotOwner):
                    self._note_owner(reply)
                    until = min(
                        until, sent.begun.began + WAIT_SECONDS_MAX
                    )  # it may have waited there
                    sent_on = SentOn(reply.sent_on, reply.vouched, reply.has_begun)
                elif reply is not None:
                    return _Found(node_id, reply)
                sent = None
            self.counts["again"] += 1
            way.has_begun = way.has_begun or sent_on.has_begun
            before = target
            target = self._targets.follow(target, sent_on, request, is_players=way.is_players)
            hops, sent_on = hops + 1, NOT_HERE
            if target != before and hops <= HOPS_AT_ONCE:
                continue
            until = min(until, trio.current_time() + WAIT_SECONDS_MAX)
            await self._pause(request, pause, until, before.shard, node_id)
            pause = min(2 * pause, PAUSE_SECONDS_MAX)

    async def _wait_for_owner(self, request: Request, shard: int, until: float) -> int:
        """Return who serves a shard, once somebody does."""
        if self._shards.is_mine(shard):
            return self._shards.node_id
        with self._waiting.hold_place(address_key(request.address), len(request.body)):
            return await self._shards.wait_for_owner(shard, until - trio.current_time())

    async def _pause(
        self, request: Request, seconds: float, until: float, shard: int, node_id: int
    ) -> None:
        """Wait before a call is sent to the same node again; another owner is asked at once."""
        if trio.current_time() + seconds > until:
            raise NoOwner("nobody serves it yet; try again in a moment")
        with (
            self._waiting.hold_place(address_key(request.address), len(request.body)),
            trio.move_on_after(seconds),
        ):
            while self._shards.find_owner(shard) == node_id:
                await self._shards.wait_changed()

    def _note_owner(self, news: NotOwner) -> None:
        """Learn who owns a shard; what is our own is learnt from the database alone."""
        if news.owner != self._shards.node_id:
            self._shards.note_owner(news.shard, news.owner, news.epoch)

    def _send_read(
        self, request: Request, target: Destination, node_id: int, until: float
    ) -> _Sent:
        """Have a node answer a call that changes nothing; see `_ask_again`."""
        message = forward_of(request, target.shard, target.vouched)
        return self._send(target, node_id, message, SILENCE_SECONDS_MAX, until)

    def _send_question(
        self, request: Request, target: Destination, node_id: int, until: float
    ) -> _Sent:
        """Ask a node whether it finds the tokens of a call good; see `_ask_again`."""
        message = question_of(request, target.shard)
        return self._send(target, node_id, message, SILENCE_SECONDS_MAX, until)

    def _send_change(
        self, request: Request, target: Destination, node_id: int, until: float
    ) -> _Sent:
        """Have a node carry out a change; see `_wait_once`."""
        self._number += 1
        message = forward_of(request, target.shard, target.vouched, self._number)
        return self._send(target, node_id, message, ANSWER_SECONDS_MAX, until)

    def _send(
        self,
        target: Destination,
        node_id: int,
        message: BusMessage,
        seconds_max: float,
        until: float,
    ) -> _Sent:
        """Send a node a message, which it has some seconds to answer, and until a time."""
        begun = self._messenger.begin(
            node_id,
            message,
            seconds_max=min(seconds_max, until - trio.current_time()),
            wait_seconds_max=SILENCE_SECONDS_MAX,
        )
        return _Sent(target, node_id, message, begun)

    async def _ask_again(self, sent: _Sent, until: float) -> BusMessage | None:
        """Wait for a node's answer to what changes nothing; None if it may be asked elsewhere.

        A node that is silent is asked again, with more time. What it was asked before ends there.

        Raises:
            Unanswered: it stays silent.
            BusError, UnreadableMessage: there is no answer, nor would there be one.
        """
        node_id, seconds, begun = sent.node_id, SILENCE_SECONDS_MAX, sent.begun
        while True:
            try:
                return self._messenger.read_answer(node_id, sent.message, await begun.wait())
            except (NobodyThere, BusLost):
                return None
            except TooSlow:
                if self._shards.find_owner(sent.target.shard) != node_id:
                    return None
            self.counts["again"] += 1
            seconds *= 2
            left = until - trio.current_time()
            if left <= 0.0:
                raise Unanswered(f"node {node_id} does not answer")
            begun = self._messenger.begin(node_id, sent.message, seconds_max=min(seconds, left))

    async def _wait_once(self, sent: _Sent, until: float) -> BusMessage | None:
        """Wait for a node to carry out a change, at most once; None if it was not.

        Raises:
            OutcomeUnknown: the node is gone, or does not say in time what came of it. Whoever
                finds that it is gone lets the messenger give it up, so nobody waits for it.
            BusError, UnreadableMessage: likewise.
        """
        try:
            return self._messenger.read_answer(sent.node_id, sent.message, await sent.begun.wait())
        except NobodyThere:
            return None
        except (BusLost, TooSlow):
            pass
        assert isinstance(sent.message, ForwardCall)
        return await self._learn(sent.message, sent.node_id, until)

    async def _learn(self, forward: ForwardCall, node_id: int, until: float) -> BusMessage:
        """Learn from a node what came of a change; it carries it out if it never got it.

        It is asked under the same number, whenever it has been silent for a while. What it was
        asked before goes on there, and is joined.

        Raises: as `_ask_once`.
        """
        pause, reached_at = PAUSE_SECONDS, trio.current_time()
        while self._shards.find_node(node_id) is not None:
            now, had_moved = trio.current_time(), self._shards.find_owner(forward.shard) != node_id
            if now >= until or now - reached_at >= LEARN_SECONDS_MAX:
                break
            self.counts["again"] += 1
            try:
                return await self._messenger.ask(
                    node_id,
                    forward,
                    seconds_max=until - now,
                    wait_seconds_max=SILENCE_SECONDS_MAX,
                )
            except TooSlow:
                if had_moved:  # it is cut off, and has handed the shard over
                    break
                reached_at = trio.current_time()  # as far as anybody knows
            except (NobodyThere, BusLost, TooBusy):  # it may have it from before
                await trio.sleep(pause)
                pause = min(2 * pause, PAUSE_SECONDS_MAX)
        raise OutcomeUnknown(f"node {node_id} is gone, or cannot be asked any more")

    # How answers come back.

    async def _unpack(self, call: SentCall, node_id: int, reply: BusMessage) -> Answer:
        """Return the answer that a node has given, and charge the client's address for it.

        Raises:
            OutcomeUnknown: it is no answer.
            PartsLost, BusError, UnreadableMessage: it did not come whole.
        """
        if not isinstance(reply, Forwarded):
            raise OutcomeUnknown(f"node {node_id} has answered something else")
        answer = _take(call, node_id, reply)
        if not reply.parts:
            return answer
        stream = RemoteParts(
            reply.body,
            partial(self._fetch, node_id, NextPart(reply.parts)),
            partial(self._messenger.tell, node_id, DropParts(reply.parts)),
            call.charge_bytes,
        )
        if reply.size:
            async with aclosing(stream):
                answer.body = b"".join([part async for part in stream])
            if len(answer.body) != reply.size:
                raise PartsLost
        else:
            answer.body, answer.stream = b"", stream
        return answer

    async def _fetch(self, node_id: int, wanted: NextPart) -> Part:
        """Return the next part of an answer."""
        part = await self._messenger.ask(node_id, wanted, seconds_max=ANSWER_SECONDS_MAX)
        if not isinstance(part, Part):
            raise PartsLost
        return part


def _take(call: SentCall, node_id: int, reply: Forwarded) -> Answer:
    """Return what a node has answered, or its beginning; charge the client's address for it."""
    if reply.has_failed_token:
        call.note_failed_token()
    if not reply.parts and len(reply.body) >= ANSWER_BYTES_PER_UNIT:
        call.charge_bytes(len(reply.body))
    return Answer(reply.status, reply.body, reply.headers, None, reply.content_type, node_id)
