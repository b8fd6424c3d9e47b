"""A server with a behaviour that adds up, for the SDKs' stories."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from server_kit import ServerProcess, serving_modules
from tally_kit import BEHAVIOURS, MODULES, RATES


@pytest.fixture(scope="module")
def tally_server(new_database: Callable[[], str]) -> Iterator[ServerProcess]:
    """A server whose rooms of the type `tally` add up."""
    database = ("--database-url", new_database())
    with serving_modules(MODULES, *BEHAVIOURS, *database, **RATES) as server:
        yield server
