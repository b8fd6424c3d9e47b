"""One operation of the API: how it is called, what it takes and what it answers."""

from __future__ import annotations

from typing import Generic, Literal, TypeVar

import msgspec

from greenroom.contract.fields import Body, Reply

Method = Literal["GET", "POST", "PUT"]
ReplyT = TypeVar("ReplyT", bound=Reply)


class Operation(msgspec.Struct, Generic[ReplyT], frozen=True):
    """One operation; the server adds a handler to it, the client library a method."""

    method: Method
    path: str
    """`/api/time.php`; a segment in braces, `{room_id}`, is an argument of the call."""
    reply: type[ReplyT]
    summary: str
    """One line for the docs, without a full stop."""
    body: type[Body] | None = None
    query: type[Body] | None = None
    document_body: bool = False
    """True where the whole body is one document."""
    repeatable: bool = False
    """True where a second call changes nothing more and answers the same."""
