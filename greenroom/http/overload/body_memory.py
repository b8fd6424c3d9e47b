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
        """Bytes of answers that are larger than `ANSWER_BYTES_MIN`, until they are sent. Of the
        others, those that the kernel's buffer has no room for; see `Unsent`.
        """


ANSWER_BYTES_MIN = 1 << 16
"""Larger answers are held before they are sent, or not given at all."""


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


class Unsent:
    """The bytes that one connection holds because its peer does not read them.

    A client that reads finds answers in the kernel's buffer. Others keep them here, and with them
    the requests that came behind.
    """

    __slots__ = ("_behind_bytes", "_is_counted", "_lease", "key")

    def __init__(self, budget: Shares, key: str) -> None:
        """Start with nothing held; `key` is the address that is charged."""
        self._lease = BodyLease(budget)
        self.key = key
        self._behind_bytes = 0
        self._is_counted = False

    def begin(self, behind_bytes: int = 0, *, is_counted: bool = False) -> None:
        """Note what is sent next.

        Args:
            behind_bytes: of requests that wait until it is sent.
            is_counted: whether it is held already.
        """
        self._behind_bytes = behind_bytes
        self._is_counted = is_counted

    def hold(self, size: int) -> bool:
        """Hold what is not sent yet; return whether there is room for it, as of `BodyLease`."""
        own = 0 if self._is_counted else size
        return self._lease.hold(own + self._behind_bytes, self.key)

    def release(self) -> None:
        """Give all back: it is sent, or never will be."""
        self._lease.release()
