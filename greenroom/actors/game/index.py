"""Active games by project key. Game actors keep it; it is derived, never the truth."""

from __future__ import annotations

from greenroom.actors.plans.ledger import Ledger


class GameIndex:
    """Active games by the hash of their project key."""

    __slots__ = ("_by_key", "_by_old_key", "ledger")

    def __init__(self, ledger: Ledger | None = None) -> None:
        """Start empty; `ledger` counts what games use of their owners' plans."""
        self.ledger = ledger or Ledger()
        self._by_key: dict[bytes, int] = {}
        self._by_old_key: dict[bytes, tuple[int, int]] = {}

    def find(self, api_key_hash: bytes) -> int | None:
        """Return the id of the active game that this key opens, else None."""
        return self._by_key.get(api_key_hash)

    def find_old(self, api_key_hash: bytes, now: int) -> int | None:
        """Return the id of the active game that this old key still opens, else None."""
        game_id, expires_at = self._by_old_key.get(api_key_hash, (None, 0))
        return game_id if now < expires_at else None

    def add_old_key(self, api_key_hash: bytes, game_id: int, expires_at: int) -> None:
        """Note that a replaced key opens an active game until then, in Unix seconds."""
        self._by_old_key[api_key_hash] = (game_id, expires_at)

    def add_key(self, api_key_hash: bytes, game_id: int) -> None:
        """Note that a key opens an active game."""
        self._by_key[api_key_hash] = game_id

    def remove_key(self, api_key_hash: bytes) -> None:
        """Forget a key: rotated away, or its game is closed or no longer active."""
        self._by_key.pop(api_key_hash, None)
        self._by_old_key.pop(api_key_hash, None)
