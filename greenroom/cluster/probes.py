"""Probes of nodes whose session lock is gone: whether they have a subscriber on the bus."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final

import trio

from greenroom.bus.bus import BusError, NobodyThere, OffBus
from greenroom.cluster.messenger import BusMessage, Messenger, UnreadableMessage

PROBE_SECONDS_MAX: Final = 0.5
"""How long to wait for a sign of a node whose session lock is gone."""


class Probe(BusMessage, frozen=True):
    """Is anybody there? Any answer will do."""


class Probes:
    """Asks other nodes whether they are there, each in a task of its own, and answers such asks."""

    def __init__(self, messenger: Messenger, note_silent: Callable[[], None]) -> None:
        """Register on the messenger.

        Args:
            messenger: the way to the other nodes.
            note_silent: called when a node has no subscriber on the bus.
        """
        self._messenger = messenger
        self._note_silent = note_silent
        self.answers: dict[int, bool] = {}
        """By node whose session lock is gone: whether it has answered."""
        self._probing: set[int] = set()
        messenger.answer(Probe, self._answer)

    def probe(self, node_id: int, nursery: trio.Nursery) -> None:
        """Ask a node, unless it is being asked already."""
        if node_id not in self._probing:
            self._probing.add(node_id)
            nursery.start_soon(self._ask, node_id)

    def keep_only(self, nodes: Collection[int]) -> None:
        """Forget what all nodes but these have answered."""
        self.answers = {i: answer for i, answer in self.answers.items() if i in nodes}

    def clear(self) -> None:
        """Take note that the nursery of all probes is gone."""
        self._probing.clear()

    async def _ask(self, node_id: int) -> None:
        try:
            await self._messenger.ask(node_id, Probe(), seconds_max=PROBE_SECONDS_MAX)
            self.answers[node_id] = True
        except OffBus:
            pass  # that says nothing about the other node: it is asked again
        except NobodyThere:
            self.answers[node_id] = False
            self._note_silent()
        except (BusError, UnreadableMessage):
            self.answers[node_id] = True  # it may be there
        finally:
            self._probing.discard(node_id)

    async def _answer(self, _: int, probe: Probe) -> BusMessage:
        return probe
