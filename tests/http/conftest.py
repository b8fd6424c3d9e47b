"""The conformance suite runs every call of the API against both servers, over real sockets."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from server_kit import KINDS, Api, ServerProcess, serving


@pytest.fixture(scope="session", params=KINDS)
def server(
    request: pytest.FixtureRequest, new_database: Callable[[], str]
) -> Iterator[ServerProcess]:
    """A server of each kind, with a database of its own; shared, so a test makes its own games."""
    with serving(
        "--database-url",
        new_database(),
        "--server",
        request.param,
        GREENROOM_RATE_LIMIT_FACTOR="1000",
    ) as process:
        yield process


@pytest.fixture
def api(server: ServerProcess) -> Api:
    """A client of a game that is this test's alone."""
    return Api(server.address, server.new_game())


@pytest.fixture
def other(server: ServerProcess) -> Api:
    """A client of another game."""
    return Api(server.address, server.new_game("other"))
