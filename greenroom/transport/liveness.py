"""Signs of life of one connected player: what they send is taken for some, every few seconds."""

from __future__ import annotations

import random

from greenroom.actors.flows import realtime
from greenroom.actors.world.world import World
from greenroom.transport.deadlines import Deadlines


class Liveness:
    """Notes that a player was heard of, seldom enough to cost nothing; any channel may tell it."""

    __slots__ = ("_deadlines", "_departures", "_known_until", "_player_id", "_seconds", "_world")

    def __init__(self, world: World, deadlines: Deadlines, player_id: int, seconds: float) -> None:
        """Begin with nothing noted.

        Args:
            world: where they play.
            deadlines: keeps the time.
            player_id: who they are.
            seconds: how often it is noted at least.
        """
        self._world = world
        self._deadlines = deadlines
        self._player_id = player_id
        self._seconds = seconds
        self._known_until = 0.0
        self._departures = 0

    def note(self) -> None:
        """Take what came as a sign of life, if the last is old or the player is offline."""
        now, index = self._deadlines.now, self._world.player_index
        if now < self._known_until and self._departures == index.departures:
            return
        if now >= self._known_until or not index.is_online(self._player_id):
            # Not the same for all: those who came together would be noted together ever after.
            share = random.uniform(0.5, 1.0)  # noqa: S311 - no secret
            self._known_until = now + share * self._seconds
            realtime.note_sign_of_life(self._world, self._player_id)
        else:
            self._departures = index.departures

    def note_pong(self) -> None:
        """Take the answer to a ping as one; the player is silent, so it is not written down."""
        realtime.note_sign_of_life(self._world, self._player_id, is_kept=False)
