"""Nodes with a bus of each kind."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import trio
from bus_kit import BusHub, MemoryHub, NatsHub, UnixHub
from nats_kit import NatsProcess


@pytest.fixture
def nats_server(tmp_path: Path) -> Iterator[NatsProcess]:
    """A NATS server that is this test's alone."""
    server = NatsProcess(tmp_path)
    try:
        yield server.start()
    finally:
        server.stop()


@pytest.fixture(params=["memory", "unix", "nats"])
def hub(request: pytest.FixtureRequest, nursery: trio.Nursery) -> BusHub:
    """Nodes that reach each other by buses of one kind."""
    match request.param:
        case "memory":
            return MemoryHub(nursery)
        case "unix":
            return UnixHub(nursery, request.getfixturevalue("data_dir"))
        case _:
            return NatsHub(nursery, request.getfixturevalue("nats_server"))
