"""Measure asks over NATS while each of three servers is killed in turn.

Two nodes are connected to one of the servers each. The first asks the second without a pause, and
asks again whatever was lost, as forwarded calls do. Each server comes back before the next one is
killed, so at times it is that of the asker, of the answerer, or of neither.
"""

from __future__ import annotations

import secrets
from collections import Counter
from pathlib import Path

import nats
import processes
import trio
from scenario import Run, spread

from greenroom.bus.bus import BusLost, NobodyThere
from greenroom.bus.nats import NatsBus
from greenroom.bus.nats_servers import read_options

SERVERS, ASKERS = 3, 4
ASK_SECONDS_MAX = 10.0
AGAIN_SECONDS = 0.005
PAUSE_SECONDS = 0.002
BETWEEN_SECONDS = 1.5
CLUSTER = "bench"


def measure(run: Run) -> str:
    """Kill each server once in every round."""
    longest: list[float] = []
    counts = Counter[str]()
    for number in range(1, run.rounds + 1):
        run.say(f"round {number} of {run.rounds}: {SERVERS} NATS servers")
        with processes.fresh_folder() as folder:
            longest.append(trio.run(_kill_each, folder, counts))
    return (
        f"Each of {SERVERS} NATS servers is killed and started again, while {ASKERS} tasks of a"
        f" node ask another. The longest ask, asked again where it was lost:"
        f" {spread(longest, '.1f')} ms. {counts['asks']:,} asks, {counts['again']} of them sent"
        " again, none without an answer."
    )


async def _kill_each(folder: Path, counts: Counter[str]) -> float:
    """Return the milliseconds of the longest ask."""
    key = secrets.token_bytes(32)
    with nats.running(folder, SERVERS) as servers:
        urls = [server.url for server in servers]
        first, second = (
            NatsBus(number, read_options(",".join(order)), key=key, cluster_id=CLUSTER)
            for number, order in ((1, urls), (2, urls[::-1]))
        )
        second.answer_with(_echo)
        probe = _Asker(first, 2, counts)
        async with trio.open_nursery() as nursery:
            await nursery.start(first.run)
            await nursery.start(second.run)
            for _ in range(ASKERS):
                nursery.start_soon(probe.run)
            for server in servers:
                await trio.sleep(BETWEEN_SECONDS)
                await trio.to_thread.run_sync(server.kill)
                await trio.sleep(BETWEEN_SECONDS)
                await trio.to_thread.run_sync(server.start)
            await trio.sleep(BETWEEN_SECONDS)
            nursery.cancel_scope.cancel()
    return 1_000 * probe.longest_seconds


async def _echo(_: int, message: bytes) -> bytes:
    return message


class _Asker:
    """Asks a node, and notes how long that took at most."""

    def __init__(self, bus: NatsBus, node_id: int, counts: Counter[str]) -> None:
        self.longest_seconds = 0.0
        self._bus = bus
        self._node_id = node_id
        self._counts = counts

    async def run(self) -> None:
        """Ask until cancelled."""
        while True:
            began = trio.current_time()
            while not await self._is_answered():
                self._counts["again"] += 1
                await trio.sleep(AGAIN_SECONDS)
            self._counts["asks"] += 1
            self.longest_seconds = max(self.longest_seconds, trio.current_time() - began)
            await trio.sleep(PAUSE_SECONDS)

    async def _is_answered(self) -> bool:
        try:
            await self._bus.ask(self._node_id, b"ask", seconds_max=ASK_SECONDS_MAX)
        except (BusLost, NobodyThere):
            return False
        return True
