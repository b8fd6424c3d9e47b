"""Measures the load of this node's shards: turns a second, from counts that actors keep anyway."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec


class Measure(msgspec.Struct, frozen=True):
    """The load of one node over the last few seconds."""

    rates: dict[int, float]
    """Turns a second by shard, without shards that came, or came anew, since the last measure."""
    processors: float
    """How many processors the process has kept busy."""

    @property
    def turns_per_second(self) -> float:
        """Return the load of all shards together."""
        return sum(self.rates.values())


class LoadMeter:
    """Compares counts with those of the last measure."""

    def __init__(self, moment: Callable[[], float], cpu_seconds: Callable[[], float]) -> None:
        """Begin with nothing measured.

        Args:
            moment: a clock that only grows, in seconds.
            cpu_seconds: returns how much processor time the process has taken.
        """
        self._moment = moment
        self._cpu_seconds = cpu_seconds
        self._at = moment()
        self._cpu = cpu_seconds()
        self._counts: dict[int, tuple[int, int]] = {}
        """Epoch and turns by shard."""
        self.last = Measure({}, 0.0)

    def measure(self, epochs: Mapping[int, int], turns: Mapping[int, int]) -> Measure:
        """Return the load since the last measure; the same again if no time has passed.

        Args:
            epochs: the shards that this node serves, each with its epoch.
            turns: how many turns there have been by shard, since any moment.
        """
        now, cpu = self._moment(), self._cpu_seconds()
        seconds = now - self._at
        if seconds <= 0:
            return self.last
        counts = {shard: (epoch, turns.get(shard, 0)) for shard, epoch in epochs.items()}
        rates: dict[int, float] = {}
        for shard, (epoch, count) in counts.items():
            epoch_before, before = self._counts.get(shard, (None, 0))
            if epoch == epoch_before:
                rates[shard] = (count - before) / seconds
        self.last = Measure(rates, (cpu - self._cpu) / seconds)
        self._at, self._cpu, self._counts = now, cpu, counts
        return self.last
