"""Who is best: the first lines of a leaderboard, with names and documents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from greenroom.actors.flows.world import World
from greenroom.actors.kernel.errors import ActorCrashed, ActorStopped, MailboxFull, Refused
from greenroom.actors.leaderboard.index import Fields
from greenroom.actors.player.messages import ReadPlayerDocument

DOCUMENTS_BYTES_MAX: Final = 10 << 20
"""Documents in one answer: ten of the largest, as many as are shown unless more are asked for."""
SLICE: Final = 10
"""So many documents are gathered before it is seen how much they are."""


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
    of the moment; documents may be later by as much as it takes to gather them. Of large documents
    there are fewer: what is returned holds at most `DOCUMENTS_BYTES_MAX`, but for a single one.

    Raises:
        StorageUnavailable: the index is being built, or the database is away.
        ActorUnavailable: it cannot be had.

    Cancellation: nothing has changed; an index that was begun is built all the same.
    """
    index = await world.leaderboards.index(game_id, fields)
    player_ids, total = index.top(limit), len(index)
    entries: list[Standing] = []
    size = 0
    for start in range(0, len(player_ids), SLICE):
        wanted = player_ids[start : start + SLICE]
        shown = await _shown(world, wanted)
        for player_id in filter(shown.__contains__, wanted):
            player_name, player_data = shown[player_id]
            size += len(player_data)
            if entries and size > DOCUMENTS_BYTES_MAX:
                return Standings(entries, total)
            entries.append(Standing(len(entries) + 1, player_id, player_name, player_data))
    return Standings(entries, total)


async def _shown(world: World, player_ids: Sequence[int]) -> dict[int, tuple[str, bytes]]:
    """Return names and documents: of the active from memory, of the others in a query."""
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
