"""Fixtures of the tests of the realtime port and the UDP port."""

from __future__ import annotations

import math
from collections.abc import Iterator

import pytest

from greenroom.transport.udp import turns


@pytest.fixture(scope="module")
def patient_turns() -> Iterator[None]:
    """Have no packet dropped because this machine is busy: between two steps, anything may pass."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(turns, "LATE_SECONDS", math.inf)
        yield
