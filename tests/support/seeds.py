"""The seed that all chance in the tests is drawn from: always the same, unless a search gives one.

`scripts/search` sets TEST_SEED; without it every run does what the last one did.
"""

from __future__ import annotations

import os
import random

import trio
from hypothesis.internal.conjecture import providers

FIXED_SEED = 1
GIVEN_SEED = os.environ.get("TEST_SEED")
SEED = int(GIVEN_SEED or FIXED_SEED)


def seed_everything() -> None:
    """Begin all chance of this process anew: Python's, and the order in which trio runs tasks."""
    random.seed(SEED)
    vars(trio._core._run)["_r"].seed(SEED)  # there is no public way


def ignore_loaded_modules() -> None:
    """Keep hypothesis from drawing constants out of the modules that happen to be loaded.

    Which are, depends on the tests that ran before: other examples each time.
    """
    name = "_get_local_constants"  # there is no public way
    assert name in vars(providers)
    nothing = vars(providers)["Constants"]()
    vars(providers)[name] = lambda: nothing
