"""The bus of a simulated cluster: the one in memory, which notes what is sent."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Final

import trio
from sim_chance import Trace

from greenroom.bus.memory import MemoryBus, MemoryNetwork

PASS_SECONDS: Final = 0.002
"""How long asks are gathered that leave together: passes of the simulation take no time."""


class SimNetwork(MemoryNetwork):
    """Notes every frame in the trace."""

    def __init__(self, chance: Random, trace: Trace) -> None:
        super().__init__(chance)
        self.sent = 0
        self._trace = trace

    def join(self, node_id: int) -> MemoryBus:
        return _SimBus(node_id, self)

    def send(self, sender: int, receiver: int, frame: bytes) -> None:
        self.sent += 1
        self._trace.note("bus", sender, receiver, len(frame))
        super().send(sender, receiver, frame)


class _SimBus(MemoryBus):
    """Gathers asks and answers for as long as a busy node's pass takes."""

    def __init__(self, node_id: int, network: MemoryNetwork) -> None:
        super().__init__(node_id, network)
        self._puts: list[tuple[float, Callable[[], None]]] = []
        self._run_first = self._put_later

    def _put_later(self, put: Callable[[], None]) -> None:
        self._puts.append((trio.current_time() + PASS_SECONDS, put))
        self.look()

    def _take_arrived(self) -> None:
        while self._puts and self._puts[0][0] <= trio.current_time() and not self._is_paused:
            self._puts.pop(0)[1]()
        super()._take_arrived()

    def _find_next_arrival(self) -> float:
        soonest = super()._find_next_arrival()
        return soonest if self._is_paused or not self._puts else min(soonest, self._puts[0][0])
