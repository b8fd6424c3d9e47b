"""Times as operators read them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import overload


@overload
def utc_text(seconds: int) -> str: ...
@overload
def utc_text(seconds: None) -> None: ...
@overload
def utc_text(seconds: int | None) -> str | None: ...
def utc_text(seconds: int | None) -> str | None:
    """Return Unix seconds as the wire shows them: `2026-03-13T14:01:49Z`."""
    return None if seconds is None else f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%SZ}"
