"""Two ends of a link: what is genuine and fresh arrives once; everything else changes nothing."""

import itertools
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from greenroom.contract.realtime import SuiteName
from greenroom.fastlane import frames, packets
from greenroom.fastlane.frames import ClientMessage, ServerMessage
from greenroom.fastlane.link import SILENT_SECONDS_MAX, ClientEnd, ServerEnd
from greenroom.fastlane.suites import SUITES, suite
from greenroom.fastlane.window import WINDOW

SESSION = bytes(range(8))
UP, DOWN = bytes(range(32)), bytes(range(32, 64))
HOME, CAFE = ("10.0.0.1", 4000), ("10.9.9.9", 5000)


def ends(name: SuiteName = SUITES[0]) -> tuple[ClientEnd, ServerEnd[tuple[str, int]]]:
    tokens = (bytes([n] * 8) for n in itertools.count(1))
    client = ClientEnd(SESSION, suite(name, UP), suite(name, DOWN))
    server = ServerEnd[tuple[str, int]](
        SESSION, suite(name, DOWN), suite(name, UP), lambda: next(tokens)
    )
    return client, server


def greet(client: ClientEnd, server: ServerEnd[tuple[str, int]], address=HOME, now=0.0) -> None:
    """Let the server confirm an address."""
    _, out = server.receive(client.ping(now), address, now)
    while out:
        ((challenge, to),) = out
        assert to == address
        _, answers = client.receive(challenge, now)
        out = [o for answer in answers for o in server.receive(answer, address, now)[1]]


def send(client: ClientEnd, *messages: ClientMessage) -> bytes:
    (packet,) = client.pack([frames.encode(message) for message in messages])
    return packet


@pytest.mark.parametrize("name", SUITES)
def test_messages_go_both_ways_once_the_address_has_shown_itself(name: SuiteName):
    client, server = ends(name)
    assert not server.is_up(0.0)
    greet(client, server)
    assert server.is_up(0.0)
    assert client.is_up(0.0)
    assert client.statistics.round_trip_seconds == 0.0
    said = ClientMessage("move", b'{"x":1}', "specific", (3, 2**40), 7, 1)
    assert server.receive(send(client, said), HOME, 1.0) == ([said], [])
    heard = ServerMessage("move", b'{"x":1}', 9, is_host=True, stream=7, sequence=1)
    (packet,) = server.pack([frames.encode(heard)])
    assert client.receive(packet, 1.0) == ([heard], [])
    assert not server.is_up(1.0 + SILENT_SECONDS_MAX)


def test_a_packet_is_taken_once_in_whatever_order_and_never_when_very_old():
    client, server = ends()
    made = [send(client, ClientMessage("n", b"%d" % n)) for n in range(1_000)]
    random.Random(1).shuffle(made)
    got = [server.receive(packet, HOME, 0.0)[0] for packet in made]
    assert sorted(int(message.data) for (message,) in got) == list(range(1_000))
    assert all(server.receive(packet, HOME, 0.0) == ([], []) for packet in made)
    assert server.statistics.packets_dropped == 1_000


def test_what_is_older_than_the_window_is_dropped():
    client, server = ends()
    late = send(client, ClientMessage("late", b"1"))
    made = [send(client, ClientMessage("x", b"1")) for _ in range(WINDOW)]
    assert server.receive(made[-1], HOME, 0.0)[0]
    assert server.receive(made[0], HOME, 0.0)[0]
    assert server.receive(late, HOME, 0.0) == ([], [])


@given(st.data())
def test_a_packet_changed_in_any_bit_is_dropped_without_an_answer(data: st.DataObject):
    name = data.draw(st.sampled_from(SUITES))
    client, server = ends(name)
    packet = bytearray(send(client, ClientMessage("move", b'{"x":1}')))
    bit = data.draw(st.integers(0, len(packet) * 8 - 1))
    packet[bit // 8] ^= 1 << bit % 8
    assert server.receive(bytes(packet), HOME, 0.0) == ([], [])
    assert server.statistics.packets_dropped == 1


@given(st.binary(max_size=1_400))
def test_noise_is_dropped_without_an_answer(noise: bytes):
    client, server = ends("hmac-sha256")
    assert server.receive(noise, HOME, 0.0) == ([], [])
    assert server.receive(b"G" + SESSION + noise, HOME, 0.0) == ([], [])
    assert client.receive(noise, 0.0) == ([], [])


@given(st.binary(min_size=1, max_size=300))
def test_genuine_nonsense_is_dropped_too(body: bytes):
    _, server = ends()
    packet = packets.seal(SESSION, 1, body, suite(SUITES[0], UP))
    messages, out = server.receive(packet, HOME, 0.0)
    assert sum(len(p) for p, _ in out) <= len(packet)
    assert all(isinstance(message, ClientMessage) for message in messages)


def test_an_address_that_has_not_answered_gets_no_more_bytes_than_it_sent():
    client, server = ends()
    received = sent = 0
    for _ in range(50):
        packet = send(client, ClientMessage("x", b"1"))
        received += len(packet)
        _, out = server.receive(packet, HOME, 0.0)
        sent += sum(len(made) for made, _ in out)
        assert sent <= received
    assert server.address is None


def test_the_link_follows_a_client_to_another_address_once_that_has_answered():
    client, server = ends()
    greet(client, server)
    moved = send(client, ClientMessage("x", b"1"), ClientMessage("y", b"1"))
    messages, ((challenge, to),) = server.receive(moved, CAFE, 1.0)
    assert [m.command for m in messages] == ["x", "y"]
    assert to == CAFE
    assert server.address == HOME
    _, answers = client.receive(challenge, 1.0)
    for answer in answers:
        server.receive(answer, CAFE, 1.0)
    assert server.address == CAFE


def test_repeating_an_old_packet_from_elsewhere_moves_nothing():
    client, server = ends()
    greet(client, server)
    old = send(client, ClientMessage("x", b"1"))
    newer = send(client, ClientMessage("x", b"2"))
    server.receive(newer, HOME, 1.0)
    assert server.receive(old, CAFE, 1.0)[1] == []
    assert server.receive(newer, CAFE, 1.0) == ([], [])
    assert server.address == HOME


def test_a_challenge_answered_from_another_address_confirms_neither():
    client, server = ends()
    _, ((challenge, _),) = server.receive(client.ping(0.0), HOME, 0.0)
    _, answers = client.receive(challenge, 0.0)
    for answer in answers:
        server.receive(answer, CAFE, 0.0)
    assert server.address is None


def test_of_a_stream_only_what_is_newer_is_taken_by_each_sender():
    client, server = ends()
    first, second = (send(client, ClientMessage("p", b"1", stream=4, sequence=n)) for n in (1, 2))
    assert server.receive(second, HOME, 0.0)[0]
    assert not server.receive(first, HOME, 0.0)[0]
    assert server.statistics.messages_outdated == 1
    heard = [
        ServerMessage("p", b"1", sender, stream=4, sequence=n) for sender, n in ((1, 5), (2, 1))
    ]
    (packet,) = server.pack([frames.encode(message) for message in heard])
    assert client.receive(packet, 0.0)[0] == heard


def test_frames_fill_packets_and_none_is_larger_than_the_network_takes():
    client, _ = ends()
    made = client.pack([frames.encode(ClientMessage("x", b"1" * 300))] * 10)
    assert len(made) == 4
    assert all(len(packet) <= packets.PACKET_BYTES_MAX for packet in made)
    assert client.pack([frames.encode(ClientMessage("x", b"1" * 1_200))]) == []


def test_what_is_lost_is_counted():
    client, server = ends()
    made = [send(client, ClientMessage("x", b"1")) for _ in range(10)]
    for packet in made[::2]:
        server.receive(packet, HOME, 0.0)
    assert server.statistics.packets_lost == 4


@pytest.mark.parametrize("jump", [1 << 62, (1 << 63) - 20, WINDOW + 1])
def test_a_number_that_jumps_far_is_no_loss_at_either_end(jump: int):
    client, server = ends()
    for _ in range(2):
        for end in (client, server):
            end._number += jump
        server.receive(send(client, ClientMessage("x", b"1")), HOME, 0.0)
        (packet,) = server.pack([frames.encode(ServerMessage("x", b"1", 1))])
        client.receive(packet, 0.0)
    for end in (client, server):
        assert (end.packets_received, end.statistics.packets_lost) == (2, 0)
        end._number += 2
    server.receive(send(client, ClientMessage("x", b"1")), HOME, 0.0)
    assert server.statistics.packets_lost == 2
