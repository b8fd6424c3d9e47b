"""A flood of TLS handshakes from one address is dealt with one a pass, at both ports."""

from __future__ import annotations

import socket
import ssl
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Any

import pytest
import trio
import trustme
from http_kit import serving
from realtime_kit import open_stage
from waiting import until

HANDSHAKES = 12


class Passes(trio.abc.Instrument):
    """Counts the passes of the scheduler, and those of the costly steps of handshakes."""

    def __init__(self) -> None:
        self.number = 0
        self.steps: list[int] = []

    def after_io_wait(self, timeout: float) -> None:
        self.number += 1

    def has_seen(self, steps: int) -> bool:
        return len(self.steps) >= steps


def make_contexts(passes: Passes) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """A server's, whose handshakes are noted, and one of clients that trust it."""

    class Noted(ssl.SSLContext):
        def wrap_bio(self, incoming: ssl.MemoryBIO, *more: Any, **named: Any) -> ssl.SSLObject:
            made = super().wrap_bio(incoming, *more, **named)
            shake_hands = made.do_handshake

            def do_handshake() -> None:
                if incoming.pending:
                    passes.steps.append(passes.number)
                shake_hands()

            vars(made)["do_handshake"] = do_handshake
            return made

    authority = trustme.CA()
    context = Noted(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(context)
    trusting = ssl.create_default_context()
    authority.configure_trust(trusting)
    return context, trusting


def client_hello(trusting: ssl.SSLContext) -> bytes:
    """Return a client's first record."""
    out = ssl.MemoryBIO()
    hello = trusting.wrap_bio(ssl.MemoryBIO(), out, server_hostname="localhost")
    with pytest.raises(ssl.SSLWantReadError):
        hello.do_handshake()
    return out.read()


@asynccontextmanager
async def http_port(context: ssl.SSLContext) -> AsyncIterator[int]:
    async with serving(tls=lambda: context) as running:
        yield running.port


@asynccontextmanager
async def realtime_port(context: ssl.SSLContext) -> AsyncIterator[int]:
    async with open_stage(tls=lambda: context) as stage:
        yield stage.port.port


@pytest.mark.parametrize("open_port", [http_port, realtime_port])
@pytest.mark.parametrize("cut", [0, 5], ids=["whole", "in two parts"])
async def test_handshakes_of_one_address_take_as_many_passes(
    open_port: Callable[[ssl.SSLContext], AbstractAsyncContextManager[int]], cut: int
) -> None:
    passes = Passes()
    context, trusting = make_contexts(passes)
    hello = client_hello(trusting)
    async with open_port(context) as port, AsyncExitStack() as stack:
        flood = [socket.create_connection(("127.0.0.1", port)) for _ in range(HANDSHAKES)]
        for connected in flood:
            stack.callback(connected.close)
        trio.lowlevel.add_instrument(passes)
        for part in filter(None, [hello[:cut], hello[cut:]]):
            wanted = len(passes.steps) + HANDSHAKES
            for connected in flood:  # without a checkpoint, so that all is there at once
                connected.sendall(part)
            await until(partial(passes.has_seen, wanted))
        trio.lowlevel.remove_instrument(passes)
    assert max(Counter(passes.steps).values()) == 1


async def test_after_the_handshake_the_stream_is_read_as_ever() -> None:
    context, trusting = make_contexts(Passes())
    async with http_port(context) as port:
        plain = await trio.open_tcp_stream("localhost", port)
        stream = trio.SSLStream(plain, trusting, server_hostname="localhost", https_compatible=True)
        async with stream:
            for _ in range(2):
                await stream.send_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
                assert (await stream.receive_some()).startswith(b"HTTP/1.1 ")
