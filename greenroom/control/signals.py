"""Signals that stop a server or a command in order, and the one that lets a server reload."""

from __future__ import annotations

import os
import signal


def stop_signals() -> list[signal.Signals]:
    """Return SIGTERM, SIGINT (^C) and SIGHUP, which comes when the terminal is closed.

    A process started by `nohup` shall outlive the terminal, so an ignored SIGHUP stays ignored.
    """
    signals = [signal.SIGTERM, signal.SIGINT]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        signals.append(signal.SIGHUP)
    return signals


class Terminal:
    """The terminal that the process was started on, if any; it tells what a SIGHUP means."""

    def __init__(self) -> None:
        """Find out whether there is one."""
        self._was_there = _has_terminal()

    def is_lost(self) -> bool:
        """Return whether there was a terminal that is closed by now.

        The kernel takes it away before it sends SIGHUP.
        """
        return self._was_there and not _has_terminal()


def _has_terminal() -> bool:
    try:
        os.close(os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY))
    except OSError:
        return False
    return True
