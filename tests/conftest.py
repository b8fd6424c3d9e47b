"""Fixtures of all tests: directories for servers, and fresh migrated databases."""

from __future__ import annotations

import gc
import itertools
import signal
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import crossing_pings
import patient_clock
import psycopg
import pytest
import seeds
import server_kit
import trio
from answer_judge import judge
from forked_start import STARTER
from hypothesis import HealthCheck, settings
from postgres_kit import PostgresProcess
from server_kit import Api, ServerProcess, data_directory, serving

from greenroom.persistence.driver import DatabaseConnection
from greenroom.persistence.migrations import migrate

# Nothing is too slow: other tests run on the same cores. Examples are the same in every run, unless
# a search gives a seed: then pytest is given it as --hypothesis-seed, too.
PATIENT = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("fixed", PATIENT, derandomize=True, database=None)
settings.register_profile("search", PATIENT, max_examples=1_000, print_blob=True)
settings.load_profile("search" if seeds.GIVEN_SEED else "fixed")
if not seeds.GIVEN_SEED:
    seeds.ignore_loaded_modules()

# Under nohup this process ignores SIGHUP, and so would the servers of the tests that send it.
signal.signal(signal.SIGHUP, signal.SIG_DFL)
patient_clock.make_patient()
crossing_pings.ignore_crossing_pings()
server_kit.judges.append(judge)
STARTER.is_cold = False

TEMPLATE = "migrated"
CONNECT_SECONDS_MAX = 30.0
COUNTED = (
    "actors",
    "behaviour/test_circuit_breaker.py",
    "cli/test_operations.py",
    "supervisors",
    "transport/test_actions.py",
)
"""The folders and files whose tests between them must take every branch of the pure modules."""

_numbers = itertools.count(1)


def pytest_report_header() -> str:
    """Say which chance this is."""
    return f"TEST_SEED={seeds.SEED}"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Have branches counted where tests call pure modules themselves: counting takes its time."""
    here = Path(__file__).parent
    places = [here / place for place in COUNTED]
    paths = {item.path for item in items}
    counted = {path for path in paths if any(map(path.is_relative_to, places))}
    for item in items:
        if item.path not in counted:
            item.add_marker("no_cover")


def pytest_collection_finish() -> None:
    """Let no search for garbage look through all tests, which stay to the end."""
    gc.collect()
    gc.freeze()


def pytest_unconfigure() -> None:
    """End what commands are forks of."""
    STARTER.end()


def pytest_runtest_setup() -> None:
    """Let a test's chance depend on no other test."""
    seeds.seed_everything()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(
    item: pytest.Item, nextitem: pytest.Item | None
) -> Generator[None, object, object]:
    """Stop a server of several kinds once the next test has none: workers are never quite idle.

    pytest itself stops it when a test wants one of another kind, or else at the very end.
    """
    done = yield
    kept = _server_of_several_kinds(item)
    if kept is not None and (nextitem is None or _server_of_several_kinds(nextitem) is not kept):
        own: Any = item
        kept.finish(own._request)
    return done


def _server_of_several_kinds(item: pytest.Item) -> pytest.FixtureDef[object] | None:
    """Return a test's fixture `server` if it is made for many tests, and has parameters."""
    own: Any = item  # there is no public way
    info = getattr(own, "_fixtureinfo", None)
    found = () if info is None else info.name2fixturedefs.get("server", ())
    return next((one for one in found[-1:] if one.scope == "session" and one.params), None)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Escape lone surrogates in what a test has logged or failed with: xdist cannot send them."""
    report = yield
    report.sections = [(title, _sendable(text)) for title, text in report.sections]
    if report.longrepr is not None and not report.longreprtext.isascii():
        text = _sendable(report.longreprtext)
        if text != report.longreprtext:
            report.longrepr = text
    return report


def _sendable(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()


@pytest.fixture
def data_dir() -> Iterator[Path]:
    """An empty directory with a short path that every user can pass through."""
    with data_directory() as directory:
        yield directory


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresProcess]:
    """A Postgres for one test worker, with a migrated database to copy. Not to be killed."""
    server = PostgresProcess.make()
    try:
        server.start()
        trio.run(_migrate, server.create_database(TEMPLATE))
        yield server
    finally:
        server.remove()


@pytest.fixture(scope="session")
def new_database(postgres_server: PostgresProcess) -> Callable[[], str]:
    """Makes migrated databases, which nobody drops, for servers that many tests share."""

    def make() -> str:
        name = f"test_{next(_numbers)}"
        _administer(postgres_server, f"CREATE DATABASE {name} TEMPLATE {TEMPLATE}")
        return postgres_server.conninfo(name)

    return make


@pytest.fixture
def database_url(
    postgres_server: PostgresProcess, new_database: Callable[[], str]
) -> Iterator[str]:
    """How to connect to a migrated database that is this test's alone."""
    url = new_database()
    yield url
    _administer(postgres_server, f"DROP DATABASE {url.rpartition('=')[2]} WITH (FORCE)")


async def _migrate(conninfo: str) -> None:
    connection = await DatabaseConnection.connect(conninfo, seconds_max=CONNECT_SECONDS_MAX)
    await migrate(connection)
    connection.close()


def _administer(server: PostgresProcess, sql: str) -> None:
    with psycopg.connect(server.conninfo("postgres"), autocommit=True) as connection:
        connection.execute(sql.encode())


@pytest.fixture(scope="session")
def server(new_database: Callable[[], str]) -> Iterator[ServerProcess]:
    """A server for one test worker, on a database of its own. Not to be killed or filled."""
    with serving("--database-url", new_database(), GREENROOM_RATE_LIMIT_FACTOR="1000") as process:
        yield process


@pytest.fixture
def api(server: ServerProcess) -> Api:
    """A client for a game that is this test's alone."""
    return Api(server.address, server.new_game())


@pytest.fixture
def cold_starts() -> Iterator[None]:
    """Have each command start as for users: with Python, which then imports everything."""
    STARTER.is_cold = True
    yield
    STARTER.is_cold = False


@pytest.fixture
def signals_as_a_server_has_them() -> Iterator[None]:
    """Have ^C taken as a signal; it ends the whole run, as without this."""
    before = signal.signal(signal.SIGINT, lambda *_: pytest.exit("interrupted"))
    yield
    signal.signal(signal.SIGINT, before)
