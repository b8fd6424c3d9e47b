"""How patient storage is, and how much it takes on. Every bound with its reason."""

from __future__ import annotations

import msgspec


class StorageSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Times in seconds, sizes in rows and bytes."""

    commit_seconds_max: float = 10.0
    """How long a caller waits for his change to be durable."""
    gate_seconds: float = 2.0
    """Changes are refused once the database has been away, or silent, for so long."""
    start_seconds_max: float = 15.0
    """How long a start waits for a database that does not answer yet."""
    connect_seconds_max: float = 5.0
    query_seconds_max: float = 10.0
    """A transaction that is not answered by then is cut off; a black hole never answers."""
    load_seconds_max: float = 5.0
    """How long a read may wait for a connection, and then for its rows."""
    lease_seconds_max: float = 3.0
    """How long a start waits for the lock of a server that has just been killed."""
    drain_seconds_max: float = 5.0
    """How long a stop may spend on committing what is queued."""
    loader_connections: int = 4
    loader_waiters_max: int = 2_000
    """Reads that may wait for a connection; more are refused, for they would time out anyway."""
    transaction_rows_max: int = 1_000
    """2,000 rows in one go stall everybody else for 30 ms."""
    transaction_bytes_max: int = 4 << 20
    queue_rows_max: int = 50_000
    """Changes that may wait, some seconds' worth; beyond, the gate is shut."""
    queue_bytes_max: int = 128 << 20
    background_rows_max: int = 100_000
    """Presence that may wait, one row a player; more is forgotten, as it is of the moment."""
    background_rows_per_transaction: int = 300
