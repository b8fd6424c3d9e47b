"""The check of a text for offensive words."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec

from greenroom.contract.allowed_values import CENSORED_CHARACTERS_MAX
from greenroom.contract.fields import Body, Missing, Reply
from greenroom.contract.operation import Operation


class CensorBody(Body, kw_only=True):
    """A text, as it was typed."""

    text: Annotated[
        str,
        Missing("text is required"),
        msgspec.Meta(min_length=1, max_length=CENSORED_CHARACTERS_MAX, pattern=r"^[^\u0000]*$"),
    ]


class CensorReply(Reply, kw_only=True):
    """The result of a check: `clean`, and the text with a `*` for each offensive character."""

    clean: bool
    filtered: str


CENSOR: Final = Operation(
    "POST",
    "/api/censor.php",
    reply=CensorReply,
    body=CensorBody,
    summary="Check a text for offensive words",
    repeatable=True,
)
