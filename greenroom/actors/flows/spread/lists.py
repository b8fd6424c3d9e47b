"""Lists of open rooms and lobbies of a game, merged from all nodes that have partitions of it."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any, TypeVar

import msgspec

from greenroom.actors.kernel.portion import DOCUMENTS_BYTES_MAX
from greenroom.actors.lobby.messages import LobbyListing
from greenroom.actors.room.messages import RoomListing
from greenroom.actors.world.others import Question
from greenroom.actors.world.rooms_and_lobbies import Ruled, find_open
from greenroom.actors.world.world import World

Listed = TypeVar("Listed", bound=Ruled)


class FindRooms(Question, frozen=True):
    """The first open rooms of a game whose names contain something."""

    game_id: int
    search: str
    limit: int


class FindLobbies(Question, frozen=True):
    """The first open lobbies, likewise."""

    game_id: int
    search: str
    limit: int


class FoundRooms(msgspec.Struct, frozen=True, array_like=True):
    """Open rooms of one node, in order."""

    rooms: list[RoomListing]


class ListedLobby(msgspec.Struct, frozen=True, array_like=True):
    """An open lobby, and when its host was last heard of, if their node knows."""

    lobby: LobbyListing
    host_heard_at: int | None

    @property
    def rules(self) -> bytes:
        """Return the rules, a JSON object."""
        return self.lobby.rules


class FoundLobbies(msgspec.Struct, frozen=True, array_like=True):
    """Open lobbies of one node, in order."""

    lobbies: list[ListedLobby]


async def list_rooms(world: World, game_id: int, search: str, limit: int) -> list[RoomListing]:
    """Return a game's rooms with a free seat: most players first, then by name.

    Args:
        world: where.
        game_id: whose.
        search: what the name contains, whatever the case; empty for all.
        limit: how many at most; fewer where their rules are more than `DOCUMENTS_BYTES_MAX`.

    Raises:
        ActorUnavailable: another node of the game does not answer.

    Cancellation: nothing has changed.
    """
    others = world.others
    if others is None or game_id not in world.ledger.spread:
        return await find_open(world.rooms.index, game_id, search, limit)
    question = FindRooms(game_id, search, limit)

    async def gather() -> list[RoomListing]:
        found = await others.gather(game_id, question, FoundRooms)
        return _merge((one.rooms for one in found), _order_of_room, limit)

    return await world.gathered.get(question, gather)


async def list_lobbies(world: World, game_id: int, search: str, limit: int) -> list[ListedLobby]:
    """Return a game's open lobbies with a free seat, oldest first; otherwise as `list_rooms`."""
    question = FindLobbies(game_id, search, limit)
    others = world.others
    if others is None or game_id not in world.ledger.spread:
        return (await find_lobbies(world, question)).lobbies

    async def gather() -> list[ListedLobby]:
        found = await others.gather(game_id, question, FoundLobbies)
        return _merge((one.lobbies for one in found), _order_of_lobby, limit)

    return await world.gathered.get(question, gather)


async def find_rooms(world: World, asked: FindRooms) -> FoundRooms:
    """Answer `FindRooms`."""
    return FoundRooms(await find_open(world.rooms.index, asked.game_id, asked.search, asked.limit))


async def find_lobbies(world: World, asked: FindLobbies) -> FoundLobbies:
    """Answer `FindLobbies`."""
    heard = world.player_index.find_last_heard
    found = await find_open(world.lobbies.index, asked.game_id, asked.search, asked.limit)
    return FoundLobbies([ListedLobby(lobby, heard(lobby.host_id)) for lobby in found])


def _order_of_room(room: RoomListing) -> tuple[int, str, str]:
    return -room.current_players, room.room_name, room.room_id


def _order_of_lobby(found: ListedLobby) -> tuple[int, int, str]:
    """Return what each node orders its lobbies by."""
    lobby = found.lobby
    return lobby.created_at, lobby.created_us, lobby.lobby_id


def _merge(
    parts: Iterable[list[Listed]], order: Callable[[Listed], Any], limit: int
) -> list[Listed]:
    """Merge lists that are in order, as far as they fit."""
    return list(_fitting(islice(heapq.merge(*parts, key=order), limit)))


def _fitting(listed: Iterator[Listed]) -> Iterator[Listed]:
    size = 0
    for number, one in enumerate(listed):
        size += len(one.rules)
        if number and size > DOCUMENTS_BYTES_MAX:
            return
        yield one
