"""A server with workers under measurement: its nodes, and games that live on known ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import processes
import psycopg

from greenroom.control.admin.cluster_messages import DrainNode, ListedNode, ShowCluster
from greenroom.control.admin.messages import CreateGame
from greenroom.control.client import call
from greenroom.control.errors import ControlError
from greenroom.control.protocol import socket_path

GAMES_MAX = 256
"""Games that are made until each node has enough of them."""


@dataclass(frozen=True)
class PlacedGame:
    """A game, and the node that it lives on; 0 if there is one process alone."""

    key: str
    node: int


class BenchCrew:
    """A server with some workers, or with one process alone."""

    def __init__(self, target: processes.Target, folder: Path, workers: int) -> None:
        self.target = target
        self.workers = workers
        self._socket = socket_path(folder / "data")
        self._database_url = processes.database_url(folder)

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

    def any_game(self) -> PlacedGame:
        """Make a game, wherever it is at home."""
        keys = call(self._socket, CreateGame(game="bench", owner="local"))
        return PlacedGame(keys.api_token, 0)

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
            rows = connection.execute(
                "SELECT s.node_id, count(*) FROM shards s WHERE s.shard = ANY("
                "(SELECT shards FROM games ORDER BY game_id LIMIT 1)::integer[]) GROUP BY 1"
            ).fetchall()
        return dict(rows)

    def shard_of(self, player_id: int) -> int:
        """Return the shard where a player lives, as the database says."""
        with psycopg.connect(self._database_url) as connection:
            row = connection.execute(
                "SELECT coalesce(p.shard, g.shards[1]) FROM players p JOIN games g USING (game_id)"
                " WHERE p.player_id = %s",
                (player_id,),
            ).fetchone()
        assert row is not None
        return int(row[0])

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
    own = processes.SETTINGS | settings
    several = ("--workers", str(workers)) if workers > 1 else ()
    with processes.serve(
        folder, "greenroom", *several, *arguments, settings=own, has_all_cores=True
    ) as target:
        yield BenchCrew(target, folder, workers)
