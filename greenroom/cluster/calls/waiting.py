"""The calls that wait until somebody serves their shard: bounded in number, bytes and time."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

from greenroom.config import DEFAULTS
from greenroom.network.shares import Shares

CALLS_MAX: Final = 2_048
"""Calls of all shards that wait at a node."""
BYTES_MAX: Final = 32 << 20
"""Bytes of their bodies."""
CALL_BYTES: Final = 1 << 10
"""Bytes that a call takes besides its body, roughly."""


class TooManyWait(Exception):
    """There is no room for another call that waits, or not for one of this address."""


class WaitingRoom:
    """Counts who waits. An address has its share of the places and of the bytes."""

    def __init__(self, address_share_max: float = DEFAULTS.address_share_max) -> None:
        """Begin with nobody; an address has at most so many times what is free."""
        self._calls = Shares(CALLS_MAX, address_share_max)
        self._bytes = Shares(BYTES_MAX, address_share_max)

    @property
    def calls(self) -> int:
        """Return how many calls wait."""
        return self._calls.held

    @contextmanager
    def hold_place(self, key: str, body_bytes: int) -> Generator[None]:
        """Hold a place for a call.

        Args:
            key: the client's address; see `address_key`.
            body_bytes: what the call holds meanwhile.

        Raises:
            TooManyWait: there is no place.
        """
        size = CALL_BYTES + body_bytes
        if not self._calls.take(key):
            raise TooManyWait
        try:
            if not self._bytes.take(key, size):
                raise TooManyWait
            try:
                yield
            finally:
                self._bytes.give_back(key, size)
        finally:
            self._calls.give_back(key)
