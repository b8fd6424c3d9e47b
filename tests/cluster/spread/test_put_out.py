"""A player who is banned or deleted loses their seat, though their partition moves meanwhile."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from spread_kit import Client, Hosting, Spread, SpreadNode
from world_kit import Arena

from greenroom.actors.flows.bans import ban_player
from greenroom.actors.flows.deletion import delete_player
from greenroom.actors.flows.lookup import ask_player_of
from greenroom.actors.flows.presence import put_out
from greenroom.actors.kernel.errors import Moved
from greenroom.actors.world.seats import Seats


async def ban(at: SpreadNode, pair: Hosting) -> None:
    game_id = pair.guest.arena.game.game_id
    await ban_player(at.world, game_id, pair.guest.player_id, "hour", None)


async def delete(at: SpreadNode, pair: Hosting) -> None:
    await delete_player(at.world, pair.guest.player_id)


@pytest.mark.parametrize("end", [ban, delete])
async def test_where_a_partition_is_just_being_brought_up_nobody_is_put_out(
    spread: Spread, pair: Hosting, end: Callable[[SpreadNode, Hosting], Awaitable[None]]
) -> None:
    """Memory does not say yet who sits where."""
    at = spread.nodes[1]
    at.shards.shut([pair.shard])
    with pytest.raises(Moved):
        await end(at, pair)
    at.shards.open([pair.shard])
    assert await pair.list_members() == [pair.host.player_id, pair.guest.player_id]
    await end(at, pair)
    assert await pair.list_members() == [pair.host.player_id]


async def test_where_memory_is_lost_while_a_seat_is_waited_for_nobody_counts_as_put_out(
    spread: Spread, pair: Hosting, monkeypatch: pytest.MonkeyPatch
) -> None:
    at, game_id = spread.nodes[1], pair.guest.arena.game.game_id

    async def lose_memory(*_: object) -> None:
        at.lapse()
        at.regain()

    monkeypatch.setattr(Seats, "wait_unclaimed", lose_memory)
    with pytest.raises(Moved):
        await put_out(at.world, game_id, pair.guest.player_id)
    await at.bring_up_all()
    assert await pair.list_members() == [pair.host.player_id, pair.guest.player_id]


async def test_who_is_banned_as_their_partition_leaves_is_put_out_by_its_next_owner(
    spread: Spread, arena: Arena, pair: Hosting, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked_by = "greenroom.actors.flows.bans.ask_player_of"

    async def ban_and_leave(*asked: Any) -> Any:
        banned = await ask_player_of(*asked)
        monkeypatch.undo()
        await spread.give(pair.shard, spread.nodes[0])
        return banned

    monkeypatch.setattr(asked_by, ban_and_leave)
    body = {"player_id": pair.guest.player_id, "ban_duration": "hour"}
    await Client(spread.nodes[1], arena).done("POST", "game_players.php/ban", body, admin=True)
    assert spread.owner(pair.shard) is spread.nodes[0]
    assert await pair.list_members() == [pair.host.player_id]
