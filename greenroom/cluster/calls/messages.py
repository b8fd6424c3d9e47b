"""The messages by which calls reach other nodes. A field that is added later needs a default.

Whatever else is changed needs another `PROTOCOL`, and then nodes of both versions cannot run side
by side. Each message is bounded by the bus, and each list in it here.
"""

from __future__ import annotations

from typing import Annotated, Final

import msgspec

from greenroom.actors.kernel.shards import SHARDS
from greenroom.cluster.messenger import BusMessage
from greenroom.http.auth import ADMIN_KEY_HEADER, PLAYER_TOKEN_HEADER, PROJECT_KEY_HEADER
from greenroom.http.request import Request

TOKEN_HEADERS: Final = tuple(
    header.lower() for header in (PROJECT_KEY_HEADER, PLAYER_TOKEN_HEADER, ADMIN_KEY_HEADER)
)
"""The headers that are read besides Host, in the order in which they are sent on."""
_KEY, _TOKEN, _ADMIN = TOKEN_HEADERS

Shard = Annotated[int, msgspec.Meta(ge=0, lt=SHARDS)]
NodeId = Annotated[int, msgspec.Meta(ge=0)]
Epoch = Annotated[int, msgspec.Meta(ge=0)]
Number = Annotated[int, msgspec.Meta(ge=0)]
Token = str | None

# Calls of clients, sent on to the owner of their game.


class ForwardCall(BusMessage, frozen=True):
    """A call for a game of the receiver's; answered with `Forwarded` or `NotOwner`."""

    shard: Shard
    number: Number
    """Numbers the sender's calls that change something, from 1; 0 for those that only read."""
    method: str
    path: str
    query: str
    host: str
    tokens: tuple[Token, Token, Token]
    """Project key, player token, admin key."""
    body: bytes
    address: str
    """The client's address, which the sender has charged."""
    is_body_too_large: bool = False
    vouched: Number = 0
    """The player whose tokens were good at a third node; they are not looked at again."""


class Forwarded(BusMessage, frozen=True):
    """The answer to a call, or its beginning."""

    status: Annotated[int, msgspec.Meta(ge=100, le=599)]
    body: bytes
    headers: Annotated[tuple[tuple[str, str], ...], msgspec.Meta(max_length=32)] = ()
    content_type: str = ""
    has_failed_token: bool = False
    """The sender charges the client's address for a wrong token."""
    parts: Number = 0
    """The number by which to ask for the rest, 0 if this is all."""
    size: Number = 0
    """Bytes of all parts; 0 for a stream, whose length nobody knows yet."""
    like: Number = 0
    """The number by which to send on calls like this one; see `ForwardLike`."""
    takes_together: bool = False
    """Such calls may come together; see `Bus.begin_together`."""


class ForwardLike(BusMessage, frozen=True):
    """A call like one before: all but its body, and its number, is the same.

    It is answered as `ForwardCall`, or with `NotKnown`. Only nodes that have given a number for
    such calls are sent any.
    """

    like: Number
    number: Number
    body: bytes


class NotKnown(BusMessage, frozen=True):
    """The answer to a `ForwardLike` whose number has been forgotten. Nothing ran."""


class NextPart(BusMessage, frozen=True):
    """Asks for the next part of an answer; answered with `Part`."""

    parts: Number


class Part(BusMessage, frozen=True):
    """A part of an answer; an empty one is behind the last."""

    body: bytes
    is_broken: bool = False
    """The rest is lost."""


class DropParts(BusMessage, frozen=True):
    """Tells that nobody will ask for the rest of an answer."""

    parts: Number


class Vouch(BusMessage, frozen=True):
    """Asks whether the tokens of a call are good; answered with `Vouched` or `NotOwner`."""

    shard: Shard
    method: str
    path: str
    host: str
    tokens: tuple[Token, Token, Token]
    address: str


class Vouched(BusMessage, frozen=True):
    """Tells whether the tokens of a call are good."""

    is_good: bool


class NotOwner(BusMessage, frozen=True):
    """The answer of a node that does not own the shard: it is to be carried out elsewhere."""

    shard: Shard
    owner: NodeId
    """The node that owns it as far as the answering one knows, 0 if it knows none."""
    epoch: Epoch
    """When that node became the owner."""
    sent_on: Shard | None = None
    """The shard whose owner is to be asked instead, if it is another one."""
    vouched: Number = 0
    """The player whose tokens are good, if that node is not to look at them."""
    has_begun: bool = False
    """A part of the call has happened, which may be repeated."""


# Between requests and messages.


def forward_of(request: Request, shard: int, vouched: int, number: int = 0) -> ForwardCall:
    """Return a request as it is sent on; with a number, it is carried out once."""
    find = request.headers.get
    return ForwardCall(
        shard,
        number,
        request.method,
        request.path,
        request.query,
        find("host", ""),
        (find(_KEY), find(_TOKEN), find(_ADMIN)),
        request.body,
        request.address,
        request.body_too_large,
        vouched,
    )


def question_of(request: Request, shard: int) -> Vouch:
    """Return the question whether a request's tokens are good."""
    find = request.headers.get
    tokens = find(_KEY), find(_TOKEN), find(_ADMIN)
    return Vouch(shard, request.method, request.path, find("host", ""), tokens, request.address)


def headers_of(host: str, tokens: tuple[Token, Token, Token]) -> dict[str, str]:
    """Return the headers of a call as they were sent on."""
    given = {"host": host} if host else {}
    key, player, admin = tokens
    if key is not None:
        given[_KEY] = key
    if player is not None:
        given[_TOKEN] = player
    if admin is not None:
        given[_ADMIN] = admin
    return given
