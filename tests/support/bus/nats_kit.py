"""Real NATS servers: started, stopped, frozen, in lame duck, and joined to a cluster."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
from contextlib import ExitStack
from pathlib import Path

import pytest
from waiting import block_until

LARGE_ENOUGH = "max_payload: 2MB\n"
PROGRAM = shutil.which("nats-server", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/bin")


def free_ports(count: int) -> list[int]:
    """Return ports that nothing listens on."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


class NatsProcess:
    """A server of this machine; `start` begins it, and again after `stop` or `kill`."""

    def __init__(self, directory: Path, settings: str = LARGE_ENOUGH, port: int = 0) -> None:
        if PROGRAM is None:
            pytest.skip("no nats-server on this machine")
        self.port = port or free_ports(1)[0]
        self._program = PROGRAM
        self._config = directory / f"nats-{self.port}.conf"
        self._log = directory / f"nats-{self.port}.log"
        self._process: subprocess.Popen[bytes] | None = None
        self.configure(settings)

    @property
    def log(self) -> str:
        return self._log.read_text(errors="replace")

    @property
    def _running(self) -> subprocess.Popen[bytes]:
        assert self._process is not None
        return self._process

    def configure(self, settings: str) -> None:
        """Write the settings that the next start has."""
        self._config.write_text(f'listen: "127.0.0.1:{self.port}"\n{settings}')

    def url(self, signs_in: str = "", scheme: str = "nats") -> str:
        """Return the server's address, with `USER:PASSWORD@` or nothing in front."""
        return f"{scheme}://{signs_in}127.0.0.1:{self.port}"

    def start(self) -> NatsProcess:
        with self._log.open("ab") as log:
            command = [self._program, "-c", str(self._config)]
            self._process = subprocess.Popen(command, stdout=log, stderr=log)
        block_until(self._greets, explain=lambda: self.log)
        return self

    def stop(self) -> None:
        """End it, however it is."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def freeze(self) -> None:
        """Stop it; on return none of its threads does anything any more."""
        self._running.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self._running.pid, os.WSTOPPED | os.WNOWAIT)

    def thaw(self) -> None:
        self._running.send_signal(signal.SIGCONT)

    def begin_lame_duck(self) -> None:
        subprocess.run([self._program, "--signal", f"ldm={self._running.pid}"], check=True)

    def _greets(self) -> bool:
        assert self._running.poll() is None, self.log
        try:
            with socket.create_connection(("127.0.0.1", self.port), 5) as connection:
                return connection.recv(4) == b"INFO"
        except OSError:
            return False


def make_cluster(directory: Path, count: int, settings: str = LARGE_ENOUGH) -> list[NatsProcess]:
    """Return servers that know each other; none is started."""
    routes = free_ports(count)
    listed = ", ".join(f"nats://127.0.0.1:{port}" for port in routes)
    return [
        NatsProcess(
            directory,
            f"{settings}cluster {{ name: test, listen: 127.0.0.1:{port}, routes: [{listed}] }}",
        )
        for port in routes
    ]
