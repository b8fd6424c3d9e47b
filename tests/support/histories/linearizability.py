"""Is there an order of these operations that one object alone, asked one by one, could have had?

Wing and Gong's search (J. M. Wing, C. Gong, "Testing and verifying concurrent objects", Journal of
Parallel and Distributed Computing 17, 1993), with what G. Lowe added ("Testing for
linearizability", Concurrency and Computation: Practice and Experience 29, 2017): no pair of a set
of operations and a state is looked at twice. Objects are checked one by
one, which is enough because linearizability is local (M. Herlihy, J. Wing, "Linearizability: a
correctness condition for concurrent objects", ACM TOPLAS 12, 1990; A. Horn, D. Kroening, "Faster
linearizability checking via P-compositionality", FORTE 2015).

Open operations may come last, or never. Two that ask the same may change places, so the one that
was invoked first is taken first; else n of them would make 2ⁿ sets.
"""

from __future__ import annotations

import contextlib
from collections.abc import Hashable, Iterator, Sequence
from typing import Any, Final, Protocol, TypeVar

import msgspec
from history import History, Operation, shown

CONFIGURATIONS_MAX: Final = 500_000
"""Pairs of operations done and state that a check looks at; then it gives up, undecided."""

State = TypeVar("State", bound=Hashable)


class Model(Protocol[State]):
    """A sequential object: what each operation may answer, and what comes after."""

    name: str

    def initial(self) -> State:
        """Return the state before the first operation."""
        ...

    def step(self, state: State, operation: Operation) -> Sequence[State]:
        """Return the states that an operation may lead to; none if its answer is impossible here.

        An open operation has no answer. It need not be given states where it would be refused.
        """
        ...

    def is_read(self, operation: Operation) -> bool:
        """Return whether an operation, whatever its answer, changes nothing."""
        ...

    def seen(self, operations: Sequence[Operation]) -> Sequence[Operation]:
        """Leave out open operations that nobody has seen anything of, where that is sound."""
        ...


class Verdict(msgspec.Struct):
    """The outcome of a check of one object."""

    key: Hashable
    model: str
    is_linearizable: bool | None
    """None: not decided within the bound."""
    operations: int
    configurations: int
    witness: Sequence[Operation] = ()
    """The shortest history that was found which fails by itself, if it failed."""
    states: Sequence[Hashable] = ()
    """The states that the object may have had before the last answer, if it failed."""

    def report(self) -> str:
        """Return what was found, for people."""
        of = f"{self.model} {self.key}: {self.operations} operations"
        if self.is_linearizable:
            return f"{of} are linearizable"
        if self.is_linearizable is None:
            return f"{of} are undecided after {self.configurations} configurations"
        last = _last(self.witness)
        states = "; ".join(sorted({repr(state)[:120] for state in self.states})[:5])
        return (
            f"{of} are not linearizable. These {len(self.witness)} alone are not:\n"
            f"{shown(self.witness)}\n"
            f"Before {last.action} was answered it could have been: {states}"
        )


class OutOfBounds(Exception):
    """There were too many configurations to look at them all."""


def check_all(
    history: History, models: dict[str, Model[Any]], configurations_max: int = CONFIGURATIONS_MAX
) -> list[Verdict]:
    """Check every object of a history.

    Args:
        history: its keys are pairs whose first part names the model.
        models: by that name.
        configurations_max: the bound for each object.

    Returns:
        A verdict for each object.
    """
    return [
        check(models[str(key[0])], operations, configurations_max)  # type: ignore[index]
        for key, operations in history.by_key.items()
    ]


def check(
    model: Model[State],
    operations: Sequence[Operation],
    configurations_max: int = CONFIGURATIONS_MAX,
) -> Verdict:
    """Check one object.

    Args:
        model: what it ought to be.
        operations: those upon it, in any order.
        configurations_max: when to give up.

    Returns:
        The verdict; of a failure with the shortest history that could be found to show it.
    """
    key = operations[0].key if operations else ""
    search = Search(model, operations, configurations_max)
    verdict = Verdict(key, model.name, None, len(operations), 0)
    with contextlib.suppress(OutOfBounds):
        verdict.is_linearizable = search.succeeds()
    verdict.configurations = search.configurations
    if verdict.is_linearizable is False:
        verdict.witness = Shortener(model, configurations_max).shortened(operations)
        verdict.states = _states_before_last(model, verdict.witness, configurations_max)
    return verdict


class Search:
    """One search for an order: depth first, definite operations before open ones."""

    def __init__(
        self, model: Model[Any], operations: Sequence[Operation], configurations_max: int
    ) -> None:
        self.configurations = 0
        self.ends: set[Hashable] = set()
        """States at the end of the orders found so far."""
        self._model = model
        self._left = configurations_max
        ordered = sorted(model.seen(operations), key=lambda each: each.invoked)
        self._done = [each for each in ordered if each.returned is not None]
        self._open = [each for each in ordered if each.returned is None]
        self._earlier = _earlier_alike(self._open)
        self._tried: set[tuple[int, int, int, Hashable]] = set()

    def succeeds(self) -> bool:
        """Return whether there is an order.

        Raises:
            OutOfBounds: too many configurations.
        """
        return any(True for _ in self._orders())

    def all_ends(self) -> set[Hashable]:
        """Return every state that an order may end in.

        Raises:
            OutOfBounds: too many configurations.
        """
        for _ in self._orders():
            pass
        return self.ends

    def _orders(self) -> Iterator[None]:
        """Yield once for each configuration in which every answer is accounted for."""
        start = (0, 0, 0, self._model.initial())
        stack = [self._following(start)]
        if not self._done:
            self.ends.add(start[3])
            yield
        while stack:
            following = next(stack[-1], None)
            if following is None:
                stack.pop()
                continue
            if following in self._tried:
                continue
            self._tried.add(following)
            self.configurations += 1
            if self.configurations > self._left:
                raise OutOfBounds
            if following[0] == len(self._done):
                self.ends.add(following[3])
                yield
            stack.append(self._following(following))

    def _following(
        self, configuration: tuple[int, int, int, Hashable]
    ) -> Iterator[tuple[int, int, int, Hashable]]:
        """Yield each configuration that one operation leads to.

        A configuration is: how many of the first answered operations are taken, which of those
        behind them (bits), which of the open ones (bits), and the state.
        """
        first, taken, opened, state = configuration
        candidates, deadline = self._candidates(first, taken)
        for index in candidates:
            for following in self._model.step(state, self._done[index]):
                yield (*_with(first, taken, index), opened, following)
        for index, operation in enumerate(self._open):
            if operation.invoked > deadline:
                break
            if opened >> index & 1 or (self._earlier[index] & ~opened):
                continue
            for following in self._model.step(state, operation):
                if following != state:
                    yield first, taken, opened | 1 << index, following

    def _candidates(self, first: int, taken: int) -> tuple[list[int], float]:
        """Return who may come next: no other has returned before it was invoked.

        Those come first whose answers came first. Also returns the earliest of these answers.
        """
        found: list[int] = []
        deadline = float("inf")
        for index in range(first, len(self._done)):
            operation = self._done[index]
            if operation.invoked > deadline:
                break
            if not taken >> (index - first) & 1:
                found.append(index)
                deadline = min(deadline, _return(operation))
        found.sort(key=lambda index: _return(self._done[index]))
        return found, deadline


class Shortener:
    """Makes a history that fails shorter, so that it still fails and proves the whole fails.

    What is left out weakens the claim: answers that came later, reads, and the answers of changes,
    which are open then. So if the shorter history is impossible, the longer one is, too.
    """

    def __init__(self, model: Model[Any], configurations_max: int) -> None:
        self._model = model
        self._left = 5 * configurations_max

    def shortened(self, operations: Sequence[Operation]) -> list[Operation]:
        """Return the shortest history found, in order of invocation."""
        found = self._prefix(sorted(operations, key=lambda each: each.invoked))
        for only_reads in (True, False):
            found = self._thinned(found, only_reads=only_reads)
        return list(self._model.seen(found))

    def _thinned(self, found: list[Operation], *, only_reads: bool) -> list[Operation]:
        """Leave out what can be spared: first halves, then quarters, at last one by one."""
        size = len(found)
        while size > 0:
            start = len(found)
            while start > 0:
                start = min(start, len(found))
                chosen = found[max(0, start - size) : start]
                if only_reads:
                    chosen = [each for each in chosen if self._model.is_read(each)]
                shorter = self._weakened(found, chosen)
                if len(shorter) + _count_done(shorter) < len(found) + _count_done(found):
                    found = shorter if self._fails(shorter) else found
                start -= size
            size //= 2
        return found

    def _prefix(self, operations: list[Operation]) -> list[Operation]:
        """Return what there was when the first answer came that cannot be explained."""
        answers = sorted(_return(each) for each in operations if each.returned is not None)
        low, high = 0, len(answers) - 1
        while low < high:
            middle = (low + high) // 2
            if self._fails(_until(operations, answers[middle])):
                high = middle
            else:
                low = middle + 1
        shorter = _until(operations, answers[high])
        return shorter if self._fails(shorter) else operations

    def _weakened(self, found: list[Operation], chosen: list[Operation]) -> list[Operation]:
        """Return a history that says less about the chosen."""
        weak = set(chosen)
        left = [
            each if each not in weak else _opened(each, "(does not matter)")
            for each in found
            if each not in weak or not self._model.is_read(each)
        ]
        return list(self._model.seen(left))

    def _fails(self, operations: Sequence[Operation]) -> bool:
        """Return whether a history fails for certain, within what is left of the bound."""
        search = Search(self._model, operations, max(self._left, 0))
        try:
            return not search.succeeds()
        except OutOfBounds:
            return False
        finally:
            self._left -= search.configurations


def _states_before_last(
    model: Model[Any], witness: Sequence[Operation], configurations_max: int
) -> list[Hashable]:
    """Return the states that explain all answers but the last."""
    last = _last(witness)
    search = Search(model, [each for each in witness if each is not last], configurations_max)
    try:
        return list(search.all_ends())
    except OutOfBounds:
        return list(search.ends)


def _until(operations: Sequence[Operation], moment: float) -> list[Operation]:
    """Return what had been invoked by a moment; what was answered later is open."""
    return [
        each if _return(each) <= moment else _opened(each, "(later)")
        for each in operations
        if each.invoked < moment
    ]


def _opened(operation: Operation, note: str) -> Operation:
    if operation.returned is None:
        return operation
    return msgspec.structs.replace(operation, returned=None, result=None, note=note)


def _count_done(operations: Sequence[Operation]) -> int:
    return sum(not each.is_open for each in operations)


def _last(operations: Sequence[Operation]) -> Operation:
    """Return the operation that was answered last."""
    return max((each for each in operations if not each.is_open), key=_return)


def _return(operation: Operation) -> float:
    return float("inf") if operation.returned is None else operation.returned


def _with(first: int, taken: int, index: int) -> tuple[int, int]:
    """Return the operations taken, and one more: a count of the first, and bits behind them."""
    taken |= 1 << (index - first)
    while taken & 1:
        first, taken = first + 1, taken >> 1
    return first, taken


def _earlier_alike(operations: Sequence[Operation]) -> list[int]:
    """Return for each open operation the bits of those before it that ask the very same."""
    bits: dict[Hashable, int] = {}
    found = []
    for index, operation in enumerate(operations):
        asked = (operation.action, operation.given)
        found.append(bits.get(asked, 0))
        bits[asked] = bits.get(asked, 0) | 1 << index
    return found
