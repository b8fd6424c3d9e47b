"""Leaderboards as calls see them: the first lines, with names and documents."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final

import msgspec
import trio

from greenroom.actors.flows.stats import declared_stats
from greenroom.actors.game.messages import ReadGameSettings
from greenroom.actors.kernel.errors import (
    ActorCrashed,
    ActorStopped,
    ActorUnavailable,
    MailboxFull,
    Moved,
    Refused,
)
from greenroom.actors.kernel.portion import DOCUMENTS_BYTES_MAX
from greenroom.actors.leaderboard.index import (
    Fields,
    Index,
    internal_fields,
    player_of,
    shown_fields,
)
from greenroom.actors.leaderboard.merging import TopFound, merge_tops
from greenroom.actors.leaderboard.parts import TopPart, make_merged, make_part
from greenroom.actors.leaderboard.profiles import Profile
from greenroom.actors.leaderboard.refusals import LeaderboardNotDeclared, TooManyBuilds
from greenroom.actors.leaderboard.top_entries import Entries
from greenroom.actors.player.memory import stats_bytes
from greenroom.actors.player.messages import ReadPlayerDocument
from greenroom.actors.world.others import Question
from greenroom.actors.world.world import World
from greenroom.contract.fields import stats_as_sent, verbatim
from greenroom.contract.leaderboard import LeaderboardEntry

SLICE: Final = 10
"""Documents that are gathered before their size is looked at."""
TOLD_BYTES_MAX: Final = 256 << 10
"""Documents that a node tells with its part. The asking node reads what is beyond."""

FindProfiles = Callable[[Sequence[int]], Awaitable[Sequence[Profile]]]
"""Finds the profiles of those players who are there, in their order."""


class FindTop(Question, frozen=True):
    """The first players of a node."""

    game_id: int
    fields: Fields
    """The fields as an index has them: those of the stats are marked."""
    limit: int
    address: str = ""
    """The client's address, to be charged for an index."""
    known: tuple[bytes, ...] = ()
    """Versions of parts that need not be told again."""


class Standings(msgspec.Struct, frozen=True):
    """The first players, best first, and how many there are in all."""

    entries: Entries
    total: int


async def rank_players(
    world: World, game_id: int, fields: Fields, limit: int, address: str = ""
) -> Standings:
    """Return the first `limit` players of a game, online or not, and how many there are.

    They are ranked by the first of the fields, highest number first, ties by the next and at last
    by id. A field that the game declares as a stat is looked for in the stats alone, the others in
    the document. A player who lacks a field, or has no number there, comes after those who have
    one. The order is that of the moment. Documents may be later by as much as it takes to gather
    them. If documents are large there are fewer players: the result holds at most
    `DOCUMENTS_BYTES_MAX`, or a single one.

    Args:
        world: where.
        game_id: whose players.
        fields: what they are ranked by, the most important first.
        limit: how many are wanted.
        address: the client's address, to be charged for an index; empty if unknown.

    Raises:
        LeaderboardNotDeclared: the game has declared its leaderboards, and this is none of them.
        TooManyBuilds: there is no such index, and none is built now.
        StorageUnavailable: the index is being built, or the database is away.
        ActorUnavailable: it cannot be had.

    Cancellation: nothing has changed; an index that was begun is built all the same.
    """
    named = internal_fields(fields, await declared_stats(world, game_id))
    if world.others is not None and game_id in world.ledger.spread:
        question = FindTop(game_id, named, limit)  # who asks changes no answer
        return await world.gathered.get(
            question, partial(_rank_everywhere, world, question, address)
        )
    index = await _index(world, game_id, named, address)
    total, tops = len(index), world.leaderboards.tops
    key = tops.make_key(index, limit)
    entries = tops.find(key)
    if entries is None:
        profiles = await _collect(
            partial(_profiles, world), index.list_top(limit), DOCUMENTS_BYTES_MAX
        )
        entries = _ranked(profiles)
        tops.keep(key, entries)
    return Standings(entries, total)


async def _rank_everywhere(world: World, question: FindTop, address: str) -> Standings:
    """Return the standings of a game that lives on several nodes.

    Each gives its first keys. They end in the player's id, so they merge as they are. What is told
    is as of a moment of this call. So is what was told before, if its version is told again.
    """
    assert world.others is not None
    await _check_declared(world, question.game_id, question.fields)
    key = question.game_id, question.fields, question.limit
    before = world.leaderboards.parts.find_merged(key)
    asked = msgspec.structs.replace(question, address=address, known=tuple(before.parts))
    began = trio.current_time()
    found = await world.others.gather(question.game_id, asked, TopFound)
    seconds = trio.current_time() - began
    for one in found:
        if one.declared is not None:
            raise LeaderboardNotDeclared(one.declared)
        if one.refused_for:
            raise TooManyBuilds(one.refused_for, one.retry_seconds)
    parts = list(map(before.complete, found))
    homes, total = merge_tops(parts, question.limit, seconds)
    if before.holds([part.version for part in parts], homes):
        return Standings(before.entries, total)
    told = {
        profile.player_id: profile
        for number, part in enumerate(parts)
        for profile in part.profiles
        if (profile.player_id, number) in homes
    }
    find = partial(_told_or_read, world, told)
    player_ids = [player_id for player_id, _ in homes]
    entries = _ranked(await _collect(find, player_ids, DOCUMENTS_BYTES_MAX))
    world.leaderboards.parts.keep_merged(key, make_merged(parts, homes, entries))
    return Standings(entries, total)


async def find_top(world: World, asked: FindTop) -> TopFound:
    """Answer `FindTop`."""
    try:
        index = await _index(world, asked.game_id, asked.fields, asked.address)
    except TooManyBuilds as refusal:
        return TopFound([], 0, refusal.reason, refusal.retry_seconds)
    except LeaderboardNotDeclared as refusal:
        return TopFound([], 0, declared=refusal.declared)
    found = world.leaderboards.find_first(index, asked.limit)
    key = world.leaderboards.tops.make_key(index, asked.limit), frozenset(found.left)
    part = world.leaderboards.parts.find_told(key)
    if part is None:
        part = await _make_part(world, found)
        if part.version:
            world.leaderboards.parts.keep_told(key, part)
    if part.version in asked.known:
        return msgspec.structs.replace(found, keys=[], version=part.version, is_known=True)
    return msgspec.structs.replace(found, profiles=part.profiles, version=part.version)


async def _make_part(world: World, found: TopFound) -> TopPart:
    """Return what this node tells of its first players.

    Who has left may have changed elsewhere, so nothing is told of them.
    """
    here = [i for i in map(player_of, found.keys) if i not in found.left]
    try:
        find = partial(_profiles, world)
        profiles = await _collect(find, here, TOLD_BYTES_MAX, first_always=False)
    except ActorUnavailable:
        return TopPart(found.keys, [], b"")  # whoever asks will read them, or fail
    return make_part(found.keys, profiles)


async def _told_or_read(
    world: World, told: dict[int, Profile], player_ids: Sequence[int]
) -> list[Profile]:
    """Return what nodes have told of players; read of whom they have not, and add it."""
    rest = [player_id for player_id in player_ids if player_id not in told]
    if rest:
        told |= await _load(world, rest)
    return [told[player_id] for player_id in player_ids if player_id in told]


async def _load(world: World, player_ids: Sequence[int]) -> dict[int, Profile]:
    """Return the profiles of players of any node, as the database has them."""
    return {
        row.player_id: Profile(row.player_id, row.player_name, row.player_data, row.stats)
        for row in await world.accounts.load_players_by_id(player_ids)
    }


async def _index(world: World, game_id: int, fields: Fields, address: str) -> Index:
    """Return an index over these fields; see `rank_players`."""
    index = world.leaderboards.find(game_id, fields, address)
    return await _new_index(world, game_id, fields, address) if index is None else index


async def _check_declared(world: World, game_id: int, fields: Fields) -> bool:
    """Return whether a game has declared its leaderboards; if so, this must be one of them."""
    settings = await world.games.get_ref(game_id).ask(ReadGameSettings())
    declared = settings.leaderboards
    if declared and shown_fields(fields) not in declared:
        raise LeaderboardNotDeclared(declared)
    return bool(declared)


async def _new_index(world: World, game_id: int, fields: Fields, address: str) -> Index:
    """Return an index that is to be built, if the game wants it."""
    is_declared = await _check_declared(world, game_id, fields)
    return await world.leaderboards.find_or_build(game_id, fields, address, is_declared=is_declared)


async def _collect(
    find: FindProfiles, player_ids: Sequence[int], bytes_max: int, *, first_always: bool = True
) -> list[Profile]:
    """Return the profiles of these players, as many as fit in, by default the first in any case."""
    profiles: list[Profile] = []
    size = 0
    for start in range(0, len(player_ids), SLICE):
        for profile in await find(player_ids[start : start + SLICE]):
            size += len(profile.player_data) + stats_bytes(profile.stats)
            if size > bytes_max and (profiles or not first_always):
                return profiles
            profiles.append(profile)
    return profiles


def _ranked(profiles: Sequence[Profile]) -> list[LeaderboardEntry]:
    return [_entry(rank, profile) for rank, profile in enumerate(profiles, 1)]


def _entry(rank: int, profile: Profile) -> LeaderboardEntry:
    return LeaderboardEntry(
        rank=rank,
        player_id=profile.player_id,
        player_name=profile.player_name,
        player_data=verbatim(profile.player_data),
        stats=stats_as_sent(profile.stats),
    )


async def _profiles(world: World, player_ids: Sequence[int]) -> list[Profile]:
    """Return the profiles of those players who are there, in this order."""
    found = list(map(world.leaderboards.profiles.find, player_ids))
    missing = [n for n, profile in enumerate(found) if profile is None]
    if missing:
        read = await _read(world, [player_ids[n] for n in missing])
        for n in missing:
            found[n] = read.get(player_ids[n])
    return [profile for profile in found if profile is not None]


async def _read(world: World, player_ids: Sequence[int]) -> dict[int, Profile]:
    """Return profiles: of the active from memory, of the others in a query."""
    with world.leaderboards.profiles.collect(player_ids) as found:
        for player_id in player_ids:
            player = world.players.find_active(player_id)
            if player is None:
                continue
            try:
                document = await player.ask(ReadPlayerDocument())
            except (ActorCrashed, ActorStopped, MailboxFull, Moved, Refused):
                continue  # the record is in the database
            found[player_id] = Profile(
                player_id, document.player_name, document.player_data, document.stats
            )
        rest = [player_id for player_id in player_ids if player_id not in found]
        if rest:
            found.update(await _load(world, rest))
    return found
