"""Listening sockets: a clear error where binding fails, and an accept loop that goes on."""

from __future__ import annotations

import ctypes
import errno
import logging
import socket
import struct
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import NoReturn

import trio

_logger = logging.getLogger(__name__)

ACCEPTS_A_TURN_MAX = 64
"""Connections accepted before other tasks run."""
ACCEPTS_LAST_MAX = 4_096
"""Connections accepted before a port is closed. More wait there only if the kernel lets them."""
QUIET_SECONDS = 5
"""Seconds without a sign of the other end after which the kernel asks for one."""
LOST_SECONDS = 15
"""Seconds without an answer to anything sent after which the kernel gives a connection up."""
BACKLOG = 1024
"""Connections that the kernel keeps waiting for a listening socket."""
RETRY_SECONDS = 0.1
"""Seconds to wait when the machine has no descriptors or memory left for a connection."""

_ATTACH_FILTER = 26
"""SO_ATTACH_FILTER, which Python has no name for."""
_RETURN = 0x06
"""The instruction `ret #k` of a packet filter (BPF); it returns how many bytes pass."""

_EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_MISSING = frozenset({errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT})
_REASONS = {
    errno.EADDRINUSE: "another program listens there: stop it or choose another port "
    "(--port, --realtime-port, --udp-port)",
    errno.EACCES: "not allowed: ports below 1024 need CAP_NET_BIND_SERVICE, choose a higher one",
    errno.EADDRNOTAVAIL: "this machine does not have that address: see the setting host",
    errno.EAFNOSUPPORT: "this machine does not speak that kind of address: see the setting host",
}


class ListenError(Exception):
    """A port could not be opened. The text says in one sentence which, why, and what to do."""


async def bind_tcp(
    host: str, port: int, *, backlog: int = BACKLOG, shared: bool = False
) -> list[socket.socket]:
    """Open the listening sockets of one port, one for each address `host` has.

    Args:
        host: a name or an address; `0.0.0.0` and `::` (IPv4 too) mean all.
        port: 0 takes a free one, the same for every address.
        backlog: how many connections the kernel keeps waiting.
        shared: whether others of this user may share the port (`SO_REUSEPORT`). The kernel then
            spreads connections over them.

    Raises:
        ListenError: the port is taken, forbidden, or the host is unknown.
    """
    sockets = await _bind_all(host, port, socket.SOCK_STREAM, shared=shared)
    for listener in sockets:
        listener.listen(backlog)
    return sockets


def port_of(bound: Sequence[socket.socket]) -> int:
    """Return the port of sockets that are all bound to the same one."""
    port: int = bound[0].getsockname()[1]
    return port


async def bind_udp(host: str, port: int) -> list[socket.socket]:
    """Open the UDP sockets of one port; arguments and errors are those of `bind_tcp`."""
    return await _bind_all(host, port, socket.SOCK_DGRAM)


async def check_port(host: str, port: int, kind: socket.SocketKind) -> None:
    """Check that a port can be opened; it stays closed.

    Args:
        host: as for `bind_tcp`.
        port: as for `bind_tcp`.
        kind: `SOCK_STREAM` for TCP, `SOCK_DGRAM` for UDP.

    Raises:
        ListenError: the port is taken, forbidden, or the host is unknown.
    """
    close_all(await _bind_all(host, port, kind))


async def accept_forever(
    listener: socket.socket, take: Callable[[socket.socket, str], None]
) -> NoReturn:
    """Accept connections and hand each to `take` with the peer's address, until cancelled.

    Without descriptors or memory it logs once and tries again. Connections wait in the backlog.

    Args:
        listener: a non-blocking listening socket.
        take: starts to serve the connection. It owns the socket, and must not block or raise.
    """
    exhausted = False
    while True:
        await trio.lowlevel.wait_readable(listener)
        try:
            for _ in range(ACCEPTS_A_TURN_MAX):
                connection, name = listener.accept()
                exhausted = False
                connection.setblocking(False)
                take(connection, _plain(name))
        except (BlockingIOError, InterruptedError):
            continue
        except OSError as error:
            if error.errno not in _EXHAUSTED:
                continue  # that connection died before it was accepted
            if not exhausted:
                _logger.warning("cannot accept connections: %s; trying again", error.strerror)
            exhausted = True
            await trio.sleep(RETRY_SECONDS)


def close_gently(listener: socket.socket, take: Callable[[socket.socket, str], None]) -> None:
    """Close a listening TCP socket; whoever is connected already is taken before.

    Closing it would reset who waits to be accepted, with what they have sent. Nobody can connect in
    between: Linux lets no packet in any more.

    Args:
        listener: a non-blocking listening socket.
        take: as that of `accept_forever`.
    """
    with listener:
        take_the_last(listener, take)


def take_the_last(listener: socket.socket, take: Callable[[socket.socket, str], None]) -> None:
    """Take whoever is connected to a listening TCP socket, and let nobody in any more.

    Args:
        listener: a non-blocking listening socket, which is about to be closed.
        take: as that of `accept_forever`.
    """
    _let_nobody_in(listener)
    with suppress(OSError):  # there are no more, or no descriptors for them
        for _ in range(ACCEPTS_LAST_MAX):
            connection, name = listener.accept()
            connection.setblocking(False)
            take(connection, _plain(name))


def _let_nobody_in(listener: socket.socket) -> None:
    """Make the kernel drop every packet to a listening socket, where it can.

    A client whose first packet is dropped sends it again, and is then refused. Some kernels permit
    a filter to root alone; then a connection may still come before the socket is closed.
    """
    if sys.platform == "linux":
        with suppress(OSError):
            let_nothing_in(listener)


def let_nothing_in(deaf: socket.socket) -> None:
    """Make Linux drop every packet to a socket.

    Raises:
        OSError: it does not permit that.
    """
    drop_all = ctypes.create_string_buffer(struct.pack("HBBI", _RETURN, 0, 0, 0))
    program = struct.pack("HP", 1, ctypes.addressof(drop_all))
    deaf.setsockopt(socket.SOL_SOCKET, _ATTACH_FILTER, program)


def stop_listening(listener: socket.socket) -> None:
    """Refuse clients from now on, though other processes hold the same socket open.

    It cannot be undone: a socket that listens again gets no share of its port. Only Linux can do
    it; elsewhere clients wait until all processes have closed the socket.
    """
    with suppress(OSError):
        listener.shutdown(socket.SHUT_RDWR)


def leave_unpaced(connected: socket.socket) -> None:
    """Send data at once, where the system's congestion control would spread it over time.

    BBR paces by the bandwidth that it has seen. On a quiet connection that is little, so a message
    is held back for tens of milliseconds without need. Reno is there on every Linux. For the few
    packets of a game's client it does what any other would.

    Args:
        connected: a TCP socket; one that is closed already is left as it is.
    """
    congestion = getattr(socket, "TCP_CONGESTION", None)
    if congestion is not None:
        with suppress(OSError):
            if connected.getsockopt(socket.IPPROTO_TCP, congestion, 16).startswith(b"bbr"):
                connected.setsockopt(socket.IPPROTO_TCP, congestion, b"reno")


def notice_loss(connected: socket.socket) -> None:
    """Have the kernel end a connection whose other end cannot be reached any more.

    By itself it sends for a quarter of an hour, and on a quiet connection notices nothing. Linux
    alone can do all of it.

    Args:
        connected: a TCP socket.
    """
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    milliseconds, probes = LOST_SECONDS * 1_000, -(-LOST_SECONDS // QUIET_SECONDS)
    for name, value in (
        ("TCP_KEEPIDLE", QUIET_SECONDS),
        ("TCP_KEEPINTVL", QUIET_SECONDS),
        ("TCP_KEEPCNT", probes),
        ("TCP_USER_TIMEOUT", milliseconds),
    ):
        option = getattr(socket, name, None)
        if option is not None:
            connected.setsockopt(socket.IPPROTO_TCP, option, value)


def _plain(name: object) -> str:
    """Return the address in `accept`'s name of a peer; IPv4 mapped into IPv6 becomes IPv4."""
    address = str(name[0]) if isinstance(name, tuple) and name else "unknown"
    return address.removeprefix("::ffff:").partition("%")[0]


async def _resolve(
    host: str, port: int, kind: socket.SocketKind
) -> list[tuple[socket.AddressFamily, str]]:
    """Return the distinct addresses of a host."""
    try:
        found = await trio.socket.getaddrinfo(host, port, type=kind, flags=socket.AI_PASSIVE)
    except (socket.gaierror, UnicodeError):
        raise ListenError(f"cannot listen on {host}: no such host; see the setting host") from None
    families = (socket.AF_INET, socket.AF_INET6)
    addresses = [(family, str(name[0])) for family, _, _, _, name in found if family in families]
    return list(dict.fromkeys(addresses))


async def _bind_all(
    host: str, port: int, kind: socket.SocketKind, *, shared: bool = False
) -> list[socket.socket]:
    """Bind every address of a host; skip one that this machine lacks if it has another."""
    sockets: list[socket.socket] = []
    missing: OSError | None = None
    for family, address in await _resolve(host, port, kind):
        chosen = sockets[0].getsockname()[1] if sockets else port
        try:
            bound = _bind(family, address, chosen, kind, dual_stack=host == "::", shared=shared)
            sockets.append(bound)
        except OSError as error:
            if error.errno not in _MISSING:
                close_all(sockets)
                _raise_listen_error(error, host, port, kind)
            missing = error
    if not sockets and missing is not None:
        _raise_listen_error(missing, host, port, kind)
    return sockets


def _bind(
    family: socket.AddressFamily,
    address: str,
    port: int,
    kind: socket.SocketKind,
    *,
    dual_stack: bool,
    shared: bool,
) -> socket.socket:
    """Return a non-blocking socket bound to one address."""
    bound = socket.socket(family, kind)
    try:
        bound.setblocking(False)
        if kind == socket.SOCK_STREAM:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if shared:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        if family == socket.AF_INET6:
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, int(not dual_stack))
        bound.bind((address, port))
    except BaseException:
        bound.close()
        raise
    return bound


def close_all(sockets: Sequence[socket.socket]) -> None:
    """Close sockets that are not needed."""
    for each in sockets:
        each.close()


def _raise_listen_error(error: OSError, host: str, port: int, kind: socket.SocketKind) -> NoReturn:
    """Raise a `ListenError` that explains a failed bind."""
    protocol = "TCP" if kind == socket.SOCK_STREAM else "UDP"
    reason = _REASONS.get(error.errno or 0, error.strerror or str(error))
    raise ListenError(f"cannot listen on {protocol} port {port} of {host}: {reason}") from error
