"""A TLS certificate with its key, read from files: TLS 1.2 or newer, and how long it is valid."""

from __future__ import annotations

import ssl
import stat
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec

if TYPE_CHECKING:
    from cryptography import x509

TlsContext = Callable[[], ssl.SSLContext]
"""Returns the TLS context for the next connection."""

FILE_BYTES_MAX = 1 << 20
"""The most bytes of a file: more than any chain needs. A wrong path then does not fill memory."""
EXPIRING = timedelta(days=30)
"""A certificate that is valid for less should be renewed. Programs such as certbot renew before."""

State = Literal["valid", "expiring", "expired", "early"]


class TlsError(Exception):
    """The certificate cannot be used; the text is one sentence that says what is wrong with it."""


class TlsFiles(msgspec.Struct, frozen=True):
    """The files of a certificate."""

    certificate: Path
    """PEM: the server's own certificate, with the chain behind it."""
    key: Path
    """PEM, without a password; may be the same file."""

    def read_fingerprint(self) -> tuple[object, ...]:
        """Return a value that changes when a file is changed or replaced.

        A missing file has a fingerprint, too.
        """
        return tuple(_fingerprint(path) for path in (self.certificate, self.key))


class Validity(msgspec.Struct, frozen=True):
    """The time in which a certificate is valid."""

    begins_at: datetime
    ends_at: datetime

    def find_state(self) -> State:
        """Return the certificate's state now: early, valid, expiring or expired."""
        now = datetime.fromtimestamp(time.time(), UTC)
        if now < self.begins_at:
            return "early"
        if now >= self.ends_at:
            return "expired"
        return "expiring" if self.ends_at - now < EXPIRING else "valid"

    def describe(self) -> str:
        """Return the state in words: `is valid until …`."""
        match self.find_state():
            case "early":
                return f"is not valid before {_utc(self.begins_at)}: is this machine's clock right?"
            case "expired":
                return f"expired at {_utc(self.ends_at)}: renew it"
            case "expiring":
                return f"is valid only until {_utc(self.ends_at)}: renew it"
            case _:
                return f"is valid until {_utc(self.ends_at)}"


def read_validity(certificate_file: Path) -> Validity:
    """Return how long the first certificate of a PEM file is valid.

    Raises:
        TlsError: the file cannot be read.
    """
    own = _read_own(certificate_file)
    return Validity(own.not_valid_before_utc, own.not_valid_after_utc)


def read_der(certificate_file: Path) -> bytes:
    """Return the first certificate of a PEM file in DER, as it is shown to peers.

    Raises:
        TlsError: the file cannot be read.
    """
    from cryptography.hazmat.primitives.serialization import Encoding

    return _read_own(certificate_file).public_bytes(Encoding.DER)


def _read_own(certificate_file: Path) -> x509.Certificate:
    """Return the first certificate of a PEM file: the server's own."""
    from cryptography import x509  # most servers have no certificate, and start without this

    try:
        return x509.load_pem_x509_certificates(_read(certificate_file))[0]
    except ValueError:
        raise TlsError(f"{certificate_file} holds no certificate in PEM format") from None


def read_context(files: TlsFiles, protocols: Sequence[str]) -> ssl.SSLContext:
    """Return a server's TLS context.

    Args:
        files: the certificate and its key.
        protocols: names of the protocols offered (ALPN), the preferred one first.

    Raises:
        TlsError: a file is missing or unreadable, or the key does not fit the certificate.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION
    context.set_ciphers("ECDHE+AESGCM:ECDHE+CHACHA20")
    context.set_alpn_protocols(list(protocols))
    for path in (files.certificate, files.key):
        _read(path)  # OpenSSL does not say which of them it could not read
    try:
        context.load_cert_chain(files.certificate, files.key, password=_refuse_password)
    except ssl.SSLError as error:
        raise TlsError(_reason(error, files)) from error
    except OSError as error:
        raise TlsError(f"a TLS file cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise TlsError(f"the TLS key {files.key} {error}") from error
    return context


def advise_on_permissions(key_file: Path, kind: str = "TLS key") -> str | None:
    """Return what is wrong with a key's permissions, `None` if nothing is."""
    mode = key_file.stat().st_mode
    if mode & (stat.S_IRWXO | stat.S_IWGRP):
        return f"Other users may use the {kind} {key_file}: chmod g-w,o= {key_file}"
    return None


def _reason(error: ssl.SSLError, files: TlsFiles) -> str:
    if error.reason in {"KEY_VALUES_MISMATCH", "KEY_TYPE_MISMATCH"}:
        return (
            f"the TLS key {files.key} does not belong to the first certificate in "
            f"{files.certificate}: the server's own comes first, its chain behind it"
        )
    if error.reason in {"EE_KEY_TOO_SMALL", "CA_MD_TOO_WEAK", "CA_KEY_TOO_SMALL"}:
        return f"the TLS certificate {files.certificate} is too weak for OpenSSL ({error.reason})"
    return (
        f"the TLS certificate {files.certificate} cannot be used with its key {files.key}: "
        f"{error.reason or 'are they PEM files?'}"
    )


def _read(path: Path) -> bytes:
    """Return the content of a file.

    Raises:
        TlsError: the file cannot be read, or is too large.
    """
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise TlsError(f"the TLS file {path} is not a file")
        with path.open("rb") as stream:
            content = stream.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise TlsError(f"the TLS file {path} cannot be read: {error.strerror}") from None
    if len(content) > FILE_BYTES_MAX:
        raise TlsError(f"the TLS file {path} is larger than 1 MiB: it is no PEM file")
    return content


def _fingerprint(path: Path) -> tuple[object, ...] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


def _refuse_password() -> str:
    """Refuse keys with a password: OpenSSL would wait for it on the terminal without end."""
    raise ValueError("is encrypted: give one without a password")


def _utc(moment: datetime) -> str:
    return f"{moment:%Y-%m-%dT%H:%M:%SZ}"
