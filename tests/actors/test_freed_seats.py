"""Seats of players who have left: theirs until that is durable, whatever happens meanwhile."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from functools import partial
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
import trio
from furnished_kit import NOTHING, plain_lobby, plain_room
from trio.testing import MockClock, wait_all_tasks_blocked
from world_kit import Arena, identify, open_arena, register

from greenroom.actors.flows.friends import (
    Addressee,
    accept_friendship,
    request_friendship,
)
from greenroom.actors.flows.identify import PlayerIdentity
from greenroom.actors.flows.invites import invite_friend
from greenroom.actors.flows.lobbies import (
    answer_request,
    create_lobby,
    join_lobby,
    read_request,
    request_to_join,
    start_lobby,
)
from greenroom.actors.flows.rooms import create_room, join_room
from greenroom.actors.kernel.errors import (
    ActorCrashed,
    ActorUnavailable,
    Refused,
    StorageUnavailable,
)
from greenroom.actors.lobby.messages import (
    EndLobby,
    KickFromLobby,
    LeaveLobby,
    PutOutOfLobby,
    RemoveLobby,
    StopLobby,
)
from greenroom.actors.lobby.refusals import PlayerIsSeated
from greenroom.actors.room.index import RoomIndex
from greenroom.actors.room.messages import (
    EndRoom,
    JoinRoom,
    KickMember,
    LeaveRoom,
    PutOut,
    StopRoom,
)
from greenroom.actors.room.rules.refusals import AlreadyInRoom, JoiningInLobby
from greenroom.http.areas import matchmaking_seat, rooms


class Scene(NamedTuple):
    """A room or a lobby with a host and a guest, and another room."""

    arena: Arena
    kind: str
    place_id: str
    host: PlayerIdentity
    guest: PlayerIdentity
    other_id: str
    way: str = ""
    """How the guest leaves."""

    @property
    def place(self) -> Any:
        """Return the rooms, or the lobbies."""
        return self.arena.world.rooms if self.kind == "room" else self.arena.world.lobbies

    @property
    def seat(self) -> str | None:
        """Return where the guest seems to sit, of this kind."""
        found: str | None = self.place.seats.find_seat(self.guest.player_id)
        return found

    async def free(self) -> None:
        """Free the guest's seat, one way or another."""
        command = WAYS[self.kind][self.way](self.host.player_id, self.guest.player_id)
        await self.place.directory.get_ref(self.place_id).ask(command)

    async def join_other(self) -> None:
        """Have the guest join the other room."""
        game_id, player = self.arena.game.game_id, self.guest.player
        await join_room(self.arena.world, game_id, player, self.other_id, NOTHING)

    async def read_current(self) -> Any:
        """Have the guest ask where they are."""
        caller: Any = SimpleNamespace(world=self.arena.world, player_id=self.guest.player_id)
        return await (rooms if self.kind == "room" else matchmaking_seat).current(caller)

    async def is_in(self) -> bool:
        """Return whether the guest is told that they are in."""
        told = await self.read_current()
        return bool(told.in_room if self.kind == "room" else told.in_matchmaking)


WAYS: dict[str, dict[str, Callable[[int, int], Any]]] = {
    "room": {
        "leave": lambda _, guest: LeaveRoom(guest),
        "kick": KickMember,
        "put out": lambda _, guest: PutOut(guest, "banned"),
        "stop": lambda host, _: StopRoom(host),
        "end": lambda *_: EndRoom("game_deleted"),
    },
    "lobby": {
        "leave": lambda _, guest: LeaveLobby(guest),
        "kick": KickFromLobby,
        "put out": lambda _, guest: PutOutOfLobby(guest, "banned"),
        "stop": lambda host, _: StopLobby(host),
        "remove": lambda host, _: RemoveLobby(host),
        "end": lambda *_: EndLobby("game_deleted"),
    },
}
ALL = [(kind, way) for kind, ways in WAYS.items() for way in ways]


async def come(arena: Arena) -> PlayerIdentity:
    return await identify(arena, (await register(arena)).token)


async def open_scene(arena: Arena, kind: str) -> Scene:
    world, game = arena.world, arena.game
    host, guest, third = await come(arena), await come(arena), await come(arena)
    other = await create_room(world, game.game, third.player, plain_room())
    if kind == "room":
        place_id = (await create_room(world, game.game, host.player, plain_room())).room_id
        await join_room(world, game.game_id, guest.player, place_id, NOTHING)
    else:
        place_id = (await create_lobby(world, game.game, host.player, plain_lobby())).lobby_id
        await join_lobby(world, game.game_id, guest.player, place_id, NOTHING)
    return Scene(arena, kind, place_id, host, guest, other.room_id)


@pytest.fixture
async def arena() -> AsyncIterator[Arena]:
    async with open_arena() as arena:
        yield arena


@pytest.fixture(params=ALL, ids=" ".join)
async def scene(arena: Arena, request: pytest.FixtureRequest, autojump_clock: MockClock) -> Scene:
    kind, way = request.param
    return (await open_scene(arena, kind))._replace(way=way)


def crash(*_: object) -> None:
    raise RuntimeError("a bug")


def break_commits(arena: Arena, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let turns crash when all of their events have been applied."""
    monkeypatch.setattr(arena.memory, "submit", crash)


async def check_that_the_guest_stayed(scene: Scene) -> None:
    """Check this while the room or lobby is being brought up, and when it is back."""
    told: list[bool] = []

    async def look() -> None:
        told.append(await scene.is_in())

    assert scene.seat == scene.place_id
    with pytest.raises((AlreadyInRoom, JoiningInLobby)):
        await scene.join_other()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(look)
        await wait_all_tasks_blocked()
        assert not told, "nobody knows yet"
        scene.arena.memory.journals.away = False
    assert told == [True]
    assert scene.seat == scene.place_id


async def test_a_seat_that_a_crashed_turn_would_have_freed_stays_taken(
    arena: Arena, scene: Scene, monkeypatch: pytest.MonkeyPatch
):
    with monkeypatch.context() as patch:
        break_commits(arena, patch)
        with pytest.raises(ActorCrashed):
            await scene.free()
    arena.memory.journals.away = True
    await check_that_the_guest_stayed(scene)


async def test_a_seat_stays_taken_when_the_database_refuses_that_it_is_freed(
    arena: Arena, scene: Scene, nursery: trio.Nursery
):
    memory = arena.memory
    memory.automatic = False

    async def free() -> None:
        with suppress(ActorCrashed):
            await scene.free()

    nursery.start_soon(free)
    await wait_all_tasks_blocked()
    assert scene.seat == scene.place_id
    memory.journals.away = True
    memory.refuse_first()
    memory.automatic = True
    await check_that_the_guest_stayed(scene)


async def test_a_player_sits_elsewhere_once_it_is_durable_that_they_have_left(
    arena: Arena, scene: Scene, nursery: trio.Nursery
):
    arena.memory.automatic = False
    told: list[bool] = []

    async def look() -> None:
        told.append(await scene.is_in())

    nursery.start_soon(scene.free)
    await wait_all_tasks_blocked()
    nursery.start_soon(look)
    with pytest.raises((AlreadyInRoom, JoiningInLobby)):
        await scene.join_other()
    await wait_all_tasks_blocked()
    assert not told, "it is not durable yet"
    arena.memory.automatic = True
    arena.memory.commit()
    assert scene.seat is None
    await scene.join_other()
    await wait_all_tasks_blocked()
    assert told == [False]


@pytest.mark.parametrize("loss", ["half way", "applied", "refused"])
async def test_members_of_a_lobby_whose_start_is_lost_are_in_the_lobby(
    arena: Arena,
    loss: str,
    monkeypatch: pytest.MonkeyPatch,
    nursery: trio.Nursery,
    autojump_clock: MockClock,
):
    scene = await open_scene(arena, "lobby")
    world, memory = arena.world, arena.memory
    memory.automatic = loss != "refused"

    async def start() -> None:
        with suppress(ActorCrashed):
            await start_lobby(world, scene.host.player_id)

    with monkeypatch.context() as patch:
        if loss == "half way":
            patch.setattr(RoomIndex, "expect", crash)
        elif loss == "applied":
            break_commits(arena, patch)
        nursery.start_soon(start)
        await wait_all_tasks_blocked()
    if loss == "refused":
        assert world.rooms.index.find_seat(scene.guest.player_id) is not None
        memory.refuse_first()
        memory.automatic = True
    with pytest.raises((AlreadyInRoom, JoiningInLobby)):
        await scene.join_other()
    await trio.sleep(3)
    assert scene.seat == scene.place_id
    assert await scene.is_in()


async def test_nobody_is_told_of_the_room_of_a_start_that_is_lost(
    arena: Arena, nursery: trio.Nursery, autojump_clock: MockClock
):
    scene = await open_scene(arena, "lobby")
    told: list[object] = []

    async def start() -> None:
        with suppress(ActorCrashed):
            await start_lobby(arena.world, scene.host.player_id)

    async def look() -> None:
        try:
            told.append(await scene._replace(kind="room").is_in())
        except ActorUnavailable:
            told.append(None)

    arena.memory.automatic = False
    nursery.start_soon(start)
    await wait_all_tasks_blocked()
    nursery.start_soon(look)
    await trio.sleep(1)
    assert not told, "it is not durable yet"
    arena.memory.refuse_first()
    arena.memory.automatic = True
    await trio.sleep(3)
    assert told in ([False], [None])
    assert await scene._replace(kind="room").is_in() is False
    assert await scene.is_in()


async def test_a_host_who_answers_waits_until_the_requesters_seat_is_durable(
    arena: Arena, nursery: trio.Nursery, autojump_clock: MockClock
):
    """A seat that is lost costs the requester nothing; one that stands costs them the request."""
    scene, asker = await open_scene(arena, "room"), await come(arena)
    world, game = arena.world, arena.game
    host = await come(arena)
    lobby = await create_lobby(world, game.game, host.player, plain_lobby(join_by_requests=True))
    request_id = await request_to_join(world, game.game_id, asker.player, lobby.lobby_id, b"{}")
    call = partial(answer_request, world, game.game_id, host.player_id, request_id)
    for is_lost in (True, False):
        approve = partial(call, is_approved=True)
        told = await ask_during_join(scene, asker, approve, nursery, is_lost=is_lost)
        request, _ = await read_request(world, game.game_id, asker.player_id, request_id)
        if is_lost:
            assert (told, request.status) == (ActorCrashed, "pending")
        else:
            assert (told, request.status) == (PlayerIsSeated, "rejected")


@pytest.mark.parametrize("is_lost", [False, True])
async def test_nobody_is_told_that_a_friend_is_seated_until_that_is_durable(
    arena: Arena, nursery: trio.Nursery, autojump_clock: MockClock, *, is_lost: bool
):
    scene, friend = await open_scene(arena, "room"), await come(arena)
    world, game, me = arena.world, arena.game, scene.guest
    addressee = Addressee(None, friend.player_id)
    await request_friendship(world, game.game, me.player_id, addressee)
    await accept_friendship(world, game.game_id, friend.player_id, me.player_id)
    invite = partial(invite_friend, world, game.game_id, me.player, friend.player_id)
    told = await ask_during_join(scene, friend, invite, nursery, is_lost=is_lost)
    assert told is (ActorCrashed if is_lost else PlayerIsSeated)


async def ask_during_join(
    scene: Scene,
    player: PlayerIdentity,
    call: Callable[[], Awaitable[object]],
    nursery: trio.Nursery,
    *,
    is_lost: bool,
) -> type[Exception]:
    """Call while a player's join is not durable, and return how that is refused afterwards."""
    memory = scene.arena.memory
    told: list[type[Exception]] = []
    memory.automatic = False
    nursery.start_soon(try_to_join, scene, player)
    await wait_all_tasks_blocked()
    nursery.start_soon(note_refusal, call, told)
    await wait_all_tasks_blocked()
    assert not told, "it is not durable yet"
    memory.automatic = True
    if is_lost:
        memory.refuse_first()
    else:
        memory.commit()
    await trio.sleep(3)
    (refusal,) = told
    return refusal


async def try_to_join(scene: Scene, player: PlayerIdentity) -> None:
    """Join the other room, unless that is lost."""
    world, game_id = scene.arena.world, scene.arena.game.game_id
    with suppress(ActorCrashed):
        await join_room(world, game_id, player.player, scene.other_id, NOTHING)


async def note_refusal(call: Callable[[], Awaitable[object]], told: list[type[Exception]]) -> None:
    try:
        await call()
    except (Refused, ActorCrashed, StorageUnavailable) as error:
        told.append(type(error))


@pytest.mark.parametrize("kind", ["room", "lobby"])
async def test_nobody_is_told_of_a_seat_that_a_crashed_turn_has_not_given(
    arena: Arena,
    kind: str,
    monkeypatch: pytest.MonkeyPatch,
    autojump_clock: MockClock,
):
    scene = await open_scene(arena, kind)
    world = arena.world
    late = await come(arena)
    join = join_room if kind == "room" else join_lobby
    with monkeypatch.context() as patch:
        break_commits(arena, patch)
        with pytest.raises(ActorCrashed):
            await join(world, arena.game.game_id, late.player, scene.place_id, NOTHING)
    with pytest.raises(Refused) as refused:
        await create_room(world, arena.game.game, late.player, plain_room())
    with pytest.raises(StorageUnavailable):
        await world.confirm(refused.value, late.player_id)
    await create_room(world, arena.game.game, late.player, plain_room())
    with pytest.raises(AlreadyInRoom) as sound:
        await create_room(world, arena.game.game, late.player, plain_room())
    await world.confirm(sound.value, late.player_id)


@pytest.mark.parametrize("is_given", [False, True])
async def test_nobody_is_told_of_a_seat_that_is_only_claimed(
    arena: Arena, nursery: trio.Nursery, autojump_clock: MockClock, *, is_given: bool
):
    """A second call of somebody whose first join has no answer yet waits for what comes of that."""
    scene, late = await open_scene(arena, "room"), await come(arena)
    world = arena.world
    told: list[type[Exception]] = []

    async def join_again() -> None:
        try:
            await scene._replace(guest=late).join_other()
        except Refused as refusal:
            await world.confirm(refusal, late.player_id)
            told.append(type(refusal))

    again = partial(note_refusal, join_again, told)
    with world.seats.claim(late.player_id, "room", AlreadyInRoom, JoiningInLobby):
        nursery.start_soon(again)
        await wait_all_tasks_blocked()
        assert not told
        if is_given:
            room = world.rooms.directory.get_ref(scene.place_id)
            await room.ask(
                JoinRoom(
                    player_id=late.player_id,
                    player_name="Late",
                    player_data=b"{}",
                    password=None,
                    join_token=None,
                )
            )
    await wait_all_tasks_blocked()
    assert told == [AlreadyInRoom if is_given else StorageUnavailable]
