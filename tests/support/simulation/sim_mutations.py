"""The defects that the checkers of a simulated cluster must find: at least one for each checker."""

from __future__ import annotations

import heapq
from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from contextvars import copy_context
from functools import partial
from itertools import islice, repeat
from typing import Any
from unittest.mock import patch

import msgspec
import trio
import usage_kit
from memory_logs import MemoryJournals
from sim_database import SimDatabase
from sim_losses import early_answers, forget_rooms, is_room_event, losing, no_fence
from sim_node import SimNode
from usage_kit import MemoryUsage
from world_kit import Memory

from greenroom.actors.flows import partitions, ranking, rooms
from greenroom.actors.flows.spread import copies
from greenroom.actors.kernel.errors import ActorError, Refused
from greenroom.actors.kernel.shard_ownership import OwnedShards
from greenroom.actors.leaderboard.index import Index, player_of
from greenroom.actors.leaderboard.merging import Homes, TopFound
from greenroom.actors.player.messages import (
    PlayerLoggedOut,
    PlayerMoved,
    PlayerPresenceSaved,
    PlayerView,
)
from greenroom.actors.room.rules.events import MemberJoined
from greenroom.actors.services import residency, shard_keeper
from greenroom.actors.services.shard_keeper import ShardKeeper
from greenroom.actors.world.leaderboards import Leaderboards
from greenroom.actors.world.seats import Seats
from greenroom.actors.world.world import World
from greenroom.bus.memory import MemoryBus
from greenroom.cluster.asking import Asking
from greenroom.cluster.calls import forwarding
from greenroom.cluster.calls.forwarding import Forwarding
from greenroom.cluster.calls.messages import ForwardCall
from greenroom.cluster.calls.reply_cache import ReplyCache
from greenroom.cluster.calls.targets import Targets
from greenroom.cluster.lease_guard import Guard
from greenroom.cluster.membership import Membership
from greenroom.cluster.messenger import BusMessage
from greenroom.cluster.residents import PartedShards, WorldResidents
from greenroom.persistence.nodes.records import NodeRecords
from greenroom.supervisors.dynamic import DynamicSupervisor

MOMENT_SECONDS = 0.005


class Mutation(msgspec.Struct, frozen=True):
    """A defect: where it is planted, where it shows, and who must find it."""

    what: str
    found_by: str
    """The checker."""
    faults: tuple[str, ...] = ()
    plays: tuple[str, ...] = ()
    partitions: int | None = None
    """The shards that each game lives in; None lets the seed choose."""
    node: Callable[[SimNode], None] = lambda _: None
    """Plants it in a node that starts."""
    code: Callable[[], AbstractContextManager[Any]] = nullcontext
    """Plants it in the code."""


def _nothing(*_: object, **__: object) -> None: ...


# Ownership.


def _no_instrument() -> AbstractContextManager[Any]:
    return patch.object(Guard, "after_io_wait", lambda *_: None)


@contextmanager
def _forget_to_let_go() -> Iterator[None]:
    with (
        patch.object(ShardKeeper, "part_with", _nothing),
        patch.object(OwnedShards, "lose", _nothing),
    ):
        yield


@contextmanager
def _stay_after_a_move() -> Iterator[None]:
    with patch.object(DynamicSupervisor, "_send_away", _nothing):
        yield


@contextmanager
def _move_to_other_nodes_alone() -> Iterator[None]:
    move = partitions.move_to

    async def move_away(world: World, player: PlayerView, place_id: str) -> None:
        if not world.is_here(player.game_id, place_id):
            await move(world, player, place_id)

    with patch.object(rooms, "move_to", move_away):
        yield


@contextmanager
def _join_before_the_move() -> Iterator[None]:
    """Within a node, let players join who are moved a moment later."""
    move = partitions.move_to

    async def move_later(world: World, player: PlayerView, place_id: str) -> None:
        if not world.is_here(player.game_id, place_id):
            await move(world, player, place_id)
            return

        async def later() -> None:
            await trio.sleep(MOMENT_SECONDS)
            with suppress(ActorError):
                await move(world, player, place_id)

        trio.lowlevel.spawn_system_task(later, context=copy_context())

    with patch.object(rooms, "move_to", move_later):
        yield


@contextmanager
def _claim_nothing() -> Iterator[None]:
    """Look whether a player has a seat, and do not keep others from giving them one meanwhile.

    Moves begin a moment later. Otherwise calls that came after one are known only once it is
    durable, and then they find the seat.
    """
    move = partitions.move_to

    async def move_slowly(world: World, player: PlayerView, place_id: str) -> None:
        await trio.sleep(20 * MOMENT_SECONDS)
        await move(world, player, place_id)

    @contextmanager
    def claim(seats: Seats, player_id: int, kind: Any, *refusals: type[Refused]) -> Iterator[None]:
        seats.require_none(player_id, kind, *refusals)
        yield

    with patch.object(Seats, "claim", claim), patch.object(rooms, "move_to", move_slowly):
        yield


@contextmanager
def _adopt_whatever_was_read() -> Iterator[None]:
    adopt = DynamicSupervisor.adopt

    def adopt_any(directory: Any, key: Any, actor: Any, **given: Any) -> Any:
        return adopt(directory, key, actor, shard=given.get("shard"))

    with (
        patch.object(DynamicSupervisor, "adopt", adopt_any),
        patch.object(DynamicSupervisor, "_has_left_lately", lambda *_: False),
    ):
        yield


async def _drop_none(*_: object) -> None: ...


def _gather_from_one() -> AbstractContextManager[Any]:
    """Take the answer of one node for that of all."""
    gather = Asking.gather

    async def gather_one(asking: Asking, *given: Any) -> list[Any]:
        return (await gather(asking, *given))[:1]

    return patch.object(Asking, "gather", gather_one)


def _count_movers_twice() -> AbstractContextManager[Any]:
    """Merge leaderboards as if nobody moved."""

    def merge(parts: Sequence[TopFound], limit: int, _: float) -> tuple[Homes, int]:
        places = (zip(part.keys, repeat(number)) for number, part in enumerate(parts))
        first = islice(heapq.merge(*places), limit)
        return [(player_of(key), n) for key, n in first], sum(part.total for part in parts)

    return patch.object(ranking, "merge_tops", merge)


def _follow_nobody() -> AbstractContextManager[Any]:
    return patch.object(Targets, "follow", lambda _, target, *__, **___: target)


@contextmanager
def _old_epochs() -> Iterator[None]:
    draw = NodeRecords.draw_epochs

    async def draw_old(records: NodeRecords, count: int) -> list[int]:
        return [epoch - 1_000 for epoch in await draw(records, count)]

    with (
        patch.object(NodeRecords, "draw_epochs", draw_old),
        patch.object(SimDatabase, "check", _nothing),
    ):
        yield


@contextmanager
def _trust_drafts() -> Iterator[None]:
    """Take what was read ahead of a hand-over for what is there; players go on for a while."""
    say_goodbye = WorldResidents.say_goodbye

    async def say_goodbye_slowly(residents: WorldResidents, shards: Sequence[int]) -> None:
        await trio.sleep(100 * MOMENT_SECONDS)
        await say_goodbye(residents, shards)

    def trusting(ask: Callable[..., Awaitable[dict[Any, bool]]]) -> Any:
        async def trust(*given: Any) -> dict[Any, bool]:
            return dict.fromkeys(await ask(*given), False)

        return trust

    compare = Memory.compare_online_players

    async def find_others(
        memory: Memory, shards: Collection[int], moment: str, known: Collection[int]
    ) -> dict[int, bool]:
        others = await compare(memory, shards, moment, known)
        return {i: is_here for i, is_here in others.items() if not is_here or i not in known}

    with (
        patch.object(MemoryJournals, "list_stored", trusting(MemoryJournals.list_stored)),
        patch.object(Memory, "compare_online_players", find_others),
        patch.object(WorldResidents, "say_goodbye", say_goodbye_slowly),
    ):
        yield


def _tell_too_early() -> AbstractContextManager[Any]:
    async def settle(parted: Any) -> list[int]:
        return list(parted._waits)

    return patch.object(PartedShards, "settle", settle)


@contextmanager
def _failing_start() -> Iterator[None]:
    """Fail to bring a shard up, now and then."""
    bring_up, count = WorldResidents.bring_up, 0

    async def fail(residents: WorldResidents, epochs: Any) -> None:
        nonlocal count
        count += 1
        if count % 20 == 0:
            raise RuntimeError("a bug")
        await bring_up(residents, epochs)

    with patch.object(WorldResidents, "bring_up", fail):
        yield


@contextmanager
def _misread_homes() -> Iterator[None]:
    """Check bring-ups as if no player lived where they sit."""
    check = residency.check_residency

    async def check_all(world: World, guard: Any, _: Any) -> None:
        await check(world, guard, {})

    with (
        patch.object(shard_keeper, "check_residency", check_all),
        patch.object(residency, "partition_of", lambda *_: -1),
    ):
        yield


# Calls.


def _repeat_changes() -> AbstractContextManager[Any]:
    async def once(
        _: Any, sender: int, call: Any, carry_out: Callable[[int, Any], Awaitable[Any]]
    ) -> Any:
        return await carry_out(sender, call)

    return patch.object(ReplyCache, "carry_out_once", once)


def _renumber_changes() -> AbstractContextManager[Any]:
    """Send a change that vanished again under another number."""
    learn = Forwarding._learn

    async def learn_anew(
        sender: Forwarding, forward: ForwardCall, node_id: int, until: float
    ) -> BusMessage:
        sender._number += 1
        renumbered = msgspec.structs.replace(forward, number=sender._number)
        return await learn(sender, renumbered, node_id, until)

    return patch.object(Forwarding, "_learn", learn_anew)


@contextmanager
def _wait_for_ever() -> Iterator[None]:
    with ExitStack() as stack:
        stack.enter_context(patch.object(MemoryBus, "give_up", _nothing))
        stack.enter_context(patch.object(forwarding, "ANSWER_SECONDS_MAX", 10_000.0))
        stack.enter_context(patch.object(forwarding, "SILENCE_SECONDS_MAX", 10_000.0))
        yield


MUTATIONS: dict[str, Mutation] = {
    "no-instrument": Mutation(
        "a node that has stood still goes on as if nothing had been",
        "one owner",
        ("stopped",),
        code=_no_instrument,
    ),
    "no-fence": Mutation(
        "the database takes what a node writes that has ended, and does not end its sessions",
        "no stale write",
        ("stopped_writing",),
        node=no_fence,
    ),
    "told-too-early": Mutation(
        "the next owner is told of a hand-over before that is durable",
        "no stale write",
        ("handed_over_slowly",),
        code=_tell_too_early,
    ),
    "old-epochs": Mutation(
        "shards are handed over under epochs that are not the newest",
        "epochs",
        ("handed_over",),
        code=_old_epochs,
    ),
    "trusted-drafts": Mutation(
        "what was written since the next owner read ahead is not read again",
        "history of rooms",
        ("handed_over",),
        ("rooms", "rooms", "documents"),
        1,
        code=_trust_drafts,
    ),
    "kept-actors": Mutation(
        "actors stay in memory when their shard is another node's",
        "one seat",
        ("handed_over",),
        code=_forget_to_let_go,
    ),
    "stays-after-move": Mutation(
        "a player stays in memory who has moved to another node",
        "one actor",
        ("handed_over",),
        ("two rooms",),
        4,
        code=_stay_after_a_move,
    ),
    "unmoved": Mutation(
        "who joins in another partition of the same node does not move there",
        "homes",
        ("handed_over",),
        ("two rooms",),
        4,
        code=_move_to_other_nodes_alone,
    ),
    "early-joins": Mutation(
        "who joins in another partition of the same node joins before the move is durable",
        "durable homes",
        ("handed_over",),
        ("two rooms", "two rooms"),
        4,
        code=_join_before_the_move,
    ),
    "lost-moves": Mutation(
        "the database loses that players have moved",
        "durable homes",
        ("handed_over",),
        ("two rooms",),
        4,
        node=losing(lambda event: isinstance(event, PlayerMoved)),
    ),
    "misread-homes": Mutation(
        "a bring-up takes all members for players of another partition",
        "bring-ups",
        ("handed_over",),
        ("sitters",) * 3,
        4,
        code=_misread_homes,
    ),
    "unclaimed-seats": Mutation(
        "the seat of a player is not claimed while they move and join",
        "durable homes",
        ("handed_over",),
        ("two rooms", "two rooms"),
        4,
        code=_claim_nothing,
    ),
    "old-records": Mutation(
        "what was read of a player before they moved is adopted afterwards",
        "one actor",
        ("killed",),
        ("two rooms",) * 6,
        4,
        code=_adopt_whatever_was_read,
    ),
    "kept-copies": Mutation(
        "a change of a game is answered while other nodes keep their copies",
        "history of games",
        ("handed_over",),
        ("games",),
        4,
        code=partial(patch.object, copies, "_drop_all", _drop_none),
    ),
    "half-merges": Mutation(
        "lists are those of one node",
        "merges",
        ("handed_over",),
        ("sitters",) * 3,
        4,
        code=_gather_from_one,
    ),
    "double-merges": Mutation(
        "leaderboards are merged as if nobody moved between nodes",
        "merges",
        ("handed_over",),
        ("two rooms", "two rooms", "lists"),
        4,
        code=_count_movers_twice,
    ),
    "kept-parts": Mutation(
        "nodes tell their part of a leaderboard as it was, whatever has changed",
        "history of lists",
        ("handed_over",),
        ("lists", "lists"),
        4,
        code=partial(patch.object, Index, "_change_top", _nothing),
    ),
    "unfollowed": Mutation(
        "where a node says that a player has gone is not heeded",
        "history of sitters",
        ("handed_over",),
        ("sitters",) * 6,
        4,
        code=_follow_nobody,
    ),
    "shares-given-twice": Mutation(
        "a share is granted without a look at those of others",
        "shares",
        ("handed_over",),
        ("documents",),
        4,
        code=partial(patch.object, usage_kit, "granted", lambda ask, _: ask.wanted),
    ),
    "forgotten-shares": Mutation(
        "the share of a dead node is never free again",
        "shares",
        ("killed",),
        ("documents",),
        4,
        code=partial(patch.object, MemoryUsage, "free_ended", _nothing),
    ),
    "lost-rows": Mutation(
        "the database loses who has joined a room",
        "ledger",
        ("moved_clock",),
        ("rooms",),
        node=losing(partial(is_room_event, MemberJoined)),
    ),
    "forgotten-rooms": Mutation(
        "rooms are not brought up",
        "rest",
        ("handed_over",),
        ("sitters",),
        code=forget_rooms,
    ),
    "early-answers": Mutation(
        "changes are answered before they are durable",
        "history of documents",
        ("killed_waiting",),
        ("documents",),
        code=early_answers,
    ),
    "early-friends": Mutation(
        "the same, and friendships are looked at",
        "history of friendships",
        ("killed_waiting",),
        ("friendships",),
        code=early_answers,
    ),
    "early-bans": Mutation(
        "the same, and bans are looked at",
        "history of bans",
        ("killed_waiting",),
        ("bans",),
        code=early_answers,
    ),
    "early-rooms": Mutation(
        "the same, and rooms are looked at",
        "history of rooms",
        ("killed_waiting",),
        ("rooms", "rooms"),
        code=early_answers,
    ),
    "early-lobbies": Mutation(
        "the same, and lobbies are looked at",
        "history of lobbies",
        ("killed_waiting",),
        ("lobbies",),
        code=early_answers,
    ),
    "early-tokens": Mutation(
        "the same, and tokens are looked at",
        "history of tokens",
        ("killed_waiting",),
        ("tokens",),
        code=early_answers,
    ),
    "early-stats": Mutation(
        "the same, and stats are looked at",
        "history of stats",
        ("killed_waiting",),
        ("stats",),
        code=early_answers,
    ),
    "lost-log-outs": Mutation(
        "the database loses that a player has logged out, and every word of who is online",
        "history of presence",
        ("killed",),
        ("presence",),
        node=losing(lambda event: isinstance(event, PlayerLoggedOut | PlayerPresenceSaved)),
    ),
    "repeated-changes": Mutation(
        "a change is carried out as often as it is sent",
        "history of friendships",
        ("lost_bus_waiting",),
        ("friendships", "friendships", "friendships"),
        code=_repeat_changes,
    ),
    "renumbered-changes": Mutation(
        "a change that vanished on the bus is sent again as if it were another one",
        "history of friendships",
        ("cut_from_bus",),
        ("friendships", "friendships", "friendships"),
        code=_renumber_changes,
    ),
    "old-leaderboards": Mutation(
        "leaderboards are not told what has become durable",
        "history of lists",
        ("handed_over",),
        ("lists",),
        code=partial(patch.object, Leaderboards, "note_durable", _nothing),
    ),
    "nobody-takes-over": Mutation(
        "the shards of a dead node stay its own",
        "served again",
        ("killed",),
        code=partial(patch.object, Membership, "_take_over", _nothing),
    ),
    "endless-waiting": Mutation(
        "the answer of a node that is gone is waited for without an end",
        "no call waits for ever",
        ("killed_waiting",),
        code=_wait_for_ever,
    ),
    "failing-start": Mutation(
        "a shard cannot be brought up at the first try, for a bug",
        "no bug",
        ("killed",),
        code=_failing_start,
    ),
}
