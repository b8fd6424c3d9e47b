"""A server with workers as real processes: who they are, and what becomes of them."""

from __future__ import annotations

import os
import signal
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from child_kit import is_alive
from server_kit import ServerProcess
from waiting import block_until

from greenroom.control.admin.cluster_messages import ListedNode, ShowCluster
from greenroom.control.admin.messages import ShowTree
from greenroom.control.client import call
from greenroom.control.protocol import socket_path
from greenroom.supervisors.tree import TreeNode


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
