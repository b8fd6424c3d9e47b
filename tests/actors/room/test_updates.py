"""Updates and their cursors: none is lost, none comes twice, and what fell off is counted."""

from __future__ import annotations

import re
from functools import partial
from itertools import pairwise

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from room_kit import GUEST, HOST, NOW, ROOM_ID, THIRD, RoomKit

from greenroom import actor_settings
from greenroom.actors.room.messages import Sent, UpdateView
from greenroom.actors.room.rules import codec, refusals, updates
from greenroom.actors.room.rules.cursors import Cursor, read_cursor, update_id
from greenroom.actors.room.rules.events import Delivery
from greenroom.actors.room.rules.state import MEMBER_BYTES, ROOM_ITSELF, UPDATE_BYTES, weigh


@pytest.fixture
def kit() -> RoomKit:
    kit = RoomKit()
    kit.join(GUEST, THIRD)
    return kit


def a_kit(updates_max: int = 2_000, updates_bytes_max: int = 10_000) -> RoomKit:
    limits = msgspec.structs.replace(
        actor_settings.room_limits(), updates_max=updates_max, updates_bytes_max=updates_bytes_max
    )
    kit = RoomKit(limits)
    kit.join(GUEST, THIRD)
    return kit


def test_a_target_reads_what_was_sent_in_the_order_sent(kit: RoomKit):
    first = kit.tell(HOST, "others", data=b'{"n":1}')
    second = kit.tell(HOST, "specific", [GUEST], data=b'{"n":2}')

    assert first.target_ids == (GUEST, THIRD)
    page = kit.poll(GUEST)
    assert page.updates[0] == UpdateView(
        update_id=first.ids[0],
        from_player_id=HOST,
        update_type="move",
        data=b'{"n":1}',
        created_at=NOW,
    )
    assert [u.update_id for u in page.updates] == [first.ids[0], second.ids[0]]
    assert (page.last_update, page.missed) == (second.ids[0], 0)
    assert kit.read(THIRD) == [b'{"n":1}']
    assert kit.read(HOST) == []


def test_a_cursor_reads_only_what_comes_after_it(kit: RoomKit):
    ids = [kit.tell(HOST, "others").ids[0] for _ in range(4)]

    page = kit.poll(GUEST, ids[1])
    assert [u.update_id for u in page.updates] == ids[2:]
    again = kit.poll(GUEST, page.last_update)
    assert (again.updates, again.last_update, again.missed) == ((), ids[3], 0)


def test_nothing_to_read_gives_the_cursor_back(kit: RoomKit):
    assert kit.poll(GUEST).last_update is None
    assert kit.poll(GUEST, "gone with the wind").last_update == "gone with the wind"


def test_fifty_are_read_at_a_time(kit: RoomKit):
    ids = [kit.tell(HOST, "specific", [GUEST]).ids[0] for _ in range(120)]
    found: list[str] = []
    cursor = None
    for count in (50, 50, 20, 0):
        page = kit.poll(GUEST, cursor)
        cursor = page.last_update
        assert len(page.updates) == count
        found += [u.update_id for u in page.updates]
    assert found == ids


def test_senders_are_chosen_with_the_host_as_default(kit: RoomKit):
    kit.tell(HOST, "all", data=b"host")
    kit.tell(GUEST, "host", data=b"guest")
    kit.tell(THIRD, "host", data=b"third")

    def data(word: str | None, ids: list[int] | None = None) -> list[bytes]:
        return [u.data for u in kit.poll(HOST, None, word, ids).updates]

    assert data(None) == data("host") == [b"host"]
    assert data("others") == [b"guest", b"third"]
    assert data("all") == [b"host", b"guest", b"third"]
    assert data("specific", [THIRD, HOST, 77]) == [b"host", b"third"]
    with pytest.raises(refusals.NoValidSources):
        data("specific", [77])


def test_a_page_holds_what_others_can_wait_for_and_the_next_goes_on_there():
    kit = RoomKit(msgspec.structs.replace(actor_settings.room_limits(), updates_bytes_max=8 << 20))
    kit.join(GUEST)
    sizes = [600_000, 400_000, 100_000, 2_000_000, 1]
    for size in sizes:
        kit.tell(HOST, "specific", [GUEST], data=b"x" * size)

    pages, cursor = [], None
    while (page := kit.poll(GUEST, cursor)).updates:
        pages.append([len(update.data) for update in page.updates])
        cursor = page.last_update
    assert pages == [[600_000, 400_000], [100_000], [2_000_000], [1]]


def test_what_was_not_polled_yet_is_pending(kit: RoomKit):
    for n in range(60):
        kit.tell(HOST, "all", data=b"%d" % n)
    kit.tell(THIRD, "host", data=b"third")

    assert len(updates.list_unread(kit.room, GUEST)) == 50
    kit.poll(GUEST)
    assert [u.data for u in updates.list_unread(kit.room, GUEST)] == [
        b"%d" % n for n in range(50, 60)
    ]
    kit.poll(HOST, word="specific", ids=[THIRD])
    assert len(updates.list_unread(kit.room, HOST)) == 50
    page = kit.poll(HOST)
    kit.poll(HOST, page.last_update)
    assert updates.list_unread(kit.room, HOST) == ()
    kit.poll(HOST)
    assert updates.list_unread(kit.room, HOST) == (), "an old cursor does not make them unread"


def test_nobody_to_tell_is_a_success_with_none():
    kit = RoomKit()
    assert kit.tell(HOST, "others") == Sent((), ())
    assert len(kit.entries) == 1


# What falls off.


def test_the_oldest_fall_off_and_are_counted_from_any_cursor():
    kit = a_kit(updates_max=6)
    ids = [kit.tell(HOST, "others").ids[0] for _ in range(10)]

    for cursor, missed, found in (
        (None, 7, ids[7:]),
        ("f" * 32, 7, ids[7:]),
        (ids[0], 6, ids[7:]),
        (ids[5], 1, ids[7:]),
        (ids[6], 0, ids[7:]),
        (ids[8], 0, ids[9:]),
    ):
        for word in ("host", "all"):
            page = kit.poll(GUEST, cursor, word)
            assert (page.missed, [u.update_id for u in page.updates]) == (missed, found)


def test_what_others_were_told_is_not_missed():
    kit = a_kit(updates_max=4)
    mine = kit.tell(HOST, "specific", [GUEST]).ids[0]
    for _ in range(9):
        kit.tell(HOST, "specific", [THIRD])

    assert kit.poll(GUEST).missed == 1
    assert kit.poll(GUEST, mine).missed == 0
    assert kit.poll(THIRD).missed == 5


def test_what_is_missed_is_counted_by_sender():
    kit = a_kit(updates_max=2)
    first = kit.tell(GUEST, "host").ids[0]
    for sender_id in (THIRD, GUEST, THIRD, THIRD, GUEST):
        kit.tell(sender_id, "host")

    assert kit.poll(HOST, first, "specific", [GUEST]).missed == 1
    assert kit.poll(HOST, first, "specific", [THIRD]).missed == 2
    assert kit.poll(HOST, first, "others").missed == 3
    assert kit.poll(HOST, first, "host").missed == 0
    assert kit.poll(HOST, None, "specific", [GUEST]).missed == 2


def test_what_is_missed_of_those_who_left_is_still_missed():
    kit = a_kit(updates_max=2)
    cursor = kit.tell(THIRD, "host").ids[0]
    for _ in range(4):
        kit.tell(GUEST, "host")
    kit.leave(GUEST)
    kit.leave(THIRD)
    kit.join(GUEST)
    assert kit.poll(HOST, cursor, "all").missed == 2
    kit.tell(HOST, "specific", [GUEST])
    kit.tell(GUEST, "host")

    assert kit.poll(HOST, None, "all").missed == 5
    assert kit.poll(HOST, cursor, "all").missed == 4
    assert kit.poll(HOST, cursor, "specific", [GUEST]).missed == 0
    assert len(kit.room.members[HOST].fallen) == 1


def test_a_sender_who_comes_again_is_counted_from_then():
    kit = a_kit(updates_max=1)
    old = [kit.tell(GUEST, "host").ids[0] for _ in range(5)]
    kit.leave(GUEST)
    kit.join(GUEST)
    for _ in range(3):
        kit.tell(GUEST, "host")

    assert kit.poll(HOST, old[0], "specific", [GUEST]).missed == 2
    assert kit.poll(HOST, old[0], "all").missed == 6


def test_a_member_who_comes_again_begins_anew():
    kit = a_kit(updates_max=3)
    old = kit.tell(HOST, "specific", [GUEST]).ids[0]
    kit.leave(GUEST)
    kit.join(GUEST)
    assert kit.read(GUEST) == []
    for n in range(4):
        kit.tell(HOST, "specific", [GUEST], data=b"%d" % n)

    page = kit.poll(GUEST, old)
    assert (page.missed, len(page.updates)) == (1, 3)


def test_large_updates_push_others_out_but_the_newest_is_always_kept():
    kit = a_kit(updates_bytes_max=100)
    for size in (60, 30, 20):
        kit.tell(HOST, "others", data=b"x" * size)
    assert [len(data) for data in kit.read(GUEST)] == [30, 20]
    assert kit.room.kept_bytes == 50 + 2 * len("move")
    kit.tell(HOST, "others", data=b"x" * 500)
    assert [len(data) for data in kit.read(GUEST)] == [500]
    kit.tell(HOST, "others", data=b"x")
    assert [len(data) for data in kit.read(GUEST)] == [1]


def test_kept_updates_count_for_their_senders_until_they_fall_off():
    kit = a_kit(updates_max=3)
    kit.tell(GUEST, "host", data=b"x" * 50)
    one = 2 + len("move") + 2 * UPDATE_BYTES
    assert kit.room.kept_by_sender == {GUEST: one + 48}
    kit.tell(THIRD, "host")
    assert kit.restored(codec.snapshot(kit.room)).kept_by_sender == kit.room.kept_by_sender
    kit.leave(GUEST)
    kit.tell(THIRD, "host")
    assert kit.room.kept_by_sender == {GUEST: one + 48, THIRD: 2 * one}
    told = partial(updates.sent_to, limits=kit.limits, now=NOW, is_server=True)
    kit.take([told(kit.room, HOST, (THIRD,), "move", b"{}")])
    assert kit.room.kept_by_sender == {THIRD: 2 * one, ROOM_ITSELF: one}
    assert weigh(kit.room).brought[THIRD] == MEMBER_BYTES + 2 + 2 * one
    kit.stop(HOST)
    assert kit.room.kept_by_sender == {}


def test_a_long_type_counts_like_data():
    kit = a_kit(updates_bytes_max=100)
    for size in (60, 30, 20):
        kit.tell(HOST, "others", data=b"{}", update_type="t" * size)
    assert [len(update.update_type) for update in kit.poll(GUEST).updates] == [30, 20]


def test_read_marks_do_not_outlive_their_senders_and_updates():
    kit = a_kit(updates_max=2)
    kit.tell(GUEST, "host")
    kit.tell(THIRD, "host")
    kit.poll(HOST)
    kit.leave(GUEST)
    assert set(kit.room.members[HOST].read) == {GUEST, THIRD}
    kit.tell(HOST, "all")
    kit.leave(THIRD)
    assert set(kit.room.members[HOST].read) == set()


# Ids.


def test_update_ids_are_hex_of_thirty_two_digits_and_differ(kit: RoomKit):
    ids = [i for _ in range(20) for i in kit.tell(HOST, "all").ids]
    assert len(set(ids)) == 60
    assert all(re.fullmatch("[0-9a-f]{32}", i) for i in ids)


def test_ids_of_other_rooms_members_and_makers_are_unknown():
    delivery = Delivery(GUEST, 7, 5, 3)
    good = update_id(ROOM_ID, HOST, delivery)

    assert read_cursor(ROOM_ID, GUEST, good) == Cursor(7, 5, 3, HOST)
    assert read_cursor("f" * 32, GUEST, good) is None
    assert read_cursor(ROOM_ID, THIRD, good) is None
    changed = ("0" if good[0] != "0" else "1") + good[1:]
    for text in ("", "null", good[:-1], good + "0", good.upper(), changed, "٣" * 32, good + "\n"):
        assert read_cursor(ROOM_ID, GUEST, text) is None


def test_a_cursor_from_the_future_is_unknown(kit: RoomKit):
    kit.tell(HOST, "others")
    later = update_id(ROOM_ID, HOST, Delivery(GUEST, 99, 99, 99))
    assert len(kit.poll(GUEST, later).updates) == 1


@given(
    st.integers(1, 2**32 - 1),
    st.integers(1, 2**28 - 1),
    st.integers(1, 2**28 - 1),
    st.integers(1, 2**62),
)
def test_an_id_says_what_was_put_in(number: int, ordinal: int, pair: int, sender_id: int):
    text = update_id(ROOM_ID, sender_id, Delivery(GUEST, number, ordinal, pair))
    assert read_cursor(ROOM_ID, GUEST, text) == Cursor(number, ordinal, pair, sender_id & 0xFFFF)


# Laws.


@given(
    st.lists(
        st.tuples(st.sampled_from([HOST, GUEST, THIRD]), st.booleans(), st.integers(0, 9)),
        max_size=60,
    ),
    st.integers(3, 12),
)
def test_whoever_polls_reads_or_is_told_of_every_update_exactly_once(
    script: list[tuple[int, bool, int]], updates_max: int
):
    kit = a_kit(updates_max=updates_max)
    sent: list[str] = []
    found: list[str] = []
    missed = 0
    cursor: str | None = None
    for sender_id, to_all, polls in script:
        told = kit.tell(sender_id, "all" if to_all and sender_id == HOST else "host")
        sent += [i for i, t in zip(told.ids, told.target_ids, strict=True) if t == HOST]
        if polls == 0:
            page = kit.poll(HOST, cursor)
            cursor = page.last_update
            missed += page.missed
            found += [u.update_id for u in page.updates]
            assert len(found) + missed == len(sent)
    positions = [sent.index(i) for i in found]
    assert all(a < b for a, b in pairwise(positions))
