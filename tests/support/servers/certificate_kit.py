"""Certificates of every state in files, and clients that look at what a server shows."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import trio
import trustme
from cryptography import x509
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)


class Authority:
    """Gives out certificates for this machine, as files `cert.pem` and `key.pem`."""

    def __init__(self, directory: Path) -> None:
        self._ca = trustme.CA()
        self.directory = directory
        self.certificate = directory / "cert.pem"
        self.key = directory / "key.pem"

    def issue(self, *, days: float = 90, begins_in_days: float = -1) -> int:
        """Put another certificate in place of the last, file by file; return its number."""
        certificate, key = self.make(days=days, begins_in_days=begins_in_days)
        _replace(self.certificate, certificate)
        _replace(self.key, key)
        return x509.load_pem_x509_certificate(certificate).serial_number

    def make(self, *, days: float = 90, begins_in_days: float = -1) -> tuple[bytes, bytes]:
        """Return a certificate and its key, valid for so many days from now."""
        now = datetime.now(UTC)
        made = self._ca.issue_cert(
            "localhost",
            "127.0.0.1",
            not_before=now + timedelta(days=begins_in_days),
            not_after=now + timedelta(days=days),
        )
        return made.cert_chain_pems[0].bytes(), made.private_key_pem.bytes()

    def write_root(self, path: Path) -> None:
        """Write the authority's own certificate, which clients trust."""
        self._ca.cert_pem.write_to_path(path)

    def trusting(self, *protocols: str) -> ssl.SSLContext:
        """Return the context of a client that trusts it."""
        context = ssl.create_default_context()
        self._ca.configure_trust(context)
        if protocols:
            context.set_alpn_protocols(protocols)
        return context


async def shown(port: int) -> int:
    """Return the number of the certificate that a port shows now."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    plain = await trio.open_tcp_stream("127.0.0.1", port)
    stream = trio.SSLStream(plain, context, https_compatible=True)
    await stream.do_handshake()
    found = stream.getpeercert(binary_form=True)
    await trio.aclose_forcefully(stream)
    return x509.load_der_x509_certificate(found).serial_number


def lock_key(key: Path, locked: Path) -> None:
    """Write a key once more, under a password."""
    clear = load_pem_private_key(key.read_bytes(), None)
    secret = BestAvailableEncryption(b"secret")
    locked.write_bytes(
        clear.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, secret),
    )


def _replace(path: Path, content: bytes) -> None:
    """Put a file in the place of another, as programs that renew certificates do."""
    newer = path.with_suffix(".new")
    newer.write_bytes(content)
    newer.chmod(0o600)
    newer.replace(path)
