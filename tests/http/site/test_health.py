"""The probes."""

from __future__ import annotations

from greenroom.http.request import Request
from greenroom.http.site.health import Health

PROBE = Request("GET", "/readyz", "", {}, b"", "203.0.113.7")


def test_ready_follows_what_it_is_told_and_live_does_not() -> None:
    is_ready = True
    health = Health(lambda: is_ready)

    assert health.answer_ready(PROBE).body == b'{"success":true,"status":"ok"}'
    is_ready = False
    refused = health.answer_ready(PROBE)
    assert (refused.status, refused.body) == (503, b'{"success":false,"error":"Not ready"}')
    assert health.answer_live(PROBE).status == 200
