"""A histogram of seconds, as Prometheus wants it: counts by upper bound, and their sum."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence


class Histogram:
    """Counts durations. One thread counts; others may read what goes on meanwhile."""

    __slots__ = ("bounds", "buckets", "seconds_sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        """Start at zero.

        Args:
            bounds: upper bounds of the buckets, in seconds, ascending; one more is for the rest.
        """
        self.bounds = tuple(bounds)
        self.buckets = [0] * (len(self.bounds) + 1)
        self.seconds_sum = 0.0

    def observe(self, seconds: float) -> None:
        """Count one duration."""
        self.buckets[bisect_left(self.bounds, seconds)] += 1
        self.seconds_sum += seconds

    def compute_cumulative(self) -> list[tuple[str, int]]:
        """Return each upper bound with the number of durations up to it, `+Inf` last."""
        found, total = [], 0
        bounds = [*map(str, self.bounds), "+Inf"]
        for bound, count in zip(bounds, self.buckets.copy(), strict=True):
            total += count
            found.append((bound, total))
        return found
