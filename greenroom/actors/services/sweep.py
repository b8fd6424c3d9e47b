"""The housekeeping of presence: stale players go offline, offline ones leave memory.

Nobody waits for any of this, and what is refused (the database is away, a mailbox is full) is
tried again by the next sweep. It costs nothing for players who are online and quiet: the
index keeps them in the order in which they were last heard of.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from functools import partial

import trio

from greenroom.actors.flows.friends import rest_pairs
from greenroom.actors.flows.partitions import partition_of
from greenroom.actors.flows.presence import note_silent_members
from greenroom.actors.kernel.errors import ActorStopped, ActorUnavailable, Refused
from greenroom.actors.kernel.message import Command
from greenroom.actors.kernel.shard_ownership import ALONE, TenureGuard
from greenroom.actors.player.actor import PlayerActor
from greenroom.actors.player.messages import (
    DescribePlayer,
    LeaveIfStale,
    Player,
    PlayerRole,
    SavePresence,
)
from greenroom.actors.services.drafts import NO_DRAFTS, TakenDrafts
from greenroom.actors.services.read_ahead import read_ahead, read_together
from greenroom.actors.world.world import World

_logger = logging.getLogger(__name__)

SLICE = 200
"""Players that are dealt with before other tasks get their turn."""
TOLD_SLICE = 20
"""The same, where each has a turn of their own: some 2 ms."""

RESTORE_PAGE = 200
"""Players that are read at once when shards are brought up, if their documents are small."""
LOADS_AT_ONCE = 4
"""Players who were read before they left, and are loaded at the same time: as many as there are
connections that read. Others who read take turns with them."""
LOADED_ANEW_MAX = 2_000
"""How many of them a bring-up loads, within a second or two. Beyond it nobody waits, and their next
call loads them. Until then rooms take them for silent."""


async def restore_online(
    world: World,
    guard: TenureGuard = ALONE,
    drafts: TakenDrafts = NO_DRAFTS,
    homes: dict[int, int] | None = None,
) -> int:
    """Bring every player to memory who was online when their server ended; return how many.

    The time until each is stale begins anew. Run before anybody can call.

    Args:
        world: where.
        guard: of which shards.
        drafts: what was read of them ahead, and compared.
        homes: is told where the rows have the players of games in several partitions.

    Raises:
        StorageUnavailable: the database does not answer.
    """
    restored = 0
    rest = drafts.find_rest(guard.shards)
    left: list[int] = []

    def take(page: list[Player]) -> None:
        nonlocal restored
        for shard, players in _by_shard(world, page).items():
            if guard.holds(shard):
                restored += len(players)
                left.extend(_adopt(world, players, shard))
        if homes is not None and (spread := world.ledger.spread):
            homes.update({p.player_id: partition_of(world, p) for p in page if p.game_id in spread})

    await _restore_drafts(world, drafts, take)
    if rest is None or rest:
        await read_ahead(partial(_load_page, world, rest), take)
    await _load_anew(world, left)
    return restored


async def _load_anew(world: World, player_ids: Sequence[int]) -> None:
    """Load players who were read before they left, as many as a bring-up waits for."""
    waiting = iter(player_ids[:LOADED_ANEW_MAX])

    async def load_some() -> None:
        for player_id in waiting:
            await wait_loaded(world, player_id)

    async with trio.open_nursery() as nursery:
        for _ in range(min(LOADS_AT_ONCE, len(player_ids))):
            nursery.start_soon(load_some)
    if len(player_ids) > LOADED_ANEW_MAX:
        _logger.warning(
            "%d players had just moved when their shard came up; their next calls load %d of them",
            *(len(player_ids), len(player_ids) - LOADED_ANEW_MAX),
        )


async def wait_loaded(world: World, player_id: int) -> None:
    """Load a player who is not in memory, if they live on this node; cancellation ends the wait."""
    with suppress(ActorUnavailable, ActorStopped, Refused):
        await world.players.get_ref(player_id).ask(DescribePlayer())


async def _restore_drafts(
    world: World, drafts: TakenDrafts, take: Callable[[list[Player]], None]
) -> None:
    """Take in online players who were read ahead; read those again who were written since."""
    ready, written = drafts.find_players()

    async def read_written() -> None:
        if written:
            await read_ahead(partial(_load_page_by_id, world, written), take)

    async def take_ready() -> None:
        for start in range(0, len(ready), SLICE):
            await trio.lowlevel.checkpoint()  # what was written is asked for first
            take(ready[start : start + SLICE])

    await read_together(read_written, take_ready)


async def _load_page(
    world: World, shards: Collection[int] | None, before: list[Player] | None
) -> list[Player]:
    """Return the page of online players after another one; the first if there is none before."""
    return await world.accounts.load_online_players(_last_id(before), RESTORE_PAGE, shards)


async def _load_page_by_id(
    world: World, player_ids: Sequence[int], before: list[Player] | None
) -> list[Player]:
    """Return the page of those of some players who are online, likewise."""
    if before and _last_id(before) == max(player_ids):
        return []  # it need not be asked: calls wait meanwhile
    accounts = world.accounts
    return await accounts.load_online_players_by_id(_last_id(before), RESTORE_PAGE, player_ids)


def _last_id(page: list[Player] | None) -> int:
    return page[-1].player_id if page else 0


def _by_shard(world: World, page: Iterable[Player]) -> dict[int, list[Player]]:
    """Return players by the shards where they live; without those whose game is being deleted."""
    together: dict[tuple[int | None, int], list[Player]] = {}
    for player in page:
        together.setdefault((player.shard, player.game_id), []).append(player)
    found: dict[int, list[Player]] = {}
    for (shard, game_id), players in together.items():
        if shard is None and world.ownership and world.ledger.find_shard(game_id) is None:
            continue
        found.setdefault(partition_of(world, players[0]), []).extend(players)
    return found


def _adopt(world: World, players: Sequence[Player], shard: int) -> list[int]:
    """Bring players of a shard to memory; return whom not.

    They have left for another node lately, or were being read anew: they are read when asked.
    """
    index, clock = world.player_index, world.clock
    actors = {player.player_id: PlayerActor(player, index, clock) for player in players}
    world.players.adopt_together(actors, shard)
    if world.ownership is None:
        return []
    return [player_id for player_id in actors if world.players.find_shard(player_id) is None]


async def sweep_for_ever(
    world: World, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
) -> None:
    """Sweep every `sweep_seconds` and save presence every `presence_seconds`, until cancelled."""
    task_status.started()
    saved_at = trio.current_time()
    while True:
        await trio.sleep(world.settings.sweep_seconds)
        await sweep(world)
        if trio.current_time() - saved_at >= world.settings.presence_seconds:
            saved_at = trio.current_time()
            await save_presence(world)


async def sweep(world: World) -> None:
    """Put stale players offline, and take players out of memory who have long been offline.

    Rooms and lobbies are told of members who were offline before this sweep.
    """
    await note_silent_members(world)
    stale_seconds = world.settings.stale_seconds
    silent = world.player_index.list_silent_since(world.clock.monotonic() - stale_seconds)
    await _tell_each(world, silent, LeaveIfStale(stale_seconds))
    for count, player_id in enumerate(world.player_index.list_offline(), 1):
        world.players.passivate(player_id)
        if count % SLICE == 0:
            await trio.lowlevel.checkpoint()
    await rest_pairs(world)


async def save_presence(world: World) -> None:
    """Queue the last signs of life of all players who gave one since the last call."""
    await _tell_each(world, world.player_index.take_unsaved(), SavePresence())


async def save_presence_of(world: World, shard: int) -> None:
    """Queue the last signs of life of all players of a shard who gave one since the last time."""
    unsaved = world.player_index.take_unsaved_of(world.players.list_keys_of(shard))
    for count, player_id in enumerate(unsaved, 1):
        world.players.run_now(player_id, SavePresence())
        if count % TOLD_SLICE == 0:
            await trio.lowlevel.checkpoint()


async def _tell_each(
    world: World, player_ids: Iterable[int], command: Command[PlayerRole, object]
) -> None:
    """Tell active players something, if they can be told now."""
    for count, player_id in enumerate(player_ids, 1):
        player = world.players.find_active(player_id)
        if player is not None:
            player.notify(command)
        if count % TOLD_SLICE == 0:
            await trio.lowlevel.checkpoint()
