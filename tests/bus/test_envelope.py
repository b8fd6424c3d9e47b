"""Seals: what is forged, replayed, cut off or meant for others is dropped and counted."""

from __future__ import annotations

import pytest
from bus_kit import CLUSTER, KEY
from hypothesis import given
from hypothesis import strategies as st

from greenroom.bus import envelope
from greenroom.bus.bus import BusStatistics
from greenroom.bus.envelope import EVERYBODY, SEAL_BYTES, Seals
from greenroom.fastlane.window import WINDOW


def seals(node_id: int, key: bytes = KEY, cluster_id: str = CLUSTER) -> tuple[Seals, BusStatistics]:
    counts = BusStatistics()
    return Seals(node_id, key, cluster_id, counts), counts


@given(st.binary(max_size=300), st.integers(2, 1 << 62))
def test_a_sealed_message_comes_out_as_it_went_in(body: bytes, sender: int) -> None:
    (first, _), (second, counts) = seals(sender), seals(1)
    assert second.open(first.close(1, body)) == (sender, body)
    assert second.open(first.close(EVERYBODY, body)) == (sender, body)
    assert counts == BusStatistics()


@given(st.binary(max_size=40), st.data())
def test_no_bit_can_be_changed(body: bytes, data: st.DataObject) -> None:
    (first, _), (second, counts) = seals(1), seals(2)
    message = bytearray(first.close(2, body))
    place = data.draw(st.integers(0, len(message) * 8 - 1))
    message[place // 8] ^= 1 << place % 8
    assert second.open(bytes(message)) is None
    assert counts.forged == 1


@given(st.binary(max_size=SEAL_BYTES + 20))
def test_garbage_is_counted_and_dropped(garbage: bytes) -> None:
    second, counts = seals(2)
    assert second.open(garbage) is None
    assert counts.forged + counts.truncated == 1


@pytest.mark.parametrize("length", range(SEAL_BYTES + 5))
def test_what_is_cut_off_is_dropped(length: int) -> None:
    (first, _), (second, counts) = seals(1), seals(2)
    assert second.open(first.close(2, b"hello")[:length]) is None
    assert counts.truncated == (length < SEAL_BYTES)
    assert counts.forged == (length >= SEAL_BYTES)


def test_a_message_is_taken_once() -> None:
    (first, _), (second, counts) = seals(1), seals(2)
    messages = [first.close(2, b"%d" % number) for number in range(10)]
    for message in [*reversed(messages), *messages]:
        second.open(message)
    assert counts.replayed == 10
    assert counts.forged == 0


def test_a_message_that_comes_very_late_is_not_taken() -> None:
    (first, _), (second, counts) = seals(1), seals(2)
    late = first.close(2, b"late")
    for _ in range(WINDOW):
        assert second.open(first.close(2, b"")) is not None
    assert second.open(late) is None
    assert counts.replayed == 1


def test_a_message_opens_for_its_receiver_alone() -> None:
    (first, own), (third, counts) = seals(1), seals(3)
    message = first.close(2, b"")
    assert third.open(message) is None
    assert first.open(first.close(EVERYBODY, b"")) is None
    assert (own.forged, counts.forged) == (1, 1)


@pytest.mark.parametrize(
    ("key", "cluster_id"), [(KEY[::-1], CLUSTER), (KEY, "test-2"), (KEY + b"\0", CLUSTER)]
)
def test_another_key_or_installation_opens_nothing(key: bytes, cluster_id: str) -> None:
    (first, _), (second, counts) = seals(1), seals(2, key, cluster_id)
    assert second.open(first.close(2, b"")) is None
    assert counts.forged == 1


@pytest.mark.parametrize("key", [b"", bytes(15), bytes(65)])
def test_a_key_that_is_too_short_or_too_long_is_refused(key: bytes) -> None:
    with pytest.raises(ValueError, match="16 to 64"):
        seals(1, key)


def test_numbers_of_so_many_senders_are_kept_and_what_is_forgotten_is_never_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(envelope, "SENDERS_MAX", 8)
    receiver, counts = seals(1_000)
    old, living = seals(1)[0], seals(2)[0]
    replayable = old.close(1_000, b"once")
    assert receiver.open(replayable) is not None
    for sender in range(3, 40):
        assert receiver.open(seals(sender)[0].close(1_000, b"")) is not None
        assert receiver.open(living.close(1_000, b"")) is not None

    assert receiver.open(replayable) is None
    assert counts.replayed == 1
    assert receiver.open(living.close(1_000, b"still")) == (2, b"still")
    assert len(receiver._windows) == 16
