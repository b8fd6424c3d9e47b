"""Realtime tokens: whom they let in, what ends them, how many are kept."""

from __future__ import annotations

import pytest
from room_kit import GUEST, HOST, NOW, THIRD, RoomKit

from greenroom.actors.room.rules import codec, tokens
from greenroom.actors.room.rules.channel import Admitted, IssueToken
from greenroom.actors.room.rules.refusals import (
    NotRealtime,
    TokenExpired,
    TokenInvalidated,
    TokenUnknown,
)

PLAYER_TOKEN = b"p" * 32


def open_kit() -> RoomKit:
    kit = RoomKit(realtime=True)
    kit.join(GUEST, THIRD)
    return kit


def issue(kit: RoomKit, player_id: int, token: bytes) -> None:
    command = IssueToken(player_id, token, PLAYER_TOKEN)
    kit.take([tokens.decide_issue(kit.room, command, kit.now)])


def admit(kit: RoomKit, token: bytes) -> int:
    return tokens.admit(kit.room, token, kit.now).player_id


def test_a_token_lets_its_holder_in_for_five_minutes():
    kit = open_kit()
    issue(kit, GUEST, b"t")
    assert tokens.admit(kit.room, b"t", NOW) == Admitted(GUEST, 9, PLAYER_TOKEN)
    kit.now += 299
    assert admit(kit, b"t") == GUEST
    kit.now += 1
    with pytest.raises(TokenExpired):
        admit(kit, b"t")


def test_nobody_knows_a_token_that_was_not_given():
    with pytest.raises(TokenUnknown) as caught:
        admit(open_kit(), b"t")
    assert type(caught.value) is TokenUnknown


def test_an_expired_token_and_an_unknown_one_are_told_apart_by_the_hint_alone():
    assert TokenExpired.text == TokenUnknown.text
    assert TokenExpired.hint != TokenUnknown.hint


def test_an_expired_token_is_remembered_for_ten_minutes_whoever_gets_another():
    kit = open_kit()
    issue(kit, GUEST, b"old")
    kit.now += tokens.TOKEN_SECONDS + tokens.EXPIRED_SECONDS - 1
    issue(kit, HOST, b"a")
    with pytest.raises(TokenExpired):
        admit(kit, b"old")
    kit.now += 1
    issue(kit, HOST, b"b")
    assert [token.token_hash for token in kit.room.tokens] == [b"a", b"b"]


def test_expired_tokens_count_for_what_a_member_has():
    kit = open_kit()
    for number in range(tokens.TOKENS_A_MEMBER_MAX):
        issue(kit, GUEST, bytes([number]))
    kit.now += tokens.TOKEN_SECONDS
    issue(kit, GUEST, b"new")
    kept = [token.token_hash for token in kit.room.tokens]
    assert len(kept) == tokens.TOKENS_A_MEMBER_MAX
    assert bytes([0]) not in kept
    assert admit(kit, b"new") == GUEST


def test_only_members_of_realtime_rooms_are_given_any():
    command = IssueToken(HOST, b"t", PLAYER_TOKEN)
    with pytest.raises(NotRealtime):
        tokens.decide_issue(RoomKit().room, command, NOW)
    with pytest.raises(NotRealtime):
        tokens.decide_issue(open_kit().room, IssueToken(7, b"t", PLAYER_TOKEN), NOW)


@pytest.mark.parametrize("way", ["leave", "kick", "put out", "stale", "end"])
def test_who_is_no_member_any_more_hears_that_their_token_was_invalidated(way: str):
    kit = open_kit()
    if way != "stale":
        issue(kit, GUEST, b"t")
    match way:
        case "leave":
            kit.leave(GUEST)
        case "kick":
            kit.kick(HOST, GUEST)
        case "put out":
            kit.put_out(GUEST)
        case "stale":
            kit.silence(GUEST)
            kit.now += 10
            issue(kit, GUEST, b"t")
            kit.wait(290)
        case _:
            kit.stop(HOST)
    with pytest.raises(TokenInvalidated):
        admit(kit, b"t")


def test_who_comes_back_needs_a_new_token():
    kit = open_kit()
    issue(kit, GUEST, b"old")
    kit.leave(GUEST)
    kit.join(GUEST)
    issue(kit, GUEST, b"new")
    assert admit(kit, b"new") == GUEST
    with pytest.raises(TokenInvalidated):
        admit(kit, b"old")


def test_a_member_has_so_many_and_loses_their_oldest():
    kit = open_kit()
    issue(kit, HOST, b"host")
    for number in range(tokens.TOKENS_A_MEMBER_MAX + 1):
        issue(kit, GUEST, bytes([number]))
    with pytest.raises(TokenUnknown):
        admit(kit, bytes([0]))
    assert admit(kit, bytes([1])) == GUEST
    assert admit(kit, b"host") == HOST


def test_what_is_kept_is_bounded_and_forgotten():
    kit = open_kit()
    for number in range(200):
        issue(kit, GUEST, number.to_bytes(2, "big"))
        kit.leave(GUEST)
        kit.join(GUEST)
    assert len(kit.room.tokens) == tokens.REVOKED_MAX
    kit.now += tokens.TOKEN_SECONDS
    issue(kit, HOST, b"t")
    assert [token.token_hash for token in kit.room.tokens] == [b"t"]


def test_tokens_come_back_from_journal_and_snapshot():
    kit = open_kit()
    issue(kit, GUEST, b"a")
    snapshot = codec.snapshot(kit.room)
    issue(kit, THIRD, b"b")
    kit.leave(GUEST)
    assert kit.restored().tokens == kit.restored(snapshot).tokens == kit.room.tokens
