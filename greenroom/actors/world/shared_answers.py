"""One answer for all who ask the same at the same time.

Whoever asks while others are being answered waits for the next run, which answers all who wait. So
do those who ask in the same pass of the event loop. A run begins after all of them have asked. So
nobody gets an answer that is older than their question, and however many ask, there is one run
after another.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable
from typing import Any, Final, TypeVar

import trio

from greenroom.actors.kernel.errors import StorageUnavailable

Answer = TypeVar("Answer")

WAIT_SECONDS_MAX: Final = 0.25
"""For so long the next run waits for the one before. So one that is held up holds up no other."""


class _Run:
    """One run, and what it has brought."""

    __slots__ = ("answer", "ended", "failure", "is_answered")

    def __init__(self) -> None:
        self.ended = trio.Event()
        self.is_answered = False
        self.answer: Any = None
        self.failure: StorageUnavailable | None = None


class SharedAnswers:
    """The runs that are under way, and those that wait for them: two for each question at most."""

    def __init__(self) -> None:
        """Begin with none."""
        self._running: dict[Hashable, _Run] = {}
        self._waiting: dict[Hashable, _Run] = {}

    async def get(self, question: Hashable, ask: Callable[[], Awaitable[Answer]]) -> Answer:
        """Return the answer of a run that begins from now on.

        Args:
            question: those who ask the same get the same. Nobody may change the answer.
            ask: finds the answer. If others do not answer in time, all who wait are told so. What
                else it raises is for its caller alone, and the rest ask anew.

        Raises:
            StorageUnavailable: others do not answer in time.

        Cancellation: as that of `ask`. Those who wait ask for themselves.
        """
        run = self._waiting.get(question)
        if run is not None:
            await run.ended.wait()
            if run.failure is not None:
                raise run.failure.copy()
            return run.answer if run.is_answered else await ask()
        run = self._waiting[question] = _Run()
        before = self._running.get(question)
        try:
            if before is None:
                await trio.lowlevel.checkpoint()  # who asks in this pass shares the run
            else:
                with trio.move_on_after(WAIT_SECONDS_MAX):
                    await before.ended.wait()
        except BaseException:
            del self._waiting[question]
            run.ended.set()
            raise
        del self._waiting[question]
        return await self._run(question, run, ask)

    async def _run(
        self, question: Hashable, run: _Run, ask: Callable[[], Awaitable[Answer]]
    ) -> Answer:
        """Find an answer, and give it to all who wait for this run."""
        self._running[question] = run
        try:
            answer = await ask()
            run.answer, run.is_answered = answer, True
        except StorageUnavailable as failure:
            run.failure = failure.copy()
            raise
        finally:
            if self._running.get(question) is run:
                del self._running[question]
            run.ended.set()
        return answer
