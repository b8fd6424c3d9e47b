"""Connections that move between the processes of a machine, over real sockets."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path

import pytest
import trio

from greenroom.cluster.connection_passing import ConnectionPassing
from greenroom.network.unix_paths import socket_address

SECONDS_MAX = 10.0
NEAR, FAR = 1, 2
QUEUED_MAX = 10_000
"""More than any kernel keeps in the queue of a datagram socket."""

Taken = tuple[socket.socket, str, int]


class End:
    """One node's end, and what has come there."""

    def __init__(self, node_id: int, directory: Path) -> None:
        self.passing = ConnectionPassing(node_id, directory)
        self.send_taken, self.taken = trio.open_memory_channel[Taken](QUEUED_MAX)

    def take(self, connected: socket.socket, peer: str, moves: int) -> None:
        self.send_taken.send_nowait((connected, peer, moves))

    def count(self, outcome: str) -> object:
        [count] = [s.value for s in self.passing.read_samples() if s.labels["outcome"] == outcome]
        return count

    async def run(self, *, task_status: trio.TaskStatus[None]) -> None:
        await self.passing.run(self.take, task_status=task_status)


@asynccontextmanager
async def two_ends(directory: Path) -> AsyncIterator[tuple[End, End]]:
    near, far = End(NEAR, directory), End(FAR, directory)
    with trio.fail_after(SECONDS_MAX):
        async with trio.open_nursery() as nursery:
            await nursery.start(near.run)
            await nursery.start(far.run)
            yield near, far
            nursery.cancel_scope.cancel()


def pair(stack: ExitStack) -> tuple[socket.socket, socket.socket]:
    """Return a client's end of a connection and the server's."""
    client, server = socket.socketpair()
    return stack.enter_context(client), stack.enter_context(server)


def send_raw(path: Path, message: bytes, sockets: list[socket.socket]) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as stranger:
        with socket_address(path) as address:
            numbers = [each.fileno() for each in sockets]
            stranger.connect(address)
            socket.send_fds(stranger, [message], numbers) if numbers else stranger.send(message)


async def test_a_connection_arrives_with_all_that_is_on_the_wire(tmp_path: Path):
    with ExitStack() as stack:
        client, server = pair(stack)
        async with two_ends(tmp_path) as (near, far):
            client.send(b"on the wire")
            assert near.passing.give(server, "192.0.2.7", 1, FAR)
            server.close()
            connected, peer, moves = await far.taken.receive()
            stack.enter_context(connected)
            assert (peer, moves) == ("192.0.2.7", 1)
            assert not connected.getblocking()
            assert connected.recv(100) == b"on the wire"
            connected.send(b"and back")
            assert client.recv(100) == b"and back"
            assert (near.count("given"), far.count("taken")) == (1, 1)


async def test_a_connection_stays_where_nobody_takes_it(tmp_path: Path):
    with ExitStack() as stack:
        client, server = pair(stack)
        async with two_ends(tmp_path) as (near, _):
            assert not near.passing.give(server, "192.0.2.7", 1, 99)
            assert near.count("kept") == 1
        assert not near.passing.give(server, "192.0.2.7", 1, FAR), "it does not run"
        server.send(b"still here")
        assert client.recv(100) == b"still here"


async def test_what_one_end_is_behind_with_stays_at_the_other(tmp_path: Path):
    with ExitStack() as stack:
        _, server = pair(stack)
        async with two_ends(tmp_path) as (near, far):
            given = 0  # the other end has no turn meanwhile
            while given < QUEUED_MAX and near.passing.give(server, "192.0.2.7", 1, FAR):
                given += 1
            assert 0 < given < QUEUED_MAX
            for _ in range(given):
                (await far.taken.receive())[0].close()
            assert near.passing.give(server, "192.0.2.7", 1, FAR), "there is room again"
            (await far.taken.receive())[0].close()


async def test_what_was_given_is_taken_though_the_end_stops(tmp_path: Path):
    with ExitStack() as stack:
        client, server = pair(stack)
        async with two_ends(tmp_path) as (near, far):
            assert near.passing.give(server, "192.0.2.7", 2, FAR)
        server.close()
        connected, _, moves = far.taken.receive_nowait()
        stack.enter_context(connected).send(b"taken")
        assert (moves, client.recv(100)) == (2, b"taken")
        assert not list(tmp_path.iterdir()), "a socket is left over"


async def test_those_that_stay_share_the_connections_of_one_that_stops(tmp_path: Path):
    with ExitStack() as stack:
        async with two_ends(tmp_path) as (near, far):
            leaving = ConnectionPassing(3, tmp_path, lambda: [NEAR, 99, FAR])  # 99 has ended
            _, server = pair(stack)
            for _ in range(6):
                assert leaving.give_any(server, "192.0.2.7")
            for end in (near, far):
                for _ in range(3):
                    connected, peer, moves = await end.taken.receive()
                    connected.close()
                    assert (peer, moves) == ("192.0.2.7", 0)
        assert not leaving.give_any(server, "192.0.2.7"), "all have stopped"
        assert not ConnectionPassing(3, tmp_path).give_any(server, "192.0.2.7"), "none stays"


@pytest.mark.parametrize(
    ("message", "connections"),
    [(b"", 1), (b"\x92\xa1x\x01", 0), (b"\x92\xa1x\x01", 2), (b"\xc1", 1), (b"x" * 600, 1)],
)
async def test_nonsense_is_closed_and_costs_nobody_else_anything(
    tmp_path: Path, message: bytes, connections: int
):
    with ExitStack() as stack:
        async with two_ends(tmp_path) as (near, far):
            pairs = [pair(stack) for _ in range(connections)]
            send_raw(tmp_path / f"{FAR}.conn", message, [server for _, server in pairs])
            client, server = pair(stack)
            assert near.passing.give(server, "192.0.2.7", 1, FAR)
            connected, _, _ = await far.taken.receive()
            stack.enter_context(connected).send(b"good")
            assert client.recv(100) == b"good"
            for stray, own in pairs:
                own.close()
                assert stray.recv(100) == b"", "a stray connection is held"
