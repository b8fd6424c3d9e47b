"""The censor area: whether a text offends, and what is left of it."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec

from greenroom.actors.game.messages import CensorText
from greenroom.actors.kernel.errors import Refused
from greenroom.actors.text.moderation import CHARACTERS_MAX
from greenroom.http.caller import GameCaller
from greenroom.http.fields import Body, Missing, Reply
from greenroom.http.table import Auth, Endpoint, TokenTexts


class TextTooLong(Refused):
    """More than is checked in one call."""

    text = f"text must be at most {CHARACTERS_MAX} characters"


class CensorBody(Body, kw_only=True):
    """The text, as it was typed."""

    text: Annotated[
        str,
        Missing("text is required"),
        msgspec.Meta(min_length=1, max_length=CHARACTERS_MAX, pattern=r"^[^\u0000]*$"),
    ]


class CensorReply(Reply, kw_only=True):
    """Whether nothing in it offends; the text, with a `*` for each character of what does."""

    clean: bool
    filtered: str


async def censor(caller: GameCaller, body: CensorBody) -> CensorReply:
    """Check a text in the game's languages."""
    if len(body.text) > CHARACTERS_MAX:
        raise TextTooLong
    censored = await caller.game.ask(CensorText(body.text))
    return CensorReply(clean=censored.clean, filtered=censored.filtered)


ENDPOINTS: Final = (
    Endpoint(
        method="POST",
        path="/api/censor.php",
        auth=Auth.KEY,
        texts=TokenTexts(key_missing="API token is required"),
        body=CensorBody,
        reply=CensorReply,
        handler=censor,
        summary="Check a text for offensive words",
        refusals=(TextTooLong,),
        rate_class="censor",
    ),
)
