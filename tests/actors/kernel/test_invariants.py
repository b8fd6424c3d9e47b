"""Asserts in actors: a planted bug crashes one actor before anything of it is durable."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, cast

import msgspec
import pytest
from furnished_kit import NOTHING, plain_lobby, plain_room
from world_kit import Arena, describe, identify, open_arena, register

from greenroom import actor_settings
from greenroom.actors.flows.identify import PlayerIdentity
from greenroom.actors.flows.lobbies import create_lobby, join_lobby
from greenroom.actors.flows.rooms import create_room, join_room
from greenroom.actors.friendship.actor import FriendshipActor
from greenroom.actors.friendship.messages import Pair
from greenroom.actors.kernel.clock import SystemClock
from greenroom.actors.kernel.durability import Batch
from greenroom.actors.kernel.errors import ActorCrashed, Refused
from greenroom.actors.kernel.message import Changed
from greenroom.actors.kernel.ref import Ref
from greenroom.actors.lobby import codec as lobby_codec
from greenroom.actors.lobby import rules as lobby_rules
from greenroom.actors.lobby.messages import ReadLobbyStatus, SetLobbyPassword
from greenroom.actors.plans.ledger import Ledger
from greenroom.actors.plans.memory import Memory, Piece
from greenroom.actors.plans.refusals import RoomsRefused
from greenroom.actors.player.actor import PlayerActor
from greenroom.actors.player.messages import PlayerRenamed, Rename
from greenroom.actors.room.messages import (
    DescribeRoom,
    PollUpdates,
    RoomRole,
    SendUpdates,
    SetRoomPassword,
)
from greenroom.actors.room.rules import codec, membership, updates
from greenroom.actors.room.rules.groups import read_sources, read_targets


@pytest.fixture
async def arena(autojump_clock: object) -> AsyncIterator[Arena]:
    async with open_arena() as arena:
        yield arena


ROOM = plain_room(max_players=2, host_switch=False)
LOBBY = plain_lobby(max_players=2, host_switch=False)


@contextmanager
def crashes(text: str) -> Iterator[None]:
    """Expect that an actor crashes, by the assert with this text."""
    with pytest.raises(ActorCrashed) as raised:
        yield
    assert text in str(raised.value.__cause__)


async def come(arena: Arena) -> PlayerIdentity:
    return await identify(arena, (await register(arena)).token)


class Writer:
    label = "player/1"
    generation = 0
    shard = None

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
    room = arena.world.rooms.directory.get_ref(opened.room_id)
    before = len(arena.memory.committed)
    right = codec.entry

    with monkeypatch.context() as planted:
        planted.setattr(codec, "entry", lambda key, n, *more: right(key, n + 1, *more))
        with crashes("an entry is missing, or comes twice"):
            await room.ask(SetRoomPassword(ada.player_id, b"hash"))

    assert len(arena.memory.committed) == before
    assert not (await room.ask(DescribeRoom())).has_password
    await room.ask(SetRoomPassword(ada.player_id, b"hash"))
    assert (await room.ask(DescribeRoom())).has_password


async def test_a_gap_in_a_lobbys_journal_is_never_written(
    arena: Arena, monkeypatch: pytest.MonkeyPatch
):
    ada = await come(arena)
    opened = await create_lobby(arena.world, arena.game.game, ada.player, LOBBY)
    lobby = arena.world.lobbies.directory.get_ref(opened.lobby_id)
    before = len(arena.memory.committed)
    right = lobby_codec.entry

    with monkeypatch.context() as planted:
        planted.setattr(lobby_codec, "entry", lambda key, n, *more: right(key, n + 1, *more))
        with crashes("an entry is missing, or comes twice"):
            await lobby.ask(SetLobbyPassword(ada.player_id, b"hash"))

    assert len(arena.memory.committed) == before
    assert not (await lobby.ask(ReadLobbyStatus(ada.player_id))).lobby.has_password
    await lobby.ask(SetLobbyPassword(ada.player_id, b"hash"))
    assert (await lobby.ask(ReadLobbyStatus(ada.player_id))).lobby.has_password


async def open_room(arena: Arena, host: PlayerIdentity) -> str:
    return (await create_room(arena.world, arena.game.game, host.player, ROOM)).room_id


async def open_lobby(arena: Arena, host: PlayerIdentity) -> str:
    return (await create_lobby(arena.world, arena.game.game, host.player, LOBBY)).lobby_id


@pytest.mark.parametrize(
    ("rules", "open_place", "join"),
    [(membership, open_room, join_room), (lobby_rules, open_lobby, join_lobby)],
    ids=["room", "lobby"],
)
async def test_a_seat_too_many_is_never_written(
    arena: Arena,
    monkeypatch: pytest.MonkeyPatch,
    rules: Any,
    open_place: Callable[[Arena, PlayerIdentity], Awaitable[str]],
    join: Callable[..., Awaitable[object]],
):
    world, game = arena.world, arena.game
    host, second, third = [await come(arena) for _ in range(3)]
    where = await open_place(arena, host)
    await join(world, game.game_id, second.player, where, NOTHING)
    before = len(arena.memory.committed)
    right = rules.decide_join

    def decide(place: Any, *arguments: Any) -> Any:
        return right(msgspec.structs.replace(place, max_players=16), *arguments)

    with monkeypatch.context() as planted:
        planted.setattr(rules, "decide_join", decide)
        with crashes("a seat too many"):
            await join(world, game.game_id, third.player, where, NOTHING)

    assert len(arena.memory.committed) == before
    with pytest.raises(Refused, match="full"):
        await join(world, game.game_id, third.player, where, NOTHING)


def skip_a_number(planted: pytest.MonkeyPatch) -> None:
    def deliver(room: Any, sender_id: int, target_id: int, number: int) -> Any:
        return right(room, sender_id, target_id, number + 1)

    right = updates._delivery
    planted.setattr(updates, "_delivery", deliver)


def take_off_too_many_bytes(planted: pytest.MonkeyPatch) -> None:
    def cut(room: Any, kept_from: int) -> None:
        right(room, kept_from)
        room.kept_bytes -= 1_000

    right = updates._cut
    planted.setattr(updates, "_cut", cut)


@pytest.mark.parametrize(
    ("plant", "text"),
    [
        (skip_a_number, "updates are numbered in order"),
        (take_off_too_many_bytes, "more bytes of updates fell off than were kept"),
    ],
)
async def test_updates_that_are_numbered_or_counted_wrongly_are_never_written(
    arena: Arena,
    monkeypatch: pytest.MonkeyPatch,
    plant: Callable[[pytest.MonkeyPatch], None],
    text: str,
):
    host, mate = await come(arena), await come(arena)
    room_id = await open_room(arena, host)
    await join_room(arena.world, arena.game.game_id, mate.player, room_id, NOTHING)
    room = arena.world.rooms.directory.get_ref(room_id)
    await send(room, host.player_id)
    before = len(arena.memory.committed)

    with monkeypatch.context() as planted:
        plant(planted)
        with crashes(text):
            await send(room, host.player_id)

    assert len(arena.memory.committed) == before
    await send(room, host.player_id)
    page = await room.ask(PollUpdates(mate.player_id, read_sources("all", None), None))
    assert len(page.updates) == 2


async def send(room: Ref[RoomRole], player_id: int) -> None:
    await room.ask(SendUpdates(player_id, read_targets("others", None), "chat", b"{}"))


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
        with crashes("an event of another player"):
            await player.ask(Rename("Eve"))

    assert (await describe(arena, ada.player_id)).player_name == "Ada"


def test_a_pair_has_its_lower_id_first():
    with pytest.raises(AssertionError, match="lower id first"):
        FriendshipActor(
            Pair(1, 2, 1),
            None,
            clock=SystemClock(),
            limits=actor_settings.friend_limits(),
            is_gone=lambda _: False,
        )


def test_nothing_gives_back_more_memory_than_it_held():
    ledger = Ledger()
    memory = Memory("rooms", ledger, RoomsRefused)
    piece = Piece(memory, ledger.get_game_usage(1), "")
    piece.resize(10)
    with pytest.raises(AssertionError, match="more was given back"):
        piece.resize(-1)
