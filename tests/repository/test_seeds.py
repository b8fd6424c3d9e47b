"""Randomness in the tests is the same in every run, whatever ran before."""

from __future__ import annotations

import importlib
import random
import sys
from pathlib import Path

import pytest
import seeds
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

pytestmark = pytest.mark.skipif(seeds.GIVEN_SEED is not None, reason="this is a search")


def drawn() -> list[tuple[int, str]]:
    """Return what hypothesis tries."""
    values: list[tuple[int, str]] = []

    @settings(max_examples=200)
    @given(st.integers(), st.text())
    def note(number: int, text: str) -> None:
        values.append((number, text))

    note()
    return values


def test_hypothesis_tries_the_same_whatever_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    before = drawn()
    constants = "".join(f"A{n} = {n * 7919 + 10**9}\n" for n in range(500))
    (tmp_path / "loaded_later.py").write_text(constants)
    monkeypatch.syspath_prepend(tmp_path)
    module = importlib.import_module("loaded_later")
    monkeypatch.delitem(sys.modules, "loaded_later")
    monkeypatch.setitem(sys.modules, "loaded_later", module)  # until the test is over

    assert drawn() == before


@pytest.mark.parametrize("_", range(2))
def test_every_test_begins_with_the_same_chance(_: int):
    dice = random.Random(seeds.SEED)
    assert random.random() == dice.random()


async def test_tasks_run_in_the_same_order():
    orders: list[list[int]] = []
    for _ in range(2):
        seeds.seed_everything()
        order: list[int] = []

        async def step(number: int, order: list[int] = order) -> None:
            for _ in range(10):
                await trio.lowlevel.checkpoint()
                order.append(number)

        async with trio.open_nursery() as nursery:
            for number in range(5):
                nursery.start_soon(step, number)
        orders.append(order)
    assert orders[0] == orders[1]
