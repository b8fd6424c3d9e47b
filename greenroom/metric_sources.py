"""The sources of /metrics: each function yields the samples of one part of the server."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from greenroom.actors.world.world import World
from greenroom.http.metrics import Sample
from greenroom.persistence.storage import Storage
from greenroom.supervisors.tree import ACTORS, TreeNode


def tree_samples(tree: TreeNode) -> Iterator[Sample]:
    """Tell of each node of the supervision tree its restarts and what waits in its mailboxes.

    Single actors are left out: each label that ever was stays a time series in Prometheus.
    """
    waiting: list[tuple[str, TreeNode]] = [(tree.name, tree)]
    while waiting:
        path, node = waiting.pop()
        labels = {"node": path}
        yield Sample("greenroom_restarts", "Restarts by node.", node.restarts, labels, "counter")
        yield Sample("greenroom_mailbox_commands", "Commands that wait.", node.mailbox, labels)
        if node.name != ACTORS:
            waiting.extend((f"{path}/{child.name}", child) for child in node.children)


def actor_samples(counts: dict[str, int]) -> Iterator[Sample]:
    """Tell how many actors of each kind are in memory."""
    for kind, count in counts.items():
        yield Sample("greenroom_actors", "Actors in memory, by kind.", count, {"kind": kind})


def statistics_samples(prefix: str, statistics: msgspec.Struct) -> Iterator[Sample]:
    """Tell every number of a part's statistics as `<prefix>_<field>`."""
    for name in statistics.__struct_fields__:
        value = getattr(statistics, name)
        if isinstance(value, int | float):
            yield Sample(f"{prefix}_{name}", f"{name} of {prefix}.".replace("_", " "), value)


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
    """Tell whether the database reads and writes what it is asked for."""
    troubles = storage.loaders.troubles
    about = "1 if changes are accepted and reads are answered, else 0; as /readyz says."
    yield Sample("greenroom_storage_is_ready", about, storage.is_ready)
    about = "Reads that failed, by kind; a read that failed is asked again until it succeeds."
    yield from count_samples(
        "greenroom_storage_reads_failed", about, "kind", troubles.failed_by_kind()
    )
    about = "Writes outside of the committer that the database refused."
    count = troubles.writes_refused
    yield Sample("greenroom_storage_writes_refused", about, count, kind="counter")


def usage_samples(world: World) -> Iterator[Sample]:
    """Tell what is bounded for all games together; by game it is `greenroom owner show` that does.

    The owner who uses most is told without a name: each label that ever was stays a time series.
    """
    ledger, holdings = world.ledger, world.rooms.index.holdings
    players = world.player_index.memory
    ledger.start_day_at(world.clock.now())
    owners, server = ledger.list_owners(), ledger.server
    yield from (
        Sample("greenroom_rooms", "Active rooms and open lobbies.", holdings.rooms),
        Sample("greenroom_rooms_bytes", "What they hold in memory.", holdings.rooms_bytes),
        Sample("greenroom_rooms_bytes_max", "The most that they may.", server.rooms_bytes_max),
        Sample(
            "greenroom_rooms_bytes_of_one_owner",
            "What the rooms and lobbies of the owner who has most hold in memory.",
            max((owner.bytes_held["rooms"] for owner in owners), default=0),
        ),
        Sample("greenroom_players_bytes", "What players hold in memory.", players.size),
        Sample("greenroom_players_bytes_max", "The most that they may.", players.size_max),
        Sample(
            "greenroom_players_bytes_of_one_owner",
            "What the players of the owner who has most hold in memory.",
            max((owner.bytes_held["players"] for owner in owners), default=0),
        ),
        Sample("greenroom_games_bytes", "What documents of games hold.", ledger.games_bytes),
        Sample("greenroom_games_bytes_max", "The most that they may.", server.games_bytes_max),
        Sample(
            "greenroom_games_bytes_of_one_owner",
            "What the documents of the owner's games hold who has most.",
            max((owner.bytes_held["games"] for owner in owners), default=0),
        ),
        Sample("greenroom_written_bytes_today", "Brought by calls.", ledger.written_bytes),
        Sample(
            "greenroom_written_bytes_today_of_one_owner",
            "Brought by calls to games of the owner who has most.",
            max((owner.written_bytes for owner in owners), default=0),
        ),
    )
