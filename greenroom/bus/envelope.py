"""Seals: a message shows who sent it and to whom, and that it has not come before.

A sealed message is a head, a body, and in front of both the keyed BLAKE2b digest of the two. All
nodes of an installation have the key. The head has the sender, the receiver and a number, so a
message is taken once, and by the node that it was meant for. Ids of nodes are never used again, so
what one life of a node has sent is worth nothing in the next. Seals hide nothing: TLS does.
"""

from __future__ import annotations

import hmac
import itertools
import struct
from collections import OrderedDict, defaultdict
from collections.abc import Iterator
from hashlib import blake2b
from typing import Final

from greenroom.bus.bus import BusStatistics
from greenroom.fastlane.window import ReplayWindow

EVERYBODY: Final = 0
"""The receiver of what all nodes are told."""
DIGEST_BYTES: Final = 16
_HEAD: Final = struct.Struct(">QQQ")
SEAL_BYTES: Final = DIGEST_BYTES + _HEAD.size
SENDERS_MAX: Final = 4_096
"""Nodes whose numbers are kept; see `Seals.open`."""
KEY_BYTES_MIN: Final = 16

_PURPOSE: Final = b"greenroom bus 1"
"""Another version of what is sealed gets another number, and neither reads the other's."""


class Seals:
    """Seals what one node sends, and opens what it gets."""

    def __init__(self, node_id: int, key: bytes, cluster_id: str, counts: BusStatistics) -> None:
        """Begin with nothing sent.

        Args:
            node_id: the node.
            key: shared by all nodes of the installation; from 16 to 64 bytes.
            cluster_id: names the installation. Seals of another one are worth nothing here.
            counts: what is refused is counted here.

        Raises:
            ValueError: the key is too short or too long.
        """
        if not KEY_BYTES_MIN <= len(key) <= blake2b.MAX_KEY_SIZE:
            raise ValueError(f"the key of the bus has {len(key)} bytes, and needs 16 to 64")
        self._node_id = node_id
        self._counts = counts
        self._keyed = blake2b(digest_size=DIGEST_BYTES, key=key, person=_PURPOSE)
        self._keyed.update(blake2b(cluster_id.encode()).digest())
        self._numbers: defaultdict[int, Iterator[int]] = defaultdict(lambda: itertools.count(1))
        self._windows: OrderedDict[tuple[int, int], ReplayWindow] = OrderedDict()
        self._forgotten = 0
        """The highest sender whose numbers are no longer known."""

    def close(self, receiver: int, body: bytes) -> bytes:
        """Return a message sealed for a node, or for `EVERYBODY`."""
        sealed = _HEAD.pack(self._node_id, receiver, next(self._numbers[receiver])) + body
        return self._compute_digest(sealed) + sealed

    def open(self, message: bytes) -> tuple[int, bytes] | None:
        """Return the sender and the body of a message; `None` if it is not to be taken.

        The numbers of `SENDERS_MAX` senders are kept, of those heard last. A sender that was
        forgotten is not taken again, and neither is an older one that was never heard: ids of nodes
        only grow.
        """
        if len(message) < SEAL_BYTES:
            self._counts.truncated += 1
            return None
        sealed = message[DIGEST_BYTES:]
        sender, receiver, number = _HEAD.unpack_from(sealed)
        if (
            receiver not in (self._node_id, EVERYBODY)
            or sender == self._node_id
            or not hmac.compare_digest(self._compute_digest(sealed), message[:DIGEST_BYTES])
        ):
            self._counts.forged += 1
            return None
        window = self._find_window(sender, receiver)
        if window is None or not window.is_fresh(number):
            self._counts.replayed += 1
            return None
        window.take(number)
        return sender, sealed[_HEAD.size :]

    def _compute_digest(self, sealed: bytes) -> bytes:
        state = self._keyed.copy()
        state.update(sealed)
        return state.digest()

    def _find_window(self, sender: int, receiver: int) -> ReplayWindow | None:
        """Return the numbers of a sender whose seal is right; `None` if they are forgotten."""
        key = sender, receiver
        window = self._windows.get(key)
        if window is None:
            if sender <= self._forgotten:
                return None
            self._windows[key] = window = ReplayWindow()
            if len(self._windows) > 2 * SENDERS_MAX:
                (forgotten, _), _ = self._windows.popitem(last=False)
                self._forgotten = max(self._forgotten, forgotten)
        else:
            self._windows.move_to_end(key)
        return window
