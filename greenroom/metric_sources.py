"""The sources of /metrics: each function yields the samples of one part of the server.

`docs/reference/metrics.md` lists all of them, and a test compares it with what a server tells.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Literal

import msgspec

from greenroom import __version__
from greenroom.actors.world.world import World
from greenroom.control.last_backup import last_backup
from greenroom.histogram import Histogram
from greenroom.http.metrics import Sample
from greenroom.logs import lines_logged
from greenroom.persistence.read_troubles import Failure
from greenroom.persistence.storage import Storage
from greenroom.supervisors.tree import ACTORS, TreeNode
from greenroom.transport.hub import HubStatistics
from greenroom.transport.udp.port import UdpStatistics


class Bounded(msgspec.Struct, frozen=True):
    """Something that is bounded, and what is taken of it."""

    name: str
    """The name of its gauge; the bound's is `<name>_max`."""
    help: str
    value: float
    bound: float
    labels: dict[str, str] = {}


def load_samples(loads: Iterable[Bounded]) -> Iterator[Sample]:
    """Tell of each bounded thing what is taken, and the bound."""
    for load in loads:
        yield Sample(load.name, load.help, load.value, load.labels)
        about = f"The bound of {load.name}."
        yield Sample(f"{load.name}_max", about, load.bound, load.labels)


def tree_samples(tree: TreeNode) -> Iterator[Sample]:
    """Tell of each node of the supervision tree its restarts and what waits in its mailboxes.

    Single actors are left out: each label that ever was stays a time series in Prometheus.
    """
    waiting: list[tuple[str, TreeNode]] = [(tree.name, tree)]
    restarts = "Restarts after a crash, by node of the supervision tree."
    mailbox = "Commands that wait in the mailboxes at and below a node."
    while waiting:
        path, node = waiting.pop()
        labels = {"node": path}
        yield Sample("greenroom_restarts", restarts, node.restarts, labels, "counter")
        yield Sample("greenroom_mailbox_commands", mailbox, node.mailbox, labels)
        if node.name != ACTORS:
            waiting.extend((f"{path}/{child.name}", child) for child in node.children)


def actor_samples(world: World) -> Iterator[Sample]:
    """Tell how many actors of each kind are in memory."""
    counts = {
        "player": len(world.players),
        "game": len(world.games),
        "room": len(world.rooms.directory),
        "lobby": len(world.lobbies.directory),
    }
    for kind, count in counts.items():
        yield Sample("greenroom_actors", "Actors in memory, by kind.", count, {"kind": kind})


def residency_samples(world: World) -> Iterator[Sample]:
    """Tell how many players were found where they do not live."""
    about = "Players whom a bring-up found in memory, or in a seat, where they do not live."
    for where in ("memory", "seat"):
        for outcome in ("mended", "refused"):
            labels, count = {"where": where, "outcome": outcome}, world.misplaced[where, outcome]
            yield Sample("greenroom_misplaced_players", about, count, labels, "counter")


def count_samples(
    name: str,
    about: str,
    label: str,
    counts: Mapping[str, int],
) -> Iterator[Sample]:
    """Tell what was counted, each under its value of a label."""
    for value, count in counts.items():
        yield Sample(name, about, count, {label: value}, "counter")


def storage_samples(storage: Storage) -> Iterator[Sample]:
    """Tell whether the database reads and writes what it is asked for, and how quickly."""
    yield from _commit_samples(storage)
    yield from _database_samples(storage)


def _commit_samples(storage: Storage) -> Iterator[Sample]:
    found, settings = storage.read_statistics(), storage.settings
    yield from load_samples(
        [
            Bounded(
                "greenroom_storage_queued_rows",
                "Changes that wait to become durable.",
                found.queued_rows,
                settings.queue_rows_max,
            ),
            Bounded(
                "greenroom_storage_queued_bytes",
                "Bytes of the changes that wait to become durable.",
                found.queued_bytes,
                settings.queue_bytes_max,
            ),
            Bounded(
                "greenroom_storage_background_rows",
                "Rows of presence that are not written yet; nobody waits for them.",
                found.background_rows,
                settings.background_rows_max,
            ),
        ]
    )
    about = "Changes made durable."
    yield Sample("greenroom_storage_committed_rows", about, found.committed, kind="counter")
    about = "Changes that the database refused because of what is in them."
    yield Sample("greenroom_storage_refused_changes", about, found.refused, kind="counter")
    about = "Transactions committed."
    yield Sample("greenroom_storage_commits", about, found.batches, kind="counter")
    about = "How long a batch of changes took to become durable."
    yield Sample("greenroom_storage_commit_seconds", about, storage.committer.commit_seconds)
    about = "Connections to the database that were made anew for the committer."
    yield Sample("greenroom_storage_reconnects", about, found.reconnects, kind="counter")


def _database_samples(storage: Storage) -> Iterator[Sample]:
    troubles, failures = storage.loaders.troubles, storage.failures
    about = "1 while changes are accepted, else 0."
    yield Sample("greenroom_storage_is_open", about, storage.committer.is_open)
    about = "1 while changes are accepted and reads are answered, else 0; as /readyz says."
    yield Sample("greenroom_storage_is_ready", about, storage.is_ready)
    about = "1 while the database fails for this reason, so that the server is not ready, else 0."
    for kind in (Failure.AWAY, Failure.SLOW, Failure.REFUSED, Failure.FULL):
        yield Sample("greenroom_storage_failing", about, kind in failures, {"kind": kind.value})
    about = "Reads that failed, by kind. What failed is asked again until it succeeds."
    yield from count_samples(
        "greenroom_storage_failed_reads", about, "kind", troubles.count_failed_by_kind()
    )
    about = "Writes outside of the committer that the database refused."
    count = troubles.writes_refused
    yield Sample("greenroom_storage_refused_writes", about, count, kind="counter")
    about = "Reads that wait for a connection to the database."
    waiting, waiting_max = storage.loaders.waiting, storage.settings.loader_waiters_max
    yield from load_samples(
        [Bounded("greenroom_storage_waiting_reads", about, waiting, waiting_max)]
    )


def realtime_samples(statistics: HubStatistics) -> Iterator[Sample]:
    """Tell who is connected over realtime, and what was sent to them."""
    about = "Rooms with members who are connected over realtime, or were."
    yield Sample("greenroom_realtime_rooms", about, statistics.rooms)
    about = "Members who are connected over realtime."
    yield Sample("greenroom_realtime_members", about, statistics.members)
    about = "Realtime messages that were passed on, one for each receiver."
    yield Sample("greenroom_realtime_messages", about, statistics.messages, kind="counter")


_UDP_GAUGES = {
    "sessions": "Sessions of the fast lane.",
    "sessions_up": "Sessions of the fast lane whose client was heard of lately.",
    "rooms_waiting": "Rooms that wait for their turn on the fast lane.",
    "round_trip_seconds": "The mean of the last round trips of all sessions that are up.",
    "packets_lost": "Packets from clients that have not come; late ones are subtracted again.",
}
_UDP_COUNTERS = {
    "packets_received": ("received_packets", "Packets that came over UDP."),
    "bytes_received": ("received_bytes", "Bytes that came over UDP."),
    "packets_sent": ("sent_packets", "Packets sent over UDP."),
    "bytes_sent": ("sent_bytes", "Bytes sent over UDP."),
    "messages_received": ("received_messages", "Messages that came over UDP."),
    "messages_sent": ("sent_messages", "Messages sent over UDP."),
}


def udp_samples(statistics: UdpStatistics) -> Iterator[Sample]:
    """Tell what goes over the fast lane."""
    for field, about in _UDP_GAUGES.items():
        yield Sample(f"greenroom_udp_{field}", about, getattr(statistics, field))
    for field, (name, about) in _UDP_COUNTERS.items():
        value = getattr(statistics, field)
        yield Sample(f"greenroom_udp_{name}", about, value, kind="counter")
    about = "Packets or messages dropped, by reason."
    yield from count_samples("greenroom_udp_dropped", about, "reason", statistics.dropped)


def usage_samples(world: World) -> Iterator[Sample]:
    """Tell what is bounded for all games together; by game it is `greenroom owner show` that does.

    The owner who uses most is told without a name: each label that ever was stays a time series.
    """
    ledger, holdings = world.ledger, world.rooms.index.holdings
    players = world.player_index.memory
    ledger.start_day_at(world.clock.now())
    owners, server = ledger.list_owners(), ledger.server
    online = sum(owner.players_online for owner in owners)
    yield Sample("greenroom_players_online", "Players online, of all games.", online)
    yield Sample("greenroom_rooms", "Active rooms and open lobbies.", holdings.rooms)
    about = "Bytes that rooms and lobbies hold in memory."
    rooms = Bounded("greenroom_rooms_bytes", about, holdings.rooms_bytes, server.rooms_bytes_max)
    about = "Bytes that players hold in memory."
    held = Bounded("greenroom_players_bytes", about, players.size, players.size_max)
    about = "Bytes that the documents of games hold in memory."
    games = Bounded("greenroom_games_bytes", about, ledger.games_bytes, server.games_bytes_max)
    loads: dict[Literal["rooms", "players", "games"], Bounded]
    loads = {"rooms": rooms, "players": held, "games": games}
    for kind, load in loads.items():
        yield from load_samples([load])
        about = f"The part of {load.name} of the owner who holds most."
        most = max((owner.bytes_held[kind] for owner in owners), default=0)
        yield Sample(f"{load.name}_of_one_owner", about, most)
    about = "Bytes that calls have brought since the day (UTC) began."
    yield Sample("greenroom_written_bytes_today", about, ledger.written_bytes)
    about = "The part of greenroom_written_bytes_today of the owner whose games got most."
    most = max((owner.written_bytes for owner in owners), default=0)
    yield Sample("greenroom_written_bytes_today_of_one_owner", about, most)


def studio_samples(hook_failures: Mapping[str, int]) -> Iterator[Sample]:
    """Tell how often hooks of behaviours failed."""
    about = "Hooks of behaviours that failed: they raised, or were interrupted as too slow."
    yield from count_samples("greenroom_hook_failures", about, "kind", hook_failures)


def process_samples(scheduling_delay: Histogram, collections: Histogram) -> Iterator[Sample]:
    """Tell what runs, whether it keeps pace, and how much it had to complain of."""
    labels = {"version": __version__, "python": platform.python_version()}
    yield Sample("greenroom_build_info", "Always 1; the labels say what runs.", 1, labels)
    about = "How late the event loop wakes a task whose time has come; ten looks a second."
    yield Sample("greenroom_scheduling_delay_seconds", about, scheduling_delay)
    about = "How long a collection of Python's garbage held the event loop."
    yield Sample("greenroom_collection_seconds", about, collections)
    yield from _log_samples(dict(lines_logged))


def parent_samples(tree: TreeNode, log_lines: Mapping[str, int]) -> Iterator[Sample]:
    """Tell of the parent of some workers, which serves no page itself."""
    yield from tree_samples(tree)
    yield from _log_samples(log_lines)


def _log_samples(log_lines: Mapping[str, int]) -> Iterator[Sample]:
    about = "Lines logged since the process began, by level."
    yield from count_samples("greenroom_log_lines", about, "level", log_lines)


def disk_samples(data_dir: Path) -> Iterator[Sample]:
    """Tell of the data directory's disk, and of the last backup. Asks the disk."""
    try:
        disk = os.statvfs(data_dir)
    except OSError:
        pass
    else:
        about = "Bytes that are free on the disk of the data directory."
        yield Sample("greenroom_disk_free_bytes", about, disk.f_bavail * disk.f_frsize)
        about = "Bytes that the disk of the data directory has."
        yield Sample("greenroom_disk_size_bytes", about, disk.f_blocks * disk.f_frsize)
    saved_at = last_backup(data_dir)
    if saved_at is not None:
        about = "When `greenroom backup` last saved this data directory's database."
        yield Sample("greenroom_last_backup_timestamp_seconds", about, saved_at)
