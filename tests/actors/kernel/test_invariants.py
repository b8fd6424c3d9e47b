"""Asserts in actors: a planted bug crashes one actor before anything of it is durable."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, cast

import pytest
from world_kit import Arena, describe, identify, open_arena, register

from greenroom.actors.flows.rooms import NewRoom, create_room
from greenroom.actors.kernel.clock import SystemClock
from greenroom.actors.kernel.durability import Batch
from greenroom.actors.kernel.errors import ActorCrashed
from greenroom.actors.kernel.message import Changed
from greenroom.actors.plans.ledger import Ledger
from greenroom.actors.plans.memory import Memory, Piece
from greenroom.actors.plans.refusals import RoomsRefused
from greenroom.actors.player.actor import PlayerActor
from greenroom.actors.player.messages import PlayerRenamed, Rename
from greenroom.actors.room.messages import DescribeRoom, SetRoomPassword
from greenroom.actors.room.rules import codec
from greenroom.actors.social.actor import FriendshipActor
from greenroom.actors.social.messages import FriendLimits, Pair


@pytest.fixture
async def arena(autojump_clock: object) -> AsyncIterator[Arena]:
    async with open_arena() as arena:
        yield arena


ROOM = NewRoom(
    room_name=None,
    password=None,
    max_players=2,
    host_switch=False,
    realtime=False,
    rules=b"{}",
    player_data=b"{}",
)


class Writer:
    label = "player/1"
    generation = 0

    def reject(self, error: Exception) -> None: ...


def test_a_batch_settles_once_and_rejects_nobody_afterwards():
    batch = Batch()
    batch.settle()
    with pytest.raises(AssertionError, match="settles once"):
        batch.settle()
    with pytest.raises(AssertionError, match="rejects nobody"):
        batch.reject(Writer())


async def test_a_gap_in_a_journal_is_never_written(arena: Arena, monkeypatch: pytest.MonkeyPatch):
    ada = await identify(arena, (await register(arena)).token)
    opened = await create_room(arena.world, arena.game.game, ada.player, ROOM)
    room = arena.world.rooms.directory.ref(opened.room_id)
    before = len(arena.memory.committed)
    right = codec.entry

    with monkeypatch.context() as planted:
        planted.setattr(codec, "entry", lambda key, n, event: right(key, n + 1, event))
        with pytest.raises(ActorCrashed):
            await room.ask(SetRoomPassword(ada.player_id, b"hash"))

    assert len(arena.memory.committed) == before
    assert not (await room.ask(DescribeRoom())).has_password
    await room.ask(SetRoomPassword(ada.player_id, b"hash"))
    assert (await room.ask(DescribeRoom())).has_password


async def test_an_event_of_another_player_is_never_applied(
    arena: Arena, monkeypatch: pytest.MonkeyPatch
):
    ada = await register(arena, "Ada")
    player = (await identify(arena, ada.token)).player

    def rename(_: PlayerActor, command: Rename) -> Changed[None]:
        return Changed(None, PlayerRenamed(ada.player_id + 1, command.player_name, 1))

    with monkeypatch.context() as planted:
        handlers = cast("dict[Any, Any]", PlayerActor.handlers)
        planted.setitem(handlers, Rename, rename)
        with pytest.raises(ActorCrashed):
            await player.ask(Rename("Eve"))

    assert (await describe(arena, ada.player_id)).player_name == "Ada"


def test_a_pair_has_its_lower_id_first():
    with pytest.raises(AssertionError, match="lower id first"):
        FriendshipActor(
            Pair(1, 2, 1),
            None,
            clock=SystemClock(),
            limits=FriendLimits(),
            is_gone=lambda _: False,
        )


def test_nothing_gives_back_more_memory_than_it_held():
    ledger = Ledger()
    memory = Memory("rooms", ledger, RoomsRefused)
    piece = Piece(memory, ledger.usage_of_game(1), "")
    piece.resize(10)
    with pytest.raises(AssertionError, match="more was given back"):
        piece.resize(-1)
