"""Looks at the nodes that are there before this one joins them, and refuses to join what it cannot.

Two groups of nodes on one database that do not hear each other would take each other for dead, and
take over each other's shards for ever. So a node joins only if it reaches all that came before it:
those have lower ids. Nobody else is harmed by a node that may not join, for until then it owns no
shard and judges nobody.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Collection, Iterable
from typing import Final

import trio

from greenroom.bus.bus import BusError, NobodyThere, OffBus
from greenroom.cluster.messenger import Messenger, UnreadableMessage
from greenroom.cluster.probes import Probe
from greenroom.control.errors import ControlError
from greenroom.network.addresses import names_loopback
from greenroom.persistence.errors import StorageFenced
from greenroom.persistence.nodes.identity import NodeIdentity
from greenroom.persistence.nodes.records import NodeRow

BUS: Final = "bus"
"""The address that tells the kind of a node's bus."""
NATS: Final = "nats"
PARENT: Final = "parent"
"""The address that tells whose worker a node is."""
WORKER: Final = "worker"
"""The address that tells the number of a node among the workers of its machine."""
HOST: Final = "host"
"""The address by which the other machines reach a node."""
CERTIFICATE: Final = "certificate"
"""The digest of the certificate that a node's ports show."""

ASK_SECONDS_MAX: Final = 0.5
"""How long to wait for a neighbour's answer over the bus."""
RETRY_SECONDS: Final = 0.2
SILENT_SECONDS_MAX: Final = 5.0
"""A neighbour that is on its bus and is not on ours for so long is on another one.

If it had died, its lease of 3 seconds would have run out by then.
"""
STARTING_SECONDS_MAX: Final = 20.0
"""How long to wait for neighbours that are starting, or cut off from the bus."""

_logger = logging.getLogger(__name__)


class StrangersThere(ControlError):
    """Nodes that this one cannot talk to serve the same database."""


class Neighbours:
    """A service that ends its start once this node may join; it has nothing to do afterwards."""

    def __init__(
        self,
        node_id: int,
        identity: NodeIdentity,
        read_nodes: Callable[[], Awaitable[Collection[NodeRow]]],
        renew: Callable[[], Awaitable[bool]],
        messenger: Messenger,
    ) -> None:
        """Prepare; nothing is read before `run`.

        Args:
            node_id: this node.
            identity: this node, as others see it.
            read_nodes: returns the rows of all nodes.
            renew: renews this node's lease, which is shorter than this may take; False if the node
                was taken over.
            messenger: the way to them, which is open when this runs.
        """
        self._node_id = node_id
        self._me = identity
        self._read_nodes = read_nodes
        self._renew = renew
        self._messenger = messenger
        self._met: set[int] = set()
        self._silent_since: dict[int, float] = {}
        self._told: set[str] = set()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Look until every neighbour is known to be one; report started, and end.

        Raises:
            StrangersThere: one of them is not; the text says what to do.
            StorageFenced: this node was taken over.
            StorageUnavailable: the database does not answer.

        Cancellation: this node has not joined.
        """
        deadline = trio.current_time() + STARTING_SECONDS_MAX
        while left := await self._look():
            if trio.current_time() >= deadline:
                names = ", ".join(map(_named, left))
                _logger.warning("joining without an answer of %s: see their logs", names)
                break
            await trio.sleep(RETRY_SECONDS)
        task_status.started()

    async def _look(self) -> list[NodeRow]:
        """Look once; return the neighbours that have not answered yet."""
        rows = [
            row
            for row in await self._read_nodes()
            if row.node_id != self._node_id and not row.has_ended and row.has_lock
        ]
        self._silent_since = {
            row.node_id: since
            for row in rows
            if row.is_on_bus and (since := self._silent_since.get(row.node_id)) is not None
        }
        for row in rows:
            self._check(row)
        if self._me.addresses.get(BUS) != NATS:
            return []  # one parent's: they are on this machine's bus
        return [row for row in rows if row.node_id < self._node_id and not await self._is_met(row)]

    async def _is_met(self, row: NodeRow) -> bool:
        """Return whether a neighbour answers over the bus, or need not be waited for.

        Raises:
            StrangersThere: it is on another bus.
            StorageFenced: this node was taken over.
        """
        if row.node_id in self._met or row.lease_seconds < 0:
            return True
        if not await self._renew():
            raise StorageFenced("Another node has taken over from this one, which stops")
        try:
            await self._messenger.ask(row.node_id, Probe(), seconds_max=ASK_SECONDS_MAX)
        except NobodyThere as error:
            if row.is_on_bus and not isinstance(error, OffBus):
                self._note_silent(row)
            return False
        except (BusError, UnreadableMessage):
            self._silent_since.pop(row.node_id, None)  # it may be there
            return False
        self._met.add(row.node_id)
        return True

    def _note_silent(self, row: NodeRow) -> None:
        now = trio.current_time()
        if now - self._silent_since.setdefault(row.node_id, now) >= SILENT_SECONDS_MAX:
            raise StrangersThere(
                f"The database is served by {_named(row)}, which is on another bus: give all "
                "machines the same NATS servers (bus), or this one another database."
            )

    def _check(self, row: NodeRow) -> None:
        """Refuse a neighbour beside which this node cannot run; warn of what is suspicious.

        Raises:
            StrangersThere: it is one.
        """
        mine, theirs = self._me.addresses, row.addresses
        is_sibling = theirs.get(PARENT) == mine.get(PARENT)
        if not is_sibling and mine.get(BUS) != NATS:
            raise StrangersThere(_refusal_without_bus(row))
        if theirs.get(BUS) != mine.get(BUS):
            raise StrangersThere(
                f"The database is served by {_named(row)}, which is on no bus with other machines: "
                "start it with the same bus as this server, or stop it."
            )
        if row.protocol != self._me.protocol:
            raise StrangersThere(
                f"The database is served by {_named(row)} of version {row.version}, which does not "
                f"understand nodes of version {self._me.version}: stop all nodes, and start them "
                "with one version."
            )
        if not is_sibling and row.host != self._me.host:
            _check_host(row, mine.get(HOST, ""))
        for warning in _differences(row, self._me):
            self._warn_once(warning)

    def _warn_once(self, text: str) -> None:
        if text not in self._told:
            self._told.add(text)
            _logger.warning("%s", text)


def _refusal_without_bus(row: NodeRow) -> str:
    """Return the sentence for a server without a bus between machines that finds others."""
    if row.addresses.get(BUS) == NATS:
        return (
            f"The database is served by a cluster of machines, such as {_named(row)}: start this "
            "server with the same bus as they, or use another database."
        )
    return (
        f"The database is served by the workers of another server, such as {_named(row)}: stop "
        "that one, use another database, or start both with the same bus."
    )


def _check_host(row: NodeRow, own: str) -> None:
    """Refuse addresses that lead every machine to itself."""
    for host, whose, where in (
        (own, "this machine", "here"),
        (row.addresses.get(HOST, ""), _named(row), "there"),
    ):
        if names_loopback(f"[{host}]" if ":" in host else host):
            raise StrangersThere(
                f"Other machines would reach {whose} at {host}, which is each machine itself: set "
                f"host or advertise {where}."
            )


def _differences(row: NodeRow, me: NodeIdentity) -> Iterable[str]:
    """Yield warnings about what should be equal on all nodes."""
    if row.behaviours != me.behaviours:
        yield (
            f"{_named(row)} has other behaviours than this node: rooms change theirs when they "
            "move; give all machines the same files and the same setting behaviours"
        )
    if row.addresses.get(CERTIFICATE) != me.addresses.get(CERTIFICATE):
        yield (
            f"{_named(row)} shows another TLS certificate than this node: realtime connections "
            "that reach the wrong one of them are refused; give all machines the same certificate"
        )


def _named(row: NodeRow) -> str:
    return f"node {row.name} on host {row.host} (pid {row.pid})"
