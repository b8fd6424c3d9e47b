"""Clients who share documents, friendships and rooms, and write down what they asked and were told.

They speak the API, over whatever carries a call: a connection to a real server, or a node of a
simulation. Each *subject* is played with for a while by several clients at once. Then its histories
are checked and forgotten, so a run may be as long as it likes.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Hashable
from typing import Any, Final

import trio
from history import History, Operation, Refusal
from history_models import models
from linearizability import Verdict, check
from pair_model import Pair
from server_kit import ConnectionLost

from greenroom.actors.friendship import refusals as social
from greenroom.actors.player.results import REQUESTS_MAX
from greenroom.actors.room.rules import refusals as room_refusals
from greenroom.actors.room.rules.updates import PAGE_MAX

REFUSING: Final = {"friendship", "room"}
"""The kinds of objects that refusals tell about."""
NO_ID: Final = str.maketrans(" .", "__")
"""Replaces characters that ids of requests may not have."""
Ask = Callable[[str, str, bytes, str | None], Awaitable[tuple[int, Any]]]
"""Calls an endpoint with method, path, body and player token, which is `SERVICE` for the game's own
services; raises `ConnectionLost`. Several calls may be under way at once."""
Told = tuple[tuple[str, Hashable], str, Any, Callable[[Any], Any]]
"""The meaning of a call to one object: its key, the action, what is given; and reads the answer."""

SERVICE: Final = "the game's own service"
DATA: Final = "/api/game_data.php/player"
FRIENDS: Final = "/api/friends.php"
PLAYERS: Final = "/api/game_players.php"
ROOMS: Final = "/api/game_room.php"
BREATH_SECONDS: Final = 0.05
"""Between tries of a client that was told to come back later."""
UNDECIDED_SHARE_MAX: Final = 0.02
"""A larger share of undecided subjects says that the checker is too weak for the run."""

TELLING: Final = {
    kind.text: kind.__name__
    for kind in (
        *(social.AlreadyFriends, social.FriendRequestAlreadySent),
        *(social.FriendRequestNotFound, social.NotFriends),
        *(room_refusals.RoomInactive, room_refusals.RoomFull, room_refusals.AlreadyInRoom),
        *(room_refusals.OnlyHostKicks, room_refusals.OnlyHostStops),
        *(room_refusals.KickingOneself, room_refusals.MemberNotFound),
        *(room_refusals.NotInAnyRoom, room_refusals.NotInAnyGameRoom),
    )
}
"""Refusals that depend on the one object that a call is about, by their texts."""


class Book:
    """The histories that a crowd of clients writes, and what became of them."""

    def __init__(self) -> None:
        self.history = History()
        self.checked: Counter[str] = Counter()
        """Operations checked, by kind of object."""
        self.open: Counter[str] = Counter()
        """Those of them whose outcome nobody knows."""
        self.subjects = 0
        self.undecided = 0
        self._models = models(page_max=PAGE_MAX, requests_max=REQUESTS_MAX, documents=0)
        self._models[Pair.name] = Pair()

    def check(self, *keys: tuple[str, Hashable]) -> None:
        """Check the histories of some objects, and forget them.

        Raises:
            AssertionError: one is not linearizable.
        """
        for key in keys:
            verdict = self.judge(key)
            operations = self.history.forget(key)
            self.subjects += 1
            self.undecided += verdict.is_linearizable is None
            self.checked[key[0]] += len(operations)
            self.open[key[0]] += sum(each.is_open for each in operations)

    def judge(self, key: tuple[str, Hashable]) -> Verdict:
        """Check the history of an object that goes on.

        Raises:
            AssertionError: it is not linearizable.
        """
        verdict = check(self._models[key[0]], self.history.by_key.get(key, []))
        assert verdict.is_linearizable is not False, verdict.report()
        return verdict

    def told(self) -> str:
        """Return what the histories held."""
        kinds = ", ".join(f"{kind} {n:,}" for kind, n in sorted(self.checked.items()))
        return (
            f"Histories checked: {kinds or 'nothing'};"
            f" {self.open.total():,} operations were open,"
            f" {self.undecided:,} of {self.subjects:,} histories were undecided."
        )

    def close(self) -> None:
        """Check that nearly everything was decided."""
        share = self.undecided / max(self.subjects, 1)
        assert share <= UNDECIDED_SHARE_MAX, f"{self.undecided} of {self.subjects} are undecided"


class Scene:
    """Clients play in it: the way to the server, the book, and the end of the play."""

    def __init__(self, ask: Ask, book: Book) -> None:
        """Begin.

        Args:
            ask: calls the server.
            book: what is written down.
        """
        self.ask = ask
        self.book = book
        self.acknowledged = 0
        self.refused = 0

    @property
    def is_over(self) -> bool:
        """Return whether nobody should begin anything new."""
        return False

    def note_acknowledged(self) -> None:
        """Count a change that was acknowledged."""
        self.acknowledged += 1

    def note_refused(self) -> None:
        """Count a call that the server could not do just now, or did not answer."""
        self.refused += 1


class Client:
    """One player, or one of several clients of theirs."""

    def __init__(self, scene: Scene, name: str, token: str | None = None) -> None:
        self.name = name
        self.token = token
        self.player_id = 0
        self._scene = scene

    async def call(
        self, method: str, path: str, body: object = None, *told: Told
    ) -> tuple[int, Any]:
        """Call an endpoint, and write down what it means to each object.

        Returns:
            Status and answer; 0 and None if no answer came.
        """
        history = self._scene.book.history
        begun = [
            (key[0], history.begin(self.name, key, action, given, trio.current_time()), reads)
            for key, action, given, reads in told
        ]
        sent = b"" if body is None else json.dumps(body).encode()
        try:
            status, answer = await self._scene.ask(method, path, sent, self.token)
        except ConnectionLost:
            status, answer = 0, None
        for kind, operation, reads in begun:
            self._note(kind, operation, status, answer, reads)
        if status in {0, 429, 500}:
            self._scene.note_refused()
            await trio.sleep(BREATH_SECONDS)
        elif status == 200 and method != "GET":
            self._scene.note_acknowledged()
        return status, answer

    def _note(
        self,
        kind: str,
        operation: Operation,
        status: int,
        answer: Any,
        reads: Callable[[Any], Any],
    ) -> None:
        history = self._scene.book.history
        now = trio.current_time()
        if status == 200:
            history.finish(operation, reads(answer), now)
        elif status in {0, 500}:
            history.leave_open(operation, str(status) if status else "no answer")
        elif status != 429 and answer["error"] in TELLING and kind in REFUSING:
            history.finish(operation, Refusal(TELLING[answer["error"]]), now)
        else:
            history.drop(operation)

    async def insist(self, method: str, path: str, body: object = None) -> Any:
        """Call until the server answers; for calls that may be done twice."""
        while True:
            status, answer = await self.call(method, path, body)
            if status == 200:
                return answer
            assert status in {0, 429, 500}, (path, body, status, answer)

    async def register(self) -> None:
        """Be a new player."""
        body = {"player_name": self.name, "player_data": {"n": 0}}
        answer = await self.insist("POST", f"{PLAYERS}/register", body)
        self.player_id, self.token = int(answer["player_id"]), str(answer["private_key"])


def nothing(_: Any) -> None:
    """Read nothing from an answer but that it is a success."""


async def at_once(*plays: Callable[[], Awaitable[None]]) -> None:
    """Run some at the same time, until all have ended."""
    async with trio.open_nursery() as nursery:
        for play in plays:
            nursery.start_soon(play)


# Documents.


async def share_document(
    scene: Scene, dice: random.Random, name: str, *, clients: int = 3, calls: int = 40
) -> None:
    """Replace and read one player's document, from several clients at once; then check."""
    owner = Client(scene, name)
    await owner.register()
    key = ("document", owner.player_id)
    written = 0

    async def play(client: Client) -> None:
        nonlocal written
        for _ in range(calls):
            if scene.is_over:
                return
            if dice.random() < 0.5:
                told: Told = (key, "read", None, lambda answer: answer["data"]["n"])
                await client.call("GET", f"{DATA}/get", None, told)
            else:
                written += 1
                told = (key, "replace", written, nothing)
                await client.call("PUT", f"{DATA}/update", {"n": written}, told)

    shared = [Client(scene, f"{name} {number}", owner.token) for number in range(clients)]
    await at_once(*(lambda client=client: play(client) for client in shared))
    scene.book.check(key)


async def share_stats(
    scene: Scene, dice: random.Random, name: str, *, clients: int = 3, calls: int = 30
) -> None:
    """Count orders of one player, from several services at once, some twice; then check."""
    owner = Client(scene, name)
    await owner.register()
    key = ("stats", owner.player_id)

    async def play(client: Client) -> None:
        for number in range(calls):
            if scene.is_over:
                return
            request_id = f"{client.name}-{number - (dice.random() < 0.2)}"
            request_id = request_id.translate(NO_ID)
            body = {
                "player_id": owner.player_id,
                "request_id": request_id,
                "changes": {"orders": {"increment": 1}},
            }
            told: Told = (
                *(key, "add", (request_id, "orders", 1)),
                lambda answer: (answer["stats"]["orders"], answer["repeated"]),
            )
            await client.call("POST", f"{DATA}/stats", body, told)

    services = [Client(scene, f"{name} {number}", SERVICE) for number in range(clients)]
    await at_once(*(lambda client=client: play(client) for client in services))
    scene.book.check(key)


# Friendships.


async def share_friendship(
    scene: Scene, dice: random.Random, name: str, *, calls: int = 30
) -> None:
    """Ask, accept, decline, end and look, from both sides at once; then check."""
    pair = [Client(scene, f"{name} {side}") for side in "ab"]
    for client in pair:
        await client.register()
    key = ("friendship", tuple(client.player_id for client in pair))

    async def play(client: Client, other: Client) -> None:
        body = {"player_id": other.player_id}
        for _ in range(calls):
            if scene.is_over:
                return
            word = dice.choice(["request", "request", "accept", "decline", "remove", "lookup"])
            action = {"remove": "end", "lookup": "read"}.get(word, word)
            reads: Callable[[Any], Any] = nothing
            if word == "request":
                reads = lambda answer: answer["status"]  # noqa: E731
            elif word == "lookup":
                reads = lambda answer: answer["relationship"] or "none"  # noqa: E731
            told = (key, action, client.player_id, reads)
            await client.call("POST", f"{FRIENDS}/{word}", body, told)

    one, two = pair
    await at_once(lambda: play(one, two), lambda: play(two, one))
    scene.book.check(key)
