"""NATS's keys for signing in, called nkeys: a secret seed, whose public half the servers know.

Seeds and public keys are Ed25519 keys in base 32, with a prefix for their kind and a checksum.
"""

from __future__ import annotations

import base64
import binascii
import logging
from pathlib import Path
from typing import Final

from greenroom.bus.bus import BusUnusable
from greenroom.network.tls import advise_on_permissions

_logger = logging.getLogger(__name__)

FILE_BYTES_MAX: Final = 64 << 10
_SEED: Final = 18 << 3
_USER: Final = 20 << 3
_SEED_BYTES: Final = 32


class NatsKey:
    """A user's seed."""

    __slots__ = ("_private", "public")

    def __init__(self, seed: str) -> None:
        """Read a seed, `SU...`.

        Raises:
            ValueError: it is none, or has a typing error.
        """
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        raw = _decode(seed.strip())
        kind, rest = raw[0] & 0xF8, (raw[0] & 7) << 5 | raw[1] >> 3
        if kind != _SEED or rest != _USER or len(raw) != 2 + _SEED_BYTES:
            raise ValueError("it is no seed of a user")
        self._private = Ed25519PrivateKey.from_private_bytes(raw[2:])
        public = bytes([_USER]) + self._private.public_key().public_bytes_raw()
        self.public = _encode(public)
        """The public key, `U...`, which a server's configuration has."""

    def sign(self, nonce: str) -> str:
        """Return what proves to a server that we have the seed.

        Args:
            nonce: what the server wants signed.
        """
        signature = self._private.sign(nonce.encode())
        return base64.urlsafe_b64encode(signature).rstrip(b"=").decode()


def read_key(path: Path) -> NatsKey:
    """Read the seed in a file; lines that do not begin with `SU` are comments.

    If other users may read the file, the log says so.

    Raises:
        BusUnusable: there is no such file, or no seed in it.
    """
    try:
        with path.open(encoding="ascii") as file:
            lines = file.read(FILE_BYTES_MAX).splitlines()
        advice = advise_on_permissions(path, "key")
    except OSError as error:
        raise BusUnusable(
            f"Cannot read {path} ({error.strerror}): set bus_nkey_file to the file of the seed."
        ) from None
    except UnicodeDecodeError:
        lines, advice = [], None
    if advice is not None:
        _logger.warning("%s", advice)
    for line in lines:
        if line.strip().startswith("SU"):
            try:
                return NatsKey(line)
            except ValueError:
                break
    raise BusUnusable(
        f"{path} has no seed of a NATS user: it needs a line that begins with SU, as "
        "`nk -gen user` prints."
    )


def _decode(text: str) -> bytes:
    """Return the bytes of a key, its checksum proved.

    Raises:
        ValueError: it has a typing error.
    """
    try:
        raw = base64.b32decode(text + "=" * (-len(text) % 8))
    except binascii.Error:
        raise ValueError("it is not base 32") from None
    if len(raw) < 4 or binascii.crc_hqx(raw[:-2], 0) != int.from_bytes(raw[-2:], "little"):
        raise ValueError("its checksum is wrong")
    return raw[:-2]


def _encode(raw: bytes) -> str:
    checksum = binascii.crc_hqx(raw, 0).to_bytes(2, "little")
    return base64.b32encode(raw + checksum).rstrip(b"=").decode()
