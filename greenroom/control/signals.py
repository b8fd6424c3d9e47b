"""Signals that stop a server or a command in order."""

from __future__ import annotations

import signal


def stop_signals() -> list[signal.Signals]:
    """Return SIGTERM, SIGINT (^C) and SIGHUP, which comes when the terminal is closed.

    A process started by `nohup` shall outlive the terminal, so an ignored SIGHUP stays ignored.
    """
    signals = [signal.SIGTERM, signal.SIGINT]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        signals.append(signal.SIGHUP)
    return signals
