"""Finds the objects that a piece of code leaves to the garbage collector."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def own_garbage() -> Iterator[Callable[[], list[object]]]:
    """Watch a block; what it yields returns the objects of Greenroom's that need the collector.

    Only objects made in the block count. Older ones are out of the collector's sight until the end.
    Another test may let go of one at any moment, or a finalizer may have kept it past a collection.
    Within the block `gc.get_objects` knows nothing older, too.
    """

    def found() -> list[object]:
        gc.collect()
        return [each for each in gc.garbage if type(each).__module__.startswith("greenroom.")]

    gc.collect()
    gc.freeze()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        yield found
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.unfreeze()
        gc.enable()
