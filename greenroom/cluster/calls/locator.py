"""Finds the shards of a project key's game, and of a player by their token; nothing is checked.

Authentication is the owner's alone. So it does no harm if a key or token is still known here that
opens nothing any more: the owner refuses it. A game keeps its shards as long as it lives. A player
may have moved, and then their old node says where to.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final, Protocol

KEYS_MAX: Final = 16_384
"""Keys that are remembered. Beyond, the one that was asked for longest ago is looked up again."""
TOKENS_MAX: Final = 65_536
"""Tokens of players in games of several partitions, likewise; some 200 bytes each."""

Shards = tuple[int, ...]


class Tokens(Protocol):
    """The project keys and player tokens in the database."""

    async def find_shards_by_api_key(self, key_hash: bytes) -> tuple[int, Shards] | None:
        """Return the game whose project key, or an old one, has this hash, and its shards.

        Raises:
            ActorUnavailable: it could not be found out.
        """
        ...

    async def find_shard_by_token(self, token_hash: bytes) -> int | None:
        """Return the shard of the player whose token has this hash.

        Raises:
            ActorUnavailable: it could not be found out.
        """
        ...


class Locator:
    """Shards by key and by token. Those of nobody are not remembered, so strangers fill nothing."""

    def __init__(
        self, tokens: Tokens, keys_max: int = KEYS_MAX, tokens_max: int = TOKENS_MAX
    ) -> None:
        """Begin with none known.

        Args:
            tokens: where they are looked up.
            keys_max: how many keys to remember.
            tokens_max: how many tokens of players.
        """
        self._tokens = tokens
        self._keys_max = keys_max
        self._tokens_max = tokens_max
        self._games: OrderedDict[bytes, Shards] = OrderedDict()
        self._players: OrderedDict[bytes, int] = OrderedDict()

    def __len__(self) -> int:
        """Return how many keys are remembered."""
        return len(self._games)

    def recall_game(self, key_hash: bytes) -> Shards | None:
        """Return the shards of a key's game, its home first; None if it is not remembered."""
        shards = self._games.get(key_hash)
        if shards is not None:
            self._games.move_to_end(key_hash)
        return shards

    async def find(self, key_hash: bytes) -> Shards | None:
        """Return the shards of a key's game, its home first; None if there is no such game.

        Raises:
            ActorUnavailable: it could not be found out.

        Cancellation changes nothing.
        """
        shards = self.recall_game(key_hash)
        if shards is None:
            found = await self._tokens.find_shards_by_api_key(key_hash)
            if found is not None:
                _, shards = found
                self._games[key_hash] = shards
                if len(self._games) > self._keys_max:
                    self._games.popitem(last=False)
        return shards

    def recall_player(self, token_hash: bytes) -> int | None:
        """Return the shard where a token's player was last known; None if not remembered."""
        shard = self._players.get(token_hash)
        if shard is not None:
            self._players.move_to_end(token_hash)
        return shard

    async def find_player(self, token_hash: bytes) -> int | None:
        """Return the shard of a token's player, None if there is none; as `find`."""
        shard = self.recall_player(token_hash)
        if shard is None:
            shard = await self._tokens.find_shard_by_token(token_hash)
            if shard is not None:
                self.note_player(token_hash, shard)
        return shard

    def note_player(self, token_hash: bytes, shard: int) -> None:
        """Remember the shard of a token's player, as a node has just said it."""
        self._players[token_hash] = shard
        self._players.move_to_end(token_hash)
        if len(self._players) > self._tokens_max:
            self._players.popitem(last=False)
