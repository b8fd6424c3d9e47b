"""Which KeyboardInterrupt is a ^C, and which one is a mistake of whoever raised it."""

from __future__ import annotations

import signal


def is_real_interrupt(error: BaseException) -> bool:
    """Return whether this is a ^C at a terminal, which stops more than what it came upon.

    It can be one only where Python itself makes an exception of the signal: in a studio's tests. A
    server takes signals otherwise, so there somebody's code has raised it.
    """
    is_raised = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    return is_raised and isinstance(error, KeyboardInterrupt)
