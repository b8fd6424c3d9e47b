"""Joining and leaving rooms: every refusal, every order of checks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from room_kit import GUEST, HOST, NOW, ROOM_ID, THIRD, RoomKit, create, facts

from greenroom.actors.kernel.errors import NotFound, Refused
from greenroom.actors.room.messages import JoinRoom, KickMember
from greenroom.actors.room.rules import membership as rules
from greenroom.actors.room.rules import refusals, views
from greenroom.actors.room.rules.events import (
    ActionProcessed,
    HostChanged,
    LeaveReason,
    MemberJoined,
    MemberLeft,
    MemberRenamed,
    NewMember,
    RoomEnded,
    RoomEvent,
    RoomPasswordSet,
)
from greenroom.actors.room.rules.state import MEMBER_BYTES, ROOM_ITSELF, SMALL_BYTES, weigh
from greenroom.actors.seating.passwords import SALT_BYTES, hash_password, password_matches
from greenroom.behaviour.effects import Deliver, FinishAction, RoomOrder, UpdatePlayer

PASSWORD = hash_password("sesame", b"x" * SALT_BYTES)

TEXTS = {
    refusals.AlreadyInRoom: "You are already in a game room. Leave current room first.",
    refusals.CreatingInLobby: "You cannot create a game room while in a matchmaking lobby.",
    refusals.JoiningInLobby: "You cannot join a game room while in a matchmaking lobby.",
    refusals.RoomNotFound: "Room not found",
    refusals.RoomInactive: "Room inactive",
    refusals.RoomFull: "Room is full",
    refusals.IncorrectPassword: "Incorrect password",
    refusals.MaxPlayersOutOfRange: "max_players must be between 2 and 16",
    refusals.RulesTooLarge: "rules must be at most 65536 bytes",
    refusals.SeatDataTooLarge: "player_data must be at most 65536 bytes",
    refusals.NotInAnyRoom: "You are not in any room",
    refusals.PlayerNotInAnyRoom: "Player is not in any room",
    refusals.NotInAnyGameRoom: "You are not in any game room",
    refusals.MayNotLeave: "Players are not allowed to leave this room",
    refusals.OnlyHostSetsPassword: "Only host can update room password",
    refusals.OnlyHostKicks: "Only host can kick players",
    refusals.OnlyHostRenewsToken: "Only host can renew the join token",
    refusals.OnlyHostStops: "Only host can stop game room",
    refusals.KickingOneself: "You cannot kick yourself",
    refusals.MemberNotFound: "Player not found in this room",
    refusals.InvalidTargets: "Invalid target players",
    refusals.InvalidTargetIds: "Invalid target players ids",
    refusals.TargetIdsMissing: "Missing required field: target_players_ids",
    refusals.NoValidTargets: "No valid target players found",
    refusals.OnlyHostTargetsOthers: "Only the host can target other players",
    refusals.InvalidSources: "Invalid from players",
    refusals.NoValidSources: "No valid source players found",
    refusals.TooManyActions: "Too many unanswered actions in this room",
    refusals.RequestIdInUse: "An action with this id is in flight",
    refusals.TooManyRequests: "Too many of your actions are in flight",
    refusals.InvalidStatus: "Status must be completed or failed",
    refusals.ActionNotFound: "Action not found or already processed",
    refusals.NotRealtime: "Player is not in a realtime-enabled room",
    refusals.TokenUnknown: "Invalid token",
    refusals.TokenExpired: "Invalid token",
    refusals.TokenInvalidated: "Token invalidated",
}
ABSENT = {refusals.RoomNotFound, refusals.MemberNotFound, refusals.ActionNotFound}


def test_every_refusal_has_the_text_that_clients_match():
    kinds = {
        kind
        for kind in vars(refusals).values()
        if isinstance(kind, type) and issubclass(kind, Refused) and kind.text
    }
    assert {kind: str(kind()) for kind in kinds} == TEXTS


@pytest.mark.parametrize("kind", TEXTS)
def test_only_what_does_not_exist_is_not_found(kind: type[Refused]):
    assert issubclass(kind, NotFound) == (kind in ABSENT)


def joining(player_id: int = GUEST, **fields: Any) -> JoinRoom:
    return JoinRoom(player_id=player_id, player_name="Eve", player_data=b'{"a":1}', **fields)


# Creating.


def test_a_new_room_has_its_creator_as_its_host_online():
    kit = RoomKit()

    status = views.view_status(kit.room, HOST)
    assert status is not None
    assert (status.is_host, status.is_online, status.join_token) == (True, True, "a1" * 8)
    assert (status.created_at, status.last_activity, status.joined_at) == (NOW, NOW, NOW)
    assert (status.pending_actions, status.pending_updates) == ((), ())
    assert (status.room.room_name, status.room.current_players) == ("Den", 1)
    assert status.room.rules == b'{"mode":"duel"}'


def test_a_room_without_a_name_is_named_after_its_id():
    event = rules.decide_create(create(room_name=None), NOW)
    assert event.room_name == f"Game Room {ROOM_ID[:6]}"


@pytest.mark.parametrize(("size", "passes"), [(1, False), (2, True), (16, True), (17, False)])
def test_a_room_has_two_to_sixteen_seats(size: int, passes: bool):
    if passes:
        assert rules.decide_create(create(max_players=size), NOW).max_players == size
    else:
        with pytest.raises(refusals.MaxPlayersOutOfRange):
            rules.decide_create(create(max_players=size), NOW)


def test_members_who_come_from_a_lobby_keep_their_order_and_their_host():
    members = tuple(NewMember(i, f"P{i}", b"{}", NOW - i) for i in (5, 4, 6))
    kit = RoomKit(members=members, host_id=6)

    roster = views.view_roster(kit.room, 4)
    assert [entry.player_id for entry in roster] == [6, 5, 4]
    assert [entry.joined_at for entry in roster] == [NOW - 6, NOW - 5, NOW - 4]
    assert [entry.is_local for entry in roster] == [False, False, True]


# Joining.


def test_who_joins_gets_a_seat_online_at_the_end_of_the_roster():
    kit = RoomKit()
    events = rules.decide_join(kit.room, joining(), NOW + 5)
    assert events == (MemberJoined(GUEST, "Eve", b'{"a":1}', NOW + 5),)
    kit.take(events)

    entry = views.view_roster(kit.room, GUEST)[1]
    assert (entry.player_id, entry.player_name, entry.player_data) == (GUEST, "Eve", b'{"a":1}')
    assert (entry.is_host, entry.is_online, entry.is_local) == (False, True, True)
    assert (entry.joined_at, entry.last_heartbeat) == (NOW + 5, NOW + 5)


def test_the_checks_of_joining_come_in_their_order():
    kit = RoomKit(max_players=2, password_hash=PASSWORD)
    kit.join(GUEST, password="sesame")
    wrong = joining(THIRD, password="wrong")

    with pytest.raises(refusals.AlreadyInRoom):
        rules.decide_join(kit.room, joining(password="wrong"), NOW)
    with pytest.raises(refusals.RoomFull):
        rules.decide_join(kit.room, wrong, NOW)
    kit.leave(GUEST)
    with pytest.raises(refusals.IncorrectPassword):
        rules.decide_join(kit.room, wrong, NOW)
    kit.stop(HOST)
    with pytest.raises(refusals.RoomInactive):
        rules.decide_join(kit.room, wrong, NOW)


@pytest.mark.parametrize(
    ("fields", "passes"),
    [
        ({}, False),
        ({"password": "sesame"}, True),
        ({"password": "Sesame"}, False),
        ({"password": "\ud800"}, False),
        ({"join_token": "a1" * 8}, True),
        ({"join_token": "b2" * 8}, False),
        ({"join_token": "é"}, False),
        ({"join_token": "b2" * 8, "password": "sesame"}, True),
        ({"join_token": "a1" * 8, "password": "wrong"}, True),
    ],
)
def test_password_join_token_or_invite_open_a_closed_room(fields: dict[str, Any], passes: bool):
    kit = RoomKit(password_hash=PASSWORD)
    if passes:
        kit.join(GUEST, **fields)
        assert GUEST in kit.room.members
    else:
        with pytest.raises(refusals.IncorrectPassword):
            kit.join(GUEST, **fields)


def test_an_open_room_takes_any_password_and_token():
    kit = RoomKit()
    kit.join(GUEST, password="whatever", join_token="zz")
    assert GUEST in kit.room.members


def test_who_joins_where_nobody_is_online_becomes_host_where_the_role_may_pass():
    for host_switch, host_id in ((True, GUEST), (False, HOST)):
        kit = RoomKit(host_switch=host_switch)
        kit.silence(HOST)
        kit.join(GUEST)
        assert kit.room.host_id == host_id


def test_a_password_is_kept_as_a_salted_hash():
    assert b"sesame" not in PASSWORD
    assert hash_password("sesame", b"y" * SALT_BYTES)[SALT_BYTES:] != PASSWORD[SALT_BYTES:]
    assert password_matches("sesame", PASSWORD)
    assert not password_matches("sesam", PASSWORD)


# Leaving.


def test_a_member_leaves_and_may_join_again():
    kit = RoomKit()
    kit.join(GUEST)

    assert kit.leave(GUEST) == [MemberLeft(GUEST, "left", NOW)]
    assert list(kit.room.members) == [HOST]
    kit.join(GUEST)
    assert list(kit.room.members) == [HOST, GUEST]


def test_a_room_may_keep_its_members_but_never_its_host():
    kit = RoomKit(can_leave=False)
    kit.join(GUEST)
    with pytest.raises(refusals.MayNotLeave):
        kit.leave(GUEST)

    kit.leave(HOST)
    assert kit.room.host_id == GUEST


def test_the_hosts_role_goes_to_the_member_online_who_joined_first():
    kit = RoomKit()
    kit.join(GUEST, THIRD, 4)
    kit.silence(GUEST)

    assert kit.leave(HOST) == [HostChanged(THIRD, NOW), MemberLeft(HOST, "left", NOW)]
    assert [entry.player_id for entry in views.view_roster(kit.room, THIRD)] == [THIRD, GUEST, 4]


def test_the_room_ends_with_its_host_where_the_role_cannot_pass():
    kit = RoomKit(host_switch=False)
    kit.join(GUEST)
    assert kit.leave(HOST) == _left_and_ended("left")
    assert not kit.room.is_active
    assert not kit.room.members

    kit = RoomKit()
    kit.join(GUEST)
    kit.silence(GUEST)
    assert kit.leave(HOST) == _left_and_ended("left")

    assert RoomKit().leave(HOST) == _left_and_ended("left")


def test_a_player_who_is_put_out_is_not_asked_whether_they_may_leave():
    kit = RoomKit(can_leave=False)
    kit.join(GUEST)

    assert kit.put_out(GUEST) == [MemberLeft(GUEST, "banned", NOW)]
    assert kit.put_out(GUEST) == []
    assert kit.put_out(HOST) == _left_and_ended("banned")


def test_the_host_kicks_anybody():
    kit = RoomKit()
    kit.join(GUEST)
    assert kit.kick(HOST, GUEST) == [MemberLeft(GUEST, "kicked", NOW)]


def test_the_host_stops_the_room_for_everybody():
    kit = RoomKit()
    kit.join(GUEST)
    kit.act(HOST, "all")
    kit.tell(HOST, "all")

    assert kit.stop(HOST) == [RoomEnded("stopped", NOW)]
    room = kit.room
    assert not room.is_active
    assert (room.members, room.actions, room.results, room.sendings) == ({}, {}, [], [])
    assert (room.kept_bytes, room.rules) == (0, b"{}")
    assert room.journal_kept_from == room.version + 1
    assert views.view_status(room, HOST) is None


@pytest.mark.parametrize(
    ("act", "refused"),
    [
        (lambda kit: kit.leave(7), refusals.NotInAnyRoom),
        (lambda kit: rules.decide_password(kit.room, 7, None, NOW), refusals.NotInAnyRoom),
        (
            lambda kit: rules.decide_password(kit.room, GUEST, None, NOW),
            refusals.OnlyHostSetsPassword,
        ),
        (lambda kit: kit.stop(7), refusals.NotInAnyGameRoom),
        (lambda kit: kit.stop(GUEST), refusals.OnlyHostStops),
        (lambda kit: kit.kick(7, 7), refusals.NotInAnyGameRoom),
        (lambda kit: kit.kick(GUEST, GUEST), refusals.OnlyHostKicks),
        (lambda kit: kit.kick(GUEST, 7), refusals.OnlyHostKicks),
        (lambda kit: kit.kick(HOST, HOST), refusals.KickingOneself),
        (lambda kit: kit.kick(HOST, 7), refusals.MemberNotFound),
        (
            lambda kit: rules.require_member(kit.room, 7, refusals.PlayerNotInAnyRoom),
            refusals.PlayerNotInAnyRoom,
        ),
    ],
)
def test_what_is_refused_changes_nothing(
    act: Callable[[RoomKit], object], refused: type[Refused]
):  # fmt: skip
    kit = RoomKit()
    kit.join(GUEST)
    before = facts(kit.room)

    with pytest.raises(Refused) as caught:
        act(kit)

    assert type(caught.value) is refused
    assert facts(kit.room) == before


def test_the_host_sets_and_removes_the_password():
    kit = RoomKit()
    kit.take([rules.decide_password(kit.room, HOST, PASSWORD, NOW)])
    assert views.view_listing(kit.room).has_password
    with pytest.raises(refusals.IncorrectPassword):
        kit.join(GUEST)
    assert kit.take([rules.decide_password(kit.room, HOST, None, NOW)]) == [
        RoomPasswordSet(None, NOW)
    ]
    assert not views.view_listing(kit.room).has_password
    kit.join(GUEST)


def test_a_new_name_is_shown_once_it_is_known():
    kit = RoomKit()
    assert kit.take(rules.decide_rename(kit.room, HOST, "Ada", NOW)) == [
        MemberRenamed(HOST, "Ada", NOW)
    ]
    assert rules.decide_rename(kit.room, HOST, "Ada", NOW) == ()
    assert rules.decide_rename(kit.room, 7, "Ada", NOW) == ()
    assert views.view_roster(kit.room, HOST)[0].player_name == "Ada"


def test_a_sign_of_life_shows_in_the_roster():
    kit = RoomKit()
    rules.apply_sign_of_life(kit.room, HOST, NOW + 9)
    assert views.view_roster(kit.room, HOST)[0].last_heartbeat == NOW + 9


def test_a_room_is_not_created_twice():
    kit = RoomKit()
    with pytest.raises(TypeError):
        rules.apply(kit.room, rules.decide_create(create(), NOW))


def test_a_kick_names_whom_it_is_for():
    kit = RoomKit()
    kit.join(GUEST)
    assert rules.decide_kick(kit.room, KickMember(HOST, GUEST), NOW + 1).at == NOW + 1


def _left_and_ended(reason: LeaveReason) -> list[RoomEvent]:
    """The journal says why the host left, and that the room ended with it."""
    return [MemberLeft(HOST, reason, NOW), RoomEnded("host_left", NOW)]


def test_who_is_no_member_has_no_seat():
    assert views.view_seat(RoomKit().room, GUEST) is None


def test_what_a_room_holds_is_counted_by_who_has_brought_it():
    kit = RoomKit()
    before = weigh(kit.room)
    kit.join(GUEST, player_data=b"x" * 40)
    kit.join(THIRD)
    seat = MEMBER_BYTES + 2
    assert weigh(kit.room).brought == {HOST: seat, GUEST: seat + 38, THIRD: seat}
    first, second = kit.act(HOST, "others", request_data=b"y" * 60).ids
    action = SMALL_BYTES + len("place")
    assert weigh(kit.room).brought[HOST] == seat + 2 * (action + 60)
    kit.complete(GUEST, first, response_data=b"z" * 30)
    kit.take([ActionProcessed(second, "completed", b"w" * 20, NOW, is_server=True)])
    kit.invite(9, by=THIRD)
    weight = weigh(kit.room)
    assert weight.brought == {
        HOST: seat + 2 * action,
        GUEST: seat + 38 + 30,
        THIRD: seat + SMALL_BYTES,
        ROOM_ITSELF: 20,
    }
    assert weight.size - sum(weight.brought.values()) == before.size - seat


@pytest.mark.parametrize(
    "order",
    [
        FinishAction("a", True, b"x" * 50),
        Deliver("command", b"x" * 50, (GUEST,)),
        UpdatePlayer(GUEST, {"first": b"x" * 20, "second": b"x" * 30}),
    ],
)
def test_an_order_that_waits_counts_with_what_it_carries(order: RoomOrder):
    room = RoomKit().room
    before = weigh(room).size
    room.orders[1] = order
    assert weigh(room).size == before + SMALL_BYTES + 50
