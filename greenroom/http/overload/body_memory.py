"""Bounds of the memory that request and answer bodies take together. Pure."""

from __future__ import annotations

from greenroom.http.server.options import HttpOptions
from greenroom.network.shares import Shares


class Budgets:
    """The bytes that all connections of a server hold together, and those of each address.

    A bound for each body alone is not enough. Ten thousand connections may each send almost a whole
    body and stop, or ask for a large answer and do not read it.
    """

    def __init__(self, options: HttpOptions) -> None:
        """Start with nothing held."""
        self.requests = Shares(options.bodies_bytes_max, options.address_share_max)
        """Bytes of requests that arrive in pieces. Others are done before the next is read.
        """
        self.answers = Shares(options.answers_bytes_max, options.address_share_max)
        """Bytes of answers that are larger than `ANSWER_BYTES_MIN`, until they are sent."""


ANSWER_BYTES_MIN = 1 << 16
"""Smaller answers are not counted where a connection has one at a time: the kernel's buffer has
room for most of them."""


class BodyLease:
    """The bytes that one body, or one connection's bodies one after the other, hold of a budget."""

    __slots__ = ("_budget", "_key", "held")

    def __init__(self, budget: Shares) -> None:
        """Start with nothing held."""
        self._budget = budget
        self.held = 0
        """In bytes."""
        self._key = ""

    def hold(self, size: int, key: str) -> bool:
        """Hold `size` bytes in place of what was held.

        Args:
            size: in bytes.
            key: the address that they are charged to; see `address_key`.

        Returns:
            Whether the bytes were available. If not, the bytes held before are given back.
        """
        if size == self.held and key == self._key:
            return True
        self.release()
        if not size:
            return True
        if not self._budget.take(key, size):
            return False
        self.held, self._key = size, key
        return True

    def release(self) -> None:
        """Give all bytes back."""
        if self.held:
            self._budget.give_back(self._key, self.held)
            self.held = 0
