"""Listening sockets that are given outlive who accepts from them, and siblings stand in."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest
import trio
from http_kit import Echo, Running, exchange, replies

from greenroom.http.server.options import HttpOptions
from greenroom.http.server.server import HttpServer
from greenroom.network.listeners import GivenListeners, Listeners, OwnListeners
from greenroom.network.sockets import bind_tcp, port_of

CLIENTS = 20
SO_LOCK_FILTER = 44
"""Python has no name for it. No filter can be attached to such a socket any more."""
GET = b"GET /api/x HTTP/1.1\r\nHost: a\r\n\r\n"


@pytest.fixture
async def shared() -> AsyncIterator[dict[int, list[socket.socket]]]:
    """Sockets of two workers on one port, as their parent makes and keeps them."""
    first = await bind_tcp("127.0.0.1", 0, shared=True)
    second = await bind_tcp("127.0.0.1", port_of(first), shared=True)
    yield {1: first, 2: second}
    for each in (*first, *second, *copies):
        each.close()
    copies.clear()


copies: list[socket.socket] = []


def as_given(by_worker: dict[int, list[socket.socket]], number: int) -> GivenListeners:
    """Return what a worker's process gets: descriptors of its own of the same sockets."""
    given = {worker: [each.dup() for each in bound] for worker, bound in by_worker.items()}
    copies.extend(each for bound in given.values() for each in bound)
    return GivenListeners(given, number)


def connect(port: int) -> Iterator[socket.socket]:
    """Connect some clients, which the kernel spreads over the port's sockets."""
    for _ in range(CLIENTS):
        client = socket.create_connection(("127.0.0.1", port))
        client.setblocking(False)
        yield client


@asynccontextmanager
async def accepting(listeners: Listeners, greeting: bytes) -> AsyncIterator[None]:
    """Accept, and send each client a greeting."""

    def greet(connection: socket.socket, _: str) -> None:
        with connection:
            connection.send(greeting)

    await listeners.open()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(listeners.accept_forever, greet)
        yield
        nursery.cancel_scope.cancel()
    listeners.close(greet)


async def greeting_of(client: socket.socket) -> bytes:
    with trio.fail_after(10):
        await trio.lowlevel.wait_readable(client)
        return client.recv(10)


async def test_the_kernel_spreads_connections_and_each_worker_takes_its_own(
    shared: dict[int, list[socket.socket]],
):
    async with accepting(as_given(shared, 1), b"1"), accepting(as_given(shared, 2), b"2"):
        clients = list(connect(port_of(shared[1])))
        greetings = {await greeting_of(client) for client in clients}
    assert greetings == {b"1", b"2"}
    for client in clients:
        client.close()


async def test_whoever_waits_when_a_worker_ends_is_served_by_its_successor(
    shared: dict[int, list[socket.socket]],
):
    async with accepting(as_given(shared, 1), b"1"), accepting(as_given(shared, 2), b"2"):
        pass
    clients = list(connect(port_of(shared[1])))  # nobody accepts now
    async with accepting(as_given(shared, 1), b"3"), accepting(as_given(shared, 2), b"4"):
        greetings = {await greeting_of(client) for client in clients}
    assert greetings == {b"3", b"4"}
    for client in clients:
        client.close()


async def test_a_sibling_stands_in_while_a_worker_is_away_and_no_longer(
    shared: dict[int, list[socket.socket]],
):
    stays = as_given(shared, 2)
    async with accepting(stays, b"2"):
        clients = list(connect(port_of(shared[1])))
        stays.serve_also([1, 7])  # 7 has no sockets here
        assert {await greeting_of(client) for client in clients} == {b"2"}
        stays.serve_also([])
        await trio.testing.wait_all_tasks_blocked()
        later = list(connect(port_of(shared[1])))
        async with accepting(as_given(shared, 1), b"1"):
            assert {await greeting_of(client) for client in later} == {b"1", b"2"}
    for client in (*clients, *later):
        client.close()


@pytest.mark.parametrize("may_filter", [True, False])
async def test_at_the_end_of_the_whole_server_the_last_are_taken_and_nobody_else(
    shared: dict[int, list[socket.socket]], may_filter: bool
):
    if not may_filter:  # as some kernels have it for ordinary users
        for bound in (*shared[1], *shared[2]):
            bound.setsockopt(socket.SOL_SOCKET, SO_LOCK_FILTER, 1)
    ends = [as_given(shared, number) for number in (1, 2)]
    clients = list(connect(port_of(shared[1])))
    for each in ends:
        each.is_over = True
        each.close(lambda connection, _: connection.close())
    for client in clients:
        assert await greeting_of(client) == b""  # taken and closed in order, not reset
        client.close()
    with pytest.raises(ConnectionRefusedError):  # though the parent holds the sockets open
        socket.create_connection(("127.0.0.1", port_of(shared[1])))


@pytest.mark.parametrize("server", ["greenroom", "hypercorn"])
async def test_both_servers_serve_from_given_sockets_and_leave_them_open(
    server: str, shared: dict[int, list[socket.socket]]
):
    port = port_of(shared[1])
    options = HttpOptions(port=0, stop_seconds_max=1, server=server)  # type: ignore[arg-type]
    for _ in range(2):
        given = as_given({1: shared[1]}, 1)
        running = Running(HttpServer(options, Echo(), {}, listeners=given))
        shared[2][0].close()
        async with trio.open_nursery() as nursery:
            assert await nursery.start(running.run) == port
            [answer] = replies(await exchange(port, GET))
            assert answer.status == 200
            await running.stop()
    with socket.create_connection(("127.0.0.1", port)):
        pass  # the parent's socket still listens


async def test_own_sockets_have_the_same_port_when_they_are_opened_again():
    own = OwnListeners("127.0.0.1", 0)
    port = await own.open()
    own.close()
    assert await own.open() == port
    own.close()
