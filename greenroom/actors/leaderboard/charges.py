"""Charges for building indexes: to the address that asked, and to its game. Pure.

Overload: an address or game in debt gets no index built until the debt is paid off. The cost of a
build is known only as it goes on, so it is always finished, and charged page by page.
"""

from __future__ import annotations

import math
from typing import Final

from greenroom.actors.leaderboard.refusals import TooManyBuilds
from greenroom.network.addresses import address_key
from greenroom.network.limiter import Limiter

UNIT_BYTES: Final = 1 << 10


class Charges:
    """Allowances for builds, for each address and for each game."""

    __slots__ = ("_addresses", "_games")

    def __init__(self, addresses: Limiter, games: Limiter) -> None:
        """Charge these, in units of `UNIT_BYTES`."""
        self._addresses = addresses
        self._games = games

    def check(self, game_id: int, address: str, now: float) -> None:
        """Let a build begin, or go on after others; this itself costs nothing.

        Args:
            game_id: whose.
            address: where it was asked for; empty if that is not known.
            now: monotonic seconds.

        Raises:
            TooManyBuilds: one of them owes for earlier builds.
        """
        wait = self._addresses.compute_wait_seconds(address_key(address), now) if address else 0.0
        if wait > 0.0:
            raise TooManyBuilds("leaderboard builds by address", math.ceil(wait))
        wait = self._games.compute_wait_seconds(game_id, now)
        if wait > 0.0:
            raise TooManyBuilds("leaderboard builds by game", math.ceil(wait))

    def pay(self, game_id: int, address: str, now: float, size_bytes: int) -> None:
        """Charge bytes that a build has read."""
        units = math.ceil(size_bytes / UNIT_BYTES)
        _take(self._games, game_id, now, units)
        if address:
            _take(self._addresses, address_key(address), now, units)


def _take(limiter: Limiter, key: str | int, now: float, units: int) -> None:
    if limiter.charge(key, now, units) > 0.0:
        limiter.owe(key, now, units)  # a build that has begun is finished, in debt or not
