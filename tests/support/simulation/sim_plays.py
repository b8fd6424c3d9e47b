"""Plays of clients of a simulated cluster, besides those of which histories are kept elsewhere.

Bans and log-outs are checked as registers, each read of which must be current: they are promised to
be so at every node. Lobbies leave their marks in the ledger of what is durable.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import trio
from history_bounds import staleness
from history_clients import (
    DATA,
    FRIENDS,
    PLAYERS,
    ROOMS,
    SERVICE,
    Ask,
    Book,
    Client,
    Scene,
    Told,
    at_once,
    nothing,
)

LOBBIES = "/api/matchmaking.php"
PAUSE_SECONDS = 0.05


class SimScene(Scene):
    """A scene that ends when it is told to."""

    def __init__(self, ask: Ask, book: Book, over: trio.Event) -> None:
        super().__init__(ask, book)
        self._over = over

    @property
    def is_over(self) -> bool:
        return self._over.is_set()

    async def wait_over(self) -> None:
        """Wait until nobody should begin anything new."""
        await self._over.wait()


def check_register(scene: SimScene, key: tuple[str, int], initial: Any) -> None:
    """Check that every read of something was current, and forget it."""
    book = scene.book
    operations = book.history.forget(key)
    wrong = staleness(operations, 0.0, initial)
    assert not wrong, f"{key} is older than promised: {wrong[0]}"
    book.checked[key[0]] += len(operations)
    book.open[key[0]] += sum(each.is_open for each in operations)
    book.subjects += 1


async def share_ban(scene: SimScene, dice: random.Random, name: str, *, calls: int = 12) -> None:
    """Ban a player and lift the ban, while their clients knock at every node; then check."""
    owner = Client(scene, name)
    await owner.register()
    service = Client(scene, f"{name} service", SERVICE)
    key = ("ban", owner.player_id)

    async def change(is_banned: bool) -> None:
        word = "ban" if is_banned else "unban"
        body = {"player_id": owner.player_id} | ({"ban_duration": "day"} if is_banned else {})
        told: Told = (key, "write", is_banned, nothing)
        await service.call("POST", f"{PLAYERS}/{word}", body, told)

    async def read(number: int) -> None:
        client = Client(scene, f"{name} {number}", owner.token)
        history = scene.book.history
        operation = history.begin(client.name, key, "read", None, trio.current_time())
        status, _ = await client.call("GET", f"{DATA}/get")
        if status in {200, 403}:
            history.finish(operation, status == 403, trio.current_time())
        else:
            assert status in {0, 429, 500}, f"{status} to a player who may be banned"
            history.drop(operation)

    await switch(scene, change, read, calls)
    check_register(scene, key, initial=False)


async def share_presence(
    scene: SimScene, dice: random.Random, name: str, *, calls: int = 12
) -> None:
    """Log a player out and in, while others look whether they are there; then check."""
    player, onlooker = Client(scene, name), Client(scene, f"{name} onlooker")
    await player.register()
    await onlooker.register()
    key = ("presence", player.player_id)

    async def change(is_gone: bool) -> None:
        method, word = ("POST", "logout") if is_gone else ("PUT", "login")
        told: Told = (key, "write", is_gone, nothing)
        await player.call(method, f"{PLAYERS}/{word}", None, told)

    async def read(number: int) -> None:
        client = Client(scene, f"{name} {number}", onlooker.token)
        told: Told = (key, "read", None, lambda answer: not answer["player"]["is_online"])
        await client.call("POST", f"{FRIENDS}/lookup", {"player_id": player.player_id}, told)

    await switch(scene, change, read, calls)
    check_register(scene, key, initial=False)


async def switch(
    scene: SimScene,
    change: Callable[[bool], Awaitable[None]],
    read: Callable[[int], Awaitable[None]],
    calls: int,
) -> None:
    """Switch something on and off, and have it read meanwhile, and again before it changes."""
    for number in range(calls):
        if scene.is_over:
            return
        is_on = number % 2 == 0
        await at_once(partial(change, is_on), partial(read, 1))
        await at_once(partial(read, 1), partial(read, 2))


async def share_lobby(scene: SimScene, dice: random.Random, name: str) -> None:
    """Open a lobby, fill it, and start it, so that it becomes a room; then end that."""
    host, *guests = [Client(scene, f"{name} {number}") for number in range(3)]
    for client in (host, *guests):
        await client.register()
    lobby_id = ""
    while not lobby_id:
        here = await host.insist("GET", f"{LOBBIES}/current")
        if here["in_matchmaking"]:
            lobby_id = str(here["matchmaking"]["matchmaking_id"])
        else:
            wanted = {"max_players": 4, "can_leave_room": True, "host_switch": True}
            await host.call("POST", f"{LOBBIES}/create", wanted)
    await at_once(
        *(lambda guest=guest: guest.call("POST", f"{LOBBIES}/{lobby_id}/join") for guest in guests)
    )
    await at_once(
        lambda: _start(host),
        *(lambda guest=guest: _wander(scene, dice, guest) for guest in guests),
    )
    for client in (*guests, host):
        while (await client.insist("GET", f"{ROOMS}/current"))["in_room"]:
            await client.call("POST", f"{ROOMS}/leave")
        while (await client.insist("GET", f"{LOBBIES}/current"))["in_matchmaking"]:
            await client.call("POST", f"{LOBBIES}/leave")


async def share_quiet_room(scene: SimScene, dice: random.Random, name: str) -> None:
    """Sit in a room and do nothing, until all is over."""
    host, guest = Client(scene, name), Client(scene, f"{name} guest")
    await host.register()
    await guest.register()
    while not (here := await host.insist("GET", f"{ROOMS}/current"))["in_room"]:
        await host.call("POST", f"{ROOMS}/create", {"max_players": 4})
    while not (await guest.insist("GET", f"{ROOMS}/current"))["in_room"]:
        await guest.call("POST", f"{ROOMS}/{here['room']['room_id']}/join")
    await scene.wait_over()


async def _start(host: Client) -> None:
    """Start the lobby, and see that it is a room then."""
    status = 0
    while status in {0, 429, 500}:
        status, _ = await host.call("POST", f"{LOBBIES}/start")
    here = await host.insist("GET", f"{ROOMS}/current")
    assert here["in_room"], f"{host.name} has started a lobby ({status}), and sits in no room"


async def _wander(scene: SimScene, dice: random.Random, guest: Client) -> None:
    """Leave the lobby before it starts, perhaps."""
    if dice.random() < 0.5:
        await trio.sleep(dice.uniform(0.0, PAUSE_SECONDS))
        await guest.call("POST", f"{LOBBIES}/leave")
