"""The caches of leaderboards against what is durable, amid changes and reads."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from itertools import product
from typing import Literal

import msgspec
import trio
import trio.testing
from hypothesis import given, settings
from hypothesis import strategies as st
from world_kit import Arena, open_arena, register

from greenroom.actors.flows.deletion import delete_player
from greenroom.actors.flows.ranking import Standings, rank_players
from greenroom.actors.kernel.errors import ActorUnavailable, Refused
from greenroom.actors.kernel.message import Event
from greenroom.actors.leaderboard.index import Index
from greenroom.actors.leaderboard.lru_cache import LruCache
from greenroom.actors.leaderboard.profiles import Profile, Profiles
from greenroom.actors.leaderboard.top_entries import Entries, TopEntries, TopKey, document_of
from greenroom.actors.player.messages import Rename, ReplacePlayerDocument
from greenroom.contract.fields import verbatim
from greenroom.contract.leaderboard import LeaderboardEntry

FIELDS = ("score",)
PLAYERS = 4

Shown = dict[int, tuple[str, bytes]]
"""Names and documents by player."""

ids = st.integers(1, PLAYERS + 1)
scores = st.integers(0, 4)


def document(score: int, number: int) -> bytes:
    return b'{"score":%d,"number":%d}' % (score, number)


def order(players: Shown) -> list[int]:
    """By the definition: highest first, then by id."""
    score = {i: msgspec.json.decode(data)["score"] for i, (_, data) in players.items()}
    return sorted(players, key=lambda player_id: (-score[player_id], player_id))


def shown_in(entries: Iterable[LeaderboardEntry]) -> Shown:
    return {e.player_id: (e.player_name, document_of(e)) for e in entries}


class TopsKit:
    """A game whose players change, and everything that was ever durable of them."""

    def __init__(self, arena: Arena) -> None:
        self.arena = arena
        self.states: list[Shown] = []
        self.number = 0
        arena.memory.observers.append(self.note)
        self.note(())

    def note(self, _: Iterable[Event]) -> None:
        players = self.arena.memory.players.values()
        self.states.append({p.player_id: (p.player_name, p.player_data) for p in players})

    async def act(self, what: str, player_id: int, score: int) -> None:
        """Change something; what is refused has changed nothing."""
        self.number += 1
        world = self.arena.world
        player = world.players.get_ref(player_id)
        with suppress(ActorUnavailable, Refused):
            if what == "update":
                await player.ask(ReplacePlayerDocument(document(score, self.number)))
            elif what == "rename":
                await player.ask(Rename(f"Name {self.number}"))
            elif what == "register":
                await register(self.arena, f"New {self.number}", document(score, self.number))
            elif what == "delete":
                await delete_player(world, player_id)
            elif what == "rest" and not self.arena.memory.pending:
                world.players.discard(player_id)
            elif what == "rank":
                await self.rank(limit=player_id)

    async def rank(self, limit: int) -> Standings:
        """Look, and check that all that is shown was durable while it was looked for."""
        first = len(self.states) - 1
        game_id = self.arena.game.game_id
        standings = await rank_players(self.arena.world, game_id, FIELDS, limit)
        states = self.states[first:]
        shown = shown_in(standings.entries)
        for player_id, profile in shown.items():
            assert profile in [state.get(player_id) for state in states]
        orders = [[i for i in order(state)[:limit] if i in shown] for state in states]
        assert list(shown) in orders
        return standings


Step = tuple[Literal["update", "rename", "register", "delete", "rest", "rank"], int, int]
steps = st.tuples(
    st.sampled_from(["update", "update", "rename", "register", "delete", "rest", "rank", "rank"]),
    ids,
    scores,
)
pauses = st.tuples(st.just("pause"), st.integers(0, 15), st.just(0))
commits = st.tuples(st.sampled_from(["hold", "commit"]), st.just(0), st.just(0))


async def play(todo: list[tuple[str, int, int]]) -> None:
    async with open_arena() as arena:
        memory, stage = arena.memory, TopsKit(arena)
        for n in range(1, PLAYERS + 1):
            await register(arena, f"Player {n}", document(n, 0))
        memory.read_seconds = 1.0
        async with trio.open_nursery() as nursery:
            for what, player_id, score in todo:
                if what == "pause":
                    await trio.sleep(player_id / 10)
                elif what == "hold":
                    memory.automatic = False
                elif what == "commit":
                    memory.automatic = True
                    memory.commit()
                else:
                    nursery.start_soon(stage.act, what, player_id, score)
                    await trio.testing.wait_all_tasks_blocked()
            memory.automatic = True
            memory.commit()
        for limit in (3, 10, 3):
            standings = await stage.rank(limit)
            state = stage.states[-1]
            expected = {i: state[i] for i in order(state)[:limit]}
            assert shown_in(standings.entries) == expected
            assert list(shown_in(standings.entries)) == list(expected)
            assert [entry.rank for entry in standings.entries] == list(range(1, len(expected) + 1))
            assert standings.total == len(state)


@given(st.lists(st.one_of(steps, steps, pauses, commits), min_size=10, max_size=40))
def test_what_is_shown_was_durable_while_it_was_looked_for_and_is_all_there_in_the_end(
    todo: list[tuple[str, int, int]],
) -> None:
    trio.run(play, todo, clock=trio.testing.MockClock(autojump_threshold=0))


class Gathering:
    """A top that is being made, from a snapshot of the database."""

    def __init__(self, stage: Bookkeeping, limit: int) -> None:
        self.stage = stage
        self.key: TopKey = stage.tops.make_key(stage.index, limit)
        self.ids = stage.index.list_top(limit)
        self.reading = stage.profiles.collect(self.ids)
        self.found = self.reading.__enter__()
        self.snapshot = dict(stage.database)

    def end(self) -> None:
        for player_id in self.ids:
            if player_id in self.snapshot:
                self.found[player_id] = Profile(player_id, *self.snapshot[player_id])
        self.reading.__exit__(None, None, None)
        self.stage.tops.keep(self.key, entries_of(self.ids, self.found))


class Bookkeeping:
    """Profiles and tops, a database, and the changes in it that have not been told yet."""

    def __init__(self) -> None:
        self.profiles = Profiles(bytes_max=2_000)
        self.tops = TopEntries(bytes_max=8_000)
        self.index = Index(1, FIELDS)
        self.index.complete()
        self.database: Shown = {}
        self.told: Shown = {}
        self.untold: list[tuple[int, tuple[str, bytes] | None]] = []

    def write(self, player_id: int, profile: tuple[str, bytes] | None) -> None:
        if profile is None:
            self.database.pop(player_id, None)
        else:
            self.database[player_id] = profile
        self.untold.append((player_id, profile))

    def tell(self) -> None:
        """Tell of the first change that has not been told, as `Leaderboards` would."""
        if not self.untold:
            return
        player_id, profile = self.untold.pop(0)
        before = self.told.pop(player_id, None)
        if profile is None:
            self.index.remove(player_id)
        elif before is None or before[1] != profile[1]:
            self.index.put(player_id, self.index.read(profile[1]))
        else:
            self.tops.note_rename()
        self.profiles.forget(player_id)
        if profile is not None:
            self.told[player_id] = profile

    def check(self) -> None:
        """Check that everything kept has been told, or is about to be."""
        for limit in (1, 3, 10):
            entries = self.tops.find(self.tops.make_key(self.index, limit))
            if entries is not None:
                self.check_each(shown_in(entries))
                if not self.untold:
                    assert list(shown_in(entries)) == order(self.told)[:limit]
        found = [self.profiles.find(player_id) for player_id in range(1, PLAYERS + 1)]
        self.check_each({p.player_id: (p.player_name, p.player_data) for p in found if p})

    def check_each(self, shown: Shown) -> None:
        for player_id, profile in shown.items():
            later = [told for changed_id, told in self.untold if changed_id == player_id]
            assert profile in [self.told.get(player_id), *later]


def entries_of(player_ids: list[int], found: dict[int, Profile]) -> Entries:
    return [
        LeaderboardEntry(
            rank=n,
            player_id=player_id,
            player_name=found[player_id].player_name,
            player_data=verbatim(found[player_id].player_data),
        )
        for n, player_id in enumerate(player_ids, 1)
        if player_id in found
    ]


MOMENTS = list(product(["tell", "begin", "end", "end last"], [1, 3, 10], [0]))
CHANGES = list(product(["document", "document", "name", "delete"], range(1, PLAYERS + 1), range(5)))
TWICE_AS_MANY = 2 * len(CHANGES) // len(MOMENTS)
events = st.sampled_from([*MOMENTS * TWICE_AS_MANY, *CHANGES])
"""One draw each: to draw the parts of 20,000 events would take most of the test's time."""


@settings(max_examples=500)
@given(st.lists(events, min_size=20, max_size=80))
def test_nothing_older_than_what_was_told_is_kept_whatever_is_read_when(
    todo: list[tuple[str, int, int]],
) -> None:
    stage, gatherings = Bookkeeping(), list[Gathering]()
    for player_id in range(1, PLAYERS + 1):
        stage.write(player_id, (f"Player {player_id}", document(player_id, 0)))
        stage.tell()
    for number, (what, player_id, score) in enumerate(todo):
        name, data = stage.database.get(player_id, ("", b""))
        if what == "document":
            stage.write(player_id, (name or f"Player {number}", document(score, number)))
        elif what == "name" and name:
            stage.write(player_id, (f"Name {number}", data))
        elif what == "delete" and name:
            stage.write(player_id, None)
        elif what == "tell":
            stage.tell()
        elif what == "begin":
            gatherings.append(Gathering(stage, limit=player_id))
        elif what in ("end", "end last") and gatherings:
            gatherings.pop(0 if what == "end" else -1).end()
        stage.check()


def test_what_was_read_of_somebody_who_changed_meanwhile_is_not_kept() -> None:
    profiles = Profiles()
    with profiles.collect([1, 2]) as found:
        found.update({n: Profile(n, "before", b"{}") for n in (1, 2)})
        profiles.forget(1)
    assert profiles.find(1) is None
    assert profiles.find(2) is not None


def test_of_two_who_read_at_once_the_later_begun_is_kept() -> None:
    profiles = Profiles()
    with profiles.collect([1]) as early:
        early[1] = Profile(1, "before", b"{}")
        profiles.forget(1)
        with profiles.collect([1]) as late:
            late[1] = Profile(1, "after", b"{}")
    assert profiles.find(1) == late[1]

    with profiles.collect([2]) as early:
        early[2] = Profile(2, "before", b"{}")
        profiles.forget(2)
        late_reading = profiles.collect([2])
        late_reading.__enter__()
    assert profiles.find(2) is None
    late_reading.__exit__(None, None, None)
    assert not profiles.is_empty
    profiles.clear()
    assert profiles.is_empty


def test_an_edition_lasts_while_nothing_changes_in_what_was_shown() -> None:
    index = Index(1, FIELDS)
    for player_id in range(1, 6):
        index.put(player_id, index.read(document(player_id, 0)))
    index.complete()

    def lasts(player_id: int, data: bytes | None) -> bool:
        """Return whether the first three stay the same for all one knows."""
        assert len(index.list_top(3)) == 3
        edition = index.edition
        if data is None:
            index.remove(player_id)
        else:
            index.put(player_id, index.read(data))
        return index.edition is edition

    assert lasts(1, document(0, 0))
    assert lasts(2, document(1, 1))
    assert lasts(6, document(0, 2))
    assert lasts(6, None)
    assert not lasts(5, document(5, 3))
    assert not lasts(1, document(9, 4))
    assert not lasts(1, document(0, 5))
    assert not lasts(5, None)
    assert lasts(1, document(0, 6))
    assert len(index.list_top(10)) == 4
    edition = index.edition
    index.put(7, index.read(b"{}"))
    assert index.edition is not edition


def test_what_was_used_least_recently_goes_when_there_is_too_much() -> None:
    latest = LruCache[str, int](10)
    for number, name in enumerate("abc"):
        latest.keep(name, number, 3)
    assert latest.find("a") == 0

    latest.keep("d", 3, 4)

    assert [latest.find(name) for name in "abcd"] == [0, None, 2, 3]
    latest.keep("d", 4, 1)
    latest.keep("e", 5, 3)
    assert [latest.find(name) for name in "acde"] == [0, 2, 4, 5]


def test_what_is_larger_than_all_may_be_puts_nothing_out_and_is_not_kept() -> None:
    latest = LruCache[str, int](10)
    latest.keep("a", 1, 3)
    latest.keep("b", 2, 3)

    latest.keep("b", 3, 11)

    assert [latest.find(name) for name in "ab"] == [1, None]
    assert len(latest) == 1
