"""Steam: whose session ticket it is, asked of `ISteamUserAuth/AuthenticateUserTicket`.

Only `"result": "OK"` with a well-formed id signs anybody in. An error object is Steam's no to the
ticket; everything else (another status, another shape, silence) is Steam being unavailable.
"""

from __future__ import annotations

import logging
import re
from typing import Final, TypeVar

import msgspec
import trio

from greenroom.actors.game.settings import GameSettings
from greenroom.actors.world.platform import PlatformUser
from greenroom.actors.world.refusals import (
    BannedByPublisher,
    InvalidPlatformTicket,
    PlatformUnavailable,
)
from greenroom.http.platforms.client import PlatformAnswer, PlatformClient

STEAM: Final = "steam"
AUTHENTICATE_PATH: Final = "/ISteamUserAuth/AuthenticateUserTicket/v1/"
SUMMARIES_PATH: Final = "/ISteamUser/GetPlayerSummaries/v2/"
KEY_HEADER: Final = "x-webapi-key"

_STEAM_ID = re.compile(r"[1-9][0-9]{0,19}")
_WORTH_READING: Final = frozenset({200, 400})
"""Statuses whose body may be an answer to the question; Steam says 400 to some junk tickets."""

_logger = logging.getLogger(__name__)

T = TypeVar("T")


class _Params(msgspec.Struct):
    """The answer to a good ticket."""

    result: str
    steamid: str
    publisherbanned: bool
    vacbanned: bool = False


class _Error(msgspec.Struct):
    """The answer to any other ticket."""

    errorcode: int
    errordesc: str = ""


class _Verdict(msgspec.Struct):
    params: _Params | None = None
    error: _Error | None = None


class _TicketAnswer(msgspec.Struct):
    response: _Verdict


class _Summary(msgspec.Struct):
    steamid: str
    personaname: str


class _Summaries(msgspec.Struct):
    players: list[_Summary]


class _SummariesAnswer(msgspec.Struct):
    response: _Summaries


class Steam:
    """The provider, and the service that asks."""

    def __init__(self, base_url: str, seconds_max: float) -> None:
        """Prepare; Steam is unavailable until `run`.

        Args:
            base_url: the setting `steam_base_url`.
            seconds_max: how long one question may take.
        """
        self._client = PlatformClient("Steam", base_url, seconds_max)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Serve until cancelled."""
        await self._client.run(task_status=task_status)

    def find_platform(self, settings: GameSettings) -> SteamGame | None:
        """Return Steam for a game that has an app id and a publisher key."""
        if settings.steam_app_id is None or settings.steam_publisher_key is None:
            return None
        return SteamGame(self._client, settings.steam_app_id, settings.steam_publisher_key)


class SteamGame:
    """Steam as one game uses it."""

    def __init__(self, client: PlatformClient, app_id: int, publisher_key: str) -> None:
        """Ask for this game, with its publisher's key."""
        self._client = client
        self._app_id = app_id
        self._headers = {KEY_HEADER: publisher_key}

    async def authenticate(self, ticket: bytes, identity: str | None) -> PlatformUser:
        """Return whose ticket this is; raises as `Platform.authenticate`."""
        parameters = {"appid": str(self._app_id), "ticket": ticket.hex()}
        if identity is not None:
            parameters["identity"] = identity
        answer = await self._client.get(AUTHENTICATE_PATH, parameters, self._headers)
        verdict = self._decode(answer, _TicketAnswer).response
        if verdict.error is not None:
            _logger.info("Steam refused a ticket of app %d: %r", self._app_id, verdict.error)
            raise InvalidPlatformTicket
        params = verdict.params
        if params is None or params.result != "OK" or not _STEAM_ID.fullmatch(params.steamid):
            raise self._make_unclear("neither a user nor an error")
        if params.publisherbanned:
            raise BannedByPublisher
        return PlatformUser(STEAM, params.steamid)

    async def fetch_persona_name(self, user: PlatformUser) -> str | None:
        """Return the user's name on Steam, None if it cannot be found out now."""
        parameters = {"steamids": user.platform_id}
        try:
            answer = await self._client.get(SUMMARIES_PATH, parameters, self._headers)
            players = self._decode(answer, _SummariesAnswer).response.players
        except PlatformUnavailable:
            return None
        named = (one.personaname for one in players if one.steamid == user.platform_id)
        return next(named, None)

    def _decode(self, answer: PlatformAnswer, shape: type[T]) -> T:
        if answer.status in {401, 403}:
            raise self._make_unclear(f"status {answer.status}: look at the game's publisher key")
        if answer.status not in _WORTH_READING:
            raise self._make_unclear(f"status {answer.status}")
        try:
            return msgspec.json.decode(answer.body, type=shape)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise self._make_unclear(
                f"status {answer.status}, an answer of another shape"
            ) from None

    def _make_unclear(self, reason: str) -> PlatformUnavailable:
        _logger.warning("Steam gave no clear answer for app %d: %s", self._app_id, reason)
        return PlatformUnavailable()
