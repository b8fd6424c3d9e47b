"""Which signals end a server or a command in order."""

from __future__ import annotations

import signal


def stop_signals() -> list[signal.Signals]:
    """Return SIGTERM, SIGINT (^C) and SIGHUP, which comes when the terminal goes.

    Whoever started us with `nohup` wants us to outlive the terminal: an ignored SIGHUP stays so.
    """
    signals = [signal.SIGTERM, signal.SIGINT]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        signals.append(signal.SIGHUP)
    return signals
