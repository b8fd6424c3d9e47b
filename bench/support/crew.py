"""A server with workers under measurement: its nodes, and games that live on known ones."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Final

import processes
import psycopg
from psycopg.conninfo import make_conninfo

from greenroom.actors.player import tokens
from greenroom.control.admin.cluster_messages import DrainNode, ListedNode, ShowCluster
from greenroom.control.admin.messages import CreateGame
from greenroom.control.client import call
from greenroom.control.errors import ControlError
from greenroom.control.protocol import socket_path

APART = "apart"
"""The second of two servers, among the processes that the generator watches."""
GAMES_MAX = 256
"""Games that are made until each node has enough of them."""
WHOLE_GAMES: Final = {"partitions_per_game": "1"}
"""So that each game is on one node, and figures stay comparable. `one_game` measures the others."""
SPREAD_GAMES_MAX = 64
"""Games that are made to find one whose partitions are spread evenly."""


def unevenness(partitions: Mapping[int, int], nodes: Collection[int]) -> int:
    """Return how many partitions more the fullest node has than the emptiest; 0 without nodes."""
    counts = [partitions.get(node, 0) for node in nodes]
    return max(counts, default=0) - min(counts, default=0)


@dataclass(frozen=True)
class PlacedGame:
    """A game, and the node that it lives on; 0 if there is one process alone."""

    key: str
    node: int
    url: str = ""
    """The address to call it at, if that is not the one of all."""


class BenchCrew:
    """A server with some workers, or with one process alone."""

    def __init__(self, target: processes.Target, folder: Path, workers: int) -> None:
        self.target = target
        self.workers = workers
        self.folder = folder
        self._socket = socket_path(folder / "data")

    @cached_property
    def _database_url(self) -> str:
        return processes.database_url(self.folder)

    def nodes(self) -> list[ListedNode]:
        """Return the nodes; none if there is one process alone."""
        return call(self._socket, ShowCluster()).nodes if self.workers > 1 else []

    def games(self, count: int) -> list[PlacedGame]:
        """Make games, as many on each node."""
        nodes = [node.node for node in self.nodes()] or [0]
        made: dict[int, list[PlacedGame]] = {node: [] for node in nodes}
        for number in range(GAMES_MAX):
            keys = call(self._socket, CreateGame(game=f"bench {number}", owner="local"))
            node = self._node_of(keys.game_id) if self.workers > 1 else 0
            made[node].append(PlacedGame(keys.api_token, node))
            if all(len(games) * len(nodes) >= count for games in made.values()):
                break
        share = count // len(nodes)
        return [game for number in range(share) for game in (made[n][number] for n in nodes)]

    def spread_game(self) -> PlacedGame:
        """Make a game of which all nodes have as many partitions, or nearly: the best of some."""
        nodes = [node.node for node in self.nodes()]
        made: list[tuple[int, str]] = []
        for number in range(SPREAD_GAMES_MAX):
            keys = call(self._socket, CreateGame(game=f"bench {number}", owner="local"))
            made.append((unevenness(self._partitions_of(keys.game_id), nodes), keys.api_token))
            if not made[-1][0]:
                break
        return PlacedGame(min(made)[1], 0)

    def _node_of(self, game_id: int) -> int:
        """Return the node that has a game, as the database says."""
        with psycopg.connect(self._database_url) as connection:
            row = connection.execute(
                "SELECT s.node_id FROM games g JOIN shards s ON s.shard = g.shards[1]"
                " WHERE g.game_id = %s",
                (game_id,),
            ).fetchone()
        assert row is not None
        return int(row[0])

    def partitions_by_node(self) -> dict[int, int]:
        """Return how many partitions of the first game each node has, as the database says."""
        with psycopg.connect(self._database_url) as connection:
            row = connection.execute("SELECT min(game_id) FROM games").fetchone()
        assert row is not None
        return self._partitions_of(row[0])

    def _partitions_of(self, game_id: int) -> dict[int, int]:
        with psycopg.connect(self._database_url) as connection:
            rows = connection.execute(
                "SELECT s.node_id, count(*) FROM games g JOIN shards s ON s.shard = ANY(g.shards)"
                " WHERE g.game_id = %s GROUP BY 1",
                (game_id,),
            ).fetchall()
        return dict(rows)

    def by_home(self, player_tokens: Sequence[str]) -> list[list[str]]:
        """Return the tokens of players by the nodes on which they live, as the database says."""
        hashes = {tokens.hash_token(token): token for token in player_tokens}
        homes: dict[int, list[str]] = {}
        with psycopg.connect(self._database_url) as connection:
            rows = connection.execute(
                "SELECT coalesce(s.node_id, 0), p.token_hash FROM players p JOIN games g"
                " USING (game_id) JOIN shards s ON s.shard = coalesce(p.shard, g.shards[1])"
                " WHERE p.token_hash = ANY(%s)",
                (list(hashes),),
            )
            for node, token_hash in rows:
                homes.setdefault(node, []).append(hashes[token_hash])
        return list(homes.values())

    def shards_of(self, player_ids: Sequence[int]) -> list[int]:
        """Return the shards where players live, in the order of their ids, as the database says."""
        with psycopg.connect(self._database_url) as connection:
            rows = connection.execute(
                "SELECT p.player_id, coalesce(p.shard, g.shards[1])"
                " FROM players p JOIN games g USING (game_id) WHERE p.player_id = ANY (%s)",
                (list(player_ids),),
            ).fetchall()
        homes: dict[int, int] = dict(rows)
        return [homes[player_id] for player_id in player_ids]

    def game_of_two(self) -> tuple[PlacedGame, ListedNode, ListedNode]:
        """Make a game; return it with the node that has it, and with the other node."""
        game = self.games(2)[0]
        owner, other = sorted(self.nodes(), key=lambda node: node.node != game.node)
        return game, owner, other

    def is_whole(self, *, without: int) -> bool:
        """Return whether all workers serve, none of them with this id, and each shard has one."""
        try:
            found = call(self._socket, ShowCluster())
        except ControlError:  # the worker that was asked is just leaving
            return False
        serving = {node.node for node in found.nodes if node.state == "up" and node.shards}
        is_there = len(serving) == self.workers and without not in serving
        return is_there and not found.shards_without_owner

    def at(self, node: ListedNode, game: PlacedGame) -> processes.Target:
        """Return a node as a target of its own, with all workers watched by their numbers."""
        assert node.own_http is not None
        target = processes.Target(
            node.own_http,
            self.target.pid,
            self.target.postgres_pid,
            game.key,
            has_all_cores=True,
        )
        target.others = {f"node{each.node}": each.pid for each in self.nodes()}
        return target

    def drain(self, node: ListedNode) -> None:
        """Have a node hand over its shards; returns when it has begun."""
        call(self._socket, DrainNode(node=str(node.node)))


@contextmanager
def running(
    workers: int, arguments: Sequence[str] = (), **settings: str
) -> Iterator[tuple[BenchCrew, Path]]:
    """Run a server on a fresh folder, and let the kernel place its processes."""
    with (
        processes.fresh_folder() as folder,
        serving(folder, workers, arguments, **settings) as server,
    ):
        yield server, folder


@contextmanager
def serving(
    folder: Path, workers: int, arguments: Sequence[str] = (), **settings: str
) -> Iterator[BenchCrew]:
    """Run a server on what is in a folder, and let the kernel place its processes."""
    own = processes.SETTINGS | WHOLE_GAMES | settings
    several = ("--workers", str(workers)) if workers > 1 else ()
    with processes.serve(
        folder, "greenroom", *several, *arguments, settings=own, has_all_cores=True
    ) as target:
        yield BenchCrew(target, folder, workers)


class TwoServers(BenchCrew):
    """Two servers that know nothing of each other, called as if they were one."""

    def __init__(self, first: BenchCrew, second: BenchCrew) -> None:
        """Hold both; the first one's target stands for them."""
        super().__init__(first.target, first.folder, 1)
        self._each = (first, second)
        self.target.others[APART] = second.target.pid
        self.target.beside.append(second.target.url)

    def games(self, count: int) -> list[PlacedGame]:
        """Make games, as many on each server."""
        halves = (
            [replace(game, url=each.target.url) for game in each.games(count // 2)]
            for each in self._each
        )
        return [game for pair in zip(*halves, strict=True) for game in pair]


@contextmanager
def running_apart(
    arguments: Sequence[str] = (), **settings: str
) -> Iterator[tuple[TwoServers, Path]]:
    """Run two single servers, each on a database of its own in one Postgres.

    Two workers share a Postgres as these do: one log of changes, one flush to the disk at a time.
    """
    with (
        running(1, arguments, **settings) as (first, folder),
        processes.fresh_folder() as other,
        serving(other, 1, arguments, **settings, database_url=add_database(folder)) as second,
    ):
        yield TwoServers(first, second), folder


def add_database(folder: Path) -> str:
    """Make one more database in the Postgres of a server; return its address."""
    url = processes.database_url(folder)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE DATABASE apart")
    return make_conninfo(url, dbname="apart")
