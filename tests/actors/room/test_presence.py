"""Members who fall silent: what they keep, for how long, and who is host meanwhile."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from room_kit import GUEST, HOST, NOW, THIRD, RoomKit

from greenroom.actors.room.rules import presence
from greenroom.actors.room.rules.events import (
    HostChanged,
    MemberCameBack,
    MemberLeft,
    MemberWentOffline,
    RoomEnded,
)


def test_a_silent_member_goes_offline_and_keeps_their_seat():
    kit = RoomKit()
    kit.join(GUEST)

    assert presence.decide_silence(kit.room, GUEST, NOW) == (MemberWentOffline(GUEST, NOW),)
    kit.silence(GUEST)
    assert not kit.room.members[GUEST].is_online
    assert presence.decide_silence(kit.room, GUEST, NOW) == ()
    assert kit.wait(299) == []
    assert presence.decide_sign_of_life(kit.room, GUEST, NOW) == (MemberCameBack(GUEST, NOW),)
    kit.hear(GUEST)
    assert kit.wait(10_000) == []


def test_strangers_are_neither_silent_nor_heard():
    kit = RoomKit()
    assert presence.decide_silence(kit.room, 7, NOW) == ()
    assert presence.decide_sign_of_life(kit.room, 7, NOW) == ()
    assert presence.decide_sign_of_life(kit.room, HOST, NOW) == ()


def test_after_their_grace_a_silent_member_has_left():
    kit = RoomKit()
    kit.join(GUEST)
    kit.silence(GUEST)

    assert kit.wait(300) == [MemberLeft(GUEST, "stale", NOW + 300)]


def test_where_members_may_not_leave_the_silent_keep_their_seats_for_ever():
    kit = RoomKit(can_leave=False)
    kit.join(GUEST)
    kit.silence(GUEST)

    assert kit.wait(10_000_000) == []
    assert presence.next_look(kit.room, kit.limits) is None


def test_the_role_of_a_silent_host_passes_at_once_to_the_first_online():
    kit = RoomKit()
    kit.join(GUEST, THIRD)
    kit.silence(GUEST)

    assert presence.decide_silence(kit.room, HOST, NOW) == (
        MemberWentOffline(HOST, NOW),
        HostChanged(THIRD, NOW),
    )


def test_the_role_waits_for_the_first_who_comes_back():
    kit = RoomKit()
    kit.join(GUEST)
    kit.silence(GUEST, HOST)
    assert kit.room.host_id == HOST

    kit.hear(GUEST)
    assert kit.room.host_id == GUEST
    kit.hear(HOST)
    assert kit.room.host_id == GUEST


def test_a_host_who_comes_back_first_is_still_host():
    kit = RoomKit()
    kit.join(GUEST)
    kit.silence(GUEST, HOST)
    kit.hear(HOST)
    assert kit.room.host_id == HOST


def test_without_host_switch_a_silent_host_keeps_their_role_until_their_seat_is_over():
    kit = RoomKit(host_switch=False)
    kit.join(GUEST)
    kit.silence(HOST)
    assert kit.room.host_id == HOST
    kit.silence(GUEST)
    kit.hear(GUEST)
    assert kit.room.host_id == HOST

    assert kit.wait(300) == [
        MemberLeft(HOST, "stale", NOW + 300),
        RoomEnded("host_left", NOW + 300),
    ]


def test_several_seats_that_run_out_together_end_the_room_last():
    kit = RoomKit(host_switch=False)
    kit.join(GUEST, THIRD)
    kit.silence(HOST, THIRD)

    assert kit.wait(300) == [
        MemberLeft(THIRD, "stale", NOW + 300),
        MemberLeft(HOST, "stale", NOW + 300),
        RoomEnded("host_left", NOW + 300),
    ]


def test_a_room_nobody_is_online_in_ends_after_five_minutes():
    kit = RoomKit(can_leave=False)
    kit.join(GUEST)
    kit.silence(HOST)
    kit.now += 100
    kit.silence(GUEST)

    assert kit.wait(299) == []
    assert kit.wait(1) == [RoomEnded("idle", NOW + 400)]
    assert kit.wait(1_000) == []
    assert presence.next_look(kit.room, kit.limits) is None


def test_what_happens_in_an_idle_room_does_not_prolong_it():
    kit = RoomKit()
    kit.join(GUEST)
    kit.silence(GUEST, HOST)
    kit.now += 299
    kit.put_out(GUEST)
    assert kit.wait(1) == [RoomEnded("idle", NOW + 300)]


def test_the_five_minutes_begin_when_the_last_one_online_leaves():
    kit = RoomKit(host_switch=False, can_leave=False)
    kit.join(GUEST)
    kit.silence(HOST)
    kit.now += 200
    kit.put_out(GUEST)

    assert kit.room.silent_since == NOW + 200
    assert kit.wait(299) == []
    assert kit.wait(1) == [RoomEnded("idle", NOW + 500)]


def test_after_a_restart_every_clock_begins_anew():
    kit = RoomKit()
    kit.join(GUEST, THIRD)
    kit.silence(GUEST)
    kit.now += 1_000
    presence.restart_clocks(kit.room, kit.now)
    assert kit.wait(299) == []
    assert kit.wait(1) == [MemberLeft(GUEST, "stale", NOW + 1_300)]

    kit.silence(HOST, THIRD)
    kit.now += 1_000
    presence.restart_clocks(kit.room, kit.now)
    assert kit.room.silent_since == kit.now
    assert kit.wait(299) == []
    assert kit.wait(1) == [RoomEnded("idle", kit.now)]


@pytest.mark.parametrize("online", [True, False])
def test_an_undisturbed_room_needs_a_timer_only_while_somebody_is_offline(online: bool):
    kit = RoomKit()
    kit.join(GUEST)
    if not online:
        kit.silence(GUEST)
    assert presence.next_look(kit.room, kit.limits) == (None if online else NOW + 300)


@given(
    st.lists(st.tuples(st.sampled_from("lhj"), st.integers(1, 4), st.integers(0, 400))),
    st.booleans(),
    st.booleans(),
    st.integers(0, 700),
)
def test_the_next_look_is_exactly_when_time_does_something(
    script: list[tuple[str, int, int]], host_switch: bool, can_leave: bool, seconds: int
):
    kit = RoomKit(host_switch=host_switch, can_leave=can_leave)
    kit.join(GUEST, THIRD, 4)
    for what, player_id, after in script:
        kit.wait(after)
        if what == "l":
            kit.put_out(player_id)
        elif what == "h":
            kit.hear(player_id)
        else:
            kit.silence(player_id)
    at = kit.now + seconds
    due = presence.next_look(kit.room, kit.limits)

    assert bool(presence.decide_time(kit.room, kit.limits, at)) == (due is not None and at >= due)
