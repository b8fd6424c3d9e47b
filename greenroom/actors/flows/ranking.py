"""Leaderboards as calls see them: the first lines, with names and documents."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

import msgspec
import trio

from greenroom.actors.flows.stats import declared_stats
from greenroom.actors.game.messages import ReadGameSettings
from greenroom.actors.kernel.errors import ActorCrashed, ActorStopped, MailboxFull, Refused
from greenroom.actors.kernel.portion import DOCUMENTS_BYTES_MAX
from greenroom.actors.leaderboard.index import (
    Fields,
    Index,
    internal_fields,
    shown_fields,
)
from greenroom.actors.leaderboard.merging import TopFound, merge_tops
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


class FindTop(Question, frozen=True):
    """The first players of a node."""

    game_id: int
    fields: Fields
    """The fields as an index has them: those of the stats are marked."""
    limit: int
    address: str
    """The client's address, to be charged for an index."""


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
        question = FindTop(game_id, named, limit, address)
        asked = msgspec.structs.replace(question, address="")  # who asks changes no answer
        return await world.gathered.get(asked, partial(_rank_everywhere, world, question))
    index = await _index(world, game_id, named, address)
    total, tops = len(index), world.leaderboards.tops
    key = tops.make_key(index, limit)
    entries = tops.find(key)
    if entries is None:
        entries = await _entries(world, index.list_top(limit))
        tops.keep(key, entries)
    return Standings(entries, total)


async def _rank_everywhere(world: World, question: FindTop) -> Standings:
    """Return the standings of a game that lives on several nodes.

    Each gives its first keys. They end in the player's id, so they merge as they are.
    """
    assert world.others is not None
    await _check_declared(world, question.game_id, question.fields)
    began = trio.current_time()
    found = await world.others.gather(question.game_id, question, TopFound)
    seconds = trio.current_time() - began
    for one in found:
        if one.declared is not None:
            raise LeaderboardNotDeclared(one.declared)
        if one.refused_for:
            raise TooManyBuilds(one.refused_for, one.retry_seconds)
    player_ids, total = merge_tops(found, question.limit, seconds)
    return Standings(await _stored_entries(world, player_ids), total)


async def find_top(world: World, asked: FindTop) -> TopFound:
    """Answer `FindTop`."""
    try:
        index = await _index(world, asked.game_id, asked.fields, asked.address)
    except TooManyBuilds as refusal:
        return TopFound([], 0, refusal.reason, refusal.retry_seconds)
    except LeaderboardNotDeclared as refusal:
        return TopFound([], 0, declared=refusal.declared)
    return world.leaderboards.find_first(index, asked.limit)


async def _stored_entries(world: World, player_ids: Sequence[int]) -> list[LeaderboardEntry]:
    """Return the entries of players of any node, as many as fit in, as the database has them."""
    profiles: list[Profile] = []
    size = 0
    for start in range(0, len(player_ids), SLICE):
        wanted = player_ids[start : start + SLICE]
        rows = {row.player_id: row for row in await world.accounts.load_players_by_id(wanted)}
        for row in (rows[player_id] for player_id in wanted if player_id in rows):
            size += len(row.player_data) + stats_bytes(row.stats)
            if profiles and size > DOCUMENTS_BYTES_MAX:
                return _ranked(profiles)
            profiles.append(Profile(row.player_id, row.player_name, row.player_data, row.stats))
    return _ranked(profiles)


async def _index(world: World, game_id: int, fields: Fields, address: str) -> Index:
    """Return an index over these fields; see `rank_players`."""
    index = world.leaderboards.find(game_id, fields)
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


async def _entries(world: World, player_ids: Sequence[int]) -> list[LeaderboardEntry]:
    """Return the entries of these players, as many as fit in."""
    entries: list[LeaderboardEntry] = []
    size = 0
    for start in range(0, len(player_ids), SLICE):
        for profile in await _profiles(world, player_ids[start : start + SLICE]):
            size += len(profile.player_data) + stats_bytes(profile.stats)
            if entries and size > DOCUMENTS_BYTES_MAX:
                return entries
            entries.append(_entry(len(entries) + 1, profile))
    return entries


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
            except (ActorCrashed, ActorStopped, MailboxFull, Refused):
                continue  # the record is in the database
            found[player_id] = Profile(
                player_id, document.player_name, document.player_data, document.stats
            )
        rest = [player_id for player_id in player_ids if player_id not in found]
        if rest:
            for record in await world.accounts.load_players_by_id(rest):
                profile = Profile(
                    record.player_id, record.player_name, record.player_data, record.stats
                )
                found[record.player_id] = profile
    return found
