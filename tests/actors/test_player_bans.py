"""Calendar lengths of bans, and the sentence that the banned get to read."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from greenroom.actors.player.bans import add_months, ban_text, banned_until
from greenroom.actors.player.messages import Ban
from greenroom.contract.allowed_values import BAN_DURATIONS, BanDuration

HOUR, DAY = 3_600, 86_400


def at(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp())


@pytest.mark.parametrize(
    ("duration", "start", "end"),
    [
        ("hour", "2026-12-31T23:30:00", "2027-01-01T00:30:00"),
        ("day", "2026-02-28T12:00:00", "2026-03-01T12:00:00"),
        ("week", "2026-02-25T12:00:00", "2026-03-04T12:00:00"),
        ("month", "2026-01-15T12:34:56", "2026-02-15T12:34:56"),
        ("month", "2026-01-31T12:00:00", "2026-02-28T12:00:00"),
        ("month", "2028-01-31T12:00:00", "2028-02-29T12:00:00"),
        ("month", "2026-12-31T12:00:00", "2027-01-31T12:00:00"),
        ("quarter", "2026-11-30T12:00:00", "2027-02-28T12:00:00"),
        ("quarter", "2026-01-31T00:00:00", "2026-04-30T00:00:00"),
        ("year", "2028-02-29T12:00:00", "2029-02-28T12:00:00"),
        ("year", "2026-06-01T00:00:00", "2027-06-01T00:00:00"),
    ],
)
def test_lengths_are_calendar_lengths(duration: BanDuration, start: str, end: str):
    assert banned_until(duration, at(start)) == at(end)


def test_for_ever_has_no_end():
    assert banned_until("forever", 0) is None


@pytest.mark.parametrize(
    ("left", "words"),
    [
        (1, "less than a minute"),
        (59, "less than a minute"),
        (60, "1 minute"),
        (119, "1 minute"),
        (120, "2 minutes"),
        (HOUR - 1, "59 minutes"),
        (HOUR, "1 hour"),
        (DAY - 1, "23 hours"),
        (DAY, "1 day"),
        (7 * DAY, "7 days"),
        (30 * DAY, "30 days"),
        (31 * DAY, "1 month"),  # of January
        (31 * DAY + 28 * DAY, "2 months"),
        (365 * DAY - 1, "11 months"),
        (365 * DAY, "1 year"),
        (3 * 365 * DAY, "2 years"),  # 2028 is a day longer
        (4 * 365 * DAY, "3 years"),
    ],
)
def test_the_time_left_is_told_in_its_largest_unit_alone(left: int, words: str):
    now = at("2026-01-01T00:00:00")
    ban = Ban("b", "year", None, now, now + left)
    assert ban_text(ban, now) == f"You are banned. Ban expires in {words}"


@pytest.mark.parametrize(
    ("duration", "words"),
    [
        ("hour", "1 hour"),
        ("day", "1 day"),
        ("week", "7 days"),
        ("month", "1 month"),
        ("quarter", "3 months"),
        ("year", "1 year"),
    ],
)
@given(st.integers(0, 4_000_000_000))
def test_a_ban_that_has_just_begun_is_told_by_its_name(duration: BanDuration, words: str, now: int):
    ban = Ban("b", duration, "cheating", now, banned_until(duration, now))
    assert ban_text(ban, now) == f"You are banned: cheating. Ban expires in {words}"


def test_a_permanent_ban_says_so():
    assert ban_text(Ban("b", "forever", None, 0, None), 5) == (
        "You are banned. This is a permanent ban."
    )
    assert ban_text(Ban("b", "forever", "bots", 0, None), 5) == (
        "You are banned: bots. This is a permanent ban."
    )


@given(st.integers(0, 4_000_000_000), st.integers(0, 50))
def test_months_keep_the_time_of_day_and_the_day_where_there_is_one(start: int, months: int):
    first = datetime.fromtimestamp(start, UTC)
    last = datetime.fromtimestamp(add_months(start, months), UTC)
    assert last.time() == first.time()
    assert (last.year * 12 + last.month) - (first.year * 12 + first.month) == months
    assert last.day == first.day or (last.day < first.day and (last.day >= 28))


@given(st.sampled_from(BAN_DURATIONS), st.integers(0, 4_000_000_000), st.integers(0, 40_000_000))
def test_the_sentence_exists_for_every_moment_of_a_ban(
    duration: BanDuration, start: int, later: int
):
    until = banned_until(duration, start)
    now = start + later if until is None else min(start + later, until - 1)
    text = ban_text(Ban("b", duration, None, start, until), now)
    assert text.startswith("You are banned. ")
    assert " 0 " not in text
    assert "-" not in text
