"""The rules of lobbies: what they allow and refuse, and their events."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from lobby_kit import GUEST, HOST, LOBBY_ID, NOW, ROOM_ID, THIRD, TOKEN, LobbyKit, create, names

from greenroom import actor_settings
from greenroom.actors.kernel.errors import Refused
from greenroom.actors.kernel.journal import Recovered
from greenroom.actors.kernel.journal_codec import UnreadableJournal
from greenroom.actors.kernel.message import Event
from greenroom.actors.lobby import codec, refusals, rules, views
from greenroom.actors.lobby.events import LobbyEnded
from greenroom.actors.lobby.messages import JoinLobby, RenewLobbyToken
from greenroom.actors.lobby.state import ANSWERED_MAX
from greenroom.actors.room.rules.events import HostChanged, MemberLeft
from greenroom.actors.room.rules.refusals import (
    IncorrectPassword,
    KickingOneself,
    MaxPlayersOutOfRange,
    OnlyHostKicks,
    OnlyHostRenewsToken,
)
from greenroom.actors.seating.passwords import hash_password

PASSWORD: dict[str, Any] = {"password_hash": hash_password("sesame", b"s" * 16)}
Act = Callable[[LobbyKit], object]


def test_a_lobby_without_a_name_is_named_after_its_id():
    assert LobbyKit(lobby_name=None).lobby.lobby_name == f"Matchmaking {LOBBY_ID[:6]}"


@pytest.mark.parametrize("size", [1, 17])
def test_a_lobby_of_the_wrong_size_is_not_opened(size: int):
    with pytest.raises(MaxPlayersOutOfRange):
        rules.decide_create(create(max_players=size), NOW)


@pytest.mark.parametrize(
    ("lobby", "tried", "refusal"),
    [
        (PASSWORD, {"password": "x"}, IncorrectPassword),
        (PASSWORD, {"join_token": "x"}, IncorrectPassword),
        (PASSWORD, {"join_token": TOKEN}, None),
        (PASSWORD, {}, None),
        ({}, {"password": "x"}, None),
        ({"join_by_requests": True}, {"join_token": "x"}, refusals.NeedsApproval),
        ({"join_by_requests": True}, {"password": "x"}, None),
    ],
)
def test_only_who_tries_a_secret_that_counts_here_has_guessed(
    lobby: dict[str, Any], tried: dict[str, str], refusal: type[Refused] | None
):
    command = JoinLobby(player_id=4, player_name="Eve", player_data=b"{}", **tried)
    assert rules.wrong_guess(LobbyKit(**lobby).lobby, command) is refusal


def full(kit: LobbyKit) -> None:
    kit.join(GUEST, THIRD, join_token=TOKEN)


def invited_to_a_full_lobby(kit: LobbyKit) -> None:
    full(kit)
    kit.invite(4)


@pytest.mark.parametrize(
    ("fields", "prepare", "act", "refusal"),
    [
        ({}, None, lambda k: k.join(HOST), refusals.AlreadyInLobby),
        ({}, lambda k: k.start(HOST), lambda k: k.join(4), refusals.LobbyNotFound),
        ({}, lambda k: k.stop(HOST), lambda k: k.join(4), refusals.LobbyNotFound),
        ({"join_by_requests": True}, full, lambda k: k.join(4), refusals.NeedsApproval),
        (PASSWORD, full, lambda k: k.join(4), refusals.LobbyFull),
        ({}, invited_to_a_full_lobby, lambda k: k.join(4), refusals.LobbyFull),
        (PASSWORD, None, lambda k: k.join(4), IncorrectPassword),
        (PASSWORD, None, lambda k: k.join(4, password="x", join_token="y"), IncorrectPassword),
        ({}, None, lambda k: k.request(HOST), refusals.AlreadyInLobby),
        ({}, None, lambda k: k.request(4), refusals.TakesNoRequests),
        (
            {"join_by_requests": True},
            lambda k: k.start(HOST),
            lambda k: k.request(4),
            refusals.LobbyNotFound,
        ),
        (
            {"join_by_requests": True},
            lambda k: k.request(4),
            lambda k: k.request(4),
            refusals.AlreadyRequested,
        ),
        ({"join_by_requests": True}, full, lambda k: k.request(4), refusals.LobbyFull),
        ({}, None, lambda k: k.approve(HOST, "x"), refusals.RequestNotFound),
        ({}, None, lambda k: k.reject(HOST, "x"), refusals.RequestNotFound),
        ({}, None, lambda k: k.leave(GUEST), refusals.NotInAnyLobby),
        ({}, lambda k: k.start(HOST), lambda k: k.leave(HOST), refusals.LobbyHasStarted),
        ({}, None, lambda k: k.kick(GUEST, HOST), refusals.NotInLobby),
        ({}, full, lambda k: k.kick(GUEST, GUEST), OnlyHostKicks),
        ({}, full, lambda k: k.kick(HOST, HOST), KickingOneself),
        ({}, full, lambda k: k.kick(HOST, 9), refusals.LobbyMemberNotFound),
        ({}, full, lambda k: k.stop(GUEST), refusals.OnlyHostStopsLobby),
        ({}, None, lambda k: k.stop(GUEST), refusals.NotInLobby),
        ({}, full, lambda k: k.start(GUEST), refusals.OnlyHostStarts),
        ({}, None, lambda k: k.start(GUEST), refusals.NotInLobby),
        ({}, lambda k: k.start(HOST), lambda k: k.start(HOST), refusals.LobbyHasStarted),
        ({"strict_full": True}, None, lambda k: k.start(HOST), refusals.LobbyNotFull),
    ],
)
def test_what_is_refused_changes_nothing(
    fields: dict[str, Any], prepare: Act | None, act: Act, refusal: type[Refused]
):
    kit = LobbyKit(**fields)
    if prepare is not None:
        prepare(kit)
    before, entries = codec.snapshot(kit.lobby), len(kit.entries)
    with pytest.raises(refusal):
        act(kit)
    assert (codec.snapshot(kit.lobby), len(kit.entries)) == (before, entries)


@pytest.mark.parametrize("key", [{"password": "sesame"}, {"join_token": TOKEN}])
def test_what_opens_a_lobby_with_a_password(key: dict[str, Any]):
    kit = LobbyKit(**PASSWORD)
    kit.join(GUEST, **key)
    assert list(kit.lobby.members) == [HOST, GUEST]


@pytest.mark.parametrize("key", [{"join_token": TOKEN}, None])
def test_a_token_or_an_invite_stands_for_approval_and_password(key: dict[str, Any] | None):
    kit = LobbyKit(join_by_requests=True, **PASSWORD)
    if key is None:
        kit.invite(GUEST)
    kit.join(GUEST, **(key or {}))
    assert list(kit.lobby.members) == [HOST, GUEST]


def test_an_approved_requester_sits_under_their_present_name_with_their_data():
    kit = LobbyKit(join_by_requests=True)
    request_id = kit.request(GUEST, b'{"a":1}')
    assert names(kit.approve(HOST, request_id)) == ["JoinAnswered", "MemberJoined"]
    member = kit.lobby.members[GUEST]
    assert (member.player_name, member.player_data) == ("Renamed", b'{"a":1}')
    answered = kit.lobby.answered[request_id]
    assert (answered.status, answered.responder_id, answered.player_data) == (
        "approved",
        HOST,
        b"{}",
    )


def test_only_the_present_host_answers_and_a_full_lobby_keeps_its_requests():
    kit = LobbyKit(join_by_requests=True, max_players=2)
    kit.invite(GUEST)
    request_id = kit.request(THIRD)
    kit.join(GUEST)
    for attempt in (kit.approve, kit.reject):
        with pytest.raises(refusals.OnlyHostAnswers):
            attempt(GUEST, request_id)
    with pytest.raises(refusals.LobbyFull):
        kit.approve(HOST, request_id)
    assert request_id in kit.lobby.pending
    kit.leave(HOST)
    kit.approve(GUEST, request_id)
    assert list(kit.lobby.members) == [GUEST, THIRD]


def test_what_a_lobby_holds_of_requests_is_bounded():
    kit = LobbyKit(
        msgspec.structs.replace(
            actor_settings.lobby_limits(), requests_max=2, requests_bytes_max=10
        ),
        join_by_requests=True,
    )
    kit.request(2, b"x" * 6)
    with pytest.raises(refusals.TooManyJoinRequests):
        kit.request(3, b"x" * 5)
    kit.request(3, b"x" * 4)
    with pytest.raises(refusals.TooManyJoinRequests):
        kit.request(4, b"")


def test_of_answered_requests_the_oldest_are_dropped():
    kit = LobbyKit(join_by_requests=True)
    ids = []
    for _ in range(ANSWERED_MAX + 2):
        ids.append(kit.request(GUEST))
        kit.reject(HOST, ids[-1])
    assert list(kit.lobby.answered) == ids[2:]


def test_the_role_goes_to_the_member_online_who_joined_first():
    kit = LobbyKit()
    kit.join(GUEST, THIRD)
    kit.offline = {GUEST}
    assert kit.leave(HOST) == [HostChanged(THIRD, NOW), MemberLeft(HOST, "left", NOW)]


@pytest.mark.parametrize(("host_switch", "offline"), [(False, set[int]()), (True, {GUEST, THIRD})])
def test_a_lobby_that_finds_no_host_ends_for_everybody(host_switch: bool, offline: set[int]):
    kit = LobbyKit(host_switch=host_switch)
    kit.join(GUEST, THIRD)
    kit.offline = offline
    assert kit.put_out(HOST) == [MemberLeft(HOST, "stale", NOW), LobbyEnded("host_left", NOW)]
    assert not kit.lobby.is_active
    assert kit.lobby.members == {}


def test_a_member_who_is_kicked_is_out():
    kit = LobbyKit()
    kit.join(GUEST, THIRD)
    kit.kick(HOST, GUEST)
    assert list(kit.lobby.members) == [HOST, THIRD]


def test_whoever_is_not_there_is_not_put_out_or_renamed():
    kit = LobbyKit()
    assert kit.put_out(GUEST) == []
    assert rules.decide_rename(kit.lobby, GUEST, "Eve", NOW) == ()
    assert rules.decide_rename(kit.lobby, HOST, "Player 1", NOW) == ()
    kit.take(*rules.decide_rename(kit.lobby, HOST, "Eve", NOW))
    assert views.view_listing(kit.lobby).host_name == "Eve"
    kit.start(HOST)
    assert kit.put_out(HOST) == []
    assert rules.decide_rename(kit.lobby, HOST, "Mallory", NOW) == ()


def test_a_start_moves_who_is_online_and_all_that_belongs_to_the_room():
    kit = LobbyKit(join_by_requests=True, **PASSWORD)
    request_id = kit.request(4)
    kit.join(GUEST, THIRD, join_token=TOKEN)
    kit.offline = {HOST, GUEST}  # whoever starts is there
    kit.now += 60
    room = kit.start(HOST)
    assert [m.player_id for m in room.members] == [HOST, THIRD]
    assert [m.joined_at for m in room.members] == [NOW, NOW]
    assert (room.room_id, room.lobby_id, room.host_id) == (ROOM_ID, LOBBY_ID, HOST)
    assert (room.room_name, room.rules, room.max_players) == ("Den", b'{"mode":"duel"}', 3)
    assert room.host_switch is room.can_leave is room.realtime is True
    assert room.password_hash is None
    assert (kit.lobby.room_id, kit.lobby.started_at) == (ROOM_ID, NOW + 60)
    assert kit.lobby.answered[request_id].status == "rejected"
    assert list(kit.lobby.members) == [HOST, THIRD]


def test_a_strict_lobby_counts_who_is_online():
    kit = LobbyKit(strict_full=True)
    full(kit)
    kit.offline = {GUEST}
    with pytest.raises(refusals.LobbyNotFull):
        kit.start(HOST)
    kit.offline = set()
    assert len(kit.start(HOST).members) == 3


def test_a_started_lobby_ends_with_its_room_and_an_open_one_does_not():
    kit = LobbyKit()
    assert rules.decide_end_for_all(kit.lobby, "room_ended", NOW) == ()
    kit.start(HOST)
    kit.take(*rules.decide_end_for_all(kit.lobby, "room_ended", NOW))
    assert not kit.lobby.is_active
    assert rules.decide_end_for_all(kit.lobby, "room_ended", NOW) == ()
    open_kit = LobbyKit()
    open_kit.take(*rules.decide_end_for_all(open_kit.lobby, "game_deleted", NOW))
    assert not open_kit.lobby.is_active


def test_what_no_lobby_knows_is_a_bug():
    class Unheard(Event, frozen=True):
        at: int

    with pytest.raises(TypeError, match="cannot apply Unheard"):
        rules.apply(LobbyKit().lobby, Unheard(NOW))  # type: ignore[arg-type]


def test_entries_that_a_snapshot_holds_are_passed_over():
    kit = LobbyKit()
    kit.join(GUEST)
    snapshot = codec.snapshot(kit.lobby)
    kit.join(THIRD)

    again = codec.restore(Recovered(snapshot, kit.entries))

    assert msgspec.to_builtins(again) == msgspec.to_builtins(kit.lobby)


def test_the_host_alone_sees_who_asks_to_join():
    kit = LobbyKit(join_by_requests=True)
    kit.request(GUEST)

    assert [asked.player_id for asked in views.view_status(kit.lobby, HOST).pending] == [GUEST]
    assert not views.view_status(kit.lobby, GUEST).pending


def test_a_journal_without_a_beginning_is_refused():
    entry = codec.entry(LOBBY_ID, 1, HostChanged(GUEST, NOW))
    with pytest.raises(UnreadableJournal, match="does not create the lobby"):
        codec.restore(Recovered(None, [entry]))


def test_a_started_lobby_hands_its_invites_on_to_its_room_and_an_ended_one_drops_them():
    kit = LobbyKit()
    kit.invite(GUEST, THIRD)
    invited = tuple(kit.lobby.invites.values())
    assert [invite.player_id for invite in invited] == [GUEST, THIRD]
    assert kit.start(HOST).invites == invited
    assert kit.lobby.invites == {}
    again = LobbyKit()
    again.invite(GUEST)
    again.stop(HOST)
    assert (again.lobby.invites, again.lobby.rules) == ({}, b"{}")


def test_the_host_sets_and_removes_the_password():
    kit = LobbyKit()
    kit.join(GUEST)
    secret = hash_password("open sesame", b"s" * 16)
    for password_hash in (secret, None):
        kit.take(rules.decide_password(kit.lobby, HOST, password_hash, NOW))
        assert (kit.lobby.password_hash, kit.restored()) == (password_hash, kit.lobby)
    with pytest.raises(refusals.OnlyHostSetsLobbyPassword):
        rules.decide_password(kit.lobby, GUEST, secret, NOW)
    assert kit.lobby.password_hash is None


def test_the_host_renews_the_join_token_before_the_start():
    kit = LobbyKit()
    kit.join(GUEST)
    kit.take(rules.decide_join_token(kit.lobby, RenewLobbyToken(HOST, "f" * 16), NOW))
    assert kit.restored().join_token == kit.lobby.join_token == "f" * 16
    with pytest.raises(OnlyHostRenewsToken):
        rules.decide_join_token(kit.lobby, RenewLobbyToken(GUEST, "0" * 16), NOW)
    kit.start(HOST)
    with pytest.raises(refusals.LobbyHasStarted):
        rules.decide_join_token(kit.lobby, RenewLobbyToken(HOST, "0" * 16), NOW)
    assert kit.lobby.join_token == "f" * 16
