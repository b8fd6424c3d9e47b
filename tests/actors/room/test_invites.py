"""Invites open a room until they are declined, and go where whoever was put out must not return."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from room_kit import GUEST, HOST, NOW, RoomKit, facts

from greenroom.actors.kernel.errors import Refused
from greenroom.actors.room.rules import codec
from greenroom.actors.room.rules.refusals import IncorrectPassword
from greenroom.actors.seating import invites
from greenroom.actors.seating.invite_index import InviteIndex
from greenroom.actors.seating.invite_messages import AnswerInvite, InvitePlayer, Inviter
from greenroom.actors.seating.invites import INVITES_MAX, InviteEvent, Invites
from greenroom.actors.seating.passwords import SALT_BYTES, hash_password
from greenroom.actors.seating.refusals import InviteAlreadySent, InviteNotFound, TooManyInvites

CLOSED = hash_password("sesame", b"s" * SALT_BYTES)


@pytest.fixture
def kit() -> RoomKit:
    """A room that needs a password."""
    return RoomKit(password_hash=CLOSED)


def shown(kit: RoomKit) -> list[int]:
    room = kit.room
    return list(invites.view_invites(room.invites, "room", room.room_id, room.room_name))


def may_enter(kit: RoomKit, player_id: int = GUEST) -> bool:
    try:
        kit.join(player_id)
    except IncorrectPassword:
        return False
    return True


def test_an_invite_opens_the_room_before_it_is_accepted(kit: RoomKit):
    assert not may_enter(kit)
    kit.invite(GUEST)
    assert shown(kit) == [GUEST]
    assert may_enter(kit)
    assert shown(kit) == []


def test_an_accepted_invite_opens_it_and_a_declined_does_not(kit: RoomKit):
    kit.invite(GUEST)
    kit.answer(GUEST, "accepted")
    assert shown(kit) == []
    assert may_enter(kit)
    kit.invite(7)
    kit.answer(7, "declined")
    assert not may_enter(kit, 7)


@pytest.mark.parametrize(
    ("reason", "returns"), [("left", True), ("stale", True), ("banned", False)]
)
def test_who_left_may_return_and_who_was_put_out_may_not(kit: RoomKit, reason, returns: bool):
    kit.invite(GUEST)
    kit.join(GUEST)
    kit.put_out(GUEST, reason)
    assert may_enter(kit) == returns


def test_a_kick_ends_the_invite(kit: RoomKit):
    kit.invite(GUEST)
    kit.join(GUEST)
    kit.kick(HOST, GUEST)
    assert not may_enter(kit)


def test_an_open_invite_is_not_sent_twice_and_an_answered_one_is(kit: RoomKit):
    kit.invite(GUEST)
    with pytest.raises(InviteAlreadySent):
        kit.invite(GUEST, by=3)
    kit.answer(GUEST, "accepted")
    kit.invite(GUEST)
    assert shown(kit) == [GUEST]
    kit.answer(GUEST, "declined")
    kit.invite(GUEST)


def test_only_an_open_invite_of_ones_own_is_answered(kit: RoomKit):
    kit.invite(GUEST, 7)
    for player_id, number in ((GUEST, 7), (8, 8), (8, GUEST)):
        with pytest.raises(InviteNotFound):
            kit.answer(player_id, "accepted", number)
    kit.answer(GUEST, "accepted")
    for answer in ("accepted", "declined"):
        with pytest.raises(InviteNotFound):
            kit.answer(GUEST, answer)


def test_the_oldest_accepted_makes_room_for_another(kit: RoomKit):
    players = range(100, 100 + INVITES_MAX)
    kit.invite(*players)
    with pytest.raises(TooManyInvites):
        kit.invite(GUEST)
    kit.answer(103, "accepted")
    kit.answer(101, "accepted")
    kit.invite(GUEST)
    assert len(kit.room.invites) == INVITES_MAX
    assert 101 not in kit.room.invites
    assert 103 in kit.room.invites


def test_invites_survive_in_journal_and_snapshot_and_end_with_the_room(kit: RoomKit):
    kit.invite(GUEST, 7, 8)
    kit.answer(7, "accepted")
    kit.answer(8, "declined")
    assert facts(kit.restored()) == facts(kit.room)
    assert facts(kit.restored(codec.snapshot(kit.room))) == facts(kit.room)
    kit.stop(HOST)
    assert kit.room.invites == {}


def test_an_index_shows_each_player_what_is_open():
    index, first, second = InviteIndex(), RoomKit(), RoomKit()
    first.invite(GUEST, 7)
    second.invite(8)

    def show(key: str, kit: RoomKit) -> None:
        index.show(key, invites.view_invites(kit.room.invites, "room", key, key))

    show("a", first)
    show("b", second)
    show("c", RoomKit())
    assert [(view.key, view.name) for view in index.list_to(7)] == [("a", "a")]
    first.answer(7, "declined")
    first.invite(7)
    show("a", first)
    assert len(index.list_to(7)) == 1
    index.show("a", {})
    index.show("b", {})
    assert (index._by_key, index._by_player) == ({}, {})


PLAYERS = st.integers(1, 4)
STEPS = st.tuples(st.sampled_from(["invite", "accepted", "declined", "come", "kicked"]), PLAYERS)


@given(st.lists(STEPS, max_size=40))
def test_whoever_was_invited_and_neither_declined_nor_put_out_may_enter(steps):
    held: Invites = {}
    model: dict[int, str] = {}
    for number, (what, player_id) in enumerate(steps):
        before = dict(held)
        events: tuple[InviteEvent, ...] = ()
        try:
            if what == "invite":
                command = InvitePlayer(str(number), Inviter(9, "Ada", "TAG"), player_id)
                events = invites.decide_invite(held, command, NOW)
            elif what in {"accepted", "declined"}:
                invite_id = held[player_id].invite_id if player_id in held else ""
                answer = AnswerInvite(player_id, invite_id, what)
                events = (invites.decide_answer(held, answer, NOW),)
        except Refused:
            assert held == before
            assert (model.get(player_id) == "open") == (what == "invite")
            continue
        for event in events:
            invites.apply(held, event)
        match what:
            case "invite":
                model[player_id] = "open"
            case "accepted":
                model[player_id] = "accepted"
            case "come":
                invites.accept(held, player_id)
                model |= {player_id: "accepted"} if player_id in model else {}
            case _:
                invites.leave(held, player_id, what)
                model.pop(player_id, None)
        assert held.keys() == model.keys()
        assert {i for i, m in model.items() if m == "open"} == set(
            invites.view_invites(held, "room", "k", "n")
        )
