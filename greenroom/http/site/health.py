"""/healthz: the process is up; /readyz: it serves and takes changes. Neither needs a key."""

from __future__ import annotations

from collections.abc import Callable

from greenroom.http.errors import error_answer
from greenroom.http.request import Answer, Request

NOT_READY = "Not ready"
_FRESH = (("Cache-Control", "no-store"),)
_OK = Answer(200, b'{"success":true,"status":"ok"}', _FRESH)
_NOT_READY = error_answer(503, NOT_READY)
_NOT_READY.headers = _FRESH


class Health:
    """The two probes."""

    def __init__(self, is_ready: Callable[[], bool]) -> None:
        """Ask `is_ready` at every probe.

        Args:
            is_ready: whether start-up is over, stopping has not begun, and storage takes changes.
        """
        self._is_ready = is_ready

    def answer_live(self, request: Request) -> Answer:  # noqa: ARG002
        """Answer 200: whoever can answer is alive. Never waits."""
        return _OK

    def answer_ready(self, request: Request) -> Answer:  # noqa: ARG002
        """Answer 200 or 503. Never waits."""
        return _OK if self._is_ready() else _NOT_READY
