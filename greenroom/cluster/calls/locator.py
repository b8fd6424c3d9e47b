"""Finds the shard of a project key's game, without a token being checked.

Authentication is the owner's alone. So it does no harm if a key is still known here that opens
nothing any more: the owner refuses it. A game keeps its shard as long as it lives.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final, Protocol

KEYS_MAX: Final = 16_384
"""Keys that are remembered. Beyond, the one that was asked for longest ago is looked up again."""


class ProjectKeys(Protocol):
    """The project keys in the database."""

    async def find_shard_by_api_key(self, key_hash: bytes) -> tuple[int, int] | None:
        """Return the game whose project key, or an old one, has this hash, and its shard.

        Raises:
            ActorUnavailable: it could not be found out.
        """
        ...


class Locator:
    """Shards by project key. Keys of no game are not remembered, so strangers fill nothing."""

    def __init__(self, keys: ProjectKeys, keys_max: int = KEYS_MAX) -> None:
        """Begin with no key known.

        Args:
            keys: where they are looked up.
            keys_max: how many to remember.
        """
        self._keys = keys
        self._keys_max = keys_max
        self._shards: OrderedDict[bytes, int] = OrderedDict()

    def __len__(self) -> int:
        """Return how many keys are remembered."""
        return len(self._shards)

    def known(self, key_hash: bytes) -> int | None:
        """Return the shard of a key's game, None if it is not remembered."""
        shard = self._shards.get(key_hash)
        if shard is not None:
            self._shards.move_to_end(key_hash)
        return shard

    async def find(self, key_hash: bytes) -> int | None:
        """Return the shard of a key's game, None if there is no such game.

        Raises:
            ActorUnavailable: it could not be found out.

        Cancellation changes nothing.
        """
        shard = self.known(key_hash)
        if shard is None:
            found = await self._keys.find_shard_by_api_key(key_hash)
            if found is not None:
                _, shard = found
                self._shards[key_hash] = shard
                if len(self._shards) > self._keys_max:
                    self._shards.popitem(last=False)
        return shard
