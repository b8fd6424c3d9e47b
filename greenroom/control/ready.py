"""The announcement of a server that answers: its addresses, its process, its first game."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from greenroom.config import Settings
from greenroom.control.errors import ControlError
from greenroom.control.files import why_not, write_whole


class FirstGame(msgspec.Struct, frozen=True, kw_only=True):
    """The keys of the game that the first start makes, as kept in `<data dir>/first-game.json`."""

    game_id: int
    name: str
    owner: str
    api_token: str
    api_private_token: str

    def __repr__(self) -> str:
        """Show no keys, because a repr may end up in a log."""
        return f"FirstGame(game_id={self.game_id})"


class Ready(msgspec.Struct, frozen=True, kw_only=True):
    """The addresses of a server that answers, and its first game where there is one."""

    http: str
    realtime: str
    udp_port: int
    pid: int
    first_game: FirstGame | None = None
    """The first game, only at the start that made it. Later starts read the file."""
    first_game_file: Path | None = None
    demo: str | None = None
    """The address of the demo's page, where `greenroom demo` serves it."""

    def encode_line(self) -> bytes:
        """Return the line of JSON for the ready file. No key is in it."""
        addresses: dict[str, str | int] = {
            "http": self.http,
            "realtime": self.realtime,
            "udp_port": self.udp_port,
            "pid": self.pid,
        }
        if self.demo is not None:
            addresses["demo"] = self.demo
        return msgspec.json.encode(addresses) + b"\n"


def ready(settings: Settings, *, port: int, realtime_port: int, udp_port: int) -> Ready:
    """Return the addresses by which this machine reaches the server.

    Args:
        settings: they have the host, and say if TLS is on.
        port: the port that HTTP was bound to, never 0; likewise the other two.
        realtime_port: see `port`.
        udp_port: see `port`.
    """
    secure = "s" if settings.tls_certificate_file is not None else ""
    host = local_host(settings.host)
    return Ready(
        http=f"http{secure}://{host}:{port}",
        realtime=f"ws{secure}://{host}:{realtime_port}",
        udp_port=udp_port,
        pid=os.getpid(),
    )


def local_host(host: str) -> str:
    """Return a host, in an address's notation, that reaches what listens on `host`."""
    reachable = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"[{reachable}]" if ":" in reachable else reachable


def write_ready_file(path: Path, ready: Ready) -> None:
    """Write the ready file, atomically.

    Raises:
        ControlError: it cannot be written.
    """
    try:
        write_whole(path, ready.encode_line(), mode=0o644)
    except OSError as error:
        advice = why_not(error, "name another with --ready-file")
        raise ControlError(f"Cannot write the ready file {path} {advice}") from None


@contextmanager
def no_ready_file_left(path: Path | None) -> Generator[None]:
    """Remove the ready file before and after a `with` block, in which the server runs.

    A file that is there before belongs to a killed server, and would say that this one answers
    already. Hold the data directory first, so that no living server's file is removed.

    Raises:
        ControlError: something is there that cannot be removed.
    """
    _remove(path)
    try:
        yield
    finally:
        _remove(path)


def _remove(path: Path | None) -> None:
    if path is None:
        return
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        advice = why_not(error, "name another with --ready-file")
        raise ControlError(f"Cannot remove the ready file {path} {advice}") from None
