"""Pairs of players who befriend, invite, gather and delete each other, and know what must be true.

A pair does one thing after another, and nobody else touches them. What they did and saw is a
history, which must be that of a `pair_model`: once a change is acknowledged, the two are where it
put them. A call without an answer is in doubt: it may happen as a whole at any later moment.
"""

from __future__ import annotations

import json
import random
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, NamedTuple, TypeVar

import trio
from crowd_kit import BREATH_SECONDS, CLIENTS, HEAL_SECONDS_MAX, Crowd
from history import Operation
from history_clients import Book
from pair_model import ACTIONS, Pair, Place, Relationship, Together, next_state
from server_kit import CalledServer, ConnectionLost, Game, TrioClient
from waiting import until

from greenroom.control.admin.player_messages import DeletePlayer
from greenroom.control.client import call
from greenroom.control.errors import OperationRefused, SocketError
from greenroom.control.protocol import socket_path

Seen = TypeVar("Seen")

FRIENDS = "/api/friends.php"
LOBBIES = "/api/matchmaking.php"
ROOMS = "/api/game_room.php"
REGISTER = "/api/game_players.php/register"

PATHS = {
    "start": f"{LOBBIES}/start",
    "dissolve": f"{LOBBIES}/remove",
    "stop": f"{ROOMS}/stop",
    "leave lobby": f"{LOBBIES}/leave",
    "leave room": f"{ROOMS}/leave",
}
"""Paths of the calls that are given nothing."""
BY_GUEST = {
    *("ask back", "accept", "decline", "decline invite", "request"),
    *("join lobby", "join room", "leave lobby", "leave room"),
}
"""Done by the guest; the host does the rest."""
RARE = {"part", "dissolve", "stop"}
"""Seldom done, because it ends much."""
Lists = tuple[list[int], list[int], list[int]]
"""A player's friends, those whom they have asked, and those who ask them."""
LISTED: tuple[Relationship, ...] = ("friend", "asked", "asking")
LIFE_CALLS = 80
"""The operations of a pair's history; then others take their place, so that it can be decided."""
DOUBTS_MAX = 3
"""After so many calls in doubt, too: the more there are, the less is impossible."""
GLANCES_MAX = 20
"""Tries to see the same twice. Calls in doubt may change it, each some few times at most."""


class Gone(AssertionError):
    """The token is nobody's: a violation, unless its player is being deleted."""


class Someone:
    """One of the two: a connection, an id and a token."""

    def __init__(self, crowd: Crowd, name: str) -> None:
        self._crowd = crowd
        self._client = TrioClient(crowd.server, crowd.game.key)
        self._name = name
        self.player_id = 0
        self._token: str | None = None

    async def register(self) -> None:
        """Be a new player, if the server can do it just now."""
        status, answer = await self.call("POST", REGISTER, {"player_name": self._name})
        if status == 200:
            self.player_id, self._token = int(answer["player_id"]), str(answer["private_key"])

    async def call(self, method: str, path: str, body: object = None) -> tuple[int, Any]:
        """Call an endpoint; return status and answer, a while after one that is 429 or 500.

        Raises:
            ConnectionLost: there was no answer.
            Gone: the token is nobody's.
        """
        sent = b"" if body is None else json.dumps(body).encode()
        status, answer = await self._client.call(method, path, sent, self._token)
        if status == 401:
            raise Gone(f"the token of {self._name} is nobody's")
        if status in {429, 500}:
            await self._crowd.is_refused(status)
        return status, answer

    async def see(self, path: str, body: object = None, *, may_refuse: bool = False) -> Any:
        """Read what can be read, until the server can answer; None if it may refuse, and does."""
        while True:
            status, answer = await self.call("GET" if body is None else "POST", path, body)
            if status not in {429, 500}:
                assert status == 200 or may_refuse, (path, body, status, answer)
                return answer if status == 200 else None

    def forget(self) -> None:
        """Be nobody."""
        self.player_id, self._token = 0, None

    async def close(self) -> None:
        await self._client.close()


class Sight(NamedTuple):
    """All that the two are shown, by one answer after the other."""

    host_friends: Lists
    guest_friends: Lists
    host_lobby: tuple[str, bool]
    """Its id, empty for none, and whether it has started."""
    host_room: str
    requests: list[str]
    """Those of the guest's that wait for the host's answer."""
    guest_room: str
    guest_lobby: str
    invites: list[str]
    members: list[int] | None
    """The ids of those who are where the host is; None if they are not shown."""


class PlayerPair:
    """A host and a guest, and what they did and saw."""

    def __init__(self, crowd: Crowd, name: str, chance: random.Random, book: Book) -> None:
        """Be two who are no players yet.

        Args:
            crowd: theirs.
            name: what tells them from other pairs.
            chance: decides what they do.
            book: what they do and see is written there.
        """
        self._crowd = crowd
        self._chance = chance
        self._book = book
        self._key = (Pair.name, name)
        self.host = Someone(crowd, f"Host {name}")
        self.guest = Someone(crowd, f"Guest {name}")
        self.state = Together()
        """Their state, as far as they know. It decides what they do next."""
        self.must_look = False
        """True once they may be elsewhere."""
        self.is_over = False
        self._doubts: list[Operation] = []
        """Calls that may still happen."""
        self._deletion: Operation | None = None
        self._lobby_id = self._room_id = self._request_id = self._invite_id = ""

    async def act(self) -> None:
        """Do one thing.

        Raises:
            ConnectionLost: the answer did not come.
        """
        for each in (self.host, self.guest):
            if not each.player_id:
                await each.register()
                return
        if self._chance.random() < 0.03:
            await self.delete_guest()
            return
        actions = list(self._choices())
        if not actions or self._now_and_then():
            await self.look()
            return
        await self.take(self._chance.choice(actions))

    async def take(self, action: str) -> None:
        """Do something, and note what is known of it.

        Raises:
            ConnectionLost: the answer did not come.
        """
        operation = self._begin(action)
        try:
            status, answer = await self.ask(action)
        except ConnectionLost:
            self._leave_open(operation, "no answer")
            raise
        if status == 429:
            self._book.history.drop(operation)
        elif status == 500:
            self._leave_open(operation, "500")
        elif status == 200:
            self._finish(operation)
            self.state = next_state(self.state, action) or self.state
        else:
            assert self._doubts, (action, self.state, status, answer)
            self._note_refused(operation)

    async def ask(self, action: str) -> tuple[int, Any]:
        """Ask the server for something; return status and answer.

        Raises:
            ConnectionLost: the answer did not come.
        """
        actor = self.guest if action in BY_GUEST else self.host
        status, answer = await actor.call("POST", *self._call_of(action))
        if status == 200:
            self._lobby_id = answer.get("matchmaking_id", self._lobby_id)
            self._room_id = answer.get("room_id", self._room_id)
            self._request_id = answer.get("request_id", self._request_id)
            self._invite_id = answer.get("invite_id", self._invite_id)
        return status, answer

    def _call_of(self, action: str) -> tuple[str, object]:
        """Return path and body of the call that asks for something."""
        other = self.host if action in BY_GUEST else self.guest
        match action:
            case "ask" | "ask back":
                return f"{FRIENDS}/request", {"player_id": other.player_id}
            case "accept" | "decline" | "invite":
                return f"{FRIENDS}/{action}", {"player_id": other.player_id}
            case "part":
                return f"{FRIENDS}/remove", {"player_id": other.player_id}
            case "decline invite":
                return f"{FRIENDS}/invites/decline", {"invite_id": self._invite_id}
            case "open":
                body = {"max_players": 2, "join_by_requests": True, "can_leave_room": True}
                return f"{LOBBIES}/create", body
            case "approve" | "reject":
                return f"{LOBBIES}/{self._request_id}/response", {"action": action}
            case "request":
                return f"{LOBBIES}/{self._lobby_id}/request", {"player_data": {"n": 1}}
            case "join lobby":
                return f"{LOBBIES}/{self._lobby_id}/join", None
            case "join room":
                return f"{ROOMS}/{self._room_id}/join", None
            case _:
                return PATHS[action], None

    def _begin(self, action: str) -> Operation:
        return self._book.history.begin("pair", self._key, action, at=trio.current_time())

    def _finish(self, operation: Operation, result: object = None) -> None:
        self._book.history.finish(operation, result, trio.current_time())
        self._crowd.acknowledged += 1

    def _leave_open(self, operation: Operation, why: str) -> None:
        self._book.history.leave_open(operation, why)
        self._doubts.append(operation)
        self.must_look = True

    def _note_refused(self, operation: Operation) -> None:
        """Note that a call in doubt came first, or is under way and has the seat."""
        self.must_look = True
        if operation.action == "approve":  # of someone who has a seat: the request is rejected
            self._leave_open(operation, "refused")
        else:
            self._book.history.drop(operation)

    def _now_and_then(self) -> bool:
        return self._chance.random() < 0.2

    def _choices(self) -> Iterator[str]:
        """Yield what can be done where they are; some of it now and then only."""
        for action in ACTIONS:
            is_possible = next_state(self.state, action) is not None
            if is_possible and (action not in RARE or self._now_and_then()):
                yield action

    async def delete_guest(self) -> None:
        """Delete the guest as an operator does. The pair is over once it is seen what came of it.

        Raises:
            ConnectionLost: it is in doubt.
        """
        deletion = self._deletion = self._begin("delete")
        self.must_look = True
        operation = DeletePlayer(player_id=self.guest.player_id)
        path = socket_path(self._crowd.server.data_dir)
        try:
            await trio.to_thread.run_sync(call, path, operation)
        except (OperationRefused, SocketError):
            self._leave_open(deletion, "no answer")
            raise ConnectionLost from None
        self._finish(deletion)

    async def look(self) -> None:
        """See where the two are: what was acknowledged is there, and nothing that was never sent.

        Raises:
            ConnectionLost: it could not be seen.
        """
        if not (self.host.player_id and self.guest.player_id):
            self.must_look = False
            return
        looked = self._begin("look")
        try:
            seen = await self.see()
        except ConnectionLost:
            self._book.history.drop(looked)
            raise
        except Gone:
            assert self._deletion is not None, "a token was lost"
            self._book.history.drop(looked)
            await self._look_for_host()
            return
        deletion = self._deletion
        assert deletion is None or deletion.is_open, "a deleted player's token is good"
        if deletion is None and len(self._doubts) == 1 and seen != self.state:
            # nothing else can have done that
            self._book.history.finish(self._doubts.pop(), None, trio.current_time())
        self._note_seen(looked, seen)
        self.state = seen

    def _note_seen(self, looked: Operation, seen: object) -> None:
        """Note what was seen; the history must explain it."""
        self._book.history.finish(looked, seen, trio.current_time())
        self._crowd.checked += 1
        self.must_look = False
        is_long = len(self._book.history.by_key[self._key]) >= LIFE_CALLS
        self.is_over = is_long or len(self._doubts) >= DOUBTS_MAX or self._deletion is not None
        if self.is_over:
            self.close_book()
        else:
            self._book.judge(self._key)

    def close_book(self) -> None:
        """Check what they did and saw, and forget it."""
        self._book.check(self._key)

    async def _look_for_host(self) -> None:
        """See where the host is, when the guest is no player any more.

        Raises:
            ConnectionLost: it could not be seen.
        """
        looked = self._begin("look for host")
        try:
            # the deletion may be on its way
            await until(self._is_friendless, HEAL_SECONDS_MAX)
            place, members = await self._at_rest(self._glance_at_host)
        except ConnectionLost:
            self._book.history.drop(looked)
            raise
        assert members == ([self.host.player_id] if place else []), members
        self._note_seen(looked, place)

    async def _is_friendless(self) -> bool:
        return not any(await self._see_friends(self.host))

    async def see(self) -> Together:
        """Return where the two are, as all answers tell.

        Raises:
            ConnectionLost: it could not be seen.
            Gone: the guest is no player any more.
        """
        return self._understand(await self._at_rest(self._glance))

    async def _at_rest(self, glance: Callable[[], Awaitable[Seen]]) -> Seen:
        """Return what there is at one moment, though it takes many answers.

        Calls in doubt may take effect between two of these. So it is seen twice, until nothing has
        changed in between.
        """
        seen = await glance()
        for _ in range(GLANCES_MAX):
            if not self._doubts:
                return seen
            before, seen = seen, await glance()
            if seen == before:
                return seen
        raise AssertionError(f"calls in doubt changed {GLANCES_MAX} times what there is: {seen}")

    async def _glance_at_host(self) -> tuple[Place, list[int] | None]:
        lobby, room, _ = await self._see_host()
        return _place_of(lobby[0], room), await self._see_members(lobby, room)

    async def _glance(self) -> Sight:
        # The lists show what is durable. A player who asks what the other is to them is answered
        # once that, too, is durable.
        await self.guest.see(f"{FRIENDS}/lookup", {"player_id": self.host.player_id})
        host_friends = await self._see_friends(self.host)
        guest_friends = await self._see_friends(self.guest)
        lobby, room, requests = await self._see_host()
        guest_room = _id_in(await self.guest.see(f"{ROOMS}/current"), "room", "room_id")
        there = await self.guest.see(f"{LOBBIES}/current")
        guest_lobby = _id_in(there, "matchmaking", "matchmaking_id")
        # behind the place's own word: lists tell what is in memory, durable or not
        invites = (await self.guest.see(f"{FRIENDS}/invites"))["invites"]
        members = await self._see_members(lobby, room)
        return Sight(
            *(host_friends, guest_friends, lobby, room, requests, guest_room, guest_lobby),
            *([str(invite["invite_id"]) for invite in invites], members),
        )

    async def _see_friends(self, who: Someone) -> Lists:
        listed = await who.see(f"{FRIENDS}/list")
        friends, asked, asking = (
            [int(each["player_id"]) for each in listed[kind]]
            for kind in ("friends", "outgoing", "incoming")
        )
        return friends, asked, asking

    async def _see_host(self) -> tuple[tuple[str, bool], str, list[str]]:
        """Return the host's lobby and room, and the guest's requests that wait for an answer."""
        there = await self.host.see(f"{LOBBIES}/current")
        lobby_id = _id_in(there, "matchmaking", "matchmaking_id")
        is_started = bool(lobby_id and there["matchmaking"]["is_started"])
        room_id = _id_in(await self.host.see(f"{ROOMS}/current"), "room", "room_id")
        waiting = there["pending_requests"]
        requests = [r["request_id"] for r in waiting if r["player_id"] == self.guest.player_id]
        return (lobby_id, is_started), room_id, requests

    async def _see_members(self, lobby: tuple[str, bool], room: str) -> list[int] | None:
        if not (room or lobby[0]):
            return []
        shown = await self.host.see(f"{ROOMS if room else LOBBIES}/players", may_refuse=True)
        if shown is None:  # a call in doubt has ended it meanwhile
            return None
        return sorted(int(entry["player_id"]) for entry in shown["players"])

    def _understand(self, sight: Sight) -> Together:
        """Return the state that all answers tell; the two must have seen it alike."""
        host, guest = self.host.player_id, self.guest.player_id
        mine = _relationship(sight.host_friends, guest)
        friends, asked, asking = sight.guest_friends
        assert mine == _relationship((friends, asking, asked), host), sight
        (lobby_id, is_started), room_id = sight.host_lobby, sight.host_room
        assert not lobby_id or is_started == bool(room_id), sight
        assert sight.guest_room in {"", room_id}, sight
        assert sight.guest_room or sight.guest_lobby in {"", lobby_id}, sight
        host_in = _place_of(lobby_id, room_id)
        guest_in = _place_of(sight.guest_lobby, sight.guest_room)
        both = sorted((host, guest)) if guest_in else [host]
        assert sight.members == (both if host_in else []), (host, guest, sight)
        assert len(sight.invites) <= 1, sight
        self._lobby_id, self._room_id = lobby_id or self._lobby_id, room_id or self._room_id
        self._request_id = next(iter(sight.requests), self._request_id)
        self._invite_id = next(iter(sight.invites), self._invite_id)
        return Together(mine, host_in, guest_in, bool(sight.requests), bool(sight.invites))


def _id_in(answer: Any, kind: str, name: str) -> str:
    """Return the id of the lobby or room where somebody is; empty for none."""
    return str(answer[kind][name]) if answer[f"in_{kind}"] else ""


def _place_of(lobby_id: str, room_id: str) -> Place:
    return "room" if room_id else "lobby" if lobby_id else ""


def _relationship(listed: Lists, other: int) -> Relationship:
    """Return what the other is to somebody, by the lists of that player, who knows nobody else."""
    found: list[Relationship] = ["none"]
    for word, ids in zip(LISTED, listed, strict=True):
        if ids:
            assert ids == [other], (listed, other)
            found.append(word)
    assert len(found) <= 2, listed
    return found[-1]


class PlayerPairs(Crowd):
    """Many pairs."""

    tasks = CLIENTS // 2

    def __init__(self, server: CalledServer, game: Game) -> None:
        super().__init__(server, game)
        self.book = Book()

    async def work(self, number: int) -> None:
        """Let one pair live after the other."""
        chance = random.Random(number)
        lives = 0
        while not self.is_over:
            lives += 1
            pair = PlayerPair(self, f"{number}.{lives}", chance, self.book)
            try:
                await self._live(pair)
            finally:
                for each in (pair.host, pair.guest):
                    await each.close()

    async def _live(self, pair: PlayerPair) -> None:
        while not pair.is_over and (pair.must_look or not self.is_over):
            await self.up.wait()
            try:
                await (pair.look() if pair.must_look else pair.act())
            except ConnectionLost:
                pair.must_look = True
                await trio.sleep(BREATH_SECONDS)
        if not pair.is_over:
            await pair.look()
        if not pair.is_over:
            pair.close_book()

    def told(self) -> str:
        """Return what the histories held."""
        return self.book.told()
