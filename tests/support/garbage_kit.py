"""What a piece of code leaves to the garbage collector, told from what anybody else left."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def own_garbage() -> Iterator[Callable[[], list[object]]]:
    """Watch a block; what it yields returns the objects of Greenroom's that need the collector.

    Only what came into being in the block counts. What is older is out of the collector's sight
    until the end: another test may let go of it at any moment, or a finalizer may have kept it
    past a collection. Within the block `gc.get_objects` knows nothing older, too.
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
