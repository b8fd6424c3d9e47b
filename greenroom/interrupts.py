"""Tell a `KeyboardInterrupt` that is ^C from one that somebody's code has raised."""

from __future__ import annotations

import signal


def is_real_interrupt(error: BaseException) -> bool:
    """Return whether this is ^C at a terminal, which stops the whole process.

    It can be one only where Python itself turns the signal into an exception: in a studio's tests.
    A server handles signals in another way, so there somebody's code has raised it.
    """
    is_raised = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    return is_raised and issubclass(type(error), KeyboardInterrupt)
