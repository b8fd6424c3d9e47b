"""A room that a few clients come to and part from, while they tell each other numbers."""

from __future__ import annotations

import random
from functools import partial
from typing import Any

from history_clients import ROOMS, Client, Scene, Told, at_once, nothing

SEATS = 3
"""One less than there are clients."""
CLIENTS = 4


class Gathering:
    """The clients of one room, which is the only one that they ever sit in."""

    def __init__(self, scene: Scene, dice: random.Random, name: str) -> None:
        self._scene = scene
        self._dice = dice
        self.clients = [Client(scene, f"{name} {number}") for number in range(CLIENTS)]
        self._room_id = ""
        self._sent = 0
        self._numbers: dict[str, int] = {}
        """By update: what was told with it."""
        self._cursors: dict[int, str] = {}

    async def play(self, calls: int) -> None:
        """Play for so many calls of each client, part, and check."""
        for client in self.clients:
            await client.register()
        await self._open()
        await at_once(
            *(lambda client=client: self._act_on(client, calls) for client in self.clients)
        )
        for client in self.clients:
            await self._part(client)
        inboxes = [("inbox", self._inbox(client.player_id)) for client in self.clients]
        self._scene.book.check(("room", self._room_id), *inboxes)

    def _inbox(self, player_id: int) -> tuple[str, int]:
        return self._room_id, player_id

    async def _open(self) -> None:
        """Create the room, whichever answer gets lost; it is nobody else's until it is known."""
        host = self.clients[0]
        while not self._room_id:
            here = await host.insist("GET", f"{ROOMS}/current")
            if here["in_room"]:
                self._room_id = str(here["room"]["room_id"])
            else:
                await host.call("POST", f"{ROOMS}/create", {"max_players": SEATS})
        history, room = self._scene.book.history, ("room", self._room_id)
        own_id = host.player_id
        history.finish(history.begin("opened", room, "open", (own_id, SEATS, (own_id,))))
        history.finish(history.begin("opened", ("inbox", self._inbox(own_id)), "come"))

    async def _act_on(self, client: Client, calls: int) -> None:
        for _ in range(calls):
            if self._scene.is_over:
                return
            await self._act(client)

    async def _act(self, client: Client) -> None:
        match self._dice.randrange(16):
            case 0:
                await self._leave(client)
            case 1:
                await self._kick(client)
            case 2 | 3 | 4:
                await self._join(client)
            case 5 | 6:
                await self._look(client)
            case 7 | 8 | 9 | 10:
                await self._send(client)
            case _:
                await self._poll(client)

    async def _join(self, client: Client) -> None:
        own_id = client.player_id
        path = f"{ROOMS}/{self._room_id}/join"
        room: Told = (("room", self._room_id), "join", own_id, nothing)
        inbox: Told = (("inbox", self._inbox(own_id)), "come", None, nothing)
        await client.call("POST", path, None, room, inbox)

    async def _leave(self, client: Client) -> int:
        own_id = client.player_id
        room: Told = (("room", self._room_id), "leave", own_id, nothing)
        inbox: Told = (("inbox", self._inbox(own_id)), "gone", None, nothing)
        status, _ = await client.call("POST", f"{ROOMS}/leave", None, room, inbox)
        return status

    async def _kick(self, client: Client) -> None:
        target = self._dice.choice(self.clients).player_id
        room: Told = (("room", self._room_id), "kick", (client.player_id, target), nothing)
        inbox: Told = (("inbox", self._inbox(target)), "gone", None, nothing)
        await client.call("POST", f"{ROOMS}/kick", {"player_id": target}, room, inbox)

    async def _look(self, client: Client) -> None:
        def read(answer: Any) -> object:
            (host,) = [seat["player_id"] for seat in answer["players"] if seat["is_host"]]
            return int(host), tuple(int(seat["player_id"]) for seat in answer["players"])

        room: Told = (("room", self._room_id), "roster", client.player_id, read)
        await client.call("GET", f"{ROOMS}/players", None, room)

    async def _send(self, client: Client) -> None:
        self._sent += 1
        word = self._dice.choice(["all", "host", "others"])
        body = {"target_players": word, "type": "n", "data": {"n": self._sent}}
        told: list[Told] = [
            (
                ("inbox", self._inbox(each.player_id)),
                "send",
                self._sent,
                partial(_is_target, each.player_id),
            )
            for each in self.clients
        ]
        await client.call("POST", f"{ROOMS}/updates", body, *told)

    async def _poll(self, client: Client) -> None:
        own_id = client.player_id
        cursor = self._cursors.get(own_id, "")

        def read(page: Any) -> object:
            found = {each["update_id"]: int(each["data"]["n"]) for each in page["updates"]}
            self._numbers |= found
            if page["last_update"] is not None:
                self._cursors[own_id] = page["last_update"]
            return tuple(found.values()), page["missed"]

        inbox = ("inbox", self._inbox(own_id))
        told: Told = (inbox, "poll", self._numbers.get(cursor), read)
        body = {"from_players": "all", "last_update": cursor or None}
        await client.call("POST", f"{ROOMS}/updates/poll", body, told)

    async def _part(self, client: Client) -> None:
        """Leave for certain."""
        while (await client.insist("GET", f"{ROOMS}/current"))["in_room"]:
            await self._leave(client)


def _is_target(player_id: int, answer: Any) -> bool:
    return player_id in map(int, answer["target_players_ids"])
