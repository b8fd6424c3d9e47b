"""Players who have moved to another node: that node is told, so that it loads them.

The call with which they moved may be lost. Whoever loads them shows them as they are: they go
offline when nothing is heard of them, and leaderboards have them. Nearly always the call is not
lost, and brings them there first. So it is told a moment later. A service.

Overload: beyond `DEPARTURES_MAX` players, further ones are not told of. Their next call loads them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable
from typing import Final

import msgspec
import trio

from greenroom.actors.kernel.errors import ActorUnavailable
from greenroom.actors.kernel.message import Event
from greenroom.actors.player.messages import PlayerMoved
from greenroom.actors.world.leaderboards import Leaderboards
from greenroom.actors.world.others import OtherNodes, Question

_logger = logging.getLogger(__name__)

DEPARTURES_MAX: Final = 10_000
"""Players of whom other nodes have not been told yet; some 1 MB."""
TOLD_AT_ONCE: Final = 100
"""Players whom one message names, so that they are loaded within a moment."""
REST_SECONDS: Final = 0.02
"""How long whoever has moved is not told of. Told at once, the other node would read them twice
while their call waits."""
TELL_SECONDS_MAX: Final = 10.0
"""How long a node is told in vain: thrice a lease. Whoever takes over from it reads the rows."""
PAUSE_SECONDS: Final = 0.2


class ReceivePlayers(Question, frozen=True):
    """Have a node load players who have moved there."""

    game_id: int
    player_ids: list[int]


class PlayersReceived(msgspec.Struct, frozen=True, array_like=True):
    """They are in memory, or not that node's any more."""


class Departures:
    """The players who have left this node, until the next node has them."""

    def __init__(
        self, leaderboards: Leaderboards, partitions: Callable[[int], Collection[int] | None]
    ) -> None:
        """Prepare; nobody is told before `run`.

        Args:
            leaderboards: show players here until they are shown there.
            partitions: returns the shards of a game that this node has; None for all.
        """
        self.others: OtherNodes | None = None
        """The other nodes, once this one has joined them."""
        self._leaderboards = leaderboards
        self._partitions = partitions
        self._waiting: dict[tuple[int, int], list[int]] = {}
        """By game and shard."""
        self._count = 0
        self._nursery: trio.Nursery | None = None

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Tell other nodes until cancelled."""
        try:
            async with trio.open_nursery() as nursery:
                self._nursery = nursery
                task_status.started()
                await trio.sleep_forever()
        finally:
            self._nursery = None
            self._waiting.clear()
            self._count = 0

    def note_durable(self, events: Iterable[Event]) -> None:
        """Take note of events that have become durable; it never fails."""
        for event in events:
            if isinstance(event, PlayerMoved) and event.shard not in (
                self._partitions(event.game_id) or ()
            ):
                self._note_left(event)

    def _note_left(self, event: PlayerMoved) -> None:
        key = event.game_id, event.shard
        if self._nursery is None or self._count >= DEPARTURES_MAX:
            self._leaderboards.note_received(event.game_id, (event.player_id,))
            return
        self._count += 1
        if key in self._waiting:
            self._waiting[key].append(event.player_id)
        else:
            self._waiting[key] = [event.player_id]
            self._nursery.start_soon(self._tell, *key)

    async def _tell(self, game_id: int, shard: int) -> None:
        """Tell the owner of a shard of all who wait."""
        key = game_id, shard
        try:
            while self._waiting[key]:
                await trio.sleep(REST_SECONDS)
                waiting = self._waiting[key]
                told, self._waiting[key] = waiting[:TOLD_AT_ONCE], waiting[TOLD_AT_ONCE:]
                try:
                    await self._tell_about(game_id, shard, told)
                finally:
                    self._count -= len(told)
                    self._leaderboards.note_received(game_id, told)
        finally:
            del self._waiting[key]

    async def _tell_about(self, game_id: int, shard: int, player_ids: list[int]) -> None:
        """Tell the owner of a shard of some players, until it has them or too long."""
        question = ReceivePlayers(game_id, player_ids)
        with trio.move_on_after(TELL_SECONDS_MAX) as patience:
            while self.others is not None:
                try:
                    await self.others.ask(game_id, shard, question, PlayersReceived)
                    return
                except ActorUnavailable as error:
                    _logger.debug("shard %d is not told of players: %r", shard, error)
                await trio.sleep(PAUSE_SECONDS)
        if patience.cancelled_caught:
            _logger.warning(
                "shard %d was not told of %d players; their calls load them",
                *(shard, len(player_ids)),
            )
