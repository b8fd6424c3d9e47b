"""Crowds in rooms: numbered updates, actions and tokens, of which each member keeps a record."""

from __future__ import annotations

import contextlib
import json
import random
from collections import deque
from itertools import accumulate
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import trio
import trio_websocket
from crowd_kit import BREATH_SECONDS, Counters, Crowd
from pair_kit import PlayerPairs
from server_kit import ConnectionLost, TrioClient

from greenroom.actors.room.rules.refusals import AlreadyInRoom

ROOMS = "/api/game_room.php"
REGISTER = "/api/game_players.php/register"
TOKEN = "/api/realtime.php/token"


DIAL_SECONDS_MAX = 15.0
NOT_ADMITTED = 1008
"""The code with which a connection is closed whose token is not good."""
ACTIONS_MAX = 50
"""Tries to ask, of a room: all that come of them are kept and shown, whether known or not."""


REFUSED_FOR_NOW = 429
"""The status of a call that was not done."""
OUTCOME_UNKNOWN = 500
"""The status of a call that may have been done, or may yet be."""

CALLS_TOLD = 12
"""A member's last calls that are told when an answer is wrong."""


class Member:
    """A player who says numbers to others, and hears theirs."""

    def __init__(self, crowd: Crowd, name: str) -> None:
        self._crowd = crowd
        self._client = TrioClient(crowd.server, crowd.game.key)
        self._name = name
        self.token: str | None = None
        self.player_id = 0
        self.doubts = 0
        """Changes of which nobody knows whether they happened, or will."""
        self.sent = 0
        self.kept: set[int] = set()
        """Numbers of this member whose sending was acknowledged."""
        self.cursor: str | None = None
        self.heard: dict[int, list[int]] = {}
        """By sender, what this member has heard from them, in order."""
        self.seen_ids: set[str] = set()
        self._delivered: tuple[int, set[str]] = (0, set())
        self._calls: deque[list[Any]] = deque(maxlen=CALLS_TOLD)
        """The number of shocks of the server at the last poll."""

    async def call(
        self, method: str, path: str, body: object = None, *, refusal: str | None = None
    ) -> Any | None:
        """Call an endpoint; None when the server could not do it just now.

        Args:
            method: of HTTP.
            path: of the endpoint.
            body: what is sent as JSON.
            refusal: the error that may be answered besides.

        Raises:
            ConnectionLost: there was no answer.
        """
        sent = b"" if body is None else json.dumps(body).encode()
        self._calls.append([trio.current_time(), path])
        self.doubts += method != "GET"
        status, answer = await self._client.call(method, path, sent, self.token)
        self.doubts -= method != "GET" and status != OUTCOME_UNKNOWN
        self._calls[-1] += [trio.current_time(), status]
        if status == 200:
            return answer
        if refusal is not None and answer.get("error") == refusal:
            return None
        assert status in {429, 500}, (path, body, status, answer, self.lately())
        self._crowd.refused += 1
        await trio.sleep(BREATH_SECONDS)
        return None

    @property
    def last_status(self) -> int:
        """The status of this member's last call; 0 if no answer came."""
        _, _, *rest = self._calls[-1]
        return int(rest[1]) if rest else 0

    def lately(self) -> str:
        """Return this member's last calls: when each began and ended, and its status, if any."""
        began = self._calls[0][0]
        return "; ".join(
            f"{path} {at - began:.3f} "
            + (f"to {rest[0] - began:.3f} {rest[1]}" if rest else "lost")
            for at, path, *rest in self._calls
        )

    async def insist(self, method: str, path: str, body: object = None) -> Any:
        """Call until the server can do it; for calls that may be done twice."""
        while True:
            await self._crowd.up.wait()
            try:
                answer = await self.call(method, path, body)
            except ConnectionLost:
                await trio.sleep(BREATH_SECONDS)
                continue
            if answer is not None:
                return answer

    async def register(self) -> None:
        answer = await self.insist("POST", REGISTER, {"player_name": self._name})
        self.player_id, self.token = int(answer["player_id"]), str(answer["private_key"])
        self.doubts = 0  # those before were about other players

    async def settle_in(self, path: str, body: object = None) -> str:
        """Create or join a room, whichever answer gets lost; return its id.

        A try of which nobody knows what came of it may yet be under way. Then there is no room, and
        the next try is refused all the same. Only then may it be.
        """
        is_open = False
        while True:
            await self._crowd.up.wait()
            with contextlib.suppress(ConnectionLost):
                here = await self.call("GET", f"{ROOMS}/current")
                if here is not None and here["in_room"]:
                    return str(here["room"]["room_id"])
                if here is not None:
                    refusal, is_open = AlreadyInRoom.text if is_open else None, True
                    await self.call("POST", path, body, refusal=refusal)
                    is_open = refusal is not None or self.last_status == OUTCOME_UNKNOWN
            await trio.sleep(BREATH_SECONDS)

    async def say(self, target: str) -> None:
        """Send the next number; whether it was kept may stay unknown."""
        self.sent += 1
        body = {"target_players": target, "type": "n", "data": {"n": self.sent}}
        if await self.call("POST", f"{ROOMS}/updates", body) is not None:
            self.kept.add(self.sent)
            self._crowd.acknowledged += 1

    async def hear(self) -> bool:
        """Take a page of what others said; return whether there was something."""
        body = {"from_players": "all", "last_update": self.cursor}
        delivered = self._delivered_lately()
        page = await self.call("POST", f"{ROOMS}/updates/poll", body)
        if page is None:
            return True
        delivered.update(update["update_id"] for update in page["updates"])
        assert page["missed"] == 0, page
        for update in page["updates"]:
            assert update["update_id"] not in self.seen_ids, "an update was told twice"
            self.seen_ids.add(update["update_id"])
            numbers = self.heard.setdefault(int(update["from_player_id"]), [])
            numbers.append(int(update["data"]["n"]))
        self.cursor = page["last_update"]
        return bool(page["updates"])

    async def look(self) -> None:
        """Look what waits: nothing that a poll has delivered, an orderly stop later neither."""
        shocks, delivered = self._crowd.shocks, self._delivered_lately()
        here = await self.call("GET", f"{ROOMS}/current")
        if here is not None and not self._crowd.is_shaken(shocks):
            waiting = {update["update_id"] for update in here["pending_updates"]}
            assert not waiting & delivered, "an update that was delivered waits again"
            self._crowd.checked += 1

    def _delivered_lately(self) -> set[str]:
        if self._delivered[0] != self._crowd.shocks:
            self._delivered = (self._crowd.shocks, set())
        return self._delivered[1]

    def check(self, sender: Member) -> None:
        """Check that everything acknowledged to a sender was heard, and nothing else of them.

        An update in doubt may come late. One that was acknowledged is heard before all later ones.
        """
        numbers = self.heard.get(sender.player_id, [])
        tops = accumulate(numbers, max)
        late = [n for n, top in zip(numbers, tops, strict=True) if n < top and n in sender.kept]
        assert not late, f"updates out of order: {late[:10]}"
        heard = set(numbers)
        assert len(heard) == len(numbers), "an update was told twice, under two ids"
        missing = sender.kept - heard
        assert not missing, f"updates lost: {sorted(missing)[:10]}"
        assert heard <= set(range(1, sender.sent + 1)), "an update that was never sent"
        self._crowd.checked += 1

    async def close(self) -> None:
        await self._client.close()


class Asked(NamedTuple):
    """An action that was acknowledged: whether it is known to be done, and when it was asked."""

    is_done: bool
    clock_jumps: int


class Asking(dict[str, Asked]):
    """The actions of a room by their ids, and how often its members tried to ask for one."""

    tries = 0


class Exchanges(Crowd):
    """Rooms of three: the host tells everybody, members tell and ask the host."""

    tasks = 8

    async def work(self, number: int) -> None:
        dice = random.Random(number)
        host, *others = members = [Member(self, f"Room {number} {n}") for n in range(3)]
        for member in members:
            await member.register()
        room_id = await host.settle_in(f"{ROOMS}/create", {"host_switch": False})
        for other in others:
            await other.settle_in(f"{ROOMS}/{room_id}/join")
        asked = Asking()
        while not self.is_over:
            await self.up.wait()
            with contextlib.suppress(ConnectionLost):
                await self._act(dice, host, others, asked)
        for member in members:
            await self._hear_all(member)
        for other in others:
            other.check(host)
            host.check(other)
        await self._check_actions(host, others, asked)
        for member in members:
            await member.close()

    async def _act(
        self, dice: random.Random, host: Member, others: list[Member], asked: Asking
    ) -> None:
        match dice.randrange(7):
            case 0:
                await host.say("others")
            case 1:
                await dice.choice(others).say("host")
            case 2 | 3:
                await dice.choice([host, *others]).hear()
            case 6:
                await dice.choice([host, *others]).look()
            case 4 if asked.tries < ACTIONS_MAX:
                asked.tries += 1
                body = {"action_type": "do", "target_players": "host", "request_data": {}}
                answer = await others[0].call("POST", f"{ROOMS}/actions", body)
                if answer is not None:
                    asked[answer["action_ids"][0]] = Asked(False, self.clock_jumps)
                    self.acknowledged += 1
            case _:
                await self._complete(dice, host, asked)

    async def _complete(self, dice: random.Random, host: Member, asked: Asking) -> None:
        """Do what the host was asked; what was acknowledged as asked must be there to do."""
        pending = await host.call("GET", f"{ROOMS}/actions/pending")
        if pending is None or not pending["actions"]:
            return
        action_id = dice.choice(pending["actions"])["action_id"]
        known = asked.get(action_id, Asked(False, self.clock_jumps))
        assert not known.is_done, "an action that is done is pending again"
        body = {"status": "completed", "response_data": {"for": action_id}}
        if await host.call("POST", f"{ROOMS}/actions/{action_id}/complete", body) is not None:
            asked[action_id] = known._replace(is_done=True)
            self.acknowledged += 1

    async def _hear_all(self, member: Member) -> None:
        while True:
            await self.up.wait()
            with contextlib.suppress(ConnectionLost):
                if not await member.hear():
                    return

    async def _check_actions(self, host: Member, others: list[Member], asked: Asking) -> None:
        """Each action that was acknowledged is either pending or done, as was said."""
        pending = await host.insist("GET", f"{ROOMS}/actions/pending")
        waiting = {action["action_id"] for action in pending["actions"]}
        polled = await others[0].insist("GET", f"{ROOMS}/actions/poll")
        done = {entry["action_id"] for entry in polled["actions"] if entry["status"] == "completed"}
        assert not waiting & done
        for action_id, known in asked.items():
            if known.is_done:
                assert action_id not in waiting, "a completed action waits again"
            elif known.clock_jumps == self.clock_jumps:
                assert action_id in waiting | done, "an action was lost"
        self.checked += 1


class Connected(Crowd):
    """Pairs on the control channel: tokens are good as long as they should be, and no longer."""

    tasks = 6

    async def work(self, number: int) -> None:
        dice = random.Random(number)
        pairs = 0
        while not self.is_over:
            pairs += 1
            await self._meet(dice, f"Pair {number}.{pairs}")

    async def _meet(self, dice: random.Random, name: str) -> None:
        """Let a guest come and go, until a call of theirs is in doubt.

        Then it may come late, in the midst of what they do next. So others take their place.
        """
        host, guest = Member(self, f"{name} host"), Member(self, f"{name} guest")
        for member in (host, guest):
            await member.register()
        room = {"realtime": True, "host_switch": False}
        room_id = await host.settle_in(f"{ROOMS}/create", room)
        while not self.is_over and not guest.doubts:
            await guest.settle_in(f"{ROOMS}/{room_id}/join")
            jumps = self.clock_jumps
            token = str((await guest.insist("POST", TOKEN))["token"])
            for _ in range(dice.randrange(1, 4)):
                refusal = await self._refusal(token)
                assert refusal is None or jumps != self.clock_jumps, (
                    f"a good token was refused: {refusal}; {guest.lately()}"
                )
                await trio.sleep(dice.uniform(0, 0.3))
            await self._leave(guest)
            if dice.random() < 0.5:  # to have a seat again makes no old token good
                await guest.settle_in(f"{ROOMS}/{room_id}/join")
            refusal = await self._refusal(token)
            assert refusal is not None, "the token of one who has left was good"
            self.acknowledged += 1
            self.checked += 1
        for member in (host, guest):
            await member.close()

    async def _leave(self, guest: Member) -> None:
        """Leave, and be sure of it."""
        while True:
            await self.up.wait()
            with contextlib.suppress(ConnectionLost):
                here = await guest.call("GET", f"{ROOMS}/current")
                if here is not None and not here["in_room"]:
                    return
                if here is not None:
                    await guest.call("POST", f"{ROOMS}/leave")
            await trio.sleep(BREATH_SECONDS)

    async def _refusal(self, token: str) -> str | None:
        """Return why a token opens no connection, as soon as the server says so; else None."""
        while True:
            await self.up.wait()
            url = urlsplit(str(self.server.ready["realtime"]))
            assert url.hostname is not None
            assert url.port is not None
            found: list[str | None] = []
            try:
                with trio.move_on_after(DIAL_SECONDS_MAX):
                    async with await trio.open_tcp_stream(url.hostname, url.port) as stream:
                        await _show_token(stream, token, found)
            except* (OSError, trio.BrokenResourceError, trio.ClosedResourceError):
                pass
            except* (trio_websocket.HandshakeError, trio_websocket.ConnectionClosed):
                pass
            if found:
                return found[0]
            await trio.sleep(BREATH_SECONDS)


async def _show_token(stream: trio.SocketStream, token: str, found: list[str | None]) -> None:
    """Begin a connection; note why the token is not good, or None, if the server says so.

    The stream is the caller's to close: the library leaves it open if the handshake fails.
    """
    headers = [(b"X-Realtime-Token", token.encode())]
    async with trio.open_nursery() as nursery:
        connection = await trio_websocket.wrap_client_stream(
            nursery, stream, "test", "/", extra_headers=headers
        )
        try:
            kind = json.loads(await connection.get_message())["type"]
            found.append(None if kind == "connected" else str(kind))
            await connection.aclose()
        except trio_websocket.ConnectionClosed:
            reason = connection.closed
            if reason is not None and reason.code == NOT_ADMITTED:
                found.append(str(reason.reason))
        nursery.cancel_scope.cancel()


class FewCounters(Counters):
    """Some players who count."""

    tasks = 40


class FewDuos(PlayerPairs):
    """Some duos."""

    tasks = 16
