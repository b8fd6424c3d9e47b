"""Grouping events by type never turns round two events of one row."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from postgres_kit import registered

from greenroom.actors.game.messages import GameCreated, GameDocumentReplaced
from greenroom.actors.kernel.journal import JournalEntry
from greenroom.actors.kernel.message import Event
from greenroom.actors.player.messages import (
    PlayerBanned,
    PlayerDocumentReplaced,
    PlayerLoggedIn,
    PlayerLoggedOut,
    PlayerPresenceSaved,
    PlayerRenamed,
    PlayerUnbanned,
)
from greenroom.persistence.staging import plan
from greenroom.persistence.statements import TARGETS, Table

ids = st.integers(1, 3)
times = st.integers(0, 10_000)
banned = st.builds(
    PlayerBanned, ids, ids, st.uuids().map(str), st.just("hour"), st.none(), times, times
)
events = st.lists(
    st.one_of(
        st.builds(PlayerRenamed, ids, st.text(max_size=3), times),
        st.builds(PlayerDocumentReplaced, ids, ids, st.binary(max_size=3), times),
        st.builds(PlayerLoggedIn, ids, times),
        st.builds(PlayerLoggedOut, ids, times),
        st.builds(PlayerPresenceSaved, ids, st.booleans(), times),
        st.builds(PlayerUnbanned, ids, times),
        st.builds(GameDocumentReplaced, ids, st.binary(max_size=3), times),
        st.builds(registered, ids),
        banned,
    ),
    max_size=30,
)


def row_of(event: Event) -> Any:
    target = TARGETS[type(event)]
    return target.table, target.key_of(event)


def outcome(of: list[Event]) -> dict[Any, list[Event]]:
    """Return what each row lives through: its events in order, overwritten ones left out."""
    rows: dict[Any, list[Event]] = defaultdict(list)
    for event in of:
        lived = rows[row_of(event)]
        if lived and type(lived[-1]) is type(event) and TARGETS[type(event)].overwrites:
            lived.pop()
        lived.append(event)
    return rows


@given(events)
def test_every_row_lives_through_its_events_in_order(of):
    written = [event for _, group in plan(of) for event in group]

    assert outcome(written) == outcome(of)


@given(events)
def test_a_group_holds_one_type_and_each_row_once(of):
    for kind, group in plan(of):
        assert {type(event) for event in group} == {kind}
        assert len({row_of(event) for event in group}) == len(group)


@given(st.permutations([registered(1), registered(2)]), ids)
def test_parents_are_written_before_children(players, game_id):
    game = GameCreated(game_id, 1, "G", b"a", b"b", b"c", 0)
    ban = PlayerBanned(1, game_id, "id", "hour", None, 0, 1)

    tables = [TARGETS[kind].table for kind, _ in plan([ban, *players, game])]

    assert tables == [Table.GAMES, Table.PLAYERS, Table.BANS]


def test_a_thousand_updates_of_a_thousand_rows_are_one_group():
    of: list[Event] = [PlayerDocumentReplaced(i, 1, b"{}", 0) for i in range(1000)]

    assert len(plan(of)) == 1


def test_a_thousand_updates_of_one_row_are_one_row():
    of: list[Event] = [PlayerDocumentReplaced(1, 1, b"%d" % i, 0) for i in range(1000)]

    ((_, group),) = plan(of)

    assert group == [of[-1]]


def test_journal_entries_of_one_actor_share_a_group():
    of: list[Event] = [JournalEntry("room", "a", i, 1, b"", 0) for i in range(10)]

    assert plan(of) == [(JournalEntry, of)]
