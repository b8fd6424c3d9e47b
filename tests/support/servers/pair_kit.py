"""Pairs of players who befriend, invite, gather and delete each other, and know what must be true.

A pair does one thing after another. Once a change is acknowledged, the two must be where it put
them; a change whose answer got lost has happened as a whole or not at all. Nobody else touches
them, so whatever they see besides is a fault.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

import trio
from crowd_kit import BREATH_SECONDS, CLIENTS, HEAL_SECONDS_MAX, Crowd
from server_kit import ConnectionLost, TrioClient
from waiting import until

from greenroom.control.admin.player_messages import DeletePlayer
from greenroom.control.client import call
from greenroom.control.errors import OperationRefused, SocketError
from greenroom.control.protocol import socket_path

FRIENDS = "/api/friends.php"
LOBBIES = "/api/matchmaking.php"
ROOMS = "/api/game_room.php"
REGISTER = "/api/game_players.php/register"

Place = Literal["", "lobby", "room"]


class State(NamedTuple):
    """The state of a pair: a host, who opens lobbies, and a guest, who comes."""

    friends: Literal["none", "asked", "friend"] = "none"
    """The guest's relationship to the host."""
    host_in: Place = ""
    guest_in: Place = ""
    requests: bool = False
    """True if a request of the guest's waits."""
    invited: bool = False
    """True if the guest has an open invite."""


class Step(NamedTuple):
    """Something that can be done: by whom (the guest or the host), and what comes of it."""

    by_guest: bool
    path: str
    body: object
    after: State


class Gone(Exception):
    """The guest is no player any more."""


class Someone:
    """One of the two: a connection, an id and a token."""

    def __init__(self, crowd: Crowd, name: str) -> None:
        self._crowd = crowd
        self._client = TrioClient(crowd.server, crowd.game.key)
        self._name = name
        self.player_id = 0
        self._token: str | None = None

    async def register(self) -> None:
        """Be a new player."""
        answer = await self.call("POST", REGISTER, {"player_name": self._name})
        if answer is not None:
            self.player_id, self._token = int(answer["player_id"]), str(answer["private_key"])

    async def call(self, method: str, path: str, body: object = None) -> Any | None:
        """Call an endpoint; None when the server could not do it just now.

        Raises:
            ConnectionLost: there was no answer.
            Gone: the token is nobody's.
        """
        sent = b"" if body is None else json.dumps(body).encode()
        status, answer = await self._client.call(method, path, sent, self._token)
        if status == 401:
            raise Gone
        assert status in {200, 429, 500}, (path, body, status, answer)
        return None if await self._crowd.is_refused(status) else answer

    async def see(self, path: str, body: object = None) -> Any:
        """Read what can be read, until the server can answer."""
        while True:
            answer = await self.call("GET" if body is None else "POST", path, body)
            if answer is not None:
                return answer

    def forget(self) -> None:
        """Be nobody."""
        self.player_id, self._token = 0, None

    async def close(self) -> None:
        await self._client.close()


class PlayerPair:
    """A host and a guest, what must be true of them, and what may be instead."""

    def __init__(self, crowd: Crowd, number: int) -> None:
        self._crowd = crowd
        self._chance = random.Random(number)
        self.host = Someone(crowd, f"Host {number}")
        self.guest = Someone(crowd, f"Guest {number}")
        self.state = State()
        self.possible = {self.state}
        self._lobby_id = self._room_id = self._request_id = self._invite_id = ""

    async def act(self) -> None:
        """Do one thing; `possible` tells what may have come of it.

        Raises:
            ConnectionLost: the answer did not come.
        """
        for each in (self.host, self.guest):
            if not each.player_id:
                await each.register()
                return
        if self._chance.random() < 0.03:
            await self._delete_guest()
            return
        steps = list(self._steps())
        if not steps or self._now_and_then():
            await self.check()
            return
        step = self._chance.choice(steps)
        actor = self.guest if step.by_guest else self.host
        self.possible = {self.state, step.after}
        answer = await actor.call("POST", step.path, step.body)
        if answer is None:
            return
        self._lobby_id = answer.get("matchmaking_id", self._lobby_id)
        self._room_id = answer.get("room_id", self._room_id)
        self._request_id = answer.get("request_id", self._request_id)
        self._invite_id = answer.get("invite_id", self._invite_id)
        self.settle(step.after)

    def _now_and_then(self) -> bool:
        return self._chance.random() < 0.2

    def settle(self, state: State) -> None:
        """Take what was acknowledged, or found, for the truth."""
        self._crowd.acknowledged += 1
        self.state = state
        self.possible = {state}

    def _steps(self) -> Iterator[Step]:
        state, to_host = self.state, {"player_id": self.host.player_id}
        to_guest = {"player_id": self.guest.player_id}
        change = state._replace
        match state.friends:
            case "none":
                yield Step(False, f"{FRIENDS}/request", to_guest, change(friends="asked"))
            case "asked":
                yield Step(True, f"{FRIENDS}/accept", to_host, change(friends="friend"))
                yield Step(True, f"{FRIENDS}/request", to_host, change(friends="friend"))
                yield Step(True, f"{FRIENDS}/decline", to_host, change(friends="none"))
            case "friend":
                if self._now_and_then():
                    yield Step(False, f"{FRIENDS}/remove", to_guest, change(friends="none"))
                if state.host_in and not state.guest_in and not state.invited:
                    yield Step(False, f"{FRIENDS}/invite", to_guest, change(invited=True))
        if state.invited:
            invite = {"invite_id": self._invite_id}
            yield Step(True, f"{FRIENDS}/invites/decline", invite, change(invited=False))
        yield from self._gathering()

    def _gathering(self) -> Iterator[Step]:
        state, change = self.state, self.state._replace
        ended = State(state.friends)
        if not state.host_in:
            body = {"max_players": 2, "join_by_requests": True, "can_leave_room": True}
            yield Step(False, f"{LOBBIES}/create", body, change(host_in="lobby"))
            return
        area = LOBBIES if state.host_in == "lobby" else ROOMS
        if state.guest_in:
            yield Step(True, f"{area}/leave", None, change(guest_in=""))
        elif state.invited and not state.requests:
            place_id = self._lobby_id if state.host_in == "lobby" else self._room_id
            came = change(guest_in=state.host_in, invited=False)
            yield Step(True, f"{area}/{place_id}/join", None, came)
        if state.host_in == "lobby":
            started = change(
                host_in="room", guest_in="room" if state.guest_in else "", requests=False
            )
            yield Step(False, f"{LOBBIES}/start", None, started)
            if self._now_and_then():
                yield Step(False, f"{LOBBIES}/remove", None, ended)
            if state.requests:
                path = f"{LOBBIES}/{self._request_id}/response"
                came = change(guest_in="lobby", requests=False, invited=False)
                yield Step(False, path, {"action": "approve"}, came)
                yield Step(False, path, {"action": "reject"}, change(requests=False))
            elif not state.guest_in:
                path = f"{LOBBIES}/{self._lobby_id}/request"
                yield Step(True, path, {"player_data": {"n": 1}}, change(requests=True))
        elif self._now_and_then():
            yield Step(False, f"{ROOMS}/stop", None, ended)

    async def _delete_guest(self) -> None:
        """Delete the guest as an operator does; they may be whole without their seat afterwards."""
        alone = State("none", self.state.host_in)
        self.possible = {self.state, self.state._replace(guest_in=""), alone}
        operation = DeletePlayer(player_id=self.guest.player_id)
        path = socket_path(self._crowd.server.data_dir)
        try:
            await trio.to_thread.run_sync(call, path, operation)
        except (OperationRefused, SocketError):
            raise ConnectionLost from None
        try:
            await self.guest.see(f"{FRIENDS}/list")
        except Gone:
            self.guest.forget()
        else:
            raise AssertionError("a deleted player's token is good")
        self.settle(alone)

    async def check(self) -> None:
        """See where the two are: what was acknowledged is there, and nothing that was never sent.

        Raises:
            ConnectionLost: it could not be seen.
        """
        if not self.host.player_id:
            return
        try:
            seen = await self._seen_with_guest() if self.guest.player_id else None
        except Gone:
            assert State("none", self.state.host_in) in self.possible, "a token was lost"
            self.guest.forget()
            seen = None
        if seen is None:
            await self._wait_friendless()
            seen = State("none", (await self._host_place())[0])
            assert await self._members(seen.host_in) <= {self.host.player_id}
        assert seen in self.possible, f"found {seen}, expected one of {self.possible}"
        self._crowd.checked += 1
        self.state, self.possible = seen, {seen}

    async def _wait_friendless(self) -> None:
        """Wait until a guest is gone from the host's lists: the deletion may be on its way."""

        async def is_friendless() -> bool:
            listed = await self.host.see(f"{FRIENDS}/list")
            return not any(listed[kind] for kind in ("friends", "incoming", "outgoing"))

        await until(is_friendless, HEAL_SECONDS_MAX)

    async def _seen_with_guest(self) -> State:
        """Return what there is, as both see it alike."""
        friends = await self._friendship()
        host_in, requests = await self._host_place()
        guest_in = await self._guest_place()
        # behind the place's own word: lists tell what is in memory, durable or not
        invites = (await self.guest.see(f"{FRIENDS}/invites"))["invites"]
        both = {self.host.player_id} | ({self.guest.player_id} if guest_in else set())
        assert await self._members(host_in) == (both if host_in else set())
        if invites:
            assert len(invites) == 1, invites
            self._invite_id = str(invites[0]["invite_id"])
        return State(friends, host_in, guest_in, bool(requests), bool(invites))

    async def _friendship(self) -> Literal["none", "asked", "friend"]:
        """Return what the guest is to the host; the other side must see the other side of it.

        The lists show what is durable. A player who asks what the other is to them is answered once
        that, too, is durable: a change without an answer cannot happen after it.
        """
        await self.guest.see(f"{FRIENDS}/lookup", {"player_id": self.host.player_id})
        mine = await self.host.see(f"{FRIENDS}/list")
        theirs = await self.guest.see(f"{FRIENDS}/list")
        here = {kind: [f["player_id"] for f in mine[kind]] for kind in ("friends", "outgoing")}
        there = {kind: [f["player_id"] for f in theirs[kind]] for kind in ("friends", "incoming")}
        host, guest = [self.host.player_id], [self.guest.player_id]
        if here["friends"]:
            assert (here["friends"], there["friends"]) == (guest, host)
            return "friend"
        assert not there["friends"]
        if here["outgoing"]:
            assert (here["outgoing"], there["incoming"]) == (guest, host)
            return "asked"
        assert not there["incoming"]
        return "none"

    async def _host_place(self) -> tuple[Place, list[Any]]:
        """Return where the host is, and the guest's requests that wait for the host's answer."""
        # the lobby first: once it has answered, a start without an answer is over either way
        lobby = await self.host.see(f"{LOBBIES}/current")
        room = await self.host.see(f"{ROOMS}/current")
        waiting = lobby["pending_requests"]
        requests = [r for r in waiting if r["player_id"] == self.guest.player_id]
        if requests:
            self._request_id = str(requests[0]["request_id"])
        if lobby["in_matchmaking"]:
            self._lobby_id = str(lobby["matchmaking"]["matchmaking_id"])
            assert lobby["matchmaking"]["is_started"] == room["in_room"]
        if room["in_room"]:
            self._room_id = str(room["room"]["room_id"])
            return "room", requests
        return ("lobby" if lobby["in_matchmaking"] else ""), requests

    async def _guest_place(self) -> Place:
        """Return where the guest is; it can be the host's place alone."""
        room = await self.guest.see(f"{ROOMS}/current")
        if room["in_room"]:
            assert room["room"]["room_id"] == self._room_id
            return "room"
        lobby = await self.guest.see(f"{LOBBIES}/current")
        if lobby["in_matchmaking"]:
            assert lobby["matchmaking"]["matchmaking_id"] == self._lobby_id
            return "lobby"
        return ""

    async def _members(self, host_in: Place) -> set[int]:
        if not host_in:
            return set()
        area = LOBBIES if host_in == "lobby" else ROOMS
        players = (await self.host.see(f"{area}/players"))["players"]
        return {int(entry["player_id"]) for entry in players}


class PlayerPairs(Crowd):
    """Many pairs."""

    tasks = CLIENTS // 2

    async def work(self, number: int) -> None:
        """Let one pair live."""
        pair = PlayerPair(self, number)
        try:
            await self._live(pair)
        finally:
            for each in (pair.host, pair.guest):
                await each.close()

    async def _live(self, pair: PlayerPair) -> None:
        lost = False
        while not self.is_over or lost:
            await self.up.wait()
            try:
                if lost or len(pair.possible) > 1:
                    await pair.check()
                    lost = False
                else:
                    await pair.act()
            except ConnectionLost:
                lost = True
                await trio.sleep(BREATH_SECONDS)
        await pair.check()
