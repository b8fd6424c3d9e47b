"""Bounds and time limits of storage, each with its reason."""

from __future__ import annotations

import msgspec

from greenroom.config import DEFAULTS


class StorageSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Times in seconds, sizes in rows and bytes."""

    commit_seconds_max: float = DEFAULTS.commit_seconds_max
    """Seconds that a caller waits for a change to be durable."""
    gate_seconds: float = DEFAULTS.storage_gate_seconds
    """Changes are refused once the database has been away, or silent, for so long."""
    start_seconds_max: float = 15.0
    """How long a start waits for a database that does not answer yet."""
    connect_seconds_max: float = 5.0
    query_seconds_max: float = 10.0
    """Seconds after which an unanswered transaction is cut off, because a lost packet is never
    answered."""
    load_seconds_max: float = 5.0
    """Seconds that a read may wait for a connection, and then for its rows."""
    lease_seconds: float = 3.0
    """How long a node of a cluster may be silent before others take its shards."""
    lock_seconds_max: float = 3.0
    """How long a start waits for the lock of a server that has just been killed."""
    drain_seconds_max: float = 5.0
    """How long a stop may spend on committing what is queued."""
    loader_connections: int = 4
    loader_waiters_max: int = 2_000
    """Reads that may wait for a connection. More are refused, because they would time out
    anyway."""
    transaction_rows_max: int = 1_000
    """Rows of one transaction; 2,000 would delay everybody for 30 ms."""
    transaction_bytes_max: int = 4 << 20
    queue_rows_max: int = 50_000
    """Changes that may wait, some seconds' worth. Beyond it the gate shuts."""
    queue_bytes_max: int = 128 << 20
    background_rows_max: int = 100_000
    """Rows of presence that may wait, one for each player. More are dropped, because newer ones
    follow."""
    background_rows_per_transaction: int = 300
