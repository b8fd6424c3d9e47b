"""What the head of a request may hold, at the HTTP port and at the realtime port."""

from __future__ import annotations

from typing import Final

FIELDS_MAX: Final = 100
"""Header fields of one request; each costs more than its bytes."""
INVALID_REQUEST: Final = "Invalid HTTP request"
TOO_MANY_FIELDS: Final = "Too many header fields"
