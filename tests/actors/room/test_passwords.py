"""Wrong passwords: how often they may be tried, and who is in nobody's way."""

from __future__ import annotations

import itertools

import pytest
from room_kit import GUEST, HOST, NOW, RoomKit

from greenroom import actor_settings
from greenroom.actors.room.messages import JoinRoom, RenewJoinToken
from greenroom.actors.room.rules import membership as rules
from greenroom.actors.room.rules.refusals import (
    IncorrectPassword,
    NotInAnyRoom,
    OnlyHostRenewsToken,
    RoomFull,
)
from greenroom.actors.seating import passwords
from greenroom.actors.seating.passwords import Guesses, GuessLimits
from greenroom.actors.seating.refusals import TooManyGuesses
from greenroom.network.limiter import Rate

LIMITS = actor_settings.guess_limits()


def wrong() -> None:
    raise IncorrectPassword


def tries(guesses: Guesses, address: str, now: float) -> int:
    """How many wrong passwords are looked at, one after the other."""
    for count in itertools.count():
        try:
            guesses.judge(address, now, IncorrectPassword, wrong)
        except TooManyGuesses:
            return count
        except IncorrectPassword:
            continue
    raise AssertionError


def test_an_address_may_guess_five_times_at_once_and_then_every_four_seconds():
    guesses = Guesses(LIMITS)
    assert tries(guesses, "a", 1_000.0) == 5
    with pytest.raises(TooManyGuesses) as caught:
        guesses.judge("a", 1_000.0, IncorrectPassword, wrong)
    assert caught.value.retry_seconds == pytest.approx(4.0)
    assert tries(guesses, "a", 1_003.9) == 0
    assert tries(guesses, "a", 1_004.1) == 1
    assert tries(guesses, "a", 2_000.0) == 5


def test_a_right_password_is_good_whoever_guesses_elsewhere():
    guesses = Guesses(LIMITS)
    tries(guesses, "a", 0.0)
    assert guesses.judge("b", 0.0, IncorrectPassword, lambda: "in") == "in"
    assert tries(guesses, "b", 0.0) == 5


def test_all_addresses_together_guess_twenty_times_at_once_and_then_once_a_second():
    guesses = Guesses(LIMITS)
    assert sum(tries(guesses, f"{n}", 0.0) for n in range(100)) == 20
    looked_at = sum(tries(guesses, f"{n}", second) for n in range(100) for second in range(1, 31))
    assert looked_at <= 31


def test_what_is_right_or_refused_for_another_reason_is_no_guess():
    guesses = Guesses(LIMITS)

    def full() -> None:
        raise RoomFull

    for _ in range(50):
        guesses.judge("a", 0.0, IncorrectPassword, lambda: None)
        with pytest.raises(RoomFull):
            guesses.judge("a", 0.0, IncorrectPassword, full)
    assert tries(guesses, "a", 0.0) == 5


def test_what_is_remembered_of_guessers_is_bounded(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(passwords, "GUESSERS_MAX", 3)
    guesses = Guesses(GuessLimits(address=LIMITS.address, place=Rate(1_000.0, 20_000.0)))
    for n in range(3):
        assert tries(guesses, f"{n}", 0.0) == 5
    for n in range(10_000):
        tries(guesses, f"newcomer {n}", 0.0)
    assert len(guesses._addresses) == 3
    assert tries(guesses, "newcomer 9999", 0.0) == 0
    assert tries(guesses, "newcomer 9999", 1_000.0) == 5


@pytest.mark.parametrize(
    ("password", "join_token", "is_invited", "is_guess"),
    [
        ("0000", None, False, True),
        (None, "f" * 16, False, True),
        (None, None, False, False),
        ("0000", "TOKEN", False, False),
        ("0000", None, True, False),
    ],
)
def test_a_guess_is_a_try_that_nothing_else_makes_good(
    password: str | None, join_token: str | None, is_invited: bool, is_guess: bool
):
    kit = RoomKit(password_hash=b"h" * 48)
    if is_invited:
        kit.invite(GUEST)
    token = kit.room.join_token if join_token == "TOKEN" else join_token
    command = JoinRoom(
        player_id=GUEST, player_name="G", player_data=b"{}", password=password, join_token=token
    )
    assert rules.is_guess(kit.room, command) is is_guess


def test_a_renewed_join_token_is_the_only_one_a_restart_later_too():
    kit = RoomKit(password_hash=b"h" * 48)
    old, new = kit.room.join_token, "0123456789abcdef"
    with pytest.raises(NotInAnyRoom):
        rules.decide_join_token(kit.room, RenewJoinToken(GUEST, new), NOW)
    kit.invite(GUEST)
    kit.join(GUEST)
    with pytest.raises(OnlyHostRenewsToken):
        rules.decide_join_token(kit.room, RenewJoinToken(GUEST, new), NOW)
    kit.take((rules.decide_join_token(kit.room, RenewJoinToken(HOST, new), NOW),))
    kit.leave(GUEST)
    for room in (kit.room, kit.restored()):
        assert room.join_token == new
        assert room.version == kit.room.version
    with pytest.raises(IncorrectPassword):
        kit.join(3, join_token=old)
    kit.join(3, join_token=new)
