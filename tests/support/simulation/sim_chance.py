"""One seed for all chance and all clocks of a trio run, so that the same seed is the same run.

What else could differ from run to run: the order in which trio runs tasks that are ready together,
and ends waits that end together; random bytes; clocks. The order of sets of strings is left:
`scripts/simulate` begins Python with `PYTHONHASHSEED=0`.
"""

from __future__ import annotations

import gc
import hashlib
import itertools
import math
import random
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, TextIO
from unittest.mock import patch

import trio
from trio.testing import MockClock
from world_kit import START

_RUN = "trio._core._run"


@contextmanager
def same_each_time(seed: int) -> Iterator[MockClock]:
    """Have the block's trio run depend on a seed alone; give the clock that it must run on."""
    clock = _make_clock()  # before time is patched, which it looks at
    dice = random.Random(seed)
    vars(trio._core._run)["_r"].seed(seed)  # there is no public way
    random.seed(seed)
    order = itertools.count()
    with ExitStack() as stack:
        stack.enter_context(patch(f"{_RUN}._ALLOW_DETERMINISTIC_SCHEDULING", new=True))
        # deadlines at the same moment come in the order in which they were set, not of addresses
        stack.enter_context(patch(f"{_RUN}.id", lambda _: next(order), create=True))
        for source in ("os.urandom", "random._urandom"):
            stack.enter_context(patch(source, dice.randbytes))
        for name in ("monotonic", "perf_counter", "process_time", "thread_time"):
            stack.enter_context(patch(f"time.{name}", trio.current_time))
        stack.enter_context(patch("time.clock_gettime", lambda _: trio.current_time()))
        stack.enter_context(patch("time.time", lambda: START + trio.current_time()))
        gc.disable()  # it would end what nobody holds at any moment
        stack.callback(gc.enable)
        yield clock


def _make_clock() -> MockClock:
    """Return a clock that only jumps; it is asked for the time at every step of every task."""
    clock = MockClock(autojump_threshold=0)
    state: dict[str, Any] = vars(clock)

    def jump() -> None:
        deadline = trio._core._run.GLOBAL_RUN_CONTEXT.runner.deadlines.next_deadline()
        if state["_virtual_base"] < deadline < math.inf:
            state["_virtual_base"] = deadline

    state |= {"current_time": lambda: state["_virtual_base"], "_autojump": jump}
    return clock


class Trace:
    """The events of a run, in order: their digest, and their lines in a file if there is one."""

    def __init__(self, file: TextIO | None = None) -> None:
        self.lines = 0
        self._file = file
        self._hash = hashlib.blake2b(digest_size=16)

    def note(self, *words: object) -> None:
        """Note something that happened now."""
        line = f"{trio.current_time():.9f} {' '.join(map(str, words))}\n"
        self.lines += 1
        self._hash.update(line.encode())
        if self._file is not None:
            self._file.write(line)

    @property
    def digest(self) -> str:
        """Return a digest of all that has happened so far."""
        return self._hash.hexdigest()
