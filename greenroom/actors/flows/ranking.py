"""Who is best: the first lines of a leaderboard, with names and documents."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from greenroom.actors.flows.world import World
from greenroom.actors.kernel.errors import ActorCrashed, ActorStopped, MailboxFull, Refused
from greenroom.actors.leaderboard.index import Fields
from greenroom.actors.player.messages import ReadPlayerDocument


class Standing(msgspec.Struct, frozen=True):
    """One line of a leaderboard; `player_data` is a JSON object's bytes."""

    rank: int
    player_id: int
    player_name: str
    player_data: bytes


class Standings(msgspec.Struct, frozen=True):
    """The first lines, and how many players there are in all."""

    entries: list[Standing]
    total: int


async def rank_players(world: World, game_id: int, fields: Fields, limit: int) -> Standings:
    """Return the first `limit` players of a game, online or not, and how many there are.

    Ranked by the first of the fields, highest number first, ties by the next and at last by id;
    whoever lacks a field, or has no number there, comes after those who have one. The order is that
    of the moment; documents may be later by as much as it takes to gather them.

    Raises:
        StorageUnavailable: the index is being built, or the database is away.
        ActorUnavailable: it cannot be had.

    Cancellation: nothing has changed; an index that was begun is built all the same.
    """
    index = await world.leaderboards.index(game_id, fields)
    player_ids, total = index.top(limit), len(index)
    shown = await _shown(world, player_ids)
    found = [player_id for player_id in player_ids if player_id in shown]
    entries = [
        Standing(rank, player_id, *shown[player_id]) for rank, player_id in enumerate(found, 1)
    ]
    return Standings(entries, total)


async def _shown(world: World, player_ids: Sequence[int]) -> dict[int, tuple[str, bytes]]:
    """Return names and documents: of the active from memory, of the others in one query."""
    shown: dict[int, tuple[str, bytes]] = {}
    for player_id in player_ids:
        player = world.players.active(player_id)
        if player is None:
            continue
        try:
            document = await player.ask(ReadPlayerDocument())
        except (ActorCrashed, ActorStopped, MailboxFull, Refused):
            continue  # his record is in the database
        shown[player_id] = document.player_name, document.player_data
    rest = [player_id for player_id in player_ids if player_id not in shown]
    if rest:
        for record in await world.accounts.players_by_id(rest):
            shown[record.player_id] = record.player_name, record.player_data
    return shown
