"""TLS from the settings: TLS 1.2 or newer, HTTP/2 and HTTP/1.1 offered."""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from pathlib import Path


class TlsError(Exception):
    """The certificate cannot be used; the text is one sentence that says what is wrong with it."""


def server_context(
    certificate_file: Path | None,
    key_file: Path | None,
    protocols: Sequence[str] = ("h2", "http/1.1"),
) -> ssl.SSLContext | None:
    """Return the TLS context of the server, None when TLS is not wanted.

    Args:
        certificate_file: PEM, with the chain behind it.
        key_file: PEM; may be left out when the certificate's file holds the key too.
        protocols: what is spoken over it (ALPN), best first.

    Raises:
        TlsError: a file is missing, unreadable, or they do not belong together.
    """
    if certificate_file is None:
        if key_file is None:
            return None
        raise TlsError("tls_key_file is set, but tls_certificate_file is not: set both or none")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION
    context.set_ciphers("ECDHE+AESGCM:ECDHE+CHACHA20")
    context.set_alpn_protocols(list(protocols))
    try:
        context.load_cert_chain(certificate_file, key_file, password=_refuse_password)
    except ssl.SSLError as error:
        raise TlsError(
            f"the TLS certificate {certificate_file} cannot be used with its key: "
            f"{error.reason or 'is it a PEM file?'}"
        ) from error
    except OSError as error:
        raise TlsError(
            f"a TLS file cannot be read: {error.strerror}: "
            f"check tls_certificate_file ({certificate_file}) and tls_key_file ({key_file})"
        ) from error
    except ValueError as error:
        raise TlsError(f"the TLS key {key_file or certificate_file} {error}") from error
    return context


def _refuse_password() -> str:
    """Refuse keys under a password: OpenSSL would ask for it on the terminal and wait for ever."""
    raise ValueError("is encrypted: give one without a password")
