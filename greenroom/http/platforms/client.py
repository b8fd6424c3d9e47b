"""An HTTP client for platforms' servers: bounded in time, in size, and in calls at once.

It goes to one configured address, follows no redirects, and asks the environment for no proxy. URLs
and headers hold secrets here, so nothing of a request is ever logged.
"""

from __future__ import annotations

import logging
import ssl
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import msgspec
import trio

from greenroom.actors.world.refusals import PlatformUnavailable

if TYPE_CHECKING:
    import httpx2

_logger = logging.getLogger(__name__)

CALLS_MAX: Final = 32
"""At once; whoever comes beyond is told to try again."""
ANSWER_BYTES_MAX: Final = 64 << 10
CLOSE_SECONDS_MAX: Final = 2.0
_LOUD: Final = ("httpx2", "httpcore2")
"""Loggers that write URLs, or headers."""


class PlatformAnswer(msgspec.Struct, frozen=True):
    """A complete answer of the platform."""

    status: int
    body: bytes


class PlatformClient:
    """A service: calls are answered while it runs."""

    def __init__(self, name: str, base_url: str, seconds_max: float) -> None:
        """Prepare; nothing is opened before `run`.

        Args:
            name: the platform's, for the log.
            base_url: paths are appended to it.
            seconds_max: how long one call may take, from looking up the name to the last byte.
        """
        self._name = name
        self._base_url = base_url.rstrip("/")
        self._seconds_max = seconds_max
        self._free = trio.Semaphore(CALLS_MAX)
        self._client: httpx2.AsyncClient | None = None
        self._wanted = trio.Event()
        self._decided = trio.Event()
        """Set when `_client` is there, or will not be."""
        self._decided.set()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Serve calls until cancelled.

        The first call loads what all need. That takes a tenth of a second, so a thread does it.
        """
        self._wanted, self._decided = trio.Event(), trio.Event()
        try:
            task_status.started()
            await self._wanted.wait()
            self._client = client = await trio.to_thread.run_sync(self._open)
            try:
                self._decided.set()
                await trio.sleep_forever()
            finally:
                self._client = None
                deadline = trio.current_time() + CLOSE_SECONDS_MAX
                with trio.CancelScope(shield=True, deadline=deadline):
                    await client.aclose()
        finally:
            self._decided.set()

    def _open(self) -> httpx2.AsyncClient:
        import httpx2

        for logger in _LOUD:
            logging.getLogger(logger).setLevel(logging.WARNING)
        # A connection a call: one that was kept may be dead by the moment it is used again, and a
        # question that a ticket is spent on cannot be asked twice.
        limits = httpx2.Limits(max_connections=CALLS_MAX, max_keepalive_connections=0)
        return httpx2.AsyncClient(
            limits=limits,
            timeout=self._seconds_max,
            trust_env=False,
            headers={"Accept-Encoding": "identity", "User-Agent": "greenroom"},
        )

    async def get(
        self, path: str, parameters: Mapping[str, str], headers: Mapping[str, str]
    ) -> PlatformAnswer:
        """Fetch one answer, of whatever status.

        Raises:
            PlatformUnavailable: there was none, or not in time, or it is too long.

        Cancellation: it may have been asked for.
        """
        try:
            self._free.acquire_nowait()
        except trio.WouldBlock:
            raise self._make_unavailable(f"{CALLS_MAX} calls are under way already") from None
        try:
            with trio.move_on_after(self._seconds_max) as scope:
                return await self._fetch(scope, path, parameters, headers)
            raise self._make_unavailable(
                f"no whole answer of at most {ANSWER_BYTES_MAX} bytes within {self._seconds_max} s"
            )
        finally:
            self._free.release()

    async def _fetch(
        self,
        scope: trio.CancelScope,
        path: str,
        parameters: Mapping[str, str],
        headers: Mapping[str, str],
    ) -> PlatformAnswer:
        """Fetch an answer; one that is too long ends the scope, which closes all that is open."""
        self._wanted.set()
        await self._decided.wait()
        if self._client is None:
            raise self._make_unavailable("the client is not running")
        import httpx2

        url, body = self._base_url + path, bytearray()
        try:
            async with self._client.stream(
                "GET", url, params=dict(parameters), headers=dict(headers)
            ) as response:
                async for chunk in response.aiter_raw():
                    body += chunk
                    if len(body) > ANSWER_BYTES_MAX:
                        scope.cancel()
                        body.clear()
                await trio.lowlevel.checkpoint_if_cancelled()
                return PlatformAnswer(response.status_code, bytes(body))
        except (httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError, OSError) as error:
            reason = _reason(error)
        raise self._make_unavailable(reason)

    def _make_unavailable(self, reason: str) -> PlatformUnavailable:
        """Log why, for the operator, and return the refusal, for the player."""
        _logger.warning("%s is unavailable: %s", self._name, reason)
        return PlatformUnavailable()


def _reason(error: BaseException) -> str:
    """Return what went wrong, without the request; a failed handshake lies below other errors."""
    below: BaseException | None = error
    while below is not None:
        if isinstance(below, ssl.SSLError):
            return f"TLS failed ({below.reason or type(below).__name__})"
        below = below.__cause__ or below.__context__
    return type(error).__name__
