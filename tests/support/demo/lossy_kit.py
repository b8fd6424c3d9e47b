"""A line that loses some of what is sent."""

from __future__ import annotations

from random import Random

from line_kit import Line

SENT_AGAIN_SECONDS = 0.2
"""How long TCP waits at least before it sends a lost segment again (Linux)."""


class LossyLine(Line):
    """A line as a radio link is.

    Attributes:
        loss: the share of pieces that are lost at first. TCP sends them again, and holds back what
            comes after them.
    """

    def __init__(self, target: tuple[str, int]) -> None:
        super().__init__(target)
        self.loss = 0.0
        self._losses = Random(20)

    def _draw_seconds(self) -> float:
        is_lost = self._losses.random() < self.loss
        return self.delay_seconds + (SENT_AGAIN_SECONDS if is_lost else 0.0)
