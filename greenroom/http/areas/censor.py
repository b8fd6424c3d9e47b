"""The censor area: the check of a text for offensive words."""

from __future__ import annotations

from typing import Final

from greenroom.actors.game.messages import CensorText
from greenroom.actors.kernel.errors import Refused
from greenroom.contract.allowed_values import CENSORED_CHARACTERS_MAX
from greenroom.contract.censor import CENSOR, CensorBody, CensorReply
from greenroom.http.caller import GameCaller
from greenroom.http.table import Area, Auth, TokenTexts

ENDPOINTS: Final = Area(Auth.KEY, TokenTexts(key_missing="API token is required"))


class TextTooLong(Refused):
    """The text is longer than one call may check."""

    text = f"text must be at most {CENSORED_CHARACTERS_MAX} characters"


@ENDPOINTS.add(CENSOR, refusals=(TextTooLong,), rate_class="censor")
async def censor(caller: GameCaller, body: CensorBody) -> CensorReply:
    """Check a text in the game's languages."""
    if len(body.text) > CENSORED_CHARACTERS_MAX:
        raise TextTooLong
    censored = await caller.game.ask(CensorText(body.text))
    return CensorReply(clean=censored.clean, filtered=censored.filtered)
