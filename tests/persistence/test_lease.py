"""One writer at a time: a writer that was replaced finds out before it writes."""

from __future__ import annotations

import pytest
from postgres_kit import select

from greenroom.persistence.driver import DatabaseConnection
from greenroom.persistence.errors import StorageFenced, StorageHeld
from greenroom.persistence.lease import Holder, Lease
from greenroom.persistence.settings import StorageSettings

HASTY = StorageSettings(lease_seconds_max=0.2)


@pytest.fixture
def lease(empty_database: str):
    lease = Lease(empty_database, HASTY, Holder("castor", 17))
    yield lease
    lease.close()


@pytest.fixture
def rival(empty_database: str):
    rival = Lease(empty_database, HASTY, Holder("pollux", 18))
    yield rival
    rival.close()


async def test_every_start_raises_the_epoch(lease: Lease):
    for epoch in range(1, 4):
        await lease.open()
        assert lease.epoch == epoch
        lease.close()


async def test_the_holder_is_named_to_the_next(lease: Lease, rival: Lease):
    await lease.open()

    with pytest.raises(StorageHeld, match=r"held by host castor, pid 17 since \d{4}-"):
        await rival.open()

    lease.close()
    await rival.open()
    assert rival.epoch == 2


async def test_the_holder_who_came_before_the_schema_has_no_name(
    connection: DatabaseConnection, lease: Lease
):
    await select(connection, f"SELECT pg_advisory_lock({0x47524E52}, 0)")

    with pytest.raises(StorageHeld, match="another process that is just starting"):
        await lease.open()


async def test_a_lost_session_is_taken_back_under_the_same_epoch(
    lease: Lease, connection: DatabaseConnection
):
    await lease.open()
    await select(
        connection, "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory'"
    )

    assert await lease.reopen() is False
    assert lease.epoch == 1


async def test_an_old_session_that_lingers_is_ended(lease: Lease, connection: DatabaseConnection):
    await lease.open()
    lingering, lease._connection = lease._connection, None  # the server still believes in it

    assert await lease.reopen() is False

    assert lingering is not None
    rows = await select(connection, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'")
    assert rows == [(1,)]
    lingering.close()


async def test_whoever_was_replaced_is_fenced(lease: Lease, rival: Lease):
    await lease.open()
    lease.close()
    await rival.open()

    with pytest.raises(StorageFenced, match="its epoch is 2, ours was 1"):
        await lease.reopen()
    rival.close()
    with pytest.raises(StorageFenced):
        await lease.reopen()


async def test_a_transaction_that_did_commit_is_recognised(
    lease: Lease, connection: DatabaseConnection
):
    await lease.open()
    await connection.script("SELECT advance_shard(0, 1, 1)", seconds_max=10)

    assert await lease.reopen() is True


async def test_a_database_that_has_gone_back_in_time_is_not_written_to(lease: Lease):
    await lease.open()
    lease.sequence = 5

    with pytest.raises(StorageFenced, match="lost changes that were acknowledged"):
        await lease.reopen()
