"""Errors of the embedded Postgres, each as one sentence that says what to do."""

from __future__ import annotations

from greenroom.persistence.errors import StorageError


class EmbeddedPostgresError(StorageError):
    """The embedded Postgres cannot run; the text is for the operator."""
