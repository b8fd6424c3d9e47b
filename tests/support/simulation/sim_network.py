"""The bus of a simulated cluster: the one in memory, which notes what is sent."""

from __future__ import annotations

from random import Random

from sim_chance import Trace

from greenroom.bus.memory import MemoryNetwork


class SimNetwork(MemoryNetwork):
    """Notes every frame in the trace."""

    def __init__(self, chance: Random, trace: Trace) -> None:
        super().__init__(chance)
        self.sent = 0
        self._trace = trace

    def send(self, sender: int, receiver: int, frame: bytes) -> None:
        self.sent += 1
        self._trace.note("bus", sender, receiver, len(frame))
        super().send(sender, receiver, frame)
