"""How packets are protected: three suites, of which client and server agree on one.

    suite               secrecy  integrity  nonce                      tag
    aes-256-gcm         yes      yes        packet number, 12 bytes    16 bytes
    chacha20-poly1305   yes      yes        packet number, 12 bytes    16 bytes
    hmac-sha256         NO       yes        (the number is in what     16 bytes: the first of 32
                                            the tag covers)

Each direction has a key of its own, and no packet number comes twice under one key, so that no
nonce does. `hmac-sha256` is for engines without the others: everybody on the way can read along.
"""

from __future__ import annotations

import hmac
from typing import Final, Protocol, get_args

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM, ChaCha20Poly1305

from greenroom.contract.realtime import SuiteName

SUITES: Final[tuple[SuiteName, ...]] = get_args(SuiteName)
"""The best first: of those that a client offers, the server takes the first here."""

KEY_BYTES: Final = 32
TAG_BYTES: Final = 16

_NONCE_PAD: Final = bytes(4)


class Forged(Exception):
    """A packet that the holder of the key has not sent, or that was changed on its way."""


class Suite(Protocol):
    """One key, ready to protect the packets of one direction."""

    def seal(self, number: bytes, header: bytes, body: bytes) -> bytes:
        """Return the protected body and its tag.

        Args:
            number: the packet's number, 8 bytes.
            header: what is sent before it in the clear, the number included.
            body: the frames.
        """
        ...

    def open(self, number: bytes, header: bytes, sealed: bytes) -> bytes:
        """Return the body.

        Raises:
            Forged: the tag is wrong.
        """
        ...


class _Aead:
    __slots__ = ("_cipher",)

    def __init__(self, cipher: AESGCM | ChaCha20Poly1305) -> None:
        self._cipher = cipher

    def seal(self, number: bytes, header: bytes, body: bytes) -> bytes:
        return self._cipher.encrypt(_NONCE_PAD + number, body, header)

    def open(self, number: bytes, header: bytes, sealed: bytes) -> bytes:
        try:
            return self._cipher.decrypt(_NONCE_PAD + number, sealed, header)
        except InvalidTag:
            raise Forged from None


class _Hmac:
    __slots__ = ("_key",)

    def __init__(self, key: bytes) -> None:
        self._key = key

    def _compute_tag(self, header: bytes, body: bytes) -> bytes:
        return hmac.digest(self._key, header + body, "sha256")[:TAG_BYTES]

    def seal(self, number: bytes, header: bytes, body: bytes) -> bytes:  # noqa: ARG002
        return body + self._compute_tag(header, body)

    def open(self, number: bytes, header: bytes, sealed: bytes) -> bytes:  # noqa: ARG002
        body, tag = sealed[:-TAG_BYTES], sealed[-TAG_BYTES:]
        if not hmac.compare_digest(tag, self._compute_tag(header, body)):
            raise Forged
        return body


def suite(name: SuiteName, key: bytes) -> Suite:
    """Return a suite with its key.

    Args:
        name: which.
        key: `KEY_BYTES` bytes.

    Raises:
        ValueError: the key has another length.
    """
    if len(key) != KEY_BYTES:
        raise ValueError(f"a key has {KEY_BYTES} bytes, not {len(key)}")
    if name == "hmac-sha256":
        return _Hmac(key)
    return _Aead(AESGCM(key) if name == "aes-256-gcm" else ChaCha20Poly1305(key))


def choose_suite(offered: object) -> SuiteName | None:
    """Return the best of what a client offers; None if we have none of it.

    Args:
        offered: what the client sent: a list of names, if it is right; None for any.
    """
    if offered is None:
        return SUITES[0]
    if not isinstance(offered, list):
        return None
    return next((name for name in SUITES if name in offered), None)
