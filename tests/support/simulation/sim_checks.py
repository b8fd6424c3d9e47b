"""Checks of a simulated cluster: at every moment, of every commit, and when it has come to rest."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import combinations

from machine_ledger import Ledger
from machine_stats import StatsBook
from sim_database import Commit, SimDatabase
from sim_node import SimNode
from sim_process import is_going_on

from greenroom.actors.game.messages import GameCreated
from greenroom.actors.kernel.journal import JournalEntry
from greenroom.actors.kernel.message import Event
from greenroom.actors.kernel.shards import partition_named
from greenroom.actors.player.messages import PlayerMoved
from greenroom.persistence.nodes.records import ShardHandedOver


class Finding(AssertionError):
    """A check has failed; it begins with the name of the checker."""


@contextmanager
def checker(name: str) -> Iterator[None]:
    """Name the checker of what the block finds."""
    try:
        yield
    except* Finding:
        raise
    except* AssertionError as group:
        raise Finding(f"{name}: {_first(group)}") from group


def _first(error: BaseException) -> BaseException:
    """Return an exception, or the first of a group, however deep."""
    return _first(error.exceptions[0]) if isinstance(error, BaseExceptionGroup) else error


# At every moment.


def check_one_owner(nodes: Iterable[SimNode]) -> None:
    """Check that no shard is served by two nodes, of those that run."""
    twice = [
        shard
        for one, other in combinations([node for node in nodes if node.serves], 2)
        for shard in sorted(one.shards._open & other.shards._open)
    ]
    with checker("one owner"):
        assert not twice, f"shards {twice[:5]} are served by two nodes"


def check_one_seat(nodes: Iterable[SimNode]) -> None:
    """Check that no player has a seat at two nodes."""
    seats: dict[int, list[tuple[int, object]]] = {}
    for node in nodes:
        if node.serves:
            for player_id, seat in seats_of(node).items():
                seats.setdefault(player_id, []).append((node.node_id, seat))
    twice = {player_id: found for player_id, found in seats.items() if len(found) > 1}
    with checker("one seat"):
        assert not twice, f"players have seats at two nodes: {twice}"


def check_one_actor(nodes: Iterable[SimNode]) -> None:
    """Check that no player is in memory at two nodes: only where they live (I1)."""
    homes: dict[int, int] = {}
    with checker("one actor"):
        for node in nodes:
            if node.serves:
                players = node.world.players
                keys = list(players.iterate_keys())
                for player_id in [key for key in keys if players.find_shard(key) is not None]:
                    other = homes.setdefault(player_id, node.node_id)
                    assert other == node.node_id, (
                        f"player {player_id} is at nodes {other} and {node.node_id}"
                    )


def check_homes(nodes: Iterable[SimNode]) -> None:
    """Check that everybody in memory who has a seat lives where it is (I2)."""
    with checker("homes"):
        for node in nodes:
            if node.serves:
                for player_id, (kind, key) in seats_of(node).items():
                    world = node.world
                    index = world.rooms.index if kind == "room" else world.lobbies.index
                    lives_in = world.players.find_shard(player_id)
                    sits_in = world.ledger.get_shard(index.find_game(key) or 0, key)
                    assert lives_in in {None, sits_in}, (
                        f"player {player_id} lives in {lives_in}, and sits in {kind} {key}"
                    )


def check_bring_ups(nodes: Iterable[SimNode]) -> None:
    """Check that no node has found anybody where they do not live, when it brought shards up."""
    with checker("bring-ups"):
        for node in nodes:
            if node.serves:
                found = dict(node.world.misplaced)
                assert not found, f"node {node.node_id} has found players: {found}"


def seats_of(node: SimNode) -> dict[int, tuple[str, str]]:
    """Return the seats that a node knows, by player."""
    return dict(node.world.rooms.index._table._seats)


def check_ledger(ledger: Ledger) -> None:
    """Check that every change that became durable follows on those before."""
    with checker("ledger"):
        for problem in ledger.problems:
            raise problem


class UncheckedStats(StatsBook):
    """Leaves the stats to their histories: nobody tells the ledger what the clients ask for."""

    def take(self, events: Iterable[Event]) -> None:
        """Do nothing."""


# Of every commit.


class CommitChecks:
    """Reads the log of the database as it grows."""

    def __init__(self, database: SimDatabase) -> None:
        self._database = database
        self._read = 0
        self._epochs: dict[int, int] = {}
        self._moves: set[tuple[int, int]] = set()
        self.moves_of_players = 0

    def check(self) -> None:
        """Check what was committed since the last time."""
        new, self._read = self._database.log[self._read :], len(self._database.log)
        for commit in new:
            self._check_writer(commit)
            self._check_epoch(commit)
            self.moves_of_players += isinstance(commit.event, PlayerMoved)

    def _check_writer(self, commit: Commit) -> None:
        with checker("no stale write"):
            name = f"node {commit.node_id} wrote {commit.event}"
            assert not commit.has_ended, f"{name} after its end"
            if not isinstance(commit.event, GameCreated):
                assert commit.owner in {None, commit.node_id}, f"{name} of node {commit.owner}'s"

    def _check_epoch(self, commit: Commit) -> None:
        if commit.shard is None or not commit.epoch:
            return
        with checker("epochs"):
            before = self._epochs.get(commit.shard, 0)
            assert commit.epoch >= before, f"{commit} was written after epoch {before}"
            self._epochs[commit.shard] = commit.epoch
            if isinstance(commit.event, ShardHandedOver):
                move = commit.shard, commit.epoch
                assert move not in self._moves, f"{move} was handed over twice"
                self._moves.add(move)


class DurableHomes:
    """Looks, after every commit, whether everybody who has a seat lives there (I2)."""

    def __init__(self, database: SimDatabase, ledger: Ledger) -> None:
        self._database = database
        self._ledger = ledger
        self._found: list[str] = []

    def take(self, events: Iterable[Event]) -> None:
        """Look at what is durable once these are; the ledger has them already."""
        if not any(isinstance(event, JournalEntry | PlayerMoved) for event in events):
            return
        rows = self._database.rows
        for player_id, (kind, key) in self._ledger.seats():
            player = rows.players.get(player_id)
            game = None if player is None else rows.all_games.get(player.game_id)
            if player is None or game is None or len(game.shards) == 1:
                continue
            lives_in, sits_in = rows.shard_of_player(player), partition_named(game.shards, key)
            if lives_in != sits_in:
                self._found.append(
                    f"player {player_id} lives in {lives_in}, and sits in {kind} {key} of {sits_in}"
                )

    def check(self) -> None:
        """Check that it was so after each."""
        with checker("durable homes"):
            assert not self._found, self._found[0]


# At rest.


def check_seats_are_durable(nodes: Iterable[SimNode], ledger: Ledger) -> None:
    """Check that the nodes know the seats that are durable, and no others."""
    known: dict[int, tuple[str, str]] = {}
    for node in nodes:
        known |= seats_of(node)
    with checker("rest"):
        ledger.check_seats()
        durable = dict(ledger.seats())
        lost = {i: seat for i, seat in durable.items() if known.get(i) != seat}
        assert not lost, f"seats are durable, and not known: {lost}"
        extra = {i: seat for i, seat in known.items() if durable.get(i) != seat}
        assert not extra, f"seats are known, and not durable: {extra}"


class BugWatch(logging.Handler):
    """Collects exceptions that nobody has expected, as nodes log them that are not about to end."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info is not None and is_going_on():
            self.found.append(f"{record.getMessage()}: {record.exc_info[1]!r}")

    def check(self) -> None:
        """Check that there was none."""
        with checker("no bug"):
            assert not self.found, f"{len(self.found)} exceptions, first {self.found[0]}"
