"""The ports of a server with workers: which are whose, and the sockets that the parent keeps."""

from __future__ import annotations

import socket
import sys
from collections.abc import Generator, Iterable
from contextlib import ExitStack, contextmanager
from types import TracebackType
from typing import Final, Self

import msgspec

from greenroom.config import ConfigError, Settings
from greenroom.network.listeners import GivenListeners
from greenroom.network.sockets import bind_tcp, bind_udp, check_port, close_all, port_of
from greenroom.workers.messages import GivenSockets

PORT_MAX: Final = 65_535
OWN_HTTP_HOST: Final = "127.0.0.1"
"""The address at which each worker serves HTTP by itself, so that one can be reached on purpose."""
KERNEL_BALANCES: Final = sys.platform == "linux"
"""True if the kernel spreads connections over sockets that share a port (`SO_REUSEPORT`).

Elsewhere workers share one socket.
"""


class PortPlan(msgspec.Struct, frozen=True):
    """The port numbers; 0 takes a free one."""

    http: int
    realtime: tuple[int, ...]
    """Each worker's own, from the first worker on."""
    shared_realtime: int | None
    """One that all workers accept on, too, behind a proxy that knows one port."""
    udp: tuple[int, ...]


def plan_ports(settings: Settings, count: int) -> PortPlan:
    """Return which ports so many workers need; one alone has those of the settings.

    Each worker has a realtime and a UDP port, which its clients' tokens name. With the setting
    `public_realtime_port` clients know one port alone: all workers accept on `realtime_port`, and
    their own ports come after it.

    Raises:
        ConfigError: two of them are the same, or one is too high.
    """
    is_shared = count > 1 and settings.public_realtime_port is not None
    first = settings.realtime_port + is_shared if settings.realtime_port else 0
    plan = PortPlan(
        http=settings.port,
        realtime=_ports_from("realtime_port", first, count),
        shared_realtime=settings.realtime_port if is_shared else None,
        udp=_ports_from("udp_port", settings.udp_port, count),
    )
    taken = {*plan.realtime, plan.shared_realtime}
    if settings.port and settings.port in taken:
        raise ConfigError(
            f"{count} workers take the realtime ports {settings.realtime_port} to "
            f"{plan.realtime[-1]}, and port is {settings.port}: choose another port or "
            "realtime_port"
        )
    if settings.public_udp_port is not None:
        _ports_from("public_udp_port", settings.public_udp_port, count)
    return plan


def _ports_from(name: str, first: int, count: int) -> tuple[int, ...]:
    if not first:
        return (0,) * count
    if first + count - 1 > PORT_MAX:
        raise ConfigError(
            f"{name} is {first}, and {count} workers need as many ports from there on: the last "
            f"possible is {PORT_MAX}"
        )
    return tuple(range(first, first + count))


class Ports:
    """All sockets, bound. The parent holds them to its end, so that no waiting client is reset."""

    def __init__(self) -> None:
        """Begin with none; `open` binds them."""
        self.http: dict[int, list[socket.socket]] = {}
        self.realtime: dict[int, list[socket.socket]] = {}
        self.udp: dict[int, list[socket.socket]] = {}

    def __enter__(self) -> Self:
        """Close them at the end of a `with` block."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close them."""
        for bound in (self.http, self.realtime, self.udp):
            for each in bound.values():
                close_all(each)

    async def open(self, settings: Settings, count: int) -> None:
        """Bind all ports for so many workers.

        Raises:
            ConfigError: ports collide.
            ListenError: one is taken, forbidden, or the host is unknown.
        """
        plan, host = plan_ports(settings, count), settings.host
        numbers = range(1, count + 1)
        await self._share(self.http, host, plan.http, numbers)
        for number, port in zip(numbers, plan.realtime, strict=True):
            self.realtime[number] = await bind_tcp(host, port)
        if plan.shared_realtime is not None:
            shared: dict[int, list[socket.socket]] = {}
            await self._share(shared, host, plan.shared_realtime, numbers)
            for number in numbers:
                self.realtime[number] = [*self.realtime[number], *shared[number]]
        for number, port in zip(numbers, plan.udp, strict=True):
            self.udp[number] = await bind_udp(host, port)
        for number in numbers:  # last, so that a free port is none of the others
            self.http[number] = [*self.http[number], *await bind_tcp(OWN_HTTP_HOST, 0)]

    async def _share(
        self, bound: dict[int, list[socket.socket]], host: str, port: int, numbers: Iterable[int]
    ) -> None:
        """Bind one port for all workers, a socket each where the kernel spreads connections."""
        await check_port(host, port, socket.SOCK_STREAM)  # sharing it with strangers is no error
        for number in numbers:
            if bound and not KERNEL_BALANCES:
                bound[number] = [one.dup() for one in next(iter(bound.values()))]
            else:
                bound[number] = await bind_tcp(host, port, shared=KERNEL_BALANCES)
                port = port_of(bound[number])

    @property
    def http_port(self) -> int:
        """Return the port of the API."""
        return port_of(self.http[1])

    def choose_realtime_port(self, settings: Settings) -> int:
        """Return the realtime port to announce: the shared one, or the first worker's."""
        shared = settings.public_realtime_port is not None
        return port_of([self.realtime[1][-1 if shared else 0]])

    @property
    def udp_port(self) -> int:
        """Return the UDP port of the first worker."""
        return port_of(self.udp[1])

    def get_given_sockets(self, number: int) -> GivenSockets:
        """Return the descriptors that a worker inherits."""
        return GivenSockets(
            http={each: _descriptors(bound) for each, bound in self.http.items()},
            realtime={each: _descriptors(bound) for each, bound in self.realtime.items()},
            udp=_descriptors(self.udp[number]),
        )


def _descriptors(bound: Iterable[socket.socket]) -> list[int]:
    return [each.fileno() for each in bound]


class WorkerPorts(msgspec.Struct, frozen=True):
    """The sockets that a worker was given, to serve from."""

    http: GivenListeners
    realtime: GivenListeners
    udp: list[socket.socket]

    def serve_also(self, absent: Iterable[int]) -> None:
        """Accept from the sockets of workers that are away, too; see `GivenListeners`."""
        away = tuple(absent)
        self.http.serve_also(away)
        self.realtime.serve_also(away)

    def note_end(self) -> None:
        """Note that the whole server stops: whoever is connected by then is served first."""
        self.http.is_over = self.realtime.is_over = True


@contextmanager
def open_given(given: GivenSockets, number: int) -> Generator[WorkerPorts]:
    """Use inherited descriptors as sockets, which are closed here at the end of a `with` block."""
    with ExitStack() as held:

        def adopt(descriptors: list[int]) -> list[socket.socket]:
            return [held.enter_context(_adopted(each)) for each in descriptors]

        def adopt_all(by_worker: dict[int, list[int]]) -> GivenListeners:
            sockets = {each: adopt(descriptors) for each, descriptors in by_worker.items()}
            return GivenListeners(sockets, number)

        yield WorkerPorts(adopt_all(given.http), adopt_all(given.realtime), adopt(given.udp))


def _adopted(descriptor: int) -> socket.socket:
    adopted = socket.socket(fileno=descriptor)
    adopted.setblocking(False)
    adopted.set_inheritable(False)
    return adopted
