"""Tell a service manager such as systemd how the server is, by the protocol of `sd_notify`.

A datagram goes to the unix socket that `NOTIFY_SOCKET` names: ready, reloading, stopping, alive.
Nothing happens where nobody asked for it.
"""

from __future__ import annotations

import logging
import os
import socket
import time
from collections.abc import Mapping, MutableMapping

import trio

_logger = logging.getLogger(__name__)

_VARIABLES = ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID")
_SIGNS_OF_LIFE = 3
"""How many fit into the time after which the manager takes the server for hung."""


class ServiceManager:
    """The service manager that has started this process, if there is one that wants to know."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        """Read what the manager asks for.

        Args:
            environ: the environment that the manager has made.
        """
        self._address = _address(environ.get("NOTIFY_SOCKET", ""))
        self._alive_seconds = _alive_seconds(environ)
        self._has_failed = False

    @classmethod
    def take(cls, environ: MutableMapping[str, str] = os.environ) -> ServiceManager:
        """Read what the manager asks for, and take it out of the environment.

        Processes that the server starts, such as Postgres, would else speak in its name.
        """
        manager = cls(environ)
        for name in _VARIABLES:
            environ.pop(name, None)
        return manager

    def tell_ready(self) -> None:
        """Say that the server answers, also after a reload."""
        self._tell("READY=1")

    def tell_reloading(self) -> None:
        """Say that the server reads its certificate again; `tell_ready` ends that."""
        self._tell(f"RELOADING=1\nMONOTONIC_USEC={time.monotonic_ns() // 1000}")

    def tell_stopping(self) -> None:
        """Say that the server has begun to stop."""
        self._tell("STOPPING=1")

    async def tell_alive(self) -> None:
        """Give a sign of life as often as the manager wants one, until cancelled.

        It comes from the event loop. So a loop that hangs gives none, and the manager restarts it.
        """
        if self._alive_seconds is None:
            return
        while True:
            self._tell("WATCHDOG=1")
            await trio.sleep(self._alive_seconds)

    def _tell(self, state: str) -> None:
        """Send without waiting: a manager that does not read must not stop the server."""
        if self._address is None:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as sender:
                sender.sendto(state.encode(), self._address)
        except OSError as error:
            if not self._has_failed:
                _logger.warning("the service manager cannot be told anything: %s", error.strerror)
            self._has_failed = True


def _address(text: str) -> bytes | None:
    """Return a unix socket's address; one that begins with `@` is in the abstract name space."""
    if text.startswith("@"):
        return b"\0" + os.fsencode(text[1:])
    if text and not text.startswith("/"):
        _logger.warning("NOTIFY_SOCKET is ignored: it names no unix socket")
    return os.fsencode(text) if text.startswith("/") else None


def _alive_seconds(environ: Mapping[str, str]) -> float | None:
    """Return the seconds between two signs of life; None if this process owes none."""
    asked, pid = environ.get("WATCHDOG_USEC", ""), environ.get("WATCHDOG_PID", "")
    if pid not in {"", str(os.getpid())} or not (asked.isascii() and asked.isdigit()):
        return None
    return int(asked) / 1e6 / _SIGNS_OF_LIFE or None
