"""A dispatcher over a small table of made-up endpoints, in a world of real actors."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Annotated, Any

import msgspec
import trio
from world_kit import Arena

from greenroom.actors.flows.register import register_player
from greenroom.actors.kernel.errors import NotFound
from greenroom.contract.fields import Body, Document, Missing, RawDocument, Reply, verbatim
from greenroom.http.caller import AdminCaller, GameCaller, PlayerCaller
from greenroom.http.dispatch import Dispatcher
from greenroom.http.limits import CallLimits, LimitSettings
from greenroom.http.metrics import Metrics
from greenroom.http.ports import Elsewhere
from greenroom.http.request import Answer, Notes, Request
from greenroom.http.streams import Streamed
from greenroom.http.table import Auth, Endpoint, TokenTexts

TEXTS = TokenTexts(
    key_missing="no key",
    token_missing="no token",
    token_invalid="bad token",
    token_foreign="other game",
)


class EchoBody(Body, kw_only=True):
    word: Annotated[str, Missing("word is required")]
    number: int | None = None
    player_data: RawDocument | None = None


class EchoReply(Reply, kw_only=True):
    word: str
    number: int | None
    player_data: Document | None


class EchoEntry(msgspec.Struct):
    id: int
    rules: Document | None = None


class EntriesReply(Reply, kw_only=True):
    entries: list[EchoEntry]
    count: int


class PagingQuery(Body, kw_only=True):
    pages: int = 2
    fail_at: int | None = None


class SeenReply(Reply, kw_only=True):
    seen: str


class Gone(NotFound):
    text = "Thing not found"


class Trouble:
    """The error that the handler of `/api/trouble.php` raises next, or what it waits for."""

    def __init__(self) -> None:
        self.error: BaseException | None = None
        self.gate: trio.Event | None = None
        self.calls = 0

    async def __call__(self, _: GameCaller) -> SeenReply:
        self.calls += 1
        if self.gate is not None:
            await self.gate.wait()
        if self.error is not None:
            raise self.error
        return SeenReply(seen="none")


async def echo(_: GameCaller, body: EchoBody) -> EchoReply:
    document = None if body.player_data is None else verbatim(bytes(body.player_data))
    return EchoReply(word=body.word, number=body.number, player_data=document)


async def whoami(caller: PlayerCaller) -> SeenReply:
    return SeenReply(seen=f"player {caller.player_id}")


async def owner(caller: AdminCaller) -> SeenReply:
    return SeenReply(seen=f"owner of {caller.game_id}")


async def store(_: GameCaller, document: RawDocument) -> SeenReply:
    return SeenReply(seen=bytes(document).decode())


async def join(_: GameCaller, room_id: str) -> SeenReply:
    return SeenReply(seen=room_id)


class Pages:
    """Pages of two entries; remembers whether it was closed."""

    def __init__(self, pages: int, fail_at: int | None) -> None:
        self.left = list(range(pages))
        self.fail_at = fail_at
        self.is_closed = False

    def __aiter__(self) -> AsyncIterator[Sequence[EchoEntry]]:
        return self

    async def __anext__(self) -> Sequence[EchoEntry]:
        await trio.lowlevel.checkpoint()
        if not self.left:
            raise StopAsyncIteration
        page = self.left.pop(0)
        if page == self.fail_at:
            raise Gone
        if page == 1:
            return []
        return [EchoEntry(page, verbatim(b'{"a": 1.0}')), EchoEntry(page)]

    async def aclose(self) -> None:
        self.is_closed = True


class DispatchKit:
    """The dispatcher, and what a test needs to call it."""

    def __init__(
        self,
        arena: Arena,
        *,
        in_flight_max: int = 100,
        limits: LimitSettings | None = None,
        elsewhere: Elsewhere | None = None,
    ) -> None:
        self.arena = arena
        self.trouble = Trouble()
        self.seconds = 0.0
        self.pages: Pages | None = None
        self.metrics = Metrics()
        self.limits = CallLimits(limits)
        self.dispatcher = Dispatcher(
            arena.world,
            self._endpoints(),
            limits=self.limits,
            metrics=self.metrics,
            requests_in_flight_max=in_flight_max,
            elsewhere=elsewhere,
            monotonic=lambda: self.seconds,
        )

    async def _list(self, _: GameCaller, query: PagingQuery) -> Streamed:
        self.pages = Pages(query.pages, query.fail_at)
        return Streamed("entries", self.pages)

    def _endpoints(self) -> list[Endpoint]:
        def row(method: Any, path: str, auth: Auth, handler: Any, **more: Any) -> Endpoint:
            row = {"reply": SeenReply, "summary": "", "texts": TEXTS, **more}
            return Endpoint(method=method, path=path, auth=auth, handler=handler, **row)

        async def trouble(caller: GameCaller) -> SeenReply:
            return await self.trouble(caller)

        async def list_entries(caller: GameCaller, query: PagingQuery) -> Streamed:
            return await self._list(caller, query)

        return [
            row("POST", "/api/echo.php", Auth.KEY, echo, body=EchoBody, reply=EchoReply),
            row("POST", "/api/who.php/am/i", Auth.PLAYER, whoami),
            row("GET", "/api/owner.php", Auth.ADMIN, owner),
            row("PUT", "/api/store.php", Auth.KEY, store, document_body=True),
            row("POST", "/api/trouble.php", Auth.KEY, trouble, rate_class="register"),
            row("GET", "/api/look.php", Auth.KEY, trouble),
            row("POST", "/api/room.php/{room_id}/join", Auth.KEY, join),
            row("POST", "/api/room.php/leave/join", Auth.KEY, trouble),
            row(
                "GET",
                "/api/list.php",
                Auth.KEY,
                list_entries,
                query=PagingQuery,
                reply=EntriesReply,
            ),
        ]

    async def answer(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        *,
        query: str = "",
        key: str | None = "",
        token: str | None = None,
        admin: str | None = None,
        address: str = "203.0.113.7",
        notes: Notes | None = None,
    ) -> Answer:
        """Answer a request; the project key is the arena's unless another, or None, is given."""
        headers = {
            "x-api-token": self.arena.keys.api_token if key == "" else key,
            "x-game-player-token": token,
            "x-api-private-token": admin,
        }
        given = {name: value for name, value in headers.items() if value is not None}
        request = Request(method, path, query, given, body, address, notes=notes)
        return await self.dispatcher.answer(request)

    async def register(self, name: str = "Ada") -> tuple[int, str]:
        """Return id and token of a new player of the arena's game."""
        game = self.arena.game
        player = await register_player(self.arena.world, game.game, name, b"{}")
        return player.player_id, player.token


def json_of(answer: Answer) -> Any:
    """Return an answer's JSON."""
    return msgspec.json.decode(answer.body)
