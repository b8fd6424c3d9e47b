"""Rooms written and read again: the journal alone, a snapshot and the rest, and what is damaged."""

from __future__ import annotations

import msgspec
import pytest
from room_kit import GUEST, HOST, NOW, ROOM_ID, THIRD, RoomKit, facts

from greenroom import actor_settings
from greenroom.actors.kernel.journal import JournalEntry, Recovered
from greenroom.actors.kernel.journal_codec import UnreadableJournal
from greenroom.actors.room.rules import codec, updates
from greenroom.actors.room.rules.events import HostChanged, MemberRenamed


@pytest.fixture
def kit() -> RoomKit:
    """A room in which much has happened."""
    kit = RoomKit(
        msgspec.structs.replace(actor_settings.room_limits(), updates_max=6),
        password_hash=b"h" * 48,
    )
    kit.invite(GUEST, THIRD, 4, 5, 6)
    kit.join(GUEST, THIRD, 4, password="no")
    for n in range(5):
        kit.tell(HOST, "others", data=b'{"n":%d}' % n)
        kit.tell(GUEST, "host", data="è".encode())
    kit.act(HOST, "all")
    kit.complete(HOST, kit.act(GUEST, "host").ids[0], response_data=b'{"big":12345678901234567890}')
    kit.leave(4)
    kit.silence(THIRD)
    kit.poll(GUEST)
    return kit


def test_the_journal_alone_gives_the_room(kit: RoomKit):
    assert facts(kit.restored()) == facts(kit.room)


def test_a_snapshot_and_what_it_still_needs_give_the_room(kit: RoomKit):
    snapshot = codec.snapshot(kit.room)

    assert 1 < snapshot.kept_from <= kit.room.version
    assert msgspec.to_builtins(kit.restored(snapshot)) == msgspec.to_builtins(kit.room)


def test_a_snapshot_and_the_rest_give_the_room(kit: RoomKit):
    snapshot = codec.snapshot(kit.room)
    kit.tell(GUEST, "host", data=b"later")
    kit.leave(HOST)
    kit.join(5)
    kit.tell(GUEST, "all", data=b"last")

    assert facts(kit.restored(snapshot)) == facts(kit.room)


def test_a_snapshot_holds_no_kept_update(kit: RoomKit):
    kit.tell(HOST, "others", data=b"a needle in a stack of hay")
    assert b"needle" not in codec.snapshot(kit.room).payload
    assert kit.room.sendings
    assert kit.room.members[GUEST].inbox


def test_updates_that_fell_off_do_not_come_back_from_the_journal(kit: RoomKit):
    # From the first entry on, not just the needed.
    room = codec.restore(Recovered(codec.snapshot(kit.room), kit.entries))
    assert room is not None
    assert facts(room) == facts(kit.room)


def test_an_empty_room_keeps_nothing_in_the_journal():
    kit = RoomKit()
    snapshot = codec.snapshot(kit.room)
    assert snapshot.kept_from == 2
    assert facts(kit.restored(snapshot)) == facts(kit.room)


def test_nothing_stored_is_no_room():
    assert codec.restore(Recovered()) is None


def test_entries_name_their_room_their_place_and_their_time():
    entry = codec.entry(ROOM_ID, 7, HostChanged(GUEST, NOW))
    assert (entry.kind, entry.key, entry.sequence, entry.format) == ("room", ROOM_ID, 7, 1)
    assert entry.recorded_at == NOW
    assert codec.event_of(entry) == HostChanged(GUEST, NOW)


def test_a_gap_in_the_journal_is_found(kit: RoomKit):
    with pytest.raises(UnreadableJournal, match=r"entry 4 of room .* follows on entry 2"):
        codec.restore(Recovered(None, kit.entries[:2] + kit.entries[3:]))
    with pytest.raises(UnreadableJournal, match=r"entry 2 of room .* follows on entry 0"):
        codec.restore(Recovered(None, kit.entries[1:]))


def test_an_event_that_does_not_fit_the_room_is_told(kit: RoomKit):
    entry = codec.entry(ROOM_ID, 2, MemberRenamed(99, "Nobody", NOW))
    with pytest.raises(UnreadableJournal, match=r"entry 2 of room .* does not fit: KeyError"):
        codec.restore(Recovered(None, [kit.entries[0], entry]))


def test_a_journal_begins_with_a_creation():
    with pytest.raises(UnreadableJournal, match="does not create"):
        codec.restore(Recovered(None, [codec.entry(ROOM_ID, 1, HostChanged(GUEST, NOW))]))


@pytest.mark.parametrize(
    ("written_format", "payload", "told"),
    [(2, b"", "has format 2, not 1"), (1, b"\xc1", "cannot be read"), (1, b"\x80", "cannot be")],
)
def test_what_cannot_be_read_is_said(written_format: int, payload: bytes, told: str):
    good = codec.snapshot(RoomKit().room)
    with pytest.raises(UnreadableJournal, match=told):
        codec.event_of(JournalEntry("room", ROOM_ID, 1, written_format, payload, NOW))
    with pytest.raises(UnreadableJournal, match=told):
        codec.read_snapshot(msgspec.structs.replace(good, format=written_format, payload=payload))


def test_only_what_the_server_says_is_written_with_its_mark(kit: RoomKit):
    event = updates.sent_to(
        kit.room, HOST, (GUEST,), "move", b"{}", limits=actor_settings.room_limits(), now=NOW
    )
    assert b"is_server" not in codec.entry(ROOM_ID, 1, event).payload
    said = msgspec.structs.replace(event, is_server=True)
    entry = codec.entry(ROOM_ID, 1, said)
    assert b"is_server" in entry.payload
    assert codec.event_of(entry) == said
