"""Plays of clients of a simulated cluster, besides those of which histories are kept elsewhere.

Lobbies leave their marks in the ledger of what is durable.
"""

from __future__ import annotations

import random

import trio
from history_clients import ROOMS, Ask, Book, Client, Scene, at_once

LOBBIES = "/api/matchmaking.php"
PAUSE_SECONDS = 0.05
LOOKS = 3
"""How often a host looks whether there is a room where there should be one."""


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
    for _ in range(LOOKS):
        here = await host.insist("GET", f"{ROOMS}/current")
        assert here["in_room"], f"{host.name} has started a lobby ({status}), and sits in no room"


async def _wander(scene: SimScene, dice: random.Random, guest: Client) -> None:
    """Leave the lobby before it starts, perhaps."""
    if dice.random() < 0.5:
        await trio.sleep(dice.uniform(0.0, PAUSE_SECONDS))
        await guest.call("POST", f"{LOBBIES}/leave")
