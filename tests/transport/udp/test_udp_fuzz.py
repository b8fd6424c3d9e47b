"""Garbage thrown at an open session, from its own address and another: nothing breaks or leaks."""

from __future__ import annotations

import logging
from typing import Literal

import msgspec
import pytest
import trio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from realtime_kit import RealtimeKit, open_stage
from udp_kit import FastClient, fast, stats, udp_socket
from waiting import until

from greenroom.fastlane import frames
from greenroom.fastlane.frames import ClientMessage, Ping, Pong
from greenroom.metric_sources import udp_samples

pytestmark = pytest.mark.usefixtures("patient_turns")

NUMBERED = "numbered and expected"
"""A command that chance does not come up with."""
WHENCE = st.sampled_from(["home", "elsewhere"])
AT = st.integers(0, 2**16)
SENT = st.builds(
    ClientMessage,
    st.text(min_size=1, max_size=16),
    st.binary(max_size=40),
    st.sampled_from(frames.TARGETS),
    st.lists(st.integers(0, 2**64 - 1), max_size=16).map(tuple),
    st.integers(0, 3),
    st.integers(0, 2**32 - 1),
)
FRAMES = st.one_of(
    st.sampled_from([frames.encode(Ping(7)), frames.encode(Pong(7)), b"\0"]),
    st.binary(min_size=1, max_size=60),
    st.builds(lambda kind, rest: bytes((kind,)) + rest, st.integers(0, 6), st.binary(max_size=30)),
    SENT.map(frames.encode),
    st.builds(lambda sent, size: frames.encode(sent)[:size], SENT, st.integers(1, 12)),
)
BODIES = st.lists(FRAMES, min_size=1, max_size=3).map(b"".join)


class Throw(msgspec.Struct, frozen=True):
    """A packet to be sent: made of nothing, or of what the client has sealed."""

    whence: Literal["home", "elsewhere"]
    kind: Literal["noise", "claim", "flip", "cut", "lengthen", "splice", "repeat", "say", "body"]
    at: int
    """The sealed packet, and the bit or length of it."""
    content: bytes


MADE_UP = ("noise", "claim", "flip", "cut", "lengthen", "splice")
"""Packets that nobody with the key has sent."""
THROWS = st.lists(
    st.one_of(
        st.builds(Throw, WHENCE, st.sampled_from(MADE_UP), AT, st.binary(min_size=1, max_size=99)),
        st.builds(Throw, WHENCE, st.sampled_from(["repeat", "say"]), AT, st.just(b"")),
        st.builds(Throw, WHENCE, st.just("body"), AT, BODIES),
        st.builds(Throw, WHENCE, st.just("body"), AT, BODIES),
    ),
    min_size=1,
    max_size=30,
)


class Attack:
    """Makes packets of throws, and knows which messages must arrive."""

    def __init__(self, lane: FastClient) -> None:
        self._lane = lane
        self._sealed = [lane.pack(ClientMessage(NUMBERED, b"0"))]
        self._said = 1
        self.arrive: set[int] = set()

    def packet(self, throw: Throw) -> bytes:
        sealed, at = self._sealed, throw.at
        number = at % len(sealed)
        old = sealed[number]
        match throw.kind:
            case "noise":
                return throw.content
            case "claim":
                return old[:9] + throw.content
            case "flip":
                bit = at % (8 * len(old))
                return (
                    old[: bit // 8] + bytes((old[bit // 8] ^ 1 << bit % 8,)) + old[bit // 8 + 1 :]
                )
            case "cut":
                return old[: at % len(old)]
            case "lengthen":
                return old + throw.content
            case "splice":  # an old body under a number to come
                return old[:9] + (2**32 + at).to_bytes(8, "big") + old[17:]
            case "repeat":
                if number < self._said:
                    self.arrive.add(number)
                return old
            case "say":
                fresh = self._lane.pack(ClientMessage(NUMBERED, b"%d" % self._said))
                sealed.insert(self._said, fresh)
                self.arrive.add(self._said)
                self._said += 1
                return fresh
            case "body":
                sealed.append(self._lane.end._seal(throw.content))
                return sealed[-1]


async def settle(stage: RealtimeKit, packets: int) -> None:
    """Wait until the port has taken in so many packets."""
    with trio.fail_after(5):
        while (
            found := stage.udp.read_statistics()
        ).packets_received < packets or found.rooms_waiting:
            await trio.lowlevel.checkpoint()


async def drain(udp: trio.socket.SocketType) -> list[bytes]:
    """Take what has come already."""
    found = list[bytes]()
    with trio.move_on_after(0) as scope:
        while not scope.cancelled_caught:
            found.append(await udp.recv(2_000))
    return found


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(throws=THROWS)
async def test_packets_of_every_kind_in_any_order(
    throws: list[Throw], caplog: pytest.LogCaptureFixture
):
    async with open_stage(messages_per_second=1e6, room_messages_per_second=1e6) as stage:
        async with stage.connected(0) as host, stage.connected(1) as guest:
            async with fast(host) as lane, fast(guest) as ear, udp_socket(stage.udp.port) as thief:
                attack, before = Attack(lane), stage.udp.read_statistics()
                sent = {"home": 0, "elsewhere": 0}
                for throw in throws:
                    packet = attack.packet(throw)
                    sent[throw.whence] += len(packet)
                    await (lane.udp if throw.whence == "home" else thief).send(packet)
                await settle(stage, before.packets_received + len(throws))
                after = stage.udp.read_statistics()
                answers = await drain(thief)
                assert sum(map(len, answers)) <= sent["elsewhere"]
                if all(throw.kind in MADE_UP for throw in throws):
                    assert (answers, after.packets_sent) == ([], before.packets_sent)
                    assert sum(after.dropped.values()) == len(throws)
                assert lane.end.session in stage.udp._lanes
                lane.end._number += 1
                await lane.say(ClientMessage("end", b"1"))
                heard = list[int]()
                while (told := await ear.hear()).command != "end":
                    if told.command == NUMBERED:
                        heard.append(int(told.data))
                assert sorted(heard) == sorted(attack.arrive)
    assert not [r for r in caplog.records if r.levelno >= logging.ERROR]


@pytest.mark.parametrize("number", [1 << 63, (1 << 64) - 1])
async def test_nobody_spoils_the_count_of_lost_packets_by_a_huge_number(number: int):
    """Not of their session, nor of the port, nor of those who come after them."""
    async with open_stage() as stage, stage.connected(0) as host, stage.connected(1) as guest:
        async with fast(host) as lane, fast(guest) as other:
            other.pack(ClientMessage("lost", b"1"))
            await other.nothing_comes()
            lane.end._number = number - 1
            await lane.say(ClientMessage("here", b"1"))
            assert (await other.hear()).command == "here"
            assert (await stats(host))["packets_lost"] == 0
            assert read_lost(stage) == 1
        await host.connection.aclose()
        await guest.connection.aclose()
        await until(lambda: not stage.udp.read_statistics().sessions)
        assert read_lost(stage) == 1


def read_lost(stage: RealtimeKit) -> float:
    """Return what `/metrics` tells of lost packets."""
    (lost,) = [
        sample.value
        for sample in udp_samples(stage.udp.read_statistics())
        if sample.name == "greenroom_udp_packets_lost"
    ]
    assert isinstance(lost, int)
    return lost
