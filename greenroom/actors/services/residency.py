"""Checks, when shards are brought up, that everybody is in memory, and sits, where they live.

The row of a player says where they live. Who is in memory elsewhere is dropped, and loaded anew.
Who sits in a room or lobby of another partition is put out of it. Nothing else is touched, and
nothing is read where all games have one partition. Such a player is a bug, or a row that was
changed by hand.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final, Literal

import trio

from greenroom.actors.flows.partitions import partition_of
from greenroom.actors.kernel.shard_ownership import TenureGuard
from greenroom.actors.kernel.shards import SHARDS
from greenroom.actors.lobby.messages import PutOutOfLobby
from greenroom.actors.room.messages import PutOut
from greenroom.actors.services.sweep import LOADS_AT_ONCE, RESTORE_PAGE, wait_loaded
from greenroom.actors.world.rooms_and_lobbies import Journalled
from greenroom.actors.world.world import World

Where = Literal["memory", "seat"]
"""A place where somebody was found who does not live there."""

_logger = logging.getLogger(__name__)

SLICE: Final = 200
"""Players or rooms that are looked at before other tasks get their turn."""
NAMED_MAX: Final = 20
"""Players whom the log names for each time that shards are brought up."""


async def check_residency(world: World, guard: TenureGuard, homes: Mapping[int, int]) -> None:
    """Find players who are, or sit, where they do not live; mend that, log it and count it.

    Call it when rooms, lobbies and players of these shards have been brought to memory.

    Args:
        world: where.
        guard: of which shards.
        homes: where the rows of players have them who are online, live in these shards, and play
            games in several partitions.

    Raises:
        StorageUnavailable: rows that are needed cannot be read. Try again.

    Cancellation: some may be mended.
    """
    if not world.ledger.spread:
        return
    found = _Findings(world)
    await _check_memory(world, homes, found)
    await _check_seats(world, guard, homes, found)
    if found.told:
        found.log()
        await world.wait_durable()


class _Findings:
    """The players who were found in one look at some shards."""

    def __init__(self, world: World) -> None:
        self._counts = world.misplaced
        self.told: list[str] = []
        self._left = 0

    def note(self, where: Where, what: str, *, is_mended: bool) -> None:
        """Count a player, and what became of it."""
        self._counts[where, "mended" if is_mended else "refused"] += 1
        self._left += not is_mended
        self.told.append(what)

    def log(self) -> None:
        """Log them, in one line."""
        _logger.error(
            "%d players were where they do not live, %d of them still are: %s%s",
            *(len(self.told), self._left, "; ".join(self.told[:NAMED_MAX])),
            "; …" if len(self.told) > NAMED_MAX else "",
        )


# In memory.


async def _check_memory(world: World, homes: Mapping[int, int], found: _Findings) -> None:
    """Drop players from memory who live elsewhere, and load those anew who live here."""
    suspects = dict(_list_strangers(world))
    for count, (player_id, home) in enumerate(homes.items(), 1):
        shard = _lives_in(world, player_id)
        if shard is not None and shard != home:
            suspects[player_id] = shard
        if count % SLICE == 0:
            await trio.lowlevel.checkpoint()
    if not suspects:
        return
    rows = await _read_homes(world, suspects)
    misplaced = iter(suspects.items())

    async def mend_some() -> None:
        for player_id, shard in misplaced:
            await _mend(world, player_id, shard, rows.get(player_id), found)

    async with trio.open_nursery() as nursery:
        for _ in range(min(LOADS_AT_ONCE, len(suspects))):
            nursery.start_soon(mend_some)


async def _mend(
    world: World, player_id: int, shard: int, row: int | None, found: _Findings
) -> None:
    """Drop a player who was found in memory in a shard, and whose row says another, or none."""
    if _lives_in(world, player_id) != shard or (row == shard and world.owns(shard)):
        return  # they have moved meanwhile, or the row that was read before was older
    await _load_anew(world, player_id, row)
    what = f"player {player_id} was in memory in shard {shard}, and lives in {row}"
    is_mended = _lives_in(world, player_id) in {None, row}
    found.note("memory", what, is_mended=is_mended)
    for place in (world.rooms, world.lobbies):
        key = place.seats.find_seat(player_id)
        if key is not None and _shard_of(world, place, key) != row:
            _put_out(world, place, key, player_id, row, found)


async def _load_anew(world: World, player_id: int, home: int | None) -> None:
    """Drop a player from memory, and load them if they live on this node."""
    world.players.drop(player_id)
    if home is not None and world.owns(home):
        await wait_loaded(world, player_id)


def _list_strangers(world: World) -> Iterator[tuple[int, int]]:
    """Return the players in memory whose shard is not this node's, each with that."""
    for shard in range(SHARDS):
        if not world.owns(shard):
            for player_id in world.players.list_keys_of(shard):
                yield player_id, shard


def _lives_in(world: World, player_id: int) -> int | None:
    """Return where a player lives as far as memory knows; None if they are not in memory."""
    return world.players.find_shard(player_id)


# In seats.


async def _check_seats(
    world: World, guard: TenureGuard, homes: Mapping[int, int], found: _Findings
) -> None:
    """Put members out of rooms and lobbies of these shards who live elsewhere."""
    for place in (world.rooms, world.lobbies):
        suspects: dict[int, str] = {}
        for count, key in enumerate(place.seats.list_keys(), 1):
            if place.seats.find_game(key) in world.ledger.spread:
                shard = _shard_of(world, place, key)
                if guard.holds(shard):
                    members = place.seats.get_members(key)
                    suspects.update({i: key for i in members if homes.get(i) != shard})
            if count % SLICE == 0:
                await trio.lowlevel.checkpoint()
        rows = await _read_homes(world, suspects)
        for count, (player_id, key) in enumerate(suspects.items(), 1):
            if place.seats.find_seat(player_id) == key:
                shard, home = _shard_of(world, place, key), rows.get(player_id)
                if home != shard and guard.holds(shard):
                    _put_out(world, place, key, player_id, home, found)
            if count % SLICE == 0:
                await trio.lowlevel.checkpoint()


def _shard_of(world: World, place: Journalled[Any, Any], key: str) -> int:
    return world.ledger.get_shard(place.seats.find_game(key) or 0, key)


def _put_out(  # noqa: PLR0917 - who, where, and where to note it
    world: World,
    place: Journalled[Any, Any],
    key: str,
    player_id: int,
    home: int | None,
    found: _Findings,
) -> None:
    """Free the seat of a player who lives elsewhere."""
    is_room = place is world.rooms
    command = PutOut(player_id, "left") if is_room else PutOutOfLobby(player_id, "left")
    shard = _shard_of(world, place, key)
    place.directory.run_now(key, command)
    seat = f"{place.loader.kind} {key} of shard {shard}"
    what = f"player {player_id} sat in {seat}, and lives in {home}"
    found.note("seat", what, is_mended=player_id not in place.seats.get_members(key))


async def _read_homes(world: World, player_ids: Collection[int]) -> dict[int, int]:
    """Return where the rows of players have them, once all changes so far are durable.

    Who has no row is missing.
    """
    if not player_ids:
        return {}
    await world.wait_durable()
    ids, homes = list(player_ids), dict[int, int]()
    for begin in range(0, len(ids), RESTORE_PAGE):
        rows = await world.accounts.load_outlines_by_id(ids[begin : begin + RESTORE_PAGE])
        for row in rows:
            homes[row.player_id] = partition_of(world, row)
    return homes
