"""The errors of this library, as one tree. Each leaf says what to do.

    GreenroomError
    ├── ApiError            the server refused a call; `status` and `text` say why
    │   ├── Unauthorized    401: a key or token is missing, wrong or has been replaced
    │   ├── Banned          403: the player is banned; `ban_info`
    │   ├── NotFound        404: there is nothing by this id
    │   ├── RateLimited     429: come back after `retry_after` seconds
    │   └── ServerError     5xx: the server has a bug, or could not be sure
    ├── UnexpectedAnswer    no Greenroom answered, or one too new for this library
    ├── ConnectionFailed    no answer; `was_sent` says whether the call may have happened
    ├── ActionRefused       an action over a channel was not taken; `text` says why
    ├── ActionFailed        an action over a channel has failed; `result` has what is known
    ├── ActionLost          nobody knows what came of an action over a channel
    └── ChannelClosed       a realtime connection is over; `code` and `reason`
        ├── TokenRefused    its token is not good
        ├── Replaced        the same player has connected elsewhere
        ├── RoomEnded       the room is over
        ├── SeatLost        the player has left, or was kicked or banned
        ├── MessageTooBig   a message of ours was larger than the server takes
        └── ChannelLost     the connection was cut, and not opened again in time

Calls raise `ApiError`, `UnexpectedAnswer` and `ConnectionFailed`, channels all of them.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Final

from greenroom.client.decoding import NotDecoded, decode
from greenroom.contract.errors import BanInfo as BanInfo  # noqa: PLC0414 (exported)
from greenroom.contract.errors import ErrorReply
from greenroom.contract.refusals import CODES
from greenroom.contract.room_exchange import ResultEntry


class GreenroomError(Exception):
    """Base of all errors of this library.

    Attributes:
        hint: what to do, where the server has said that, too; None without one. It is printed.
    """

    hint: str | None = None

    def __str__(self) -> str:
        """Return what went wrong, and what to do if that is known."""
        text = super().__str__()
        return text if self.hint is None else f"{text} ({self.hint})"


class ApiError(GreenroomError):
    """The server refused a call, and nothing has changed. A 400 is of this class itself.

    Attributes:
        status: the HTTP status.
        text: the server's text, one of those that the API lists.
        code: a name for the text, such as `room_full`; None for a text that is not known here.
    """

    def __init__(self, status: int, text: str) -> None:
        """Store the arguments."""
        super().__init__(f"{status}: {text}")
        self.status = status
        self.text = text
        self.code = CODES.get((status, text))


class Unauthorized(ApiError):
    """A key or token is missing, wrong, or has been replaced: sign in again."""


class Banned(ApiError):
    """The player is banned.

    Attributes:
        ban_info: for how long and why; None where the ban is the platform's.
    """

    def __init__(self, status: int, text: str, ban_info: BanInfo | None) -> None:
        """Store the arguments."""
        super().__init__(status, text)
        self.ban_info = ban_info


class NotFound(ApiError):
    """There is nothing by this id, or no longer."""


class RateLimited(ApiError):
    """There were too many calls, and the allowed retries are used up.

    Attributes:
        retry_after: seconds to wait before the next try.
    """

    def __init__(self, status: int, text: str, retry_after: float) -> None:
        """Store the arguments."""
        super().__init__(status, text)
        self.retry_after = retry_after


class ServerError(ApiError):
    """The server failed. The call may still have happened: read before you repeat it."""


class UnexpectedAnswer(GreenroomError):
    """The answer is not one of this API's. Check the address."""


class ConnectionFailed(GreenroomError):
    """There was no answer, or not in time.

    Attributes:
        was_sent: True if the call may have reached the server, and may have happened.
    """

    def __init__(self, why: str, *, was_sent: bool) -> None:
        """Store the reason, and whether the call may have happened."""
        super().__init__(why)
        self.was_sent = was_sent


class ActionRefused(GreenroomError):
    """The server did not take an action, and nothing has changed.

    Attributes:
        text: the reason, the server's or the game's.
        retry_after: seconds after which to try again; None where that would change nothing.
    """

    def __init__(self, text: str, retry_after: float | None) -> None:
        """Store the arguments."""
        super().__init__(text)
        self.text = text
        self.retry_after = retry_after


class ActionFailed(GreenroomError):
    """An action was settled, and has failed: by the game's rules, or because its target left.

    Attributes:
        result: the whole result; its `response_data` has the game's reason.
    """

    def __init__(self, result: ResultEntry) -> None:
        """Store the result."""
        super().__init__(f"{result.action_type} has failed: {result.response_data}")
        self.result = result


class ActionLost(GreenroomError):
    """No result has come, and the action may have happened: see `Room.results`."""


class ChannelClosed(GreenroomError):
    """A realtime connection is over.

    Attributes:
        code: the code of the WebSocket close frame; 1006 if there was none.
        reason: the server's reason, or this library's.
    """

    def __init__(self, code: int, reason: str) -> None:
        """Store the arguments."""
        super().__init__(f"{code}: {reason}" if reason else str(code))
        self.code = code
        self.reason = reason


class TokenRefused(ChannelClosed):
    """A new token is not good: the seat is gone, or this is another server."""


class Replaced(ChannelClosed):
    """The same player has connected from elsewhere."""


class RoomEnded(ChannelClosed):
    """The room is over."""


class SeatLost(ChannelClosed):
    """The player has left the room, or was kicked or banned."""


class MessageTooBig(ChannelClosed):
    """One of our messages was larger than the server takes: send less at once."""


class ChannelLost(ChannelClosed):
    """The connection was cut.

    Raised by `send`: the message may have arrived or not, and the channel is connecting again.
    Raised elsewhere: the channel could not connect again in the time allowed.
    """


_RETRY_AFTER_DEFAULT: Final = 1.0


def refusal(status: int, body: bytes, retry_after: str | None) -> ApiError | UnexpectedAnswer:
    """Return the error for an answer.

    Args:
        status: the status of the answer.
        body: the body of the answer; a proxy's may be anything.
        retry_after: the header, in seconds.
    """
    try:
        failure = decode(body, ErrorReply)
    except NotDecoded:
        phrase = _phrase(status)
        if status < HTTPStatus.BAD_REQUEST:
            return UnexpectedAnswer(f"{phrase}, without the JSON object that Greenroom answers")
        failure = ErrorReply(error=phrase)
    error = _api_error(status, failure, retry_after)
    error.hint = failure.hint
    return error


def _api_error(status: int, failure: ErrorReply, retry_after: str | None) -> ApiError:
    """Return the error of a status."""
    match status:
        case 401:
            return Unauthorized(status, failure.error)
        case 403:
            return Banned(status, failure.error, failure.ban_info)
        case 404:
            return NotFound(status, failure.error)
        case 429:
            seconds = failure.retry_after
            seconds = _seconds(retry_after) if seconds is None else seconds
            return RateLimited(status, failure.error, seconds)
        case _:
            kind = ServerError if status >= HTTPStatus.INTERNAL_SERVER_ERROR else ApiError
            return kind(status, failure.error)


def _phrase(status: int) -> str:
    try:
        return f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        return str(status)


def _seconds(header: str | None) -> float:
    return float(header) if header and header.isdecimal() else _RETRY_AFTER_DEFAULT


# What a close frame means.

_REASONS: Final[dict[str, type[ChannelClosed]]] = {
    "Connection replaced": Replaced,
    "Room cleanup": RoomEnded,
    "Player disconnect": SeatLost,
}
_POLICY: Final = 1008
_TOO_BIG: Final = 1009


def closing(code: int, reason: str) -> ChannelClosed:
    """Return the error for a close frame; after `ChannelLost` the channel connects again."""
    if code == _POLICY:
        return TokenRefused(code, reason)
    if code == _TOO_BIG:
        return MessageTooBig(code, reason)
    return _REASONS.get(reason, ChannelLost)(code, reason)
