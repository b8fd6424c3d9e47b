"""Limits of a request's head, for the HTTP port and for the realtime port."""

from __future__ import annotations

from typing import Final

FIELDS_MAX: Final = 100
"""Header fields of one request. Each costs more than its bytes."""
INVALID_REQUEST: Final = "Invalid HTTP request"
TOO_MANY_FIELDS: Final = "Too many header fields"
