"""Names and documents that leaderboards show, as they are durable. Pure.

They are told of every commit, as the indexes are. A player who has changed is forgotten, and a
document that was being read then is not kept. So a profile in here is never older than what a
caller was answered.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Final

import msgspec

from greenroom.actors.leaderboard.lru_cache import LruCache
from greenroom.behaviour.stats import NO_STATS

PROFILES_BYTES_MAX: Final = 32 << 20
"""Three of the largest answers, or the best of some ten thousand games."""
_PLACE_BYTES: Final = 400
"""Bytes that a profile takes besides its document, a name of 50 characters included."""


class Profile(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A player as leaderboards show them; `player_data` and `stats` are JSON objects' bytes."""

    player_id: int
    player_name: str
    player_data: bytes
    stats: bytes = NO_STATS


class Profiles:
    """The profiles shown lately, of all games; the least recently shown go first."""

    __slots__ = ("_kept", "_reading")

    def __init__(self, bytes_max: int = PROFILES_BYTES_MAX) -> None:
        """Start without any; keep at most `bytes_max`."""
        self._kept = LruCache[int, Profile](bytes_max)
        self._reading: dict[int, object] = {}

    @property
    def is_empty(self) -> bool:
        """Return whether nothing is kept and nothing being read: then no change matters."""
        return not self._kept and not self._reading

    def find(self, player_id: int) -> Profile | None:
        """Return a player's profile, if it is kept, and note that it is shown."""
        return self._kept.find(player_id)

    @contextmanager
    def collect(self, player_ids: Sequence[int]) -> Generator[dict[int, Profile]]:
        """Give a dictionary for what is read of these players, and keep that in the end.

        Of whom a change was told meanwhile, or somebody else began to read, nothing is kept: what
        was read may be older than that.
        """
        token = object()
        self._reading.update(dict.fromkeys(player_ids, token))
        found: dict[int, Profile] = {}
        try:
            yield found
        finally:
            for player_id in player_ids:
                if self._reading.get(player_id) is token:
                    del self._reading[player_id]
                    if player_id in found:
                        profile = found[player_id]
                        size_bytes = _PLACE_BYTES + len(profile.player_data) + len(profile.stats)
                        self._kept.keep(player_id, profile, size_bytes)

    def forget(self, player_id: int) -> None:
        """Forget a player of whom a change has been told, and what is being read of them."""
        self._reading.pop(player_id, None)
        self._kept.drop(player_id)

    def clear(self) -> None:
        """Forget everything, what is being read too."""
        self._reading.clear()
        self._kept.clear()
