"""A server with workers as real processes: who they are, and what becomes of them."""

from __future__ import annotations

import os
import signal
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from child_kit import is_alive
from server_kit import Game, ServerProcess, data_directory
from waiting import block_until

from greenroom.control.admin.cluster_messages import Balance, DrainNode, ListedNode, ShowCluster
from greenroom.control.admin.messages import CreateGame, CreateOwner, ShowTree
from greenroom.control.client import call
from greenroom.control.protocol import socket_path
from greenroom.supervisors.tree import TreeNode

WHOLE_GAMES = {"GREENROOM_PARTITIONS_PER_GAME": "1"}
"""For tests that need a game of which one worker has everything, and the other nothing."""


class Crew(ServerProcess):
    """`greenroom serve --workers N`, and its workers."""

    def __init__(self, data_dir: Path, count: int, *arguments: str, **environment: str) -> None:
        super().__init__(data_dir, "--workers", str(count), *arguments, **environment)
        self.count = count
        self.seen: set[int] = set()
        """Every worker's process that was ever seen."""

    def tree(self) -> TreeNode:
        return call(socket_path(self.data_dir), ShowTree())

    def workers(self) -> list[TreeNode]:
        """Return the workers as the tree shows them, from the first on."""
        [workers] = [node for node in self.tree().children if node.name == "workers"]
        return workers.children

    def pids(self) -> list[int]:
        """Return the processes of the workers that run."""
        found = [
            int(node.state.rpartition("pid ")[2]) for node in self.workers() if "pid" in node.state
        ]
        self.seen |= set(found)
        return found

    def nodes(self) -> list[ListedNode]:
        return call(socket_path(self.data_dir), ShowCluster()).nodes

    def balance(self) -> Balance:
        """Return how the load is shared, as the worker that decides says."""
        shown = block_until(lambda: call(socket_path(self.data_dir), ShowCluster()).balance)
        assert shown is not None
        return shown

    def are_all_up(self) -> bool:
        """Return whether all workers serve, and all shards have owners."""
        if not all(node.state.startswith("running") for node in self.workers()):
            return False
        found = call(socket_path(self.data_dir), ShowCluster())
        serving = [node for node in found.nodes if node.state == "up"]
        return len(serving) == self.count and not found.shards_without_owner

    def wait_all_up(self) -> None:
        block_until(self.are_all_up, explain=self.log.read_text)

    def kill_worker(self, number: int) -> int:
        """Kill a worker as `kill -9` does; return its process."""
        pid = self.pids()[number - 1]
        os.kill(pid, signal.SIGKILL)
        return pid


class Ingress(Crew):
    """Two workers, of which clients reach the one that owns nothing, over HTTP and realtime."""

    def __init__(self, data_dir: Path, *arguments: str, **environment: str) -> None:
        stay = {"GREENROOM_CONNECTIONS_MOVE": "false"}  # or it would be called once a connection
        super().__init__(data_dir, 2, *arguments, **stay, **environment)

    def start(self) -> Ingress:
        """Start, and have the first worker hand everything over."""
        super().start()
        self.pids()
        self.wait_all_up()
        first = self.reached()
        call(socket_path(self.data_dir), DrainNode(node=str(first.node)))
        block_until(lambda: not self.reached().shards, explain=self.log.read_text)
        self.ready["http"] = first.own_http
        return self

    def reached(self) -> ListedNode:
        """Return the node that clients reach: that of the first worker."""
        first, _ = sorted(self.nodes(), key=lambda node: node.name)
        return first

    def tells_ports(self, realtime: int, udp: int) -> bool:
        """Return whether these can be the ports of the other worker; see `ServerProcess`."""
        first = urlsplit(str(self.ready["realtime"])).port, int(self.ready["udp_port"])
        return realtime != first[0] and udp != first[1]


class Sharing(Crew):
    """Two workers, each of which has partitions of every game; clients reach either.

    Every second game has an owner whose plan has limits, so that each worker has shares of them.
    """

    def __init__(self, data_dir: Path, *arguments: str, **environment: str) -> None:
        stay = {"GREENROOM_CONNECTIONS_MOVE": "false"}
        super().__init__(data_dir, 2, *arguments, **stay, **environment)
        self._games = 0

    def new_game(self, name: str = "game") -> Game:
        """Make a game; see `ServerProcess`."""
        self._games += 1
        if self._games % 2:
            return super().new_game(name)
        path, owner = socket_path(self.data_dir), f"limited {self._games}"
        call(path, CreateOwner(owner=owner, plan="pro"))
        keys = call(path, CreateGame(game=name, owner=owner))
        return Game(keys.game_id, keys.api_token, keys.api_private_token)

    def tells_ports(self, realtime: int, udp: int) -> bool:
        """Return whether these can be the ports of one worker; see `ServerProcess`."""
        first = urlsplit(str(self.ready["realtime"])).port, int(self.ready["udp_port"])
        return (realtime == first[0]) == (udp == first[1])


@contextmanager
def crew(data_dir: Path, count: int = 2, *arguments: str, **environment: str) -> Generator[Crew]:
    """Run a server with workers. None of its processes is there afterwards."""
    server = Crew(data_dir, count, *arguments, **environment)
    try:
        server.start()
        server.pids()
        yield server
    finally:
        server.stop()
        block_until(lambda: not any(is_alive(pid) for pid in server.seen))


@contextmanager
def sharing(*arguments: str, **environment: str) -> Iterator[Crew]:
    """A server as of `serving` with two workers that share each game."""
    with data_directory() as directory:
        server = Sharing(directory, *arguments, **environment)
        try:
            server.start()
            server.pids()
            server.wait_all_up()
            yield server
            assert server.stop() == 0, server.log.read_text()
        finally:
            server.kill()
            block_until(lambda: not any(is_alive(pid) for pid in server.seen))


@contextmanager
def ingress(*arguments: str, **environment: str) -> Iterator[Ingress]:
    """A server as of `serving` whose clients reach a worker that owns nothing."""
    with data_directory() as directory:
        server = Ingress(directory, *arguments, **environment)
        try:
            yield server.start()
            assert not server.reached().shards
            assert server.stop() == 0, server.log.read_text()
        finally:
            server.kill()
            block_until(lambda: not any(is_alive(pid) for pid in server.seen))
