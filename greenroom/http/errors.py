"""From what went wrong to the answer that says so: the one place for statuses and error bodies."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable
from typing import Any

import msgspec

from greenroom.actors.kernel.errors import (
    ActorUnavailable,
    CommitUnsettled,
    MailboxFull,
    NotFound,
    Refused,
    StorageRefused,
    StorageUnavailable,
)
from greenroom.actors.leaderboard.refusals import TooManyBuilds
from greenroom.actors.plans.refusals import (
    CallShareUsed,
    GamesHoldTooMuch,
    PlayersRefused,
    RoomsRefused,
    StorageShareUsed,
)
from greenroom.actors.player.messages import Ban
from greenroom.actors.player.refusals import PlayerIsBanned
from greenroom.actors.seating.refusals import TooManyGuesses
from greenroom.actors.studio_room.refusals import (
    BehaviourFailed,
    BehaviourRests,
    RefusedByBehaviour,
)
from greenroom.actors.world.refusals import (
    BannedByPublisher,
    InvalidPlatformTicket,
    PlatformUnavailable,
)
from greenroom.contract.errors import BanInfo
from greenroom.contract.fields import timestamp
from greenroom.contract.refusals import HINTS, METHOD_HINTS, PATH_HINT
from greenroom.http.request import Answer

INVALID_ENDPOINT = "Invalid endpoint"
BODY_TOO_LARGE = "Request body is too large"
TOO_MANY_REQUESTS = "Too many requests"
INTERNAL_SERVER_ERROR = "Internal server error"

OVERLOAD_RETRY_SECONDS = 1
STORAGE_RETRY_SECONDS = 2
"""About as long as the database takes to come back after a crash."""

logger = logging.getLogger(__name__)


class Unauthorized(Refused):
    """A token is missing or not valid; the endpoint's own text says which."""


class KeyInvalid(Unauthorized):
    """The project key opens no game."""

    text = "Invalid API token"


# The first class that fits decides.
STATUSES: tuple[tuple[type[Refused], int], ...] = (
    (PlayerIsBanned, 403),
    (BannedByPublisher, 403),
    (PlayersRefused, 429),
    (GamesHoldTooMuch, 429),
    (TooManyGuesses, 429),
    (CallShareUsed, 429),
    (StorageShareUsed, 429),
    (RoomsRefused, 429),
    (TooManyBuilds, 429),
    (BehaviourRests, 429),
    (Unauthorized, 401),
    (InvalidPlatformTicket, 401),
    (PlatformUnavailable, 429),
    (NotFound, 404),
    (Refused, 400),
)


def status_of(refusal: type[Refused]) -> int:
    """Return the HTTP status that a kind of refusal is answered with."""
    return next(status for kind, status in STATUSES if issubclass(refusal, kind))


def _ban_info(ban: Ban) -> BanInfo:
    return BanInfo(
        ban.ban_id,
        ban.ban_duration,
        ban.ban_reason,
        timestamp(ban.banned_at),
        timestamp(ban.banned_until),
    )


def error_answer(status: int, text: str, hint: str | None = None, **more: Any) -> Answer:
    """Return an answer with this status and `{"success": false, "error": text, …}`.

    Args:
        status: of HTTP.
        text: the error.
        hint: what to do; None for the text's own hint, if it has one; empty for none.
        more: other fields.
    """
    body: dict[str, Any] = {"success": False, "error": text, **more}
    hint = HINTS.get(text) if hint is None else hint
    if hint:
        body["hint"] = hint
    return Answer(status, msgspec.json.encode(body))


def too_many_requests(retry_seconds: int, text: str = TOO_MANY_REQUESTS) -> Answer:
    """Return the 429 that asks to come back after so many seconds."""
    answer = error_answer(429, text, retry_after=retry_seconds)
    answer.headers = (("Retry-After", str(retry_seconds)),)
    return answer


def body_too_large() -> Answer:
    """Return the 413 of a body longer than the setting allows."""
    return error_answer(413, BODY_TOO_LARGE)


def invalid_endpoint(methods: Iterable[str] = ()) -> Answer:
    """Return the 404 of a path or method that no endpoint has; `methods` are the path's own."""
    hint = next((METHOD_HINTS[method] for method in methods if method in METHOD_HINTS), PATH_HINT)
    return error_answer(404, INVALID_ENDPOINT, hint)


def internal_server_error() -> Answer:
    """Return the 500, which says nothing about what happened."""
    return error_answer(500, INTERNAL_SERVER_ERROR)


def is_too_many(error: Exception) -> bool:
    """Return whether `answer_of` answers this with 429: come back later, nothing was done."""
    if isinstance(error, Refused):
        return status_of(type(error)) == 429
    if isinstance(error, StorageRefused):
        return False
    return isinstance(error, MailboxFull | StorageUnavailable)


def answer_of(error: Exception, where: str) -> Answer:
    """Return the answer for whatever an endpoint raised, and log what is a fault of the server.

    Args:
        error: what was raised.
        where: the endpoint, for the log; never anything of the request itself.
    """
    match error:
        case PlayerIsBanned():
            return error_answer(403, str(error), ban_info=_ban_info(error.ban))
        case KeyInvalid():
            return error_answer(401, str(error), message="Authentication failed")
        case PlatformUnavailable():
            return too_many_requests(error.retry_seconds, str(error))
        case TooManyBuilds():
            return too_many_requests(error.retry_seconds)
        case CallShareUsed() | StorageShareUsed():
            return too_many_requests(error.retry_seconds, str(error))
        case TooManyGuesses():
            return too_many_requests(math.ceil(error.retry_seconds), str(error))
        case RoomsRefused() | PlayersRefused() | GamesHoldTooMuch():
            return too_many_requests(error.retry_seconds, str(error))
        case BehaviourRests():
            return too_many_requests(math.ceil(error.retry_seconds))
        case BehaviourFailed():
            return internal_server_error()
        case RefusedByBehaviour():  # the text is the studio's
            return error_answer(400, str(error), "")
        case Refused():
            return error_answer(status_of(type(error)), str(error), error.hint)
        case MailboxFull():
            return too_many_requests(OVERLOAD_RETRY_SECONDS)
        case StorageRefused():
            # Whoever asked the database has logged its words; trying again would bring the same.
            return internal_server_error()
        case StorageUnavailable():
            return too_many_requests(STORAGE_RETRY_SECONDS)
        case CommitUnsettled():
            return internal_server_error()  # the committer logs it, once for all who wait
        case ActorUnavailable():
            # The kernel has logged the crash itself; this line says who met it.
            logger.warning("%s: %s: %s", where, type(error).__name__, error)
            return internal_server_error()
        case _:
            logger.error("%s failed", where, exc_info=error)
            return internal_server_error()
