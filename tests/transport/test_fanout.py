"""Messages of a room's members within a turn: who gets what, in which order."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from greenroom.actors.room.ports import Accepted, Receive
from greenroom.transport import fanout as fanout_module
from greenroom.transport.hub import Hub
from greenroom.transport.messages import ClientKind, encode, encode_sent

ROOM = "r"
IDS = (1, 2, 3)
MEMBERS = dict.fromkeys(IDS)


class Link:
    """A connection that keeps its bytes, and is closed when it is given too many."""

    def __init__(self, hub: Hub, player_id: int, kind: ClientKind, bytes_max: int) -> None:
        self.hub = hub
        self.player_id = player_id
        self.kind = kind
        self.bytes_max = bytes_max
        self.connection_id = f"of {player_id}"
        self.told = 0
        self.lane = None
        self.fanout: fanout_module.Fanout | None = None
        self.data = b""

    def tell(self, frames: bytes, count: int) -> None:
        self.told += count
        self.data += frames
        if len(self.data) > self.bytes_max:
            self.close(1013, "Overload")

    tell_now = tell

    def put(self, frame: bytes) -> None:
        if self.fanout is not None:
            self.fanout.settle()
        self.data += frame

    def offer(self, frame: bytes) -> None:
        self.put(frame)

    def may_store(self, size: int, request_id: str | int | None = None) -> bool:
        return True

    def hear(self) -> None:
        pass

    def close(self, code: int, reason: str) -> None:
        self.put(b"closed")
        self.hub.detach(ROOM, self.player_id, self)

    def part(self, last: bytes, code: int, reason: str) -> None:
        self.put(last)


def a_room(
    kinds: tuple[ClientKind, ...] = (ClientKind.JSON,) * 3, bytes_max: int = 1 << 20
) -> tuple[Hub, list[Link]]:
    hub = Hub()
    links = [Link(hub, i, kind, bytes_max) for i, kind in zip(IDS, kinds, strict=True)]
    for link in links:
        hub.attach(ROOM, link.player_id, link, None)
    return hub, links


def said(sender_id: int, word: str = "m") -> Receive:
    return Receive(word, b'{"a":1}', sender_id, f"Player {sender_id}", is_host=False)


Step = tuple[str, int]
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["say", "say", "say", "whisper", "event", "flush"]), st.integers(1, 3)
    ),
    max_size=40,
)


@given(STEPS, st.tuples(*[st.sampled_from(ClientKind)] * 3))
def test_everybody_gets_what_they_would_get_one_by_one(
    steps: list[Step], kinds: tuple[ClientKind, ...]
) -> None:
    hub, links = a_room(kinds)
    expected = dict.fromkeys(IDS, b"")
    told = dict.fromkeys(IDS, 0)
    for number, (what, who) in enumerate(steps):
        message = said(who, f"m{number}")
        others = [link for link in links if link.player_id != who]
        if what == "say":
            assert hub.push_others(ROOM, message, MEMBERS)
            expected[who] += encode_sent(message.command, 2)
        elif what == "whisper":
            others = others[:1]
            hub.push(ROOM, [others[0].player_id], message)
        elif what == "event":
            hub.answer(ROOM, who, Accepted("x", 0))
            expected[who] += encode_sent("x", 0)
            others = []
        else:
            hub.sender.flush()
            others = []
        for link in others:
            expected[link.player_id] += encode(message, link.kind)
            told[link.player_id] += 1
    hub.sender.flush()
    assert {link.player_id: link.data for link in links} == expected
    assert {link.player_id: link.told for link in links} == told


def test_nobody_is_told_where_somebody_has_no_connection() -> None:
    hub, links = a_room()
    hub.detach(ROOM, 3, links[2])
    assert not hub.push_others(ROOM, said(1), MEMBERS)
    assert not hub.push_others(ROOM, said(3), MEMBERS)
    assert not hub.push_others("elsewhere", said(1), MEMBERS)
    hub.sender.flush()
    assert [link.data for link in links] == [b"", b"", b""]


def test_who_is_on_their_way_out_hears_nothing_for_all_though_as_many_are_connected() -> None:
    hub, links = a_room()
    hub.part(ROOM, 3)
    links[2].data = b""
    assert not hub.push_others(ROOM, said(1), dict.fromkeys((1, 4)))
    hub.sender.flush()
    assert [link.data for link in links] == [b"", b"", b""]


def test_what_was_said_before_somebody_went_counts_for_their_return() -> None:
    hub, links = a_room()
    hub.push_others(ROOM, said(1, "before"), MEMBERS)
    hub.detach(ROOM, 2, links[1])
    assert links[1].told == 1
    again = Link(hub, 2, ClientKind.JSON, 1 << 20)
    replay = hub.attach(ROOM, 2, again, ("of 2", 0))
    assert replay is not None
    assert replay.messages == (said(1, "before"),)
    assert hub.attach(ROOM, 1, Link(hub, 1, ClientKind.JSON, 1), ("of 1", 0)) is not None


def test_one_who_is_too_slow_is_closed_in_the_middle_and_costs_the_others_nothing() -> None:
    hub, links = a_room(bytes_max=1 << 20)
    links[0].bytes_max = 10
    hub.push_others(ROOM, said(2), MEMBERS)
    hub.sender.flush()
    assert links[0].data.endswith(b"closed")
    assert links[2].data == encode(said(2), ClientKind.JSON)
    assert hub.read_statistics().members == 2


@pytest.mark.parametrize(("name", "value"), [("MESSAGES_MAX", 3), ("BYTES_MAX", 600)])
def test_what_waits_for_the_end_of_a_turn_is_bounded(
    name: str, value: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fanout_module, name, value)
    hub, links = a_room()
    for _ in range(3):
        hub.push_others(ROOM, said(1), MEMBERS)
    assert links[1].told >= 2


def test_nothing_is_told_to_members_past_the_fanout():
    package = Path(fanout_module.__file__).parent
    told = {
        path.name: re.findall(r"\b\w*links?\w*\.(tell|tell_now)\(|\b(settle)\(", path.read_text())
        for path in package.glob("*.py")
    }
    told.pop("fanout.py")
    assert {name for name, calls in told.items() if calls} == {"connection.py"}
    assert told["connection.py"] == [("", "settle")], "before a connection's own frames"


def test_links_are_changed_by_the_fanout_alone():
    changed = re.compile(r"links(\[[^\]]+\] = |\.(pop|clear|setdefault|update)\()")
    package = Path(fanout_module.__file__).parent
    found = [path.name for path in package.glob("*.py") if changed.search(path.read_text())]
    assert found == ["fanout.py"]
