"""Real NATS servers that know each other, and that can be killed one by one."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

START_SECONDS_MAX = 10.0
POLL_SECONDS = 0.01
PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/bin"


class NatsServer:
    """One server; `start` begins it, and again after `kill`."""

    def __init__(self, program: str, folder: Path, port: int, route: int, routes: str) -> None:
        """Write its settings.

        Args:
            program: the server's path.
            folder: where the settings go.
            port: where clients connect.
            route: where the other servers connect.
            routes: the addresses of all servers for each other.
        """
        self.url = f"nats://127.0.0.1:{port}"
        self._port = port
        self._program = program
        self._config = folder / f"nats-{port}.conf"
        cluster = f"cluster {{ name: bench, listen: 127.0.0.1:{route}, routes: [{routes}] }}"
        self._config.write_text(f'listen: "127.0.0.1:{port}"\nmax_payload: 2MB\n{cluster}\n')
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it; returns when it takes connections."""
        self._process = subprocess.Popen(
            [self._program, "-c", str(self._config)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        deadline = time.monotonic() + START_SECONDS_MAX
        while not self._greets():
            if time.monotonic() > deadline:
                raise SystemExit(f"nats-server does not answer at {self.url}")
            time.sleep(POLL_SECONDS)

    def kill(self) -> None:
        """Kill it, as `kill -9` does."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def _greets(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self._port), 1.0) as connection:
                return connection.recv(4) == b"INFO"
        except OSError:
            return False


@contextmanager
def running(folder: Path, count: int) -> Iterator[list[NatsServer]]:
    """Run servers that know each other.

    Raises:
        SystemExit: there is no nats-server on this machine.
    """
    program = shutil.which("nats-server", path=PATH)
    if program is None:
        raise SystemExit("nats-server is missing: apt install nats-server")
    ports, route_ports = _free_ports(count), _free_ports(count)
    routes = ", ".join(f"nats://127.0.0.1:{port}" for port in route_ports)
    pairs = zip(ports, route_ports, strict=True)
    servers = [NatsServer(program, folder, port, route, routes) for port, route in pairs]
    try:
        for server in servers:
            server.start()
        yield servers
    finally:
        for server in servers:
            server.kill()


def _free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
