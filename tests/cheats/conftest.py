"""One server plays all examples; each test has a game of its own on it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from cheat_kit import serving_examples
from server_kit import ServerProcess


@pytest.fixture(scope="session")
def studio(new_database: Callable[[], str]) -> Iterator[ServerProcess]:
    with serving_examples(new_database()) as server:
        yield server
        server.stop()
        assert b'"level":"error"' not in server.log.read_bytes(), "no client makes a hook fail"
