"""A hook that runs too long is interrupted, wherever it is, with its stack to show.

A thread looks now and then whether the same hook still runs; if so, it sends the process a signal,
whose handler, in the main thread, raises inside the hook. So a hook costs two assignments, not a
timer; and the handler, which runs between two instructions of the main thread, can see for sure
whether a hook is running. What cannot be interrupted is one long call into C.
"""

from __future__ import annotations

import signal
import threading
import time
from contextlib import AbstractContextManager
from types import FrameType
from typing import Self

from greenroom.behaviour.errors import HookTooSlow

LATE_FACTOR = 1.5
"""If a look comes so many times later than meant, it was the machine that slept, not the hook."""


class Interrupted(BaseException):
    """Raised inside a hook; no `except Exception` of a studio's catches it."""


class Watchdog:
    """Watches over the hooks that run in the main thread. One per process.

    While it is open, SIGALRM is its own. Its thread is there from the first hook on: without a
    behaviour there is nothing to watch.

    Attributes:
        running: the hook that runs; None while none does.
        runs: how many have begun.
    """

    def __init__(self, hook_seconds_max: float) -> None:
        """Prepare; hooks are not watched before it is entered.

        Args:
            hook_seconds_max: how long a hook may run. It is interrupted after one to two times
                as long.
        """
        self._seconds = hook_seconds_max
        self.running: str | None = None
        self.runs = 0
        self._closed = threading.Event()
        self._closed.set()
        self._thread: threading.Thread | None = None
        self._watched = _Watched(self)

    def __enter__(self) -> Self:
        """Begin to watch; must be called in the main thread."""
        signal.signal(signal.SIGALRM, self._on_signal)
        self._closed.clear()
        return self

    def __exit__(self, *_exception: object) -> None:
        """Stop watching; must be called in the main thread."""
        self._closed.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        signal.signal(signal.SIGALRM, signal.SIG_DFL)

    def watch(self, hook: str) -> AbstractContextManager[None]:
        """Return what a hook is to run in; it raises `HookTooSlow` if it must be interrupted."""
        if self._thread is None and not self._closed.is_set():
            self._thread = threading.Thread(target=self._look, name="hook watchdog", daemon=True)
            self._thread.start()
        watched = self._watched
        watched.hook = hook
        return watched

    def _look(self) -> None:
        """Signal the main thread whenever it has been in one hook for a whole interval."""
        main = threading.main_thread().ident
        assert main is not None
        before, last = -1, time.monotonic()
        while not self._closed.wait(self._seconds):
            running, count, now = self.running, self.runs, time.monotonic()
            is_late = now - last > LATE_FACTOR * self._seconds
            if running is not None and count == before and not is_late:
                signal.pthread_kill(main, signal.SIGALRM)
            before, last = count, now

    def _on_signal(self, _number: int, frame: FrameType | None) -> None:
        at_the_end = frame is not None and frame.f_code is _Watched.__exit__.__code__
        if self.running is not None and not at_the_end:
            self._watched.was_interrupted = True
            raise Interrupted


class _Watched(AbstractContextManager[None]):
    """The hook that runs, one after the other; hooks do not nest."""

    __slots__ = ("_started", "_watchdog", "hook", "was_interrupted")

    def __init__(self, watchdog: Watchdog) -> None:
        self._watchdog = watchdog
        self.hook = ""
        self.was_interrupted = False

    def __enter__(self) -> None:
        self.was_interrupted = False
        self._started = time.monotonic()
        self._watchdog.runs += 1
        self._watchdog.running = self.hook

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._watchdog.running = None
        if error is not None and self.was_interrupted:  # whatever has become of `Interrupted`
            seconds = time.monotonic() - self._started
            message = f"{self.hook} was interrupted after {seconds:.2f} s"
            raise HookTooSlow(message).with_traceback(error.__traceback__) from None
