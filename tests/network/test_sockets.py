"""Listening sockets: errors in one sentence, and an accept that survives a machine without room."""

from __future__ import annotations

import errno
import logging
import socket
from typing import Any

import pytest
import trio

from greenroom.network.sockets import ListenError, accept_forever, bind_tcp, bind_udp


def closed(sockets: list[socket.socket]) -> list[int]:
    """Close sockets and return their ports."""
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


@pytest.mark.parametrize("bind", [bind_tcp, bind_udp])
async def test_port_0_takes_a_free_one_the_same_for_every_address(bind: Any):
    ports = closed(await bind("localhost", 0))
    assert len(set(ports)) == 1
    assert ports[0] > 0


@pytest.mark.parametrize(("bind", "protocol"), [(bind_tcp, "TCP"), (bind_udp, "UDP")])
async def test_a_taken_port_is_named_with_what_to_do(bind: Any, protocol: str):
    taken = await bind("127.0.0.1", 0)
    port = taken[0].getsockname()[1]
    text = (
        f"cannot listen on {protocol} port {port} of 127.0.0.1: "
        "another program listens there: stop it or choose another port "
        "(--port, --realtime-port, --udp-port)"
    )
    with pytest.raises(ListenError) as caught:
        await bind("127.0.0.1", port)
    assert str(caught.value) == text
    closed(taken)


@pytest.mark.parametrize("host", ["no-such-host.invalid", "a" * 300, "192.0.2.1"])
async def test_a_host_that_is_not_ours_is_named(host: str):
    with pytest.raises(ListenError, match="see the setting host"):
        await bind_tcp(host, 0)


class Exhausted:
    """A listening socket on a machine that has no descriptors left for a while."""

    def __init__(self, real: socket.socket, failures: list[int]) -> None:
        self._real = real
        self._failures = failures

    def fileno(self) -> int:
        return self._real.fileno()

    def accept(self) -> Any:
        if self._failures:
            number = self._failures.pop(0)
            raise OSError(number, "made up")
        return self._real.accept()


async def test_accepting_survives_dead_connections_and_a_machine_without_descriptors(
    caplog: pytest.LogCaptureFixture,
):
    [listener] = await bind_tcp("127.0.0.1", 0)
    accepted: list[socket.socket] = []
    some = trio.Event()

    def take(connection: socket.socket, peer: str) -> None:
        assert peer == "127.0.0.1"
        accepted.append(connection)
        some.set()

    failing: Any = Exhausted(listener, [errno.ECONNABORTED, errno.EMFILE, errno.EMFILE])
    async with trio.open_nursery() as nursery:
        nursery.start_soon(accept_forever, failing, take)
        client = await trio.open_tcp_stream(*listener.getsockname())
        await some.wait()
        nursery.cancel_scope.cancel()
    assert not accepted[0].getblocking()
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    await client.aclose()
    closed([*accepted, listener])
