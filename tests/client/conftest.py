"""The Python client against a server alone, and against a worker that owns nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from server_kit import ServerProcess, serving
from workers_kit import ingress


@pytest.fixture(scope="session", params=[serving, ingress], ids=["here", "elsewhere"])
def server(
    request: pytest.FixtureRequest, new_database: Callable[[], str]
) -> Iterator[ServerProcess]:
    """A server for one test worker, on a database of its own. Not to be killed or filled."""
    arguments = ("--database-url", new_database())
    with request.param(*arguments, GREENROOM_RATE_LIMIT_FACTOR="1000") as process:
        yield process
