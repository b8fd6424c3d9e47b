"""Estimate what a number of players needs, from the figures that `scripts/bench` has measured.

Pure: it knows no server, no database and no machine.
"""

from __future__ import annotations

import math
from importlib import resources
from typing import Final

import msgspec

BUSY_MAX: Final = 0.6
"""The share of a core that a server may be busy with at its peak. Beyond it, answers get late."""
SERVER_CORES_MAX: Final = 1
"""One process has one event loop, which uses one core."""
POSTGRES_CORES: Final = 1
POSTGRES_BYTES: Final = 512 << 20
"""128 MiB of shared buffers, its processes, and a cache of the files that it reads again."""
SPARE_MEMORY: Final = 1.5
"""Times what is held: for answers on their way, garbage, and the peak after a restart."""
CHECKPOINT_SECONDS: Final = 300
WAL_BYTES_MIN: Final = 1 << 30
DATABASE_CONNECTIONS: Final = 20
"""More than a server opens, with room for commands, backups and psql."""
DAY_SECONDS: Final = 86_400


class Figure(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One measured number, and the place in bench/RESULTS.md that it is taken from."""

    value: float
    section: str
    """The scenario."""
    quote: str
    """A text of that section with the number in it."""


class Figures(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All figures of `figures.json`."""

    call_cpu_us: Figure
    delivery_cpu_us: Figure
    tick_cpu_us: Figure
    server_mib: Figure
    player_bytes: Figure
    room_bytes: Figure
    connection_kib: Figure
    update_disk_bytes: Figure
    update_wal_bytes: Figure
    account_disk_bytes: Figure


class ExpectedLoad(msgspec.Struct, frozen=True, kw_only=True):
    """A load that is expected at the busiest time."""

    players: int
    """Online at once."""
    registered: int
    calls_per_second: float
    """HTTP calls of one player."""
    updates_per_second: float
    """Changes of all players together that are written, room updates for the most part."""
    room_size: int
    messages_per_second: float
    """Realtime messages that one player sends to the others of their room; 0 without realtime."""
    ticks_per_second: float
    """Ticks of a room whose state is kept in sync; 0 without."""


class Needs(msgspec.Struct, frozen=True, kw_only=True):
    """The needs of a load. A day has 24 hours of it."""

    server_busy: float
    """Share of one core; above `BUSY_MAX` one server is not enough."""
    servers: int
    cores: int
    memory_bytes: int
    database_bytes_a_day: int
    database_bytes_accounts: int
    wal_bytes_a_day: int
    max_wal_size_bytes: int
    http_connections: int
    realtime_connections: int
    open_files: int
    database_connections: int
    players_a_core: int


def figures() -> Figures:
    """Return the figures that come with this version."""
    file = resources.files("greenroom.cli") / "figures.json"
    return msgspec.json.decode(file.read_bytes(), type=Figures)


def estimate(load: ExpectedLoad, measured: Figures, descriptors_beside: int) -> Needs:
    """Return what a load needs.

    Args:
        load: what is expected.
        measured: what things cost.
        descriptors_beside: descriptors that a server needs beside its connections.
    """
    busy = _busy(load, measured)
    servers = max(1, math.ceil(busy / BUSY_MAX))
    has_realtime = load.messages_per_second > 0 or load.ticks_per_second > 0
    realtime = load.players if has_realtime else 0
    wal_a_second = load.updates_per_second * measured.update_wal_bytes.value
    return Needs(
        server_busy=busy,
        servers=servers,
        cores=servers * (SERVER_CORES_MAX + POSTGRES_CORES),
        memory_bytes=_memory_bytes(load, measured, realtime, servers),
        database_bytes_a_day=round(
            load.updates_per_second * measured.update_disk_bytes.value * DAY_SECONDS
        ),
        database_bytes_accounts=round(load.registered * measured.account_disk_bytes.value),
        wal_bytes_a_day=round(wal_a_second * DAY_SECONDS),
        max_wal_size_bytes=max(WAL_BYTES_MIN, round(2 * wal_a_second * CHECKPOINT_SECONDS)),
        http_connections=load.players,
        realtime_connections=realtime,
        open_files=load.players + 2 * realtime + descriptors_beside,
        database_connections=DATABASE_CONNECTIONS * servers,
        players_a_core=math.floor(load.players * BUSY_MAX / busy) if busy else load.players,
    )


def _busy(load: ExpectedLoad, measured: Figures) -> float:
    """Return how many cores the event loops would use."""
    calls = load.players * load.calls_per_second * measured.call_cpu_us.value
    deliveries = load.players * load.messages_per_second * (load.room_size - 1)
    rooms = load.players / load.room_size
    ticks = rooms * load.ticks_per_second * measured.tick_cpu_us.value
    return (calls + deliveries * measured.delivery_cpu_us.value + ticks) / 1e6


def _memory_bytes(load: ExpectedLoad, measured: Figures, realtime: int, servers: int) -> int:
    """Return the memory of the servers and their databases, with some to spare."""
    rooms = math.ceil(load.players / load.room_size)
    held = (
        servers * measured.server_mib.value * (1 << 20)
        + load.players * measured.player_bytes.value
        + rooms * measured.room_bytes.value
        + (load.players + realtime) * measured.connection_kib.value * 1024
    )
    return round(SPARE_MEMORY * held) + servers * POSTGRES_BYTES
