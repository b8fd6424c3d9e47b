"""When the load is high, and for how long."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from greenroom.transport import thread_load as load_module
from greenroom.transport.thread_load import HIGH, LOW, Load, busy_seconds


@pytest.mark.parametrize(
    ("shares", "is_high"),
    [
        ([], False),
        ([HIGH - 0.01], False),
        ([HIGH + 0.01], True),
        ([1.0, LOW + 0.01], True),
        ([1.0, LOW - 0.01], False),
        ([1.0, LOW - 0.01, LOW + 0.01], False),
    ],
)
def test_a_high_load_is_over_when_it_is_low(shares: list[float], is_high: bool):
    load, used = Load(), 7.0
    load.look(100.0, used)
    for second, share in enumerate(shares):
        used += share
        load.look(101.0 + second, used)
    assert load.is_high is is_high


def test_a_thread_that_computes_is_busy():
    before = busy_seconds()
    began = time.thread_time()
    while time.thread_time() < began + 0.02:
        pass
    assert busy_seconds() - before >= 0.01


@pytest.mark.parametrize("told", [None, "0 0 0\n"])
def test_where_the_kernel_does_not_tell_it_is_the_cpu_time(
    told: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    file = tmp_path / "schedstat"
    if told is not None:
        file.write_text(told)
    monkeypatch.setattr(load_module, "_SCHEDULED", file)
    before = time.thread_time()
    assert before <= busy_seconds() <= time.thread_time()


def test_no_time_at_all_says_nothing():
    load = Load()
    load.look(1.0, 1.0)
    load.look(1.0, 9.0)
    assert load.is_high is True
