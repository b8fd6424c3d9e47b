"""The port by which the dispatcher has calls answered by other nodes; `cluster` implements it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

import msgspec

from greenroom.http.request import Answer, Request


class ForwardedRequest(Request, gc=False):
    """A request that another node has sent on.

    That node has charged the client's address for the request, and charges it for the rest, too.
    """

    has_failed_token: bool = False
    """Set while it is answered if its key or token was wrong: the sender charges for it."""


class SentCall(msgspec.Struct, frozen=True, gc=False):
    """A call that another node may have to answer, and what is done about it here."""

    request: Request
    only_reads: bool
    """True if it changes nothing but presence, so that it may be sent again."""
    answer_here: Callable[[], Awaitable[Answer | None]]
    """Answers it on this node; None if its game has gone to another node. Never raises."""
    note_failed_token: Callable[[], None]
    """Charges the client's address for a wrong key or token."""
    charge_bytes: Callable[[int], None]
    """Charges the client's address for so many bytes of an answer."""


class Elsewhere(Protocol):
    """The other nodes, as the dispatcher sees them."""

    def is_here(self, request: Request) -> bool:
        """Return whether this node answers a request, or none does. Takes no step to find out."""
        ...

    async def answer(self, call: SentCall) -> Answer:
        """Answer a call wherever its game is.

        Args:
            call: a call that `is_here` does not claim, or whose game went away under it.

        Returns:
            The answer, whatever happens. Its stream must be closed, as that of any answer.

        Cancellation: what was sent may have happened.
        """
        ...

    async def vouches(
        self, request: Request, vouches_here: Callable[[], Awaitable[bool | None]]
    ) -> bool:
        """Return whether the node that a request is for finds its tokens good. Never raises.

        Args:
            request: without its body.
            vouches_here: tells whether this node does; None if the game is another node's.

        Cancellation changes nothing.
        """
        ...
