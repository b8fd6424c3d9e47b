"""The messages between the parent and its workers. Settings travel here, never in an argument."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from greenroom.config import Settings
from greenroom.control.ready import FirstGame
from greenroom.supervisors.tree import TreeNode


class CrewMessage(msgspec.Struct, frozen=True, tag=True):
    """One message, in one direction."""


class GivenSockets(msgspec.Struct, frozen=True):
    """The descriptors that a worker inherits. Each is non-blocking and listens or is bound."""

    http: dict[int, list[int]]
    """Worker → its HTTP sockets. A worker serves its siblings' while these are away."""
    realtime: dict[int, list[int]]
    udp: list[int]
    """Sockets of this worker alone, because no other has its sessions."""

    def list_descriptors(self) -> list[int]:
        """Return all of them."""
        tcp = (*self.http.values(), *self.realtime.values())
        return [*(each for bound in tcp for each in bound), *self.udp]


# From the parent.


class Begin(CrewMessage, frozen=True):
    """The first message: what to serve, and how."""

    number: int
    """The number of the worker; the first is 1."""
    count: int
    """How many workers there are."""
    name: str
    """The name of its node, in the log and in `greenroom cluster status`."""
    settings: Settings
    sources: dict[str, str]
    import_path: list[str]
    """The parent's `sys.path`, so that behaviours' modules are found as the parent would."""
    sockets: GivenSockets
    last_node_id: int = 0
    """The node of the process before this one, which has ended for certain; 0 if there was none."""

    def __repr__(self) -> str:
        """Show no settings, because a repr may end up in a log."""
        return f"Begin(number={self.number})"


class ServeAlso(CrewMessage, frozen=True):
    """Accept from the sockets of these workers, too; they are away. It replaces the last list."""

    absent: tuple[int, ...]


class NodeEnded(CrewMessage, frozen=True):
    """The process of a sibling has ended for certain: the parent has reaped it."""

    node_id: int


class Drain(CrewMessage, frozen=True):
    """The whole server is about to stop: say so at `/readyz`, and go on."""


class Reload(CrewMessage, frozen=True):
    """Read the TLS certificate again."""


class LeaveCluster(CrewMessage, frozen=True):
    """This machine is about to stop: hand over to other machines, and answer `HandedOver`."""


class StopAll(CrewMessage, frozen=True):
    """All workers stop: hand nothing over."""

    is_final: bool
    """False if they are started again with the same sockets, as after a crash of Postgres."""


class Perform(CrewMessage, frozen=True):
    """A call of the command line; its connection comes with it."""

    line: bytes


class ParentTold(CrewMessage, frozen=True):
    """The part of the metrics that is of the parent itself. It replaces what was told before."""

    tree: TreeNode
    """Without what is below a worker."""
    log_lines: dict[str, int]
    """Lines that the parent has logged, by level."""
    database_fails: bool
    """True if the database fails any worker. It is the same for all, so none is ready then."""


class DrawTree(CrewMessage, frozen=True):
    """Answer with `Drawn`."""


# From a worker.


class Started(CrewMessage, frozen=True):
    """It serves."""

    node_id: int
    """0 where it is the only node that there can be."""
    first_game: FirstGame | None
    """The first game, if this start has made it."""


class NotStarted(CrewMessage, frozen=True):
    """It cannot start, and ends. The sentence says why."""

    sentence: str


class HandedOver(CrewMessage, frozen=True):
    """It has handed over all that other machines would take, and serves on."""


class Leaving(CrewMessage, frozen=True):
    """It has stopped accepting connections, and will end."""


class Alive(CrewMessage, frozen=True):
    """A sign of life from the event loop."""

    database_fails: bool = False
    """True if the database refuses this worker, or does not answer it."""


class TookOver(CrewMessage, frozen=True):
    """It has taken shards over from another node, which can only end."""

    node_id: int


class Drawn(CrewMessage, frozen=True):
    """The worker's supervision tree."""

    tree: TreeNode


FromParent = (
    Begin
    | ServeAlso
    | NodeEnded
    | Drain
    | Reload
    | LeaveCluster
    | StopAll
    | Perform
    | DrawTree
    | ParentTold
)
FromWorker = Started | NotStarted | HandedOver | Leaving | Alive | TookOver | Drawn


def _encode_path(value: object) -> str:
    if isinstance(value, Path):
        return str(value)
    raise NotImplementedError


def _decode_path(kind: type[Any], value: object) -> Any:
    if kind is Path and isinstance(value, str):
        return Path(value)
    raise NotImplementedError


_encoder = msgspec.msgpack.Encoder(enc_hook=_encode_path)
_from_parent = msgspec.msgpack.Decoder(FromParent, dec_hook=_decode_path)
_from_worker = msgspec.msgpack.Decoder(FromWorker)


def encode(message: CrewMessage) -> bytes:
    """Return a message's bytes."""
    return _encoder.encode(message)


def from_parent(data: bytes) -> FromParent:
    """Return a message that the parent has sent.

    Raises:
        msgspec.DecodeError: it is none.
    """
    message: FromParent = _from_parent.decode(data)
    return message


def from_worker(data: bytes) -> FromWorker:
    """Return a message that a worker has sent.

    Raises:
        msgspec.DecodeError: it is none.
    """
    message: FromWorker = _from_worker.decode(data)
    return message
