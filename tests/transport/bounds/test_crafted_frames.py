"""No frame of a client takes long to read, whatever is in its fields."""

from __future__ import annotations

import time
from contextlib import suppress

import pytest
from crafted_kit import documents

from greenroom.config import DEFAULTS
from greenroom.transport.messages import UdpOpen, read
from greenroom.transport.requests import MalformedMessage

SECONDS_MAX = 0.005
ATTEMPTS_MAX = 40
"""A frame is read again before it counts as slow: others use the machine, too."""
FIELDS = {
    "a send": ("id", "command", "data", "data_json", "target", "target_ids", "suites", "unknown"),
    "an action": ("id", "action_type", "request_data", "request_data_json", "target_id", "again"),
    "a udp_open": ("id", "suites", "command"),
    "no known type": ("type", "id", "suites", "command"),
}
BEGINNINGS = {
    "a send": b'{"type":"send","command":"x","target":"specific"',
    "an action": b'{"type":"action","id":1,"action_type":"x"',
    "a udp_open": b'{"type":"udp_open","target":5',
    "no known type": b'{"target_ids":5',
}


def _values() -> dict[str, bytes]:
    """Return crafted values that fit into a frame."""
    size = DEFAULTS.realtime_message_bytes_max - 400
    small = documents(size)
    whole = {name: small[name].removeprefix(b'{"a":') for name in small}
    values = {n: v if v is small[n] else v[:-1] for n, v in whole.items()}
    return {name: value for name, value in values.items() if len(value) <= size + 200}


def _cpu_seconds(frame: bytes) -> float:
    began = time.thread_time()
    with suppress(MalformedMessage):
        read(frame)
    return time.thread_time() - began


@pytest.mark.parametrize("kind", FIELDS)
def test_no_frame_takes_long_to_read(kind: str):
    for field in FIELDS[kind]:
        for name, value in _values().items():
            frame = b'%b,"%b":%b}' % (BEGINNINGS[kind], field.encode(), value)
            took = (_cpu_seconds(frame) for _ in range(ATTEMPTS_MAX))
            assert any(each < SECONDS_MAX for each in took), f"{field}: {name}"


@pytest.mark.parametrize("suites", [b"[" + b"1e300," * 100 + b"1]", b"1e999", b'"aes"', b"{}"])
def test_what_is_no_list_of_suites_offers_none(suites: bytes):
    wanted = read(b'{"type":"udp_open","id":7,"suites":%b}' % suites)
    assert isinstance(wanted, UdpOpen)
    assert wanted.request_id == 7
    assert wanted.suites is not None


def test_an_id_that_is_no_scalar_is_none():
    with pytest.raises(MalformedMessage, match="id must be a string") as refused:
        read(b'{"type":"action","id":[1e300],"action_type":"x"}')
    assert refused.value.request_id is None
