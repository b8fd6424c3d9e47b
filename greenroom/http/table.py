"""The endpoint table's row: the single source for routing, checks, bodies, docs and metrics.

A row joins an operation of the contract with its handler, and stands above the handler in
`areas/<area>.py`. `endpoints.py` puts the areas together. A handler is an async function from
(caller, input) to a reply; it knows no framework:

    ENDPOINTS: Final = Area(Auth.PLAYER, TEXTS)

    @ENDPOINTS.add(RENAME, refusals=(NameRefused,))
    async def rename(caller: PlayerCaller, body: RenameBody) -> RenameReply: ...

Its input is the endpoint's `body` struct, its `query` struct, or for `document_body` the `Document`
itself; an endpoint with none of them has a handler that takes the caller alone.
"""

from __future__ import annotations

import enum
import inspect
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Literal, TypeVar

import msgspec

from greenroom.actors.kernel.errors import Refused
from greenroom.contract.fields import Body, Reply
from greenroom.contract.operation import Operation
from greenroom.http.limits import RATE_CLASSES
from greenroom.http.streams import Streamed

Handler = Callable[..., Awaitable[Reply | Streamed]]
HandlerT = TypeVar("HandlerT", bound=Handler)


class Auth(enum.Enum):
    """The tokens that a call must carry, and so the caller that its handler gets."""

    KEY = "project key"
    """The handler gets a `GameCaller`."""
    PLAYER = "project key and player token"
    """The handler gets a `PlayerCaller`."""
    PLAYER_AND_ADMIN = "project key and player token, and the admin key if it is given"
    """The handler gets a `TrustedCaller`."""
    ADMIN = "project key and admin key"
    """The handler gets an `AdminCaller`."""


class TokenTexts(msgspec.Struct, frozen=True, kw_only=True):
    """The 401 texts of one endpoint; a bad project key is `Invalid API token` everywhere."""

    key_missing: str
    token_missing: str = ""
    """The text for a call without player token, or without admin key."""
    token_invalid: str = ""
    token_foreign: str | None = None
    """A good player token of another game; None says `token_invalid` there too."""
    admin_invalid: str = ""
    """An admin key beside a player token that is not the game's."""


class Endpoint(msgspec.Struct, frozen=True, kw_only=True):
    """One row: a method and a path, and everything the server knows about calls of it."""

    method: Literal["GET", "POST", "PUT"]
    path: str
    """`/api/time.php`; a segment in braces, `{room_id}`, is an argument of the handler."""
    auth: Auth
    texts: TokenTexts
    handler: Handler
    reply: type[Reply]
    summary: str
    """One line for the docs, without a full stop."""
    body: type[Body] | None = None
    query: type[Body] | None = None
    document_body: bool = False
    """The whole body is the document (the two document updates)."""
    refusals: tuple[type[Refused], ...] = ()
    """Refusals of the handler, for the docs."""
    rate_class: str = ""
    """Key into `limits.RATE_CLASSES`; not given, it follows from `auth` and `method`."""
    tool: str = ""
    """The name under which POST /mcp offers it as a tool; for calls that change nothing."""

    def __post_init__(self) -> None:
        """Refuse rows that could not work, when they are imported.

        Raises:
            TypeError: the row contradicts itself or its handler.
        """
        inputs = (self.body is not None) + (self.query is not None) + self.document_body
        if inputs > 1:
            raise TypeError(f"{self.path}: give one of body, query and document_body")
        if self.method == "GET" and (self.body is not None or self.document_body):
            raise TypeError(f"{self.path}: a GET has no body")
        if self.rate_class_in_force not in RATE_CLASSES:
            raise TypeError(f"{self.path}: there is no rate class {self.rate_class}")
        takes = len(inspect.signature(self.handler).parameters)
        if takes != 1 + inputs + len(self.path_names):
            raise TypeError(f"{self.path}: the handler takes {takes} arguments")
        if self.reply.__struct_fields__[0] != "success":
            raise TypeError(f"{self.reply.__name__} needs kw_only=True, so that success is first")
        if self.tool and (self.auth is not Auth.KEY or self.document_body or self.path_names):
            raise TypeError(f"{self.path}: a tool takes a project key and named arguments alone")

    @property
    def rate_class_in_force(self) -> str:
        """Return the class whose limits calls of it are held against."""
        if self.rate_class:
            return self.rate_class
        if self.auth is Auth.ADMIN:
            return "admin"
        return "read" if self.method == "GET" else "write"

    @property
    def path_names(self) -> tuple[str, ...]:
        """Return the names of the path's arguments, in order."""
        segments = self.path.split("/")
        return tuple(segment[1:-1] for segment in segments if segment.startswith("{"))

    @property
    def input(self) -> type[Any] | None:
        """Return the struct the handler's input is decoded into, if it has one."""
        return self.body if self.body is not None else self.query


class Area:
    """The endpoints of one module, each added by a decorator above its handler."""

    def __init__(self, auth: Auth, texts: TokenTexts) -> None:
        """Start without endpoints.

        Args:
            auth: the tokens that calls carry, unless an endpoint says otherwise.
            texts: the texts about those tokens, unless an endpoint has its own.
        """
        self._auth = auth
        self._texts = texts
        self._rows: list[Endpoint] = []

    def __iter__(self) -> Iterator[Endpoint]:
        return iter(self._rows)

    def add(
        self,
        operation: Operation[Any],
        *,
        auth: Auth | None = None,
        texts: TokenTexts | None = None,
        refusals: tuple[type[Refused], ...] = (),
        rate_class: str = "",
        tool: str = "",
    ) -> Callable[[HandlerT], HandlerT]:
        """Return the decorator that makes a function the handler of an operation.

        Args:
            operation: the call, its input, its reply and its summary.
            auth: the tokens that it needs; the area's by default.
            texts: the texts about them; the area's by default.
            refusals: what the handler may refuse with.
            rate_class: as `Endpoint.rate_class`.
            tool: as `Endpoint.tool`.
        """

        def add_row(handler: HandlerT) -> HandlerT:
            self._rows.append(
                Endpoint(
                    method=operation.method,
                    path=operation.path,
                    auth=auth or self._auth,
                    texts=texts or self._texts,
                    handler=handler,
                    reply=operation.reply,
                    summary=operation.summary,
                    body=operation.body,
                    query=operation.query,
                    document_body=operation.document_body,
                    refusals=refusals,
                    rate_class=rate_class,
                    tool=tool,
                )
            )
            return handler

        return add_row
