"""The first line of a relayed connection: it names the client's address, and cannot be forged.

    GREENROOM-RELAY <receiver> <sender> <address> <unix seconds> <nonce> <seal>

The seal is a BLAKE2b digest of what stands before it, under the key that all nodes of an
installation have. A line is good for one node, once, and for `SECONDS_MAX`.
"""

from __future__ import annotations

import hmac
from collections import OrderedDict
from collections.abc import Callable
from hashlib import blake2b
from typing import Final

from greenroom.network.proxies import plain_address
from greenroom.transport.ports import RELAY_MARK, NobodyToRelayTo

SECONDS_MAX: Final = 30.0
"""How far the time of a line may be from ours, either way."""
NONCES_MAX: Final = 65_536
"""Lines that are remembered while they are good. Beyond, further ones are refused."""
NONCE_BYTES: Final = 16

_DIGEST_BYTES: Final = 32
_PURPOSE: Final = b"greenroom relay1"


class RelayLines:
    """Writes the lines of one node, and reads those that it is sent."""

    def __init__(
        self,
        node_id: int,
        key: bytes,
        *,
        time: Callable[[], float],
        random_bytes: Callable[[int], bytes],
    ) -> None:
        """Begin with no line seen.

        Args:
            node_id: this node.
            key: shared by all nodes; from 16 to 64 bytes.
            time: Unix seconds, of a clock that all nodes agree about.
            random_bytes: returns so many bytes from a cryptographic source.
        """
        self._node_id = node_id
        self._keyed = blake2b(digest_size=_DIGEST_BYTES, key=key, person=_PURPOSE)
        self._time = time
        self._random_bytes = random_bytes
        self._seen: OrderedDict[bytes, float] = OrderedDict()
        self.refused = 0
        """Lines that were forged, old, or had come before."""

    def write(self, receiver: int, address: str) -> bytes:
        """Return a new line for another node, with its line break.

        Args:
            receiver: the node.
            address: the client's, without a port.
        """
        nonce = self._random_bytes(NONCE_BYTES).hex()
        text = f"{receiver} {self._node_id} {address} {self._time():.3f} {nonce}"
        told = RELAY_MARK + text.encode()
        return b"%b %b\r\n" % (told, self._seal(told).hex().encode())

    def read(self, line: bytes) -> str | None:
        """Return the client's address; None if the line is not to be trusted, and it is counted.

        Args:
            line: from the mark to the end, without the line break.

        Raises:
            NobodyToRelayTo: it is for another node, which has had this port, or has it again soon.
        """
        address = self._read(line)
        self.refused += address is None
        return address

    def _read(self, line: bytes) -> str | None:
        told, _, seal = line.rpartition(b" ")
        if not hmac.compare_digest(self._seal(told).hex().encode(), seal):
            return None
        # whoever knows the key has written it, and so all its words are there
        _, receiver, _, address, sent_at, nonce = told.decode().split(" ")
        now = self._time()
        if abs(float(sent_at) - now) > SECONDS_MAX:
            return None
        if int(receiver) != self._node_id:
            raise NobodyToRelayTo
        return plain_address(address) if self._is_new(nonce.encode(), now) else None

    def _is_new(self, nonce: bytes, now: float) -> bool:
        """Remember a line; return whether it is the first time."""
        seen = self._seen
        while seen and next(iter(seen.values())) <= now:
            seen.popitem(last=False)
        if nonce in seen or len(seen) >= NONCES_MAX:
            return False
        seen[nonce] = now + 2 * SECONDS_MAX
        return True

    def _seal(self, told: bytes) -> bytes:
        digest = self._keyed.copy()
        digest.update(told)
        return digest.digest()
