"""One connection to one NATS server: opened, signed in and subscribed, then read and watched."""

from __future__ import annotations

import socket
from collections import deque
from typing import Final

import trio

from greenroom import __version__
from greenroom.bus.bus import BusUnusable
from greenroom.bus.envelope import SEAL_BYTES
from greenroom.bus.frames import FRAME_BYTES_MAX
from greenroom.bus.nats_protocol import (
    PING,
    PONG,
    NatsComplaint,
    NatsEvent,
    NatsInfo,
    NatsParser,
    NatsPing,
    NatsPong,
    NatsProtocolError,
    encode_connect,
    encode_publish,
    encode_subscribe,
)
from greenroom.bus.nats_servers import NatsOptions, NatsServer
from greenroom.bus.wire import RECEIVE_BYTES_MAX, BusWire
from greenroom.network.pass_sender import PassSender
from greenroom.network.sockets import leave_unpaced
from greenroom.network.tls_codec import TlsBroken, TlsCodec

PAYLOAD_BYTES_MAX: Final = FRAME_BYTES_MAX + SEAL_BYTES
OPEN_SECONDS_MAX: Final = 2.0
"""How long a server may take until it has everything that is needed from it."""
LOOK_SECONDS: Final = 1.0
"""How often a connection is looked at."""
SILENT_LOOKS_MAX: Final = 3
"""Looks without a byte after which a server is taken for dead; from the first on it is asked.

Looks are counted, not seconds: if this process was stopped, the server is not to blame.
"""


class NatsUnreachable(Exception):
    """A server does not answer, or not now. Another one may, or this one later."""


class NatsConnection:
    """A connection that is ready. Messages may have come with its opening; see `early`.

    Attributes:
        server: the other end.
        info: what it has said last about itself.
        wire: takes what is to be sent.
        early: what came before it was ready.
    """

    def __init__(
        self, server: NatsServer, info: NatsInfo, parser: NatsParser, wire: BusWire
    ) -> None:
        """See `open_connection`."""
        self.server = server
        self.info = info
        self.wire = wire
        self.early: list[NatsEvent] = []
        self._parser = parser
        self._has_heard = True
        self._pongs: deque[trio.Event] = deque()

    @property
    def is_whole(self) -> bool:
        """Return whether nothing that has come is cut off in the middle."""
        return self._parser.is_empty

    async def greet(self, options: NatsOptions, subjects: list[bytes], name: str) -> None:
        """Sign in and subscribe.

        Args:
            options: how to sign in.
            subjects: get the numbers from 1. The first is our own, and ends with `*`.
            name: shown by the server's monitoring.

        Raises:
            BusUnusable: the server refuses.
            NatsUnreachable: it has hung up.
        """
        self.wire.put(encode_connect(_connect_options(self.server, self.info, options, name)))
        for number, subject in enumerate(subjects, 1):
            self.wire.put(encode_subscribe(subject, number))
        # Nobody is subscribed to this. If we may not publish, the server says so now.
        self.wire.put(encode_publish(subjects[0].replace(b"*", b"probe.unheard"), b""))
        ready = self.ping()
        while not ready.is_set():
            for event in await self.receive():
                if isinstance(event, NatsComplaint):
                    raise _refusal(event.text, self.server, options)
                self.early.append(event)

    async def receive(self) -> list[NatsEvent]:
        """Return what has come; a PING is answered here.

        Raises:
            NatsUnreachable: the connection has ended.
        """
        received = await self.wire.receive()
        if not received:
            raise NatsUnreachable(f"the NATS server {self.server} has hung up")
        self._has_heard = True
        try:
            events = self._parser.feed(received)
        except NatsProtocolError as error:
            raise NatsUnreachable(f"what {self.server} sends is not NATS: {error}") from None
        for event in events:
            if isinstance(event, NatsPing):
                self.wire.put(PONG)
            elif isinstance(event, NatsPong) and self._pongs:
                self._pongs.popleft().set()
            elif isinstance(event, NatsInfo):
                self.info = event
        return events

    def ping(self) -> trio.Event:
        """Send a PING; return what is set once the server has taken everything before it."""
        answered = trio.Event()
        self._pongs.append(answered)
        self.wire.put(PING)
        return answered

    async def watch(self) -> None:
        """Look whether the server still answers; return once it does not."""
        silent = 0
        while silent < SILENT_LOOKS_MAX:
            await trio.sleep(LOOK_SECONDS)
            silent = 0 if self._has_heard else silent + 1
            self._has_heard = False
            if silent and not self._pongs:
                self.ping()


async def open_connection(
    server: NatsServer, options: NatsOptions, subjects: list[bytes], name: str, sender: PassSender
) -> NatsConnection:
    """Connect to a server, sign in and subscribe.

    Args:
        server: the server.
        options: how to sign in, and what TLS needs.
        subjects: what to subscribe to; see `NatsConnection.greet`.
        name: shown by the server's monitoring.
        sender: sends for the connection; it must run.

    Raises:
        BusUnusable: the server cannot be used until the operator mends something.
        NatsUnreachable: it does not answer, or not in time.

    Cancellation: nothing stays open.
    """
    late = NatsUnreachable(f"the NATS server {server} does not answer")
    with trio.move_on_after(OPEN_SECONDS_MAX):
        connected = await _connect(server)
        wire: BusWire | None = None
        try:
            parser = NatsParser(PAYLOAD_BYTES_MAX)
            info = await _read_info(connected, parser, server)
            _check(info, server)
            tls = await _secure(connected, info, server, options)
            wire = BusWire(connected, sender, tls)
            connection = NatsConnection(server, info, parser, wire)
            await connection.greet(options, subjects, name)
            return connection
        except BaseException:
            connected.close() if wire is None else wire.close()
            raise
    raise late


async def _connect(server: NatsServer) -> socket.socket:
    """Return a socket that is connected and non-blocking."""
    try:
        stream = await trio.open_tcp_stream(server.host, server.port)
    except OSError as error:
        reason = error.strerror or "no address answers"
        raise NatsUnreachable(f"the NATS server {server} is not there: {reason}") from None
    connected = socket.socket(fileno=stream.socket.detach())
    connected.setblocking(False)
    leave_unpaced(connected)
    return connected


async def _read_info(connected: socket.socket, parser: NatsParser, server: NatsServer) -> NatsInfo:
    """Return the first line, in which a server says who it is."""
    while True:
        try:
            events = parser.feed(await _receive(connected))
        except NatsProtocolError:
            raise NatsUnreachable(f"{server} is no NATS server: see the setting bus") from None
        for event in events:
            if isinstance(event, NatsInfo):
                return event
            if isinstance(event, NatsComplaint):
                raise NatsUnreachable(f"the NATS server {server} refuses: {event.text}")


async def _receive(connected: socket.socket) -> bytes:
    """Return the next bytes, at least one."""
    while True:
        await trio.lowlevel.wait_readable(connected)
        try:
            if received := connected.recv(RECEIVE_BYTES_MAX):
                return received
        except BlockingIOError:
            continue
        except OSError:
            pass
        raise NatsUnreachable("the NATS server has hung up")


def _check(info: NatsInfo, server: NatsServer) -> None:
    """Check that a server can do what is needed.

    Raises:
        BusUnusable: it cannot; the text has the line to write.
    """
    if not info.headers:
        raise BusUnusable(
            f"The NATS server {server} has version {info.version} and no headers: "
            "install version 2.2 or later, and do not switch headers off."
        )
    if info.max_payload < PAYLOAD_BYTES_MAX:
        raise BusUnusable(
            f"The NATS server {server} takes messages of at most {info.max_payload} bytes: "
            "write `max_payload: 2MB` into its configuration and reload it."
        )


async def _secure(
    connected: socket.socket, info: NatsInfo, server: NatsServer, options: NatsOptions
) -> TlsCodec | None:
    """Go over to TLS, if either side wants it.

    Raises:
        BusUnusable: it is wanted or needed, and cannot be had.
    """
    is_wanted = server.wants_tls or options.has_ca
    if not (info.tls_required or info.tls_available):
        if is_wanted:
            raise BusUnusable(
                f"The NATS server {server} does not speak TLS: give it a `tls` block, or leave "
                "tls:// and bus_ca_file out."
            )
        if not server.is_here and not options.plain_allowed:
            raise BusUnusable(
                f"The NATS server {server} is on another machine and does not speak TLS: give it "
                "a `tls` block, or set bus_plain_allowed if nobody else can listen on the way."
            )
        return None
    if not (is_wanted or info.tls_required) and (server.is_here or options.plain_allowed):
        return None
    codec = TlsCodec(options.tls, server.tls_name)
    try:
        await _shake_hands(connected, codec)
    except TlsBroken as error:
        raise BusUnusable(
            f"The NATS server {server} cannot be trusted ({error}): set bus_ca_file to the "
            "authority of its certificate, and use the name that the certificate has."
        ) from None
    return codec


async def _shake_hands(connected: socket.socket, codec: TlsCodec) -> None:
    is_done, out = codec.shake_hands(b"")
    while True:
        rest = memoryview(out)
        while rest:
            try:
                rest = rest[connected.send(rest) :]
            except BlockingIOError:
                await trio.lowlevel.wait_writable(connected)
            except OSError:
                raise NatsUnreachable("the NATS server has hung up") from None
        if is_done:
            return
        is_done, out = codec.shake_hands(await _receive(connected))


def _connect_options(
    server: NatsServer, info: NatsInfo, options: NatsOptions, name: str
) -> dict[str, str | int | bool]:
    """Return what the CONNECT line says."""
    wanted: dict[str, str | int | bool] = {
        "verbose": False,
        "pedantic": False,
        "lang": "python",
        "version": __version__,
        "protocol": 1,
        "name": name,
        "echo": False,
        "headers": True,
        "no_responders": True,
    }
    if options.key is not None and info.nonce:
        wanted |= {"nkey": options.key.public, "sig": options.key.sign(info.nonce)}
    elif server.user is not None and server.password is not None:
        wanted |= {"user": server.user, "pass": server.password}
    elif server.user is not None:
        wanted["auth_token"] = server.user
    return wanted


def _refusal(text: str, server: NatsServer, options: NatsOptions) -> Exception:
    """Return the error for what a server complains of, with advice."""
    known = text.lower()
    if "authorization" in known or "authentication" in known:
        if options.key is not None:
            advice = (
                f"write `{{ nkey: {options.key.public} }}` among the users of its configuration"
            )
        elif server.user is not None:
            advice = (
                "the setting bus must have the user and the password that its configuration has"
            )
        else:
            advice = (
                "write a user and a password into the setting bus "
                "(nats://USER:PASSWORD@HOST:4222), or set "
                "bus_nkey_file"
            )
        return BusUnusable(f"The NATS server {server} does not let us in ({text}): {advice}.")
    if "permissions" in known:
        return BusUnusable(
            f"The NATS server {server} keeps us from a subject ({text}): let the user publish and "
            "subscribe to `greenroom.>`."
        )
    return NatsUnreachable(f"the NATS server {server} refuses: {text}")
