"""Plays of clients of a simulated cluster, besides those of which histories are kept elsewhere.

Lobbies leave their marks in the ledger of what is durable.
"""

from __future__ import annotations

import random
from functools import partial

import trio
from history_bounds import staleness
from history_clients import (
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

GAME = "/api/game_data.php/game"
LOBBIES = "/api/matchmaking.php"
CALLS_AT_REST = 10
REFUSED_AT_REST_MAX = 2
"""A node may still end that had been cut off, and another take over from it."""
PAUSE_SECONDS = 0.05
LOOKS = 3
"""How often a host looks whether there is a room where there should be one."""


class SimScene(Scene):
    """A scene that ends when it is told to."""

    def __init__(self, ask: Ask, book: Book, over: trio.Event, game: int = 0) -> None:
        super().__init__(ask, book)
        self.game = game
        """The number of the game that it is played in."""
        self._over = over

    @property
    def is_over(self) -> bool:
        return self._over.is_set()

    async def wait_over(self) -> None:
        """Wait until nobody should begin anything new."""
        await self._over.wait()


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
    """Sit in a room and do nothing, until all is over; then be found there by way of any node."""
    host, guest = Client(scene, name), Client(scene, f"{name} guest")
    await host.register()
    await guest.register()
    while not (here := await host.insist("GET", f"{ROOMS}/current"))["in_room"]:
        await host.call("POST", f"{ROOMS}/create", {"max_players": 4})
    while not (await guest.insist("GET", f"{ROOMS}/current"))["in_room"]:
        await guest.call("POST", f"{ROOMS}/{here['room']['room_id']}/join")
    await scene.wait_over()
    refused = 0
    for _ in range(CALLS_AT_REST):
        status, _ = await guest.call("GET", f"{ROOMS}/current")
        refused += status == 429
    assert refused <= REFUSED_AT_REST_MAX, f"{guest.name} was refused {refused} times at rest"


async def share_two_rooms(scene: SimScene, dice: random.Random, name: str) -> None:
    """Have two clients of one player join two rooms at once, again and again."""
    hosts = [Client(scene, f"{name} host {number}") for number in range(2)]
    guest = Client(scene, name)
    for client in (*hosts, guest):
        await client.register()
    twin = Client(scene, f"{name} twin", guest.token)
    while not scene.is_over:
        joins = [f"{ROOMS}/{await _room_of(host)}/join" for host in hosts]
        await at_once(partial(_join, guest, joins[0]), partial(_join, twin, joins[1]))
        while (await guest.insist("GET", f"{ROOMS}/current"))["in_room"]:
            await guest.call("POST", f"{ROOMS}/leave")
        if dice.random() < 0.5:
            break
    for host in hosts:
        while (await host.insist("GET", f"{ROOMS}/current"))["in_room"]:
            await host.call("POST", f"{ROOMS}/stop")


async def _join(client: Client, path: str) -> None:
    await client.call("POST", path)


async def _room_of(host: Client) -> str:
    """Return the room of a player, who opens one if they have none."""
    while not (here := await host.insist("GET", f"{ROOMS}/current"))["in_room"]:
        await host.call("POST", f"{ROOMS}/create", {"max_players": 4})
    return str(here["room"]["room_id"])


async def share_game(scene: SimScene, name: str) -> None:
    """Replace the document of a game until all is over, while others read it; then check.

    While it is being replaced, nodes may show different ones. Once that is answered, none may show
    an older one.
    """
    key = ("game", scene.game)
    is_done = trio.Event()

    async def write() -> None:
        service, number = Client(scene, f"{name} service", SERVICE), 0
        while not scene.is_over:
            number += 1
            told: Told = (key, "write", number, nothing)
            await service.call("PUT", f"{GAME}/update", {"n": number}, told)
        is_done.set()

    async def read(number: int) -> None:
        client = Client(scene, f"{name} {number}")
        told: Told = (key, "read", None, lambda answer: answer["data"].get("n"))
        while not is_done.is_set():
            await client.call("GET", f"{GAME}/get", None, told)

    await at_once(write, lambda: read(1), lambda: read(2))
    book = scene.book
    operations = book.history.forget(key)
    wrong = staleness(operations, 0.0)
    assert not wrong, f"{key} is older than promised: {wrong[0]}"
    book.checked[key[0]] += len(operations)
    book.open[key[0]] += sum(each.is_open for each in operations)
    book.subjects += 1


async def _start(host: Client) -> None:
    """Start the lobby, and see that it is a room then."""
    status = 0
    while status in {0, 429, 500}:
        status, _ = await host.call("POST", f"{LOBBIES}/start")
    for _ in range(LOOKS):
        here = await host.insist("GET", f"{ROOMS}/current")
        assert here["in_room"], f"{host.name} has started a lobby ({status}), and sits in no room"


async def _wander(scene: SimScene, dice: random.Random, guest: Client) -> None:
    """Leave the lobby before it starts, perhaps."""
    if dice.random() < 0.5:
        await trio.sleep(dice.uniform(0.0, PAUSE_SECONDS))
        await guest.call("POST", f"{LOBBIES}/leave")
