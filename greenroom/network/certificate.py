"""The certificate of both ports while they serve: read again when its files change.

New connections get the new certificate, and existing ones keep theirs. If the files cannot be used,
the old certificate stays, and the log says so. Both ports change together.
"""

from __future__ import annotations

import logging
import ssl
from pathlib import Path

import msgspec
import trio

from greenroom.network.tls import (
    State,
    TlsError,
    TlsFiles,
    Validity,
    advise_on_permissions,
    read_context,
    read_der,
    read_validity,
)

_logger = logging.getLogger(__name__)

POLL_SECONDS = 5.0
"""Seconds between two checks of the files. A check costs two `stat` calls."""
HTTP_PROTOCOLS = ("h2", "http/1.1")
REALTIME_PROTOCOLS = ("http/1.1",)


class _Loaded(msgspec.Struct, frozen=True):
    """The content of the files at one time."""

    fingerprint: tuple[object, ...]
    http: ssl.SSLContext
    realtime: ssl.SSLContext
    validity: Validity
    der: bytes


class Certificate:
    """A certificate in files. A service for a supervisor; it can be run again."""

    def __init__(
        self, certificate_file: Path, key_file: Path, poll_seconds: float = POLL_SECONDS
    ) -> None:
        """Read the files.

        Args:
            certificate_file: PEM, with the chain behind the server's own certificate.
            key_file: PEM, without a password; may be the same file.
            poll_seconds: seconds between two checks of the files.

        Raises:
            TlsError: a file is missing or unreadable, or the key does not fit the certificate.
        """
        self._files = TlsFiles(certificate_file, key_file)
        self._poll_seconds = poll_seconds
        self._loaded = self._load()
        self._wanted = trio.Event()
        self._told_state: State | None = None
        self._told_error: tuple[object, ...] | None = None

    @property
    def validity(self) -> Validity:
        """Return how long the certificate that is in use is valid."""
        return self._loaded.validity

    @property
    def der(self) -> bytes:
        """Return the certificate that is in use, as peers are shown it."""
        return self._loaded.der

    @property
    def is_outdated(self) -> bool:
        """Return whether the files have changed and cannot be used."""
        return self._told_error is not None

    def get_http_context(self) -> ssl.SSLContext:
        """Return the TLS context for the next connection of the HTTP port."""
        return self._loaded.http

    def get_realtime_context(self) -> ssl.SSLContext:
        """Return the TLS context for the next connection of the realtime port."""
        return self._loaded.realtime

    def reload(self) -> None:
        """Ask for the files to be read soon, even if they seem unchanged."""
        self._wanted.set()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Watch the files until cancelled; the loaded certificate stays in use.

        A file system that hangs delays the watching alone.
        """
        self._tell_state()
        self._tell_permissions()
        task_status.started()
        while True:
            with trio.move_on_after(self._poll_seconds):
                await self._wanted.wait()
            is_wanted, self._wanted = self._wanted.is_set(), trio.Event()
            await self._look(is_wanted=is_wanted)
            self._tell_state()

    async def _look(self, *, is_wanted: bool) -> None:
        """Read the files if they have changed, could not be used so far, or it is wanted."""
        found = await trio.to_thread.run_sync(self._files.read_fingerprint, abandon_on_cancel=True)
        if found == self._loaded.fingerprint and not is_wanted:
            self._told_error = None  # they are as they were
            return
        try:
            loaded = await trio.to_thread.run_sync(self._load, abandon_on_cancel=True)
        except TlsError as error:
            text = str(error)
        else:
            self._loaded, self._told_error, self._told_state = loaded, None, None
            _logger.info("the TLS certificate has been read again")
            self._tell_permissions()
            return
        if self._told_error != (found, text) or is_wanted:
            _logger.error("%s; the certificate loaded before stays in use", text)
        self._told_error = (found, text)

    def _load(self) -> _Loaded:
        """Read everything anew.

        Raises:
            TlsError: it cannot be used.
        """
        fingerprint = self._files.read_fingerprint()  # first: the next look sees a change meanwhile
        return _Loaded(
            fingerprint,
            read_context(self._files, HTTP_PROTOCOLS),
            read_context(self._files, REALTIME_PROTOCOLS),
            read_validity(self._files.certificate),
            read_der(self._files.certificate),
        )

    def _tell_state(self) -> None:
        """Log the certificate's state, if it has changed."""
        validity = self._loaded.validity
        state = validity.find_state()
        if state == self._told_state:
            return
        self._told_state = state
        file, sentence = self._files.certificate, validity.describe()
        if state == "valid":
            _logger.info("the TLS certificate %s %s", file, sentence)
        elif state == "expiring":
            _logger.warning("the TLS certificate %s %s", file, sentence)
        else:
            _logger.error("the TLS certificate %s %s", file, sentence)

    def _tell_permissions(self) -> None:
        """Log what is wrong with the key's permissions."""
        try:
            advice = advise_on_permissions(self._files.key)
        except OSError:
            return  # gone again; the next look says so
        if advice is not None:
            _logger.warning("%s", advice)
