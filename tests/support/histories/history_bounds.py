"""A promise that is less than linearizability: a read may be old, but only by so many seconds.

Lists and leaderboards show many objects at once, so there is no single one to be linearizable. Each
entry by itself is a register. A read of it returns a value that was written before the read ended,
and that no later write had replaced for longer than the bound when the read began.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from history import Operation, shown


def staleness(
    operations: Sequence[Operation], seconds_max: float, initial: Hashable = None
) -> list[str]:
    """Return what is wrong with the reads of one entry, each with the operations that show it.

    Args:
        operations: `write` (value) and `read` → value.
        seconds_max: how old a read may be.
        initial: the value before the first write.
    """
    writes = [each for each in operations if each.action == "write"]
    found = []
    for read in operations:
        if read.action != "read" or read.is_open:
            continue
        sources: list[Operation | None] = [w for w in writes if w.given == read.result]
        if read.result == initial:
            sources.append(None)
        wrong = [_wrong(source, writes, read, seconds_max) for source in sources]
        if not sources:
            found.append(f"a value that nobody wrote:\n{shown([read])}")
        elif all(wrong):
            found.append(wrong[0])
    return found


def _wrong(
    source: Operation | None, writes: Sequence[Operation], read: Operation, seconds_max: float
) -> str:
    """Return what is wrong with a read of what one write (None: the initial value) has left."""
    since = 0.0
    if source is not None:
        since = _return(source)
        if source.invoked > _return(read):
            return f"a value from the future:\n{shown([source, read])}"
    for later in writes:
        if later.returned is None or later.invoked < since or later.returned > read.invoked:
            continue
        age = read.invoked_at - later.returned_at
        if age >= seconds_max:
            by = shown([each for each in (source, later, read) if each is not None])
            return f"a value that was replaced {age:.3f} s before, not {seconds_max}:\n{by}"
    return ""


def _return(operation: Operation) -> float:
    return float("inf") if operation.returned is None else operation.returned
