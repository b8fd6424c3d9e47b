"""The conformance suite runs every call of the API against both servers, over real sockets.

What shows a sentence of the specification also runs against a worker that owns nothing, so that
each of its calls goes to another worker and comes back. And it runs against two workers that share
each game.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Final

import pytest
from conformance import PAGE, rows_of
from server_kit import KINDS, Api, ServerProcess, serving
from workers_kit import ingress, sharing

ELSEWHERE: Final = " elsewhere"
"""Ends the name of a kind of server whose games are another worker's."""
SPREAD: Final = "greenroom spread"
"""Two workers that have partitions of every game; every second game's plan has limits."""
CASES_MAX: Final = {"greenroom" + ELSEWHERE: 2, "hypercorn" + ELSEWHERE: 1, SPREAD: 2}
"""Cases of one test that are run on such a server, by its kind."""
TESTS: Final = Path(__file__).parents[1]
EVERYWHERE: Final = TESTS / "http/every_area/test_known_callers.py"
"""A file with tests about such servers, too."""


@pytest.fixture(scope="session", params=[*KINDS, *(kind + ELSEWHERE for kind in KINDS), SPREAD])
def server(
    request: pytest.FixtureRequest, new_database: Callable[[], str]
) -> Iterator[ServerProcess]:
    """A server of each kind, with a database of its own; shared, so a test makes its own games."""
    kind = request.param.removesuffix(ELSEWHERE)
    run = serving if kind == request.param else ingress
    if request.param == SPREAD:
        kind, run = "greenroom", sharing
    arguments = ("--database-url", new_database(), "--server", kind)
    with run(*arguments, GREENROOM_RATE_LIMIT_FACTOR="1000") as process:
        yield process


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what need not be shown again where games are another worker's.

    That is whatever shows no sentence of the specification, and further cases of what does.
    """
    named = {test for row in rows_of(PAGE.read_text()) for test in row.tests}
    cases = Counter[tuple[str, str]]()
    left_out: set[pytest.Item] = set()
    for item in items:
        kind = _kind(item)
        if kind in CASES_MAX and item.path != EVERYWHERE:
            name = _name(item)
            cases[name, kind] += 1
            if name not in named or cases[name, kind] > CASES_MAX[kind]:
                left_out.add(item)
    if left_out:
        config.hook.pytest_deselected(items=list(left_out))
        items[:] = [item for item in items if item not in left_out]


def _kind(item: pytest.Item) -> str:
    """Return the kind of server that a test has, nothing if it has none of these."""
    call = getattr(item, "callspec", None)
    return "" if call is None else str(call.params.get("server", ""))


def _name(item: pytest.Item) -> str:
    """Return a test as the page names it."""
    return f"{item.path.relative_to(TESTS)}::{getattr(item, 'originalname', item.name)}"


@pytest.fixture
def api(request: pytest.FixtureRequest, server: ServerProcess) -> Iterator[Api]:
    """A client of a game that is this test's alone."""
    with _calling(request, server) as made:
        yield made


@pytest.fixture
def other(request: pytest.FixtureRequest, server: ServerProcess) -> Iterator[Api]:
    """A client of another game."""
    with _calling(request, server, "other") as made:
        yield made


def _calling(request: pytest.FixtureRequest, server: ServerProcess, *name: str) -> closing[Api]:
    """Return a client of a new game. Between workers a kept connection would move to the owner."""
    keeps_one = _kind(request.node) in KINDS
    return closing(Api(server.address, server.new_game(*name), keeps_one=keeps_one))
