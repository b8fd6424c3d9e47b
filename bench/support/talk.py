"""Realtime rooms in which one member counts aloud and two listen, while this runs."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field

import trio
from looking import until

from greenroom.client import Event, Game, Receive, Sent
from greenroom.client.channel import Channel
from greenroom.client.errors import ChannelLost

PERIOD_SECONDS = 0.05
RECONNECT_SECONDS_MAX = 30.0
LAST_SECONDS_MAX = 10.0
"""How long the last numbers are waited for."""


@dataclass
class Listener:
    """The numbers that came to a member, and how long nothing did."""

    heard: list[int] = field(default_factory=list)
    gaps_told: int = 0
    longest_silence_seconds: float = 0.0
    last_at: float | None = None

    async def listen(self, channel: Channel) -> None:
        """Write down what comes, until cancelled."""
        async for message in channel:
            match message:
                case Receive(data=number):
                    now = trio.current_time()
                    if self.last_at is not None:
                        silence = now - self.last_at
                        self.longest_silence_seconds = max(self.longest_silence_seconds, silence)
                    self.last_at = now
                    self.heard.append(number)
                case Event(event="replay_gap"):
                    self.gaps_told += 1
                case _:
                    pass


@dataclass
class Talk:
    """One room."""

    acknowledged: set[int] = field(default_factory=set)
    """Numbers of which the server has said that it took them."""
    listeners: tuple[Listener, ...] = field(default_factory=lambda: (Listener(), Listener()))

    @property
    def lost(self) -> int:
        """Return how many numbers did not come, of those that the server took."""
        return sum(len(self.acknowledged - set(each.heard)) for each in self.listeners)

    @property
    def disordered(self) -> int:
        """Return how many came twice, or behind a later one."""
        return sum(
            following <= before
            for each in self.listeners
            for before, following in zip(each.heard, each.heard[1:], strict=False)
        )

    @property
    def has_all(self) -> bool:
        """Return whether everybody has heard the last number that the server took."""
        last = max(self.acknowledged, default=0)
        return all(each.heard and each.heard[-1] >= last for each in self.listeners)

    async def run(
        self, url: str, key: str, over: trio.Event, *, task_status: trio.TaskStatus[None]
    ) -> None:
        """Talk until `over` is set and all has been heard; started once all are connected."""
        async with Game.connect(url, key) as game:
            speaker, *others = [await game.register("Talker") for _ in range(3)]
            room = await speaker.create_room(realtime=True, host_switch=False)
            seats = [await player.join_room(room.room_id) for player in others]
            patience = RECONNECT_SECONDS_MAX
            async with (
                speaker.realtime(room, reconnect_seconds_max=patience) as aloud,
                others[0].realtime(seats[0], reconnect_seconds_max=patience) as one,
                others[1].realtime(seats[1], reconnect_seconds_max=patience) as two,
                trio.open_nursery() as nursery,
            ):
                for listener, channel in zip(self.listeners, (one, two), strict=True):
                    nursery.start_soon(listener.listen, channel)
                nursery.start_soon(self._take_acknowledgements, aloud)
                task_status.started()
                await self._count_aloud(aloud, over)
                await until(lambda: self.has_all, LAST_SECONDS_MAX)
                nursery.cancel_scope.cancel()

    async def _count_aloud(self, aloud: Channel, over: trio.Event) -> None:
        number = 0
        while not over.is_set():
            number += 1
            with suppress(ChannelLost):  # it may have arrived or not
                await aloud.send(f"n{number}", number, target="others")
            await trio.sleep(PERIOD_SECONDS)

    async def _take_acknowledgements(self, aloud: Channel) -> None:
        async for message in aloud:
            if isinstance(message, Sent):
                self.acknowledged.add(int(message.command[1:]))


class Talks:
    """Several rooms of one game."""

    def __init__(self, url: str, key: str, rooms: int) -> None:
        """Prepare so many."""
        self.rooms = [Talk() for _ in range(rooms)]
        self.over = trio.Event()
        """Set it to have them end."""
        self._url = url
        self._key = key

    async def run(self, *, task_status: trio.TaskStatus[None]) -> None:
        """Talk in all of them; started once all are connected."""
        async with trio.open_nursery() as nursery:
            async with trio.open_nursery() as starting:
                for room in self.rooms:
                    starting.start_soon(nursery.start, room.run, self._url, self._key, self.over)
            task_status.started()

    def told(self) -> str:
        """Return what was seen as cells of a table: taken, lost, disordered, gaps, silence."""
        listeners = [each for room in self.rooms for each in room.listeners]
        cells = [
            f"{sum(len(room.acknowledged) for room in self.rooms):,}",
            f"{sum(room.lost for room in self.rooms):,}",
            f"{sum(room.disordered for room in self.rooms):,}",
            f"{sum(each.gaps_told for each in listeners):,}",
            f"{1_000 * max(each.longest_silence_seconds for each in listeners):,.0f}",
        ]
        return " | ".join(cells)
