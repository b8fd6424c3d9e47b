"""The conformance suite runs every call of the API against both servers, over real sockets."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from server_kit import Api, ServerProcess


@pytest.fixture(scope="session", params=["greenroom", "hypercorn"])
def server(request: pytest.FixtureRequest) -> Iterator[ServerProcess]:
    """A server of each kind, with a database of its own; shared, so a test makes its own games."""
    directory = Path(tempfile.mkdtemp(prefix="greenroom-"))
    directory.chmod(0o711)
    process = ServerProcess(
        directory, "--server", request.param, GREENROOM_RATE_LIMIT_FACTOR="1000"
    )
    try:
        process.start()
        yield process
        assert process.stop() == 0, process.log.read_text()
    finally:
        process.kill()
        shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture
def api(server: ServerProcess) -> Api:
    """A client of a game that is this test's alone."""
    return Api(server.address, server.new_game())


@pytest.fixture
def other(server: ServerProcess) -> Api:
    """A client of another game."""
    return Api(server.address, server.new_game("other"))
