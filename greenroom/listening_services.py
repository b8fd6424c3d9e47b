"""The services that listen: HTTP, realtime and UDP, each on its port."""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable, Iterable, Iterator, Mapping
from hashlib import blake2b
from types import MappingProxyType
from typing import Final

import trio

from greenroom.actors.world.world import RealtimeAddress, World
from greenroom.clustering import Clustering
from greenroom.config import Settings
from greenroom.control.admin.context import AdminContext
from greenroom.http.dispatch import Dispatcher
from greenroom.http.endpoints import ENDPOINTS, TOOLS
from greenroom.http.limits import CallLimits, LimitSettings
from greenroom.http.metrics import Metrics, Sample, Source
from greenroom.http.server.options import HttpOptions
from greenroom.http.server.server import HttpServer
from greenroom.http.site.discovery import discovery_routes
from greenroom.http.site.front import Page
from greenroom.http.site.health import Health
from greenroom.metric_sources import (
    Bounded,
    actor_samples,
    disk_samples,
    load_samples,
    realtime_samples,
    residency_samples,
    storage_samples,
    tree_samples,
    udp_samples,
    usage_samples,
)
from greenroom.network.certificate import Certificate
from greenroom.network.sockets import check_port
from greenroom.network.tls import TlsContext
from greenroom.network.write_shares import Progress, WriteShares
from greenroom.persistence.storage import Storage
from greenroom.supervisors.spec import ChildSpec
from greenroom.supervisors.tree import TreeNode
from greenroom.transport.hub import Hub
from greenroom.transport.listener import RealtimePort
from greenroom.transport.options import RealtimeOptions
from greenroom.transport.udp.port import UdpPort
from greenroom.workers.ports import WorkerPorts

_logger = logging.getLogger(__name__)

Pages = Mapping[str, Page]
NO_PAGES: Final[Pages] = MappingProxyType({})


class ListeningServices:
    """Builds the ports' services. A service that is built anew takes the port of the one before."""

    def __init__(
        self, settings: Settings, given: WorkerPorts | None = None, pages: Pages = NO_PAGES
    ) -> None:
        """Read the certificate. Nothing is opened before the services run.

        Args:
            settings: all settings.
            given: a worker's sockets; without them the ports are opened here.
            pages: what the HTTP port answers besides its own pages, by path.

        Raises:
            TlsError: the certificate cannot be used.
        """
        self._settings = settings
        self._certificate = _certificate(settings)
        self._is_draining = False
        self._realtime: RealtimePort | None = None
        self._given = given
        self._pages = pages
        self._udp = UdpPort(settings.host, settings.udp_port, () if given is None else given.udp)
        self._http: HttpServer | None = None
        self._cluster: Clustering | None = None

    @property
    def http_port(self) -> int:
        """Return the port of the API, once it has been bound."""
        return self._settings.port if self._http is None else self._http.port

    @property
    def realtime_port(self) -> int:
        """Return the port of the control channel, once it has been bound."""
        return self._settings.realtime_port if self._realtime is None else self._realtime.port

    @property
    def udp_port(self) -> int:
        """Return the port of the fast lane, once it has been bound."""
        return self._udp.port

    @property
    def certificate_digest(self) -> str:
        """Return what tells the certificate from another one; empty if there is none."""
        certificate = self._certificate
        return "" if certificate is None else blake2b(certificate.der, digest_size=8).hexdigest()

    async def check_ports(self) -> None:
        """Check that the ports can be opened, the API's first, so that an error names the first.

        Raises:
            ListenError: one is taken, forbidden, or the host is unknown.
        """
        if self._given is not None:
            return
        settings = self._settings
        await check_port(settings.host, settings.port, socket.SOCK_STREAM)
        await check_port(settings.host, settings.realtime_port, socket.SOCK_STREAM)
        await check_port(settings.host, settings.udp_port, socket.SOCK_DGRAM)

    def make_children(
        self,
        world: World,
        storage: Storage,
        hub: Hub,
        tree: Callable[[], TreeNode],
        sources: Iterable[Source],
        *,
        cluster: Clustering | None,
        context: Callable[[], AdminContext],
    ) -> list[ChildSpec]:
        """Return the ports' services for a world, in starting order.

        Args:
            world: what requests read and change.
            storage: the storage whose state readiness and metrics show.
            hub: the hub by which the world's rooms reach their members.
            tree: draws the supervision tree, for the metrics.
            sources: what further services tell the metrics.
            cluster: this node's part in a cluster; None if it is alone.
            context: where operations that come from other nodes act.
        """
        self._cluster = cluster
        limits = self._make_limits(storage)
        metrics = self._make_metrics(world, storage, hub, tree, cluster)
        for source in sources:
            metrics.add_source(source)
        dispatcher = self._make_dispatcher(world, limits, metrics, cluster)
        self._http = self._make_server(storage, limits, metrics, dispatcher, cluster)
        answering: list[ChildSpec] = []
        if cluster is not None:
            answers = cluster.answer_with(dispatcher, metrics, context)
            answering.append(ChildSpec("answering", answers))
        self._realtime = self._make_realtime_server(world, hub, limits, cluster)
        stop_seconds = self._settings.stop_seconds_max + 5.0
        certificate = self._certificate
        watched = [] if certificate is None else [ChildSpec("certificate", certificate)]
        return [
            *answering,
            *watched,
            ChildSpec("realtime", self._realtime),
            ChildSpec("udp", self._udp),
            ChildSpec("http", self._http, shutdown_seconds=stop_seconds),
        ]

    async def drain(self) -> bool:
        """Say that the server is about to stop, and go on serving; return whether it serves.

        `/readyz` says 503, and each answer closes its connection.
        """
        await trio.lowlevel.checkpoint()
        if self._http is None:
            return False
        self._is_draining = True
        self._http.drain()
        return True

    async def hand_over(self) -> None:
        """Hand over nothing: there are no other machines. See `Served`."""
        await trio.lowlevel.checkpoint()

    async def reload(self) -> None:
        """Read again what can be read while the server runs: the certificate."""
        await trio.lowlevel.checkpoint()
        if self._certificate is None:
            _logger.info("nothing to reload: there is no TLS certificate")
        else:
            self._certificate.reload()

    def _sample_certificate(self) -> Iterator[Sample]:
        certificate = self._certificate
        if certificate is not None:
            yield Sample(
                "greenroom_tls_certificate_expiry_timestamp_seconds",
                "Unix time at which the TLS certificate that is in use expires.",
                certificate.validity.ends_at.timestamp(),
            )
            yield Sample(
                "greenroom_tls_certificate_outdated",
                "1 while the certificate's files have changed to something that cannot be used.",
                certificate.is_outdated,
            )

    def _sample_ports(self) -> Iterator[Sample]:
        """Tell how much of what the ports may take is taken."""
        http, realtime, settings = self._http, self._realtime, self._settings
        if http is None or realtime is None:
            return
        name, about = "greenroom_connections", "Connections that are being served, by port."
        bounds = settings.connections_max, settings.realtime_connections_max
        loads = [
            Bounded(name, about, http.connections, bounds[0], {"port": "http"}),
            Bounded(name, about, realtime.connections, bounds[1], {"port": "realtime"}),
        ]
        yield from load_samples(loads)
        name, about = (
            "greenroom_realtime_large_bytes",
            "Bytes of messages that wait for realtime clients, large ones among them.",
        )
        bound = settings.realtime_large_bytes_max
        yield from load_samples([Bounded(name, about, realtime.large_bytes, bound)])

    def make_realtime_address(self) -> RealtimeAddress:
        """Return what clients reach the realtime ports by, once these have been bound."""
        settings = self._settings
        return RealtimeAddress(
            host=settings.public_host,
            port=settings.public_realtime_port or self.realtime_port,
            protocol=settings.public_realtime_protocol
            or ("ws" if self._certificate is None else "wss"),
            udp_port=settings.public_udp_port or self.udp_port,
            machine=settings.advertise if settings.bus is not None else None,
            machines=() if self._cluster is None else self._cluster.list_machines(),
        )

    def _make_limits(self, storage: Storage) -> CallLimits:
        progress = storage.committer.read_progress
        write_shares = WriteShares(self._settings.address_share_max, lambda: Progress(*progress()))
        return CallLimits(limit_settings(self._settings), write_shares=write_shares)

    def _make_realtime_server(
        self, world: World, hub: Hub, limits: CallLimits, cluster: Clustering | None
    ) -> RealtimePort:
        certificate = self._certificate
        tls = None if certificate is None else certificate.get_realtime_context
        return RealtimePort(
            realtime_options(self._settings, self.realtime_port, tls),
            world,
            hub,
            self._udp,
            limits,
            listeners=None if self._given is None else self._given.realtime,
            relay=None if cluster is None else cluster.relay(certificate),
        )

    def _make_metrics(
        self,
        world: World,
        storage: Storage,
        hub: Hub,
        tree: Callable[[], TreeNode],
        cluster: Clustering | None,
    ) -> Metrics:
        settings = self._settings
        siblings = None if cluster is None else cluster.peers
        metrics = Metrics(settings.metrics_token, settings.public_host, siblings)
        if cluster is not None:
            metrics.add_source(cluster.read_samples)
        metrics.add_source(lambda: tree_samples(tree()))
        metrics.add_source(lambda: actor_samples(world))
        metrics.add_source(lambda: residency_samples(world))
        metrics.add_source(lambda: storage_samples(storage))
        metrics.add_source(lambda: realtime_samples(hub.read_statistics()))
        metrics.add_source(lambda: udp_samples(self._udp.read_statistics()))
        metrics.add_source(self._sample_ports)
        metrics.add_source(self._sample_certificate)
        metrics.add_source(lambda: usage_samples(world))
        metrics.add_source(lambda: disk_samples(settings.data_dir), in_thread=True)
        return metrics

    def _make_dispatcher(
        self,
        world: World,
        limits: CallLimits,
        metrics: Metrics,
        cluster: Clustering | None,
    ) -> Dispatcher:
        return Dispatcher(
            world,
            (*ENDPOINTS, *TOOLS),
            limits=limits,
            metrics=metrics,
            requests_in_flight_max=self._settings.requests_in_flight_max,
            address_share_max=self._settings.address_share_max,
            elsewhere=None if cluster is None else cluster.forwarding,
        )

    def _make_server(
        self,
        storage: Storage,
        limits: CallLimits,
        metrics: Metrics,
        dispatcher: Dispatcher,
        cluster: Clustering | None,
    ) -> HttpServer:
        settings = self._settings

        def is_ready() -> bool:
            is_member = cluster is None or cluster.is_ready
            return storage.is_ready and is_member and not self._is_draining

        health = Health(is_ready)
        discovery = {
            **self._pages,
            **discovery_routes(ENDPOINTS, TOOLS, dispatcher, limits.large_work),
            "/healthz": health.answer_live,
            "/readyz": health.answer_ready,
            "/metrics": metrics.answer,
        }
        options = http_options(settings, self.http_port)
        tls = None if self._certificate is None else self._certificate.get_http_context
        return HttpServer(
            options,
            dispatcher,
            discovery,
            limits,
            dispatcher.in_flight,
            tls=tls,
            listeners=None if self._given is None else self._given.http,
            others=cluster.passing if cluster is not None and settings.connections_move else None,
            begin=None if cluster is None else dispatcher.begin,
        )


def _certificate(settings: Settings) -> Certificate | None:
    """Read the certificate, if there is one.

    Raises:
        TlsError: it cannot be used.
    """
    files = settings.tls_certificate_file, settings.tls_key_file
    return None if files[0] is None or files[1] is None else Certificate(files[0], files[1])


def limit_settings(settings: Settings) -> LimitSettings:
    """Return the settings that the limits need."""
    names = LimitSettings.__struct_fields__
    return LimitSettings(**{name: getattr(settings, name) for name in names})


def http_options(settings: Settings, port: int) -> HttpOptions:
    """Return the settings that the HTTP server needs."""
    return HttpOptions(
        host=settings.host,
        port=port,
        server=settings.server,
        trusted_proxies=tuple(settings.trusted_proxies),
        http2_clear_from=tuple(settings.http2_clear_from),
        body_bytes_max=settings.body_bytes_max,
        unvouched_bytes_max=settings.unvouched_bytes_max,
        bodies_bytes_max=settings.bodies_bytes_max,
        answers_bytes_max=settings.answers_bytes_max,
        address_share_max=settings.address_share_max,
        header_bytes_max=settings.header_bytes_max,
        request_seconds_max=settings.request_seconds_max,
        idle_seconds_max=settings.idle_seconds_max,
        connections_max=settings.connections_max,
        connections_per_address_max=settings.connections_per_address_max,
        stop_seconds_max=settings.stop_seconds_max,
    )


def realtime_options(settings: Settings, port: int, tls: TlsContext | None) -> RealtimeOptions:
    """Return the settings that the realtime port needs."""
    return RealtimeOptions(
        host=settings.host,
        port=port,
        tls=tls,
        trusted_proxies=tuple(settings.trusted_proxies),
        connections_max=settings.realtime_connections_max,
        message_bytes_max=settings.realtime_message_bytes_max,
        messages_per_second=settings.realtime_messages_per_second * settings.rate_limit_factor,
        room_messages_per_second=(
            settings.realtime_room_messages_per_second * settings.rate_limit_factor
        ),
        bytes_per_message=settings.realtime_bytes_per_message,
        outbox_bytes_max=settings.realtime_outbox_bytes_max,
        large_bytes_max=settings.realtime_large_bytes_max,
        address_share_max=settings.address_share_max,
        inactive_seconds_max=settings.realtime_inactive_seconds_max,
        udp_keys_over_plain_ws=settings.udp_keys_over_plain_ws,
    )
