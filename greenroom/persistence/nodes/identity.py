"""How a node is described: to other nodes by its row, to people in sentences."""

from __future__ import annotations

import datetime as dt
import os
import socket
from collections.abc import Sequence

import msgspec

from greenroom import __version__
from greenroom.persistence.driver import Row

PROTOCOL = 1
"""Nodes of different protocols do not understand each other."""
_NAMED_MAX = 8


class NodeIdentity(msgspec.Struct, frozen=True, kw_only=True):
    """A node as it is written for others to read."""

    name: str
    host: str
    pid: int
    version: str = __version__
    protocol: int = PROTOCOL
    addresses: dict[str, str] = {}
    """The addresses that others reach it by, by purpose."""
    behaviours: str = ""
    """A digest of the behaviours' files."""

    @classmethod
    def describe_this_process(
        cls, name: str = "", addresses: dict[str, str] | None = None, behaviours: str = ""
    ) -> NodeIdentity:
        """Return this process as a node, named after its host unless a name is given."""
        host = socket.gethostname()
        return cls(
            name=name or host,
            host=host,
            pid=os.getpid(),
            addresses=addresses or {},
            behaviours=behaviours,
        )


class Installation(msgspec.Struct, frozen=True):
    """The id and the key that all nodes of an installation share."""

    installation_id: str
    key: bytes
    """The secret that they seal messages with."""

    def __repr__(self) -> str:
        """Return the id alone: the key is never logged."""
        return f"Installation({self.installation_id})"


def held_text(holders: Sequence[Row], *, wants_alone: bool) -> str:
    """Return the sentence that says who has the lock of the database.

    Args:
        holders: name, host, process id, start (Unix seconds) and whether it is alone, of each.
        wants_alone: whether the server that asks would run alone.
    """
    if not holders:
        return "The database is held by another process that is just starting; try again"
    listed = " and ".join(
        f"{named(name, host, pid)} since {_date(since)} UTC"
        for name, host, pid, since, _ in holders[:_NAMED_MAX]
    )
    if len(holders) > _NAMED_MAX:
        listed += f" and {len(holders) - _NAMED_MAX} more"
    if any(is_alone for *_, is_alone in holders):
        advice = "only one server may write to it"
        if not wants_alone:
            advice = "it runs alone: restart it as a node of the cluster, or stop it"
    else:
        advice = "they are a cluster: stop them, or start this server as one of its nodes"
    return f"The database is held by {listed}; {advice}"


def named(name: str, host: str, pid: int) -> str:
    """Return a node for people; its name where that is not its host's."""
    return f"host {host}, pid {pid}" if name == host else f"node {name} on host {host}, pid {pid}"


def _date(seconds: int) -> str:
    return f"{dt.datetime.fromtimestamp(seconds, dt.UTC):%Y-%m-%d %H:%M:%S}"
