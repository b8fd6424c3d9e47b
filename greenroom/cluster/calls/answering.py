"""The owner's side of forwarding: answers calls that other nodes have sent on.

The dispatcher answers them as it answers a client's own, with all limits but those of addresses,
which the sender has charged. They are never sent on again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterator
from typing import Any, Final

import trio

from greenroom.cluster.calls.known_calls import KnownCalls
from greenroom.cluster.calls.long_answers import PART_BYTES, OpenAnswers, Slices, TooManyOpen
from greenroom.cluster.calls.messages import (
    DropParts,
    ForwardCall,
    Forwarded,
    ForwardLike,
    NextPart,
    NotKnown,
    NotOwner,
    Part,
    Vouch,
    Vouched,
    headers_of,
)
from greenroom.cluster.calls.reply_cache import Reply, ReplyCache
from greenroom.cluster.messenger import BusMessage, Messenger
from greenroom.cluster.shard_map import NOBODY, NoOwner, ShardMap
from greenroom.config import DEFAULTS
from greenroom.http.begun_calls import give
from greenroom.http.dispatch import Dispatcher
from greenroom.http.errors import OVERLOAD_RETRY_SECONDS, internal_server_error, too_many_requests
from greenroom.http.metrics import Sample
from greenroom.http.overload.cpu_shares import ADDRESS
from greenroom.http.ports import NOT_HERE, ForwardedRequest, SentOn
from greenroom.http.request import Answer, Notes
from greenroom.network.addresses import address_key

OPEN_SECONDS_MAX: Final = 5.0
"""How long a call waits for a shard that is being brought up here."""
CLEAN_SECONDS: Final = 1.0


class Answering:
    """Answers forwarded calls. A service that only cleans up; it can be run again."""

    def __init__(
        self,
        dispatcher: Dispatcher,
        shards: ShardMap[Any],
        messenger: Messenger,
        *,
        address_share_max: float = DEFAULTS.address_share_max,
    ) -> None:
        """Answer what comes over a messenger.

        Args:
            dispatcher: the one of this node.
            shards: what this node serves.
            messenger: where calls come from.
            address_share_max: how many times what is free one address may hold.
        """
        self._dispatcher = dispatcher
        self._shards = shards
        self._replies = ReplyCache(_forwarded(internal_server_error()))
        self._known = KnownCalls()
        self.open_answers = OpenAnswers(address_share_max)
        self._counts = dict.fromkeys(("answered", "not_owner"), 0)
        messenger.answer(ForwardCall, self._answer)
        messenger.answer(ForwardLike, self._answer_like)
        shards.call_when_gone(self._known.forget)
        messenger.answer(Vouch, self._vouch)
        messenger.answer(NextPart, self._take_next_part)
        messenger.hear(DropParts, self._drop_parts)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Forget old answers, until cancelled."""
        task_status.started()
        while True:
            await trio.sleep(CLEAN_SECONDS)
            now = trio.current_time()
            self._replies.forget_old(now)
            await self.open_answers.drop_idle(now)

    def read_samples(self) -> Iterator[Sample]:
        """Yield what the metrics show."""
        help_text = "Calls that other nodes have sent on to this one, by what came of them."
        for outcome, count in self._counts.items():
            labels = {"outcome": outcome}
            yield Sample("greenroom_cluster_calls_received", help_text, count, labels, "counter")
        help_text = "Changes that other nodes have sent twice, and that were carried out once."
        yield Sample(
            "greenroom_cluster_calls_repeated", help_text, self._replies.repeated, {}, "counter"
        )
        help_text = "Bytes of answers that are kept in case a change is sent twice."
        yield Sample("greenroom_cluster_replies_bytes", help_text, self._replies.held_bytes)

    def _answer(self, sender: int, call: ForwardCall) -> Awaitable[BusMessage]:
        if not call.number:
            return self._carry_out(sender, call)
        return self._replies.carry_out_once(sender, call, self._carry_out)

    def _answer_like(self, sender: int, call: ForwardLike) -> Awaitable[BusMessage]:
        if not call.number:
            return self._carry_out_like(sender, call)
        return self._replies.carry_out_once(sender, call, self._carry_out_like)

    def _carry_out(self, sender: int, call: ForwardCall) -> Awaitable[Reply]:
        """Answer a call, or say that this node is not its owner."""
        known = self._known.find(sender, call)
        like, notes = (0, Notes()) if known is None else (known.number, known.notes)
        request = ForwardedRequest(
            call.method,
            call.path,
            call.query,
            headers_of(call.host, call.tokens),
            call.body,
            call.address,
            call.is_body_too_large,
            notes,
        )
        key = address_key(call.address)
        return self._answer_here(sender, call.shard, key, request, like, call)

    def _carry_out_like(self, sender: int, call: ForwardLike) -> Awaitable[Reply]:
        """Answer a call like one before."""
        known = self._known.recall(call.like)
        if known is None:
            return give(NotKnown())
        request = ForwardedRequest(
            known.method,
            known.path,
            "",
            known.headers,
            call.body,
            known.address,
            notes=known.notes,
        )
        return self._answer_here(sender, known.shard, known.address_key, request, call.like)

    async def _answer_here(  # noqa: PLR0917 - all that is known of a call
        self,
        sender: int,
        shard: int,
        key: str,
        request: ForwardedRequest,
        like: int,
        whole: ForwardCall | None = None,
    ) -> Reply:
        """Have a request answered, if this node has its shard; return what is sent back.

        Args:
            sender: the node that has sent it on.
            shard: where it belongs.
            key: that of its address.
            request: with its notes.
            like: the number of calls like it, 0 if it has none.
            whole: the call, if it has come whole.
        """
        if not self._shards.is_mine(shard) and not await self._is_open(shard):
            return self._make_not_owner(shard)
        before = ADDRESS.set(key)  # this task answers calls of other addresses, too
        try:
            vouched = 0 if whole is None else whole.vouched
            answer = await self._dispatcher.answer_forwarded(request, vouched)
        finally:
            ADDRESS.reset(before)
        if isinstance(answer, SentOn):
            return self._make_not_owner(shard, answer)
        notes = request.notes
        if whole is not None and not like and notes is not None and notes.known is not None:
            like = self._known.keep(sender, whole, request.headers, key, notes)
        self._counts["answered"] += 1
        if answer.stream is not None or len(answer.body) > PART_BYTES:
            return await self._cut(sender, key, answer)
        return Forwarded(
            answer.status,
            answer.body,
            answer.headers,
            answer.content_type,
            request.has_failed_token,
            like=like,
            takes_together=True,
        )

    async def _cut(self, sender: int, key: str, answer: Answer) -> Forwarded:
        """Return the first part of an answer that does not fit into one message; hold the rest."""
        rest = Slices(answer.body, answer.stream)
        try:
            first = await anext(rest, b"")
            parts = self.open_answers.add(sender, key, rest)
        except TooManyOpen:
            await rest.aclose()
            return _forwarded(too_many_requests(OVERLOAD_RETRY_SECONDS))
        size = 0 if answer.stream is not None else len(answer.body)
        return Forwarded(
            answer.status, first, answer.headers, answer.content_type, False, parts, size
        )

    async def _vouch(self, sender: int, question: Vouch) -> BusMessage:  # noqa: ARG002
        if not await self._is_open(question.shard):
            return self._make_not_owner(question.shard)
        headers = headers_of(question.host, question.tokens)
        request = ForwardedRequest(
            question.method, question.path, "", headers, b"", question.address
        )
        before = ADDRESS.set(address_key(question.address))
        try:
            is_good = await self._dispatcher.vouches_forwarded(request)
        finally:
            ADDRESS.reset(before)
        if isinstance(is_good, SentOn):
            return self._make_not_owner(question.shard, is_good)
        return Vouched(is_good)

    async def _take_next_part(self, sender: int, wanted: NextPart) -> Part:
        return await self.open_answers.read_next(sender, wanted.parts)

    def _drop_parts(self, sender: int, dropped: DropParts) -> None:
        self.open_answers.note_dropped(sender, dropped.parts)

    async def _is_open(self, shard: int) -> bool:
        """Return whether this node serves a shard, once it has brought it up."""
        shards = self._shards
        if not shards.is_mine(shard) and shards.owns(shard):
            try:
                await shards.wait_for_owner(shard, OPEN_SECONDS_MAX)
            except NoOwner:
                return False
        return shards.is_mine(shard)

    def _make_not_owner(self, shard: int, sent_on: SentOn = NOT_HERE) -> NotOwner:
        self._counts["not_owner"] += 1
        owner, epoch = self._shards.find_owner(shard), self._shards.get_epoch(shard)
        owner = NOBODY if owner is None else owner
        return NotOwner(shard, owner, epoch, sent_on.shard, sent_on.vouched, sent_on.has_begun)


def _forwarded(answer: Answer) -> Forwarded:
    return Forwarded(answer.status, answer.body, answer.headers, answer.content_type)
