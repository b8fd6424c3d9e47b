"""Machines as network namespaces of this one, each at the end of a cable that can be pulled."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from machines_kit import Machine
from nats_kit import LARGE_ENOUGH, NatsProcess
from postgres_kit import PostgresProcess

NETWORK = "198.18.0.0/15"
"""Reserved for measurements between networks (RFC 2544), so nobody else has these addresses."""


class Namespace:
    """A network of its own, and the cable between it and this machine's."""

    def __init__(self, number: int) -> None:
        self.name = f"greenroom-{os.getpid()}-{number}"
        self._cable = f"gr{os.getpid() % 100_000}-{number}"
        self.here = f"198.18.{number}.1"
        """This machine's address, as seen from the namespace."""
        self.there = f"198.18.{number}.2"

    def make(self) -> None:
        """Make both; needs the rights of root, and Linux."""
        _ip("netns", "add", self.name)
        ends = ("type", "veth", "peer", "name", "eth0", "netns", self.name)
        _ip("link", "add", self._cable, *ends)
        _ip("address", "add", f"{self.here}/30", "dev", self._cable)
        _ip("-n", self.name, "address", "add", f"{self.there}/30", "dev", "eth0")
        for line in ("lo", "eth0"):
            _ip("-n", self.name, "link", "set", line, "up")
        self.plug_in()
        _ip("-n", self.name, "route", "add", "default", "via", self.here)

    def pull(self) -> None:
        """Pull the cable: packets vanish both ways, and nobody is told."""
        _ip("link", "set", self._cable, "down")

    def plug_in(self) -> None:
        _ip("link", "set", self._cable, "up")

    def remove(self) -> None:
        """Remove both, if they were made."""
        subprocess.run(["ip", "netns", "delete", self.name], capture_output=True, check=False)
        subprocess.run(["ip", "link", "delete", self._cable], capture_output=True, check=False)


@contextmanager
def namespaces(count: int) -> Generator[list[Namespace]]:
    """Make namespaces; skip the test where that is not allowed."""
    if shutil.which("ip") is None:
        pytest.skip("no `ip` on this machine")
    made = [Namespace(number) for number in range(1, count + 1)]
    try:
        try:
            for each in made:
                each.make()
        except subprocess.CalledProcessError as error:
            pytest.skip(f"no network namespaces on this machine: {error.stderr.decode()}")
        yield made
    finally:
        for each in made:
            each.remove()


class RemoteMachine(Machine):
    """A machine whose processes run in a namespace."""

    def __init__(
        self, data_dir: Path, where: Namespace, bus_port: int, database_url: str, count: int
    ) -> None:
        variables = {"GREENROOM_HOST": where.there, "GREENROOM_BUS_PLAIN_ALLOWED": "true"}
        bus = f"nats://{where.here}:{bus_port}"
        super().__init__(data_dir, bus, database_url, count, **variables)
        self._command = ["ip", "netns", "exec", where.name, *self._command]


class OpenNats(NatsProcess):
    """A server that listens on all addresses."""

    def configure(self, settings: str = LARGE_ENOUGH) -> None:
        """See `NatsProcess`."""
        self._config.write_text(f'listen: "0.0.0.0:{self.port}"\n{settings}')


class OpenPostgres(PostgresProcess):
    """A Postgres that namespaces reach."""

    port = 0

    def open(self, port: int) -> None:
        """Start it on a port of all addresses."""
        self.port = port
        self._options = ("fsync=off", "listen_addresses=*", f"port={port}")
        with (self._data / "pg_hba.conf").open("a") as rules:
            rules.write(f"host all all {NETWORK} trust\n")
        self.start()

    def conninfo(self, database: str) -> str:
        """See `PostgresProcess`."""
        return f"{super().conninfo(database)} port={self.port}"


def _ip(*arguments: Any) -> None:
    subprocess.run(["ip", *map(str, arguments)], capture_output=True, check=True)
