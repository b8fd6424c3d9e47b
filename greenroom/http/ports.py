"""The ports of the servers: the dispatcher, and other nodes, which `cluster` implements."""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final, NoReturn, Protocol

import msgspec
import trio

from greenroom.http.request import Answer, Notes, Request


class BegunAnswer(Protocol):
    """The answer of another node that no task waits for."""

    request: Request
    is_refused: bool
    """It was not sent: `finish` tells why."""

    def read(self) -> Answer | None:
        """Return the answer that has come, once; None if `finish` must be awaited for it."""
        ...

    def finish(self) -> Coroutine[Any, Any, Answer]:
        """Wait for the answer; the result is that of `Answerer.answer`. Not after `read`."""
        ...

    def drop(self) -> None:
        """Wait no longer. The call may have happened."""
        ...


Begin = Callable[[Request, Callable[[], None]], BegunAnswer | None]
"""Sends a request to the node that has answered others like it; the dispatcher's.

It gets the request, and what to call once the answer can be read. That is not called if it is
refused at once. It returns the answer to come; or None if it is not known who gives it, and nothing
has happened: `Answerer.answer` does then.
"""


class Answerer(Protocol):
    """The dispatcher, as the servers see it."""

    def answer(self, request: Request) -> Coroutine[Any, Any, Answer]:
        """Answer a request; what is awaited does not raise."""
        ...

    async def vouches(self, request: Request) -> bool:
        """Return whether the tokens of a request are good, so that its body is worth reading.

        False for every request that is refused whatever its body says. Does not raise, and charges
        nobody: `answer` does.

        Args:
            request: without its body.
        """
        ...


class ForwardedRequest(Request, gc=False):
    """A request that another node has sent on.

    That node has charged the client's address for the request, and charges it for the rest, too.
    """

    has_failed_token: bool = False
    """Set while it is answered if its key or token was wrong: the sender charges for it."""


class SentOn(msgspec.Struct, frozen=True, gc=False):
    """The place to send a call to that a node has looked at without carrying it out."""

    shard: int | None = None
    """The owner of this shard; None to find out anew."""
    vouched: int = 0
    """The player whose tokens are good, and are not looked at again; 0 for nobody."""
    has_begun: bool = False
    """A part of it has happened, which may be repeated."""


NOT_HERE: Final = SentOn()
"""Nothing is known but that it is not to be answered here."""


class SentCall(msgspec.Struct, frozen=True, gc=False):
    """A call that another node may have to answer, and what is done about it here."""

    request: Request
    is_players: bool
    """True if it needs a player's token, and so begins at that player's node."""
    only_reads: bool
    """True if it changes nothing but presence, so that it may be sent again."""
    answer_here: Callable[[int], Awaitable[Answer | SentOn]]
    """Answers it on this node for a vouched player, or 0, unless another is to. Never raises."""
    note_failed_token: Callable[[], None]
    """Charges the client's address for a wrong key or token."""
    charge_bytes: Callable[[int], None]
    """Charges the client's address for so many bytes of an answer."""


class BegunElsewhere(Protocol):
    """A request that was sent on like one before; see `BegunAnswer`."""

    is_refused: bool
    """It was not sent."""

    def read(self) -> Answer | None:
        """Return the answer that has come; None if `finish` must be awaited for it."""
        ...

    def finish(self, make_call: Callable[[], SentCall]) -> Coroutine[Any, Any, Answer]:
        """Return the answer, whatever happens; as `Elsewhere.answer`.

        Args:
            make_call: makes the call of it, which is seldom needed.

        Cancellation: what was sent may have happened.
        """
        ...

    def drop(self) -> None:
        """Wait no longer."""
        ...


class Elsewhere(Protocol):
    """The other nodes, as the dispatcher sees them."""

    def is_here(self, request: Request, *, is_players: bool) -> bool:
        """Return whether this node answers a request, or none does. Takes no step to find out.

        Args:
            request: which.
            is_players: see `SentCall`.
        """
        ...

    def recall_way(self, request: Request, notes: Notes) -> Any | None:
        """Return the way that a request has gone whose notes these are, for `begin_like`.

        Return None, and forget it, if it may lead somewhere else by now.
        """
        ...

    def begin_like(
        self,
        way: Any,
        request: Request,
        *,
        only_reads: bool,
        then: Callable[[], None] | None,
    ) -> BegunElsewhere:
        """Send a request on like one before.

        Args:
            way: what `recall_way` has just returned.
            request: the request, which has notes.
            only_reads: see `SentCall`.
            then: see `Begin`.
        """
        ...

    async def answer(self, call: SentCall, sent_on: SentOn = NOT_HERE) -> Answer:
        """Answer a call wherever its game, or its player, is.

        Args:
            call: a call that `is_here` does not claim, or whose game went away under it.
            sent_on: what this node has found out about where that is.

        Returns:
            The answer, whatever happens. Its stream must be closed, as that of any answer.

        Cancellation: what was sent may have happened.
        """
        ...

    async def vouches(
        self,
        request: Request,
        vouches_here: Callable[[], Awaitable[bool | SentOn]],
        *,
        is_players: bool,
    ) -> bool:
        """Return whether the node that a request is for finds its tokens good. Never raises.

        Args:
            request: without its body.
            vouches_here: tells whether this node does, unless another is to tell.
            is_players: see `SentCall`.

        Cancellation changes nothing.
        """
        ...


TakeOver = Callable[[socket.socket, str, int], None]
"""Begins to serve a connection that comes from another process: the non-blocking socket, the peer's
address, and how often it has moved. It owns the socket, and must not block or raise."""


class OtherWorkers(Protocol):
    """The other processes of this machine, as the server sees them that accepts connections."""

    def give(self, connected: socket.socket, peer: str, moves: int, node_id: int) -> bool:
        """Give a connection to the process of a node; return whether that has worked.

        If it has, the socket is only to be closed here: the other process has one of its own.

        Args:
            connected: a plain socket, at a place where no request is under way.
            peer: the address at its other end.
            moves: how often it has moved, this time included.
            node_id: the node.
        """
        ...

    def give_any(self, connected: socket.socket, peer: str) -> bool:
        """Give a connection to any process that stays while this one stops; see `give`.

        It works after `run` has ended, too. Where all of them stop, none takes it.
        """
        ...

    async def run(self, take: TakeOver, *, task_status: trio.TaskStatus[None]) -> NoReturn:
        """Take connections until cancelled; started once others can give some.

        Cancellation: what has been given already is still taken.
        """
        ...
