"""A whole server as a process of its own, clients that speak to it, games to play on it."""

from __future__ import annotations

import http.client
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from select import select
from typing import Any, NamedTuple, Protocol
from urllib.parse import urlsplit

import trio
from forked_start import STARTER, ForkedProcess, make_search_path
from waiting import block_until

from greenroom.control.admin.messages import CreateGame
from greenroom.control.client import call
from greenroom.control.protocol import socket_path

judges: list[Callable[[str, str, int, Any], None]] = []
"""Told method, target, status and JSON of every answer; the tests have one, measurements none."""

KINDS = ("greenroom", "hypercorn")
"""The values of `--server`: the parameters of a fixture whose tests run on both."""

START_SECONDS_MAX = 60.0
STOP_SECONDS_MAX = 60.0
SPACE_BYTES_MIN = 2 << 30
"""Free memory that databases of tests may fill. Few have more than 100 MiB."""


class Reply(NamedTuple):
    """An answer: status, decoded JSON (None if it has no body), headers in lower case, the body.

    An error's hint stands apart, so that tests compare the rest of it whole.
    """

    status: int
    json: Any
    headers: Mapping[str, str]
    body: bytes
    hint: str | None = None


class Game(NamedTuple):
    """A game to play: its id and keys."""

    game_id: int
    key: str
    private: str


class CalledServer(Protocol):
    """A server, or several of one cluster, as crowds see it."""

    @property
    def address(self) -> tuple[str, int]:
        """Return where it is called now."""
        ...

    @property
    def data_dir(self) -> Path:
        """Return the directory by which operators reach it."""
        ...

    @property
    def ready(self) -> dict[str, Any]:
        """Return what it has told of itself when it was ready."""
        ...

    def count_falls(self) -> int:
        """Return how often a node lost what it had, of a server that has several."""
        ...


class ServerProcess:
    """`greenroom serve` on a data directory; it can be killed and started again."""

    program: tuple[str, ...] = ("-m", "greenroom")
    """The program that Python runs, before the arguments."""
    subcommand = "serve"
    is_cold = False
    """True if it is never a fork; see `forked_start`."""

    def __init__(self, data_dir: Path, *arguments: str, **environment: str) -> None:
        self.data_dir = data_dir
        self.ready: dict[str, Any] = {}
        self.log = data_dir / "test.log"
        self._ready_file = data_dir / "ready.json"
        ports = ["--port", "0", "--realtime-port", "0", "--udp-port", "0"]
        self._command = [
            *(sys.executable, *self.program, self.subcommand, "--data-dir", str(data_dir)),
            *(*ports, "--ready-file", str(self._ready_file), *arguments),
        ]
        self._environment = os.environ | {"PYTHONPATH": make_search_path()} | environment
        self._process: subprocess.Popen[bytes] | ForkedProcess | None = None

    def begin(self) -> None:
        """Start the process; `wait_ready` waits for it."""
        self._ready_file.unlink(missing_ok=True)
        with self.log.open("ab") as log:
            self._process = STARTER.start(
                self._command, self._environment, log, is_cold=self.is_cold
            )

    def is_ready(self) -> bool:
        """Return whether it serves; fails the test when it has ended instead."""
        assert self._process is not None
        if self._ready_file.exists():
            self.ready = json.loads(self._ready_file.read_bytes())
            return True
        assert self._process.poll() is None, self.log.read_text()
        return False

    def start(self) -> ServerProcess:
        """Start it and wait until it serves."""
        self.begin()
        block_until(self.is_ready, START_SECONDS_MAX, explain=self.log.read_text)
        return self

    def wait_logged(self, text: str, after: int = 0) -> None:
        """Wait until its log says something, behind so many bytes."""
        block_until(
            lambda: text.encode() in self.log.read_bytes()[after:],
            START_SECONDS_MAX,
            explain=self.log.read_text,
        )

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def address(self) -> tuple[str, int]:
        url = urlsplit(self.ready["http"])
        assert url.hostname is not None
        assert url.port is not None
        return url.hostname, url.port

    def tells_ports(self, realtime: int, udp: int) -> bool:
        """Return whether these are the ports at which realtime clients find their room."""
        told = urlsplit(str(self.ready["realtime"])).port, self.ready["udp_port"]
        return (realtime, udp) == told

    def count_falls(self) -> int:
        """See `CalledServer`."""
        return 0

    def read_log(self) -> str:
        """Return all that it has logged."""
        return self.log.read_text(errors="replace")

    def kill(self) -> None:
        """Kill it as `kill -9` does."""
        assert self._process is not None
        self._process.kill()
        self._process.wait(STOP_SECONDS_MAX)

    def wait(self) -> int:
        """Wait for its end; return its exit status."""
        assert self._process is not None
        return self._process.wait(START_SECONDS_MAX)

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Tell it to stop; return its exit status."""
        assert self._process is not None
        if self._process.poll() is None:
            self._process.send_signal(number)
        return self._process.wait(STOP_SECONDS_MAX)

    def new_game(self, name: str = "game") -> Game:
        """Make a game, as an operator would beside the running server."""
        keys = call(socket_path(self.data_dir), CreateGame(game=name, owner="local"))
        return Game(keys.game_id, keys.api_token, keys.api_private_token)


def find_memory() -> str | None:
    """Return a directory in memory for databases if there is enough of it, or else None.

    A server's own Postgres syncs all that it writes. On a disk, making one takes seconds.
    """
    memory = "/dev/shm"
    if not os.access(memory, os.W_OK):
        return None
    has_space = shutil.disk_usage(memory).free > SPACE_BYTES_MIN
    may_execute = not os.statvfs(memory).f_flag & os.ST_NOEXEC
    return memory if has_space and may_execute else None


@contextmanager
def data_directory() -> Iterator[Path]:
    """An empty directory with a short path that every user can pass through, while this lasts.

    pytest's own `tmp_path` is root's alone when root runs the tests, so a server's database would
    go to /var/lib/greenroom, and stay there.
    """
    directory = Path(tempfile.mkdtemp(prefix="greenroom-", dir=find_memory()))
    directory.chmod(0o711)
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


@contextmanager
def serving(*arguments: str, **environment: str) -> Iterator[ServerProcess]:
    """A server with a data directory of its own, while this lasts; then it must stop well.

    Args:
        arguments: the command line's, besides the directory and the ports.
        environment: variables that the server gets besides this process's.
    """
    with serving_modules({}, *arguments, **environment) as server:
        yield server


@contextmanager
def serving_modules(
    modules: Mapping[str, str], /, *arguments: str, **environment: str
) -> Iterator[ServerProcess]:
    """A server as of `serving` that finds behaviours in modules.

    Args:
        modules: the source of each by its name.
        arguments: as of `serving`; `--behaviours` is among them.
        environment: as of `serving`.
    """
    with data_directory() as directory:
        for name, source in modules.items():
            (directory / f"{name}.py").write_text(source)
        where = ("--behaviours-dir", str(directory)) if modules else ()
        server = ServerProcess(directory, *where, *arguments, **environment)
        try:
            yield server.start()
            assert server.stop() == 0, server.log.read_text()
        finally:
            server.kill()


class Api:
    """A blocking client of one server, for one game; a connection a call, unless it keeps one."""

    def __init__(
        self, address: tuple[str, int], game: Game, here: str = "", *, keeps_one: bool = False
    ) -> None:
        """Call `address`, from an address of this machine: the usual one unless `here` is given.

        With `keeps_one`, calls of the main thread share a connection, which `close` ends.
        """
        self.address = address
        self.game = game
        self._source = (here, 0) if here else None
        self._kept = self._make_connection() if keeps_one else None

    def close(self) -> None:
        """Close the connection that is kept."""
        if self._kept is not None:
            self._kept.close()

    def _make_connection(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection(*self.address, timeout=30, source_address=self._source)

    @contextmanager
    def _connection(self) -> Iterator[http.client.HTTPConnection]:
        """Give a connection for one call, which is closed if it is not kept or the call fails."""
        kept = self._kept if threading.current_thread() is threading.main_thread() else None
        connection = kept or self._make_connection()
        if kept is not None and kept.sock is not None and select([kept.sock], [], [], 0.0)[0]:
            kept.close()  # the server has closed it meanwhile
        try:
            yield connection
        except BaseException:
            connection.close()
            raise
        if kept is None:
            connection.close()

    def call(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        player: str | None = None,
        admin: bool = False,
        headers: Mapping[str, str | None] = {},
    ) -> Reply:
        """Call an endpoint; a `body` of bytes is sent as it is, a header that is None is not."""
        sent: dict[str, str | None] = {"X-Api-Token": self.game.key}
        if player is not None:
            sent["X-Game-Player-Token"] = player
        if admin:
            sent["X-Api-Private-Token"] = self.game.private
        sent |= headers
        raw = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        present = {name: value for name, value in sent.items() if value is not None}
        with self._connection() as connection:
            connection.request(method, path, raw, present)
            response = connection.getresponse()
            content = response.read()
        found = {name.lower(): value for name, value in response.getheaders()}
        is_json = found.get("content-type", "").startswith("application/json")
        is_json = is_json and "content-encoding" not in found
        decoded: Any = json.loads(content) if content and is_json else None
        tell_judges(method, path, response.status, decoded)
        is_error = isinstance(decoded, dict) and decoded.get("success") is False
        hint = decoded.pop("hint", None) if is_error else None
        return Reply(response.status, decoded, found, content, hint)

    def register(self, name: str = "Ada", **fields: Any) -> tuple[int, str]:
        """Register a player; return id and token."""
        reply = self.call("POST", "/api/game_players.php/register", {"player_name": name, **fields})
        assert reply.status == 200, reply
        return int(reply.json["player_id"]), reply.json["private_key"]


def tell_judges(method: str, target: str, status: int, value: Any) -> None:
    """Have an answer judged; raises what a judge does."""
    for judge in judges:
        judge(method, target, status, value)


class ConnectionLost(Exception):
    """The server went away in the middle of a call: whether it was carried out is unknown."""


class TrioClient:
    """A client that keeps its connection, for crowds. Reconnects at the next call after a loss."""

    def __init__(self, server: CalledServer, key: str, private: str = "") -> None:
        """Call a game's endpoints, as its own service if the private key is given."""
        self._server = server
        self._keys = f"X-Api-Token: {key}\r\n"
        if private:
            self._keys += f"X-Api-Private-Token: {private}\r\n"
        self._stream: trio.SocketStream | None = None

    async def call(
        self, method: str, path: str, body: bytes = b"", player: str | None = None
    ) -> tuple[int, Any]:
        """Call an endpoint; raises ConnectionLost when there was no whole answer."""
        token = f"X-Game-Player-Token: {player}\r\n" if player else ""
        head = (
            f"{method} {path} HTTP/1.1\r\nHost: test\r\n{self._keys}{token}"
            f"Content-Length: {len(body)}\r\n\r\n"
        )
        try:
            if self._stream is None:
                self._stream = await trio.open_tcp_stream(*self._server.address)
            await self._stream.send_all(head.encode() + body)
            status, value = await self._read(self._stream)
        except (OSError, trio.BrokenResourceError, trio.ClosedResourceError) as error:
            await self.close()
            raise ConnectionLost from error
        except ConnectionLost:
            await self.close()
            raise
        tell_judges(method, path, status, value)
        return status, value

    async def _read(self, stream: trio.SocketStream) -> tuple[int, Any]:
        data = b""
        while b"\r\n\r\n" not in data:
            data += await self._receive(stream)
        head, _, content = data.partition(b"\r\n\r\n")
        length = next(
            int(line.partition(b":")[2])
            for line in head.split(b"\r\n")
            if line.lower().startswith(b"content-length:")
        )
        while len(content) < length:
            content += await self._receive(stream)
        return int(head.split(b" ", 2)[1]), json.loads(content)

    async def _receive(self, stream: trio.SocketStream) -> bytes:
        data = await stream.receive_some(65536)
        if not data:
            raise ConnectionLost
        return bytes(data)

    async def close(self) -> None:
        """Forget the connection."""
        stream, self._stream = self._stream, None
        if stream is not None:
            with trio.CancelScope(shield=True):
                await trio.aclose_forcefully(stream)
