"""nginx and HAProxy as `deploy/cluster/` has them, in front of several machines of one cluster."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final, Protocol

from machines_kit import Machine
from proxy_kit import (
    DEPLOY,
    PROXY_LOG,
    Front,
    Ports,
    Proxy,
    free_ports,
    haproxy_command,
    nginx_command,
    running,
)
from waiting import block_until

MACHINES: Final = 3
"""Machines that the files name."""
_ADDRESS: Final = re.compile(r"greenroom-(\d):(808[01])\b")


class HasPorts(Protocol):
    """A machine as a balancer has it."""

    @property
    def ports(self) -> tuple[int, int]:
        """Return those of HTTP and of realtime."""
        ...


class StandingMachine(Machine):
    """A machine whose ports are the same after each start, as its balancer expects."""

    def __init__(
        self, data_dir: Path, bus: str, database_url: str, ports: tuple[int, int], **more: str
    ) -> None:
        super().__init__(data_dir, bus, database_url, 1, **more)
        self.ports = http, realtime = ports
        self._command += ["--port", str(http), "--realtime-port", str(realtime)]


def combined(file: str) -> str:
    """Return what the command in a file's comment makes, which goes to the balancer's machine."""
    text = (DEPLOY / "cluster" / file).read_text()
    [command] = re.findall(r"^# (sed .*) > /etc/", text, re.MULTILINE)
    done = subprocess.run(
        ["sh", "-euc", command], cwd=DEPLOY.parent, capture_output=True, text=True, check=True
    )
    return done.stdout


def _here(text: str, machines: Sequence[tuple[int, int]]) -> str:
    """Put the ports of this machine in place of the names; nobody listens at those left over."""

    def address(found: re.Match[str]) -> str:
        number, port = int(found[1]), found[2]
        return f"127.0.0.1:{everywhere[number - 1][port == '8081']}"

    nowhere = free_ports(2 * MACHINES)[-2:]
    everywhere = [*machines, *[(nowhere[0], nowhere[1])] * MACHINES]
    return _ADDRESS.sub(address, text)


def _nginx(machines: Sequence[tuple[int, int]], directory: Path, ports: Ports) -> list[str]:
    return nginx_command(directory, ports, _here(combined("nginx-upstreams.conf"), machines))


def _haproxy(machines: Sequence[tuple[int, int]], directory: Path, ports: Ports) -> list[str]:
    return haproxy_command(directory, ports, _here(combined("haproxy-backends.cfg"), machines))


BALANCERS: Final = {"nginx": _nginx, "haproxy": _haproxy}
_MISSED: Final = {"haproxy": "Server greenroom_realtime/greenroom-{} is DOWN"}
"""The line that a balancer that checks machines by itself logs of one that is not there."""


@contextmanager
def balancing(name: str, machines: Sequence[HasPorts], directory: Path) -> Iterator[Front]:
    """A balancer before machines, in a directory that its user may enter.

    It has found out which of the machines are not there: until then it tries them, too, and on a
    slow machine a call may find none but those.
    """
    https, wss = free_ports(2)
    proxy = Proxy(name, partial(BALANCERS[name], [machine.ports for machine in machines]))
    with running(proxy, Ports(https, wss, 0, 0), directory) as front:
        missing = range(len(machines) + 1, MACHINES + 1)
        expected = [_MISSED[name].format(number) for number in missing if name in _MISSED]
        log = directory / PROXY_LOG
        block_until(
            lambda: all(text in log.read_text() for text in expected), explain=log.read_text
        )
        yield front
