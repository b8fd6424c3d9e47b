"""One writer at a time: a node that was replaced finds out before it writes."""

from __future__ import annotations

import logging
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from postgres_kit import select

from greenroom.actors.kernel.clock import SharedClock
from greenroom.actors.kernel.shards import SHARDS
from greenroom.persistence.driver import DatabaseConnection, Statement
from greenroom.persistence.errors import StorageError, StorageFenced, StorageHeld
from greenroom.persistence.nodes import records as node_records
from greenroom.persistence.nodes import session as node_session
from greenroom.persistence.nodes.identity import NodeIdentity
from greenroom.persistence.nodes.records import NodeRecords
from greenroom.persistence.nodes.session import NodeSession
from greenroom.persistence.settings import StorageSettings

HASTY = StorageSettings(lock_seconds_max=0.2)
CASTOR = NodeIdentity(name="castor", host="castor", pid=17)
POLLUX = NodeIdentity(name="worker 2", host="pollux", pid=18)


@pytest.fixture
def session(empty_database: str):
    session = NodeSession(empty_database, HASTY, CASTOR)
    yield session
    session.close()


@pytest.fixture
def rival(empty_database: str):
    rival = NodeSession(empty_database, HASTY, POLLUX)
    yield rival
    rival.close()


@pytest.fixture
def members(empty_database: str):
    """Two nodes of a cluster."""
    members = [NodeSession(empty_database, HASTY, who, alone=False) for who in (CASTOR, POLLUX)]
    yield members
    for member in members:
        member.close()


async def test_every_start_is_a_new_node_that_takes_all_shards_under_a_new_epoch(
    session: NodeSession,
):
    epochs: list[int] = []
    for node_id in range(1, 4):
        await session.open()
        assert session.node_id == node_id
        assert session.shards.epochs == dict.fromkeys(range(SHARDS), session.epoch)
        epochs.append(session.epoch)
        session.close()
    assert epochs == sorted(set(epochs))


async def test_the_holder_is_named_to_the_next(session: NodeSession, rival: NodeSession):
    await session.open()

    with pytest.raises(StorageHeld, match=r"held by host castor, pid 17 since \d{4}-") as held:
        await rival.open()
    assert str(held.value).endswith("UTC; only one server may write to it")

    session.close()
    await rival.open()
    assert rival.node_id == 2


async def test_the_holder_who_came_before_the_schema_has_no_name(
    connection: DatabaseConnection, session: NodeSession
):
    await select(connection, f"SELECT pg_advisory_lock({node_session.LOCK_CLASS}, 0)")

    with pytest.raises(StorageHeld, match="another process that is just starting"):
        await session.open()


async def test_whoever_starts_alone_is_told_which_nodes_are_there(
    members: list[NodeSession], session: NodeSession
):
    for member in members:
        await member.open()

    with pytest.raises(StorageHeld) as held:
        await session.open()
    said = str(held.value)
    assert "held by host castor, pid 17 since" in said
    assert "and node worker 2 on host pollux, pid 18 since" in said
    assert said.endswith("they are a cluster: stop them, or start this server as one of its nodes")
    assert "\n" not in said


async def test_a_node_is_not_let_in_beside_a_server_that_is_alone(
    members: list[NodeSession], session: NodeSession
):
    await session.open()

    with pytest.raises(StorageHeld, match="it runs alone: restart it as a node of the cluster"):
        await members[0].open()


async def test_nodes_of_a_cluster_share_the_installation_and_own_nothing_at_first(
    members: list[NodeSession],
):
    first, second = members
    await first.open()
    await second.open()

    assert first.shards.epochs == second.shards.epochs == {}
    assert first.installation == second.installation
    assert len(first.installation.key) == 32
    assert repr(first.installation.key) not in repr(first.installation)


async def test_a_lost_session_is_taken_back_by_the_same_node(
    session: NodeSession, connection: DatabaseConnection
):
    await session.open()
    await select(
        connection, "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory'"
    )

    assert await session.reopen() is False
    assert session.node_id == 1
    assert len(session.shards.epochs) == SHARDS


@pytest.mark.parametrize("alone", [True, False])
async def test_an_old_session_that_lingers_is_ended(
    empty_database: str, connection: DatabaseConnection, alone: bool
):
    session = NodeSession(empty_database, HASTY, CASTOR, alone=alone)
    await session.open()
    lingering, session._connection = session._connection, None  # the server still believes in it

    assert await session.reopen() is False

    assert lingering is not None
    rows = await select(
        connection, "SELECT count(DISTINCT pid) FROM pg_locks WHERE locktype = 'advisory'"
    )
    assert rows == [(1,)]
    lingering.close()
    session.close()


async def test_whoever_was_replaced_is_fenced(session: NodeSession, rival: NodeSession):
    await session.open()
    session.close()
    await rival.open()

    with pytest.raises(StorageFenced, match=r"server \(node worker 2 on host pollux, pid 18\) has"):
        await session.reopen()
    rival.close()
    with pytest.raises(StorageFenced):
        await session.reopen()


async def test_a_transaction_that_did_commit_is_recognised(
    session: NodeSession, connection: DatabaseConnection
):
    await session.open()
    await connection.script("SELECT advance_node(1, 1)", seconds_max=10)

    assert await session.reopen() is True


async def test_a_database_that_has_gone_back_in_time_is_not_written_to(session: NodeSession):
    await session.open()
    session.sequence = 5

    with pytest.raises(StorageFenced, match="lost changes that were acknowledged"):
        await session.reopen()


@pytest.mark.parametrize(
    "loss",
    [
        "DELETE FROM nodes",
        "UPDATE shards SET node_id = NULL WHERE shard = 1000",
        "UPDATE shards SET epoch = epoch - 1 WHERE shard = 0",
    ],
)
async def test_a_database_that_no_longer_knows_what_this_node_owns_is_not_written_to(
    session: NodeSession, connection: DatabaseConnection, loss: str
):
    await session.open()
    await connection.script(loss, seconds_max=10)

    with pytest.raises(StorageFenced, match="lost changes that were acknowledged"):
        await session.reopen()


async def test_a_server_of_the_released_schema_is_fenced(
    session: NodeSession, connection: DatabaseConnection
):
    await session.open()

    for old in ("advance_shard(0, 0, 1)", "hold_shard(0, 0)"):
        with pytest.raises(Exception, match="no longer held"):
            await select(connection, f"SELECT {old}")


@pytest.mark.parametrize(("seconds", "side"), [(-12.0, "behind"), (12.0, "ahead of")])
async def test_a_clock_that_is_wrong_is_warned_about(
    session: NodeSession,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    seconds: float,
    side: str,
):
    right = time.time
    monkeypatch.setattr("greenroom.persistence.nodes.session.time.time", lambda: right() + seconds)
    with caplog.at_level(logging.WARNING):
        await session.open()

    assert f"machine is 12.0 s {side} the database's; set both by NTP" in caplog.text
    assert session.seconds_behind == pytest.approx(-seconds, abs=0.5)
    assert session.read_calendar() == pytest.approx(right(), abs=0.5)


async def test_a_clock_that_is_right_is_not_mentioned(
    session: NodeSession, caplog: pytest.LogCaptureFixture
):
    with caplog.at_level(logging.WARNING):
        await session.open()
    assert caplog.text == ""


@given(
    st.lists(
        st.tuples(st.floats(-9e4, 9e4), st.floats(0, 2), st.floats(0, 2)), min_size=1, max_size=9
    )
)
def test_the_calendar_is_what_the_last_answer_allows_and_moves_no_further(
    answers: list[tuple[float, float, float]],
):
    """How far the database is ahead of what the node knew at first; how long ways there and back
    took."""
    clock = [1_000.0]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(node_session, "boot_seconds", lambda: clock[0])
        session = NodeSession("", HASTY)
        first = session.read_calendar() - clock[0]
        for ahead, there, back in answers:
            before, asked_at = session.read_calendar() - clock[0] - first, clock[0]
            clock[0] += there + back
            session.note_time(asked_at, first + asked_at + there + ahead)
            after = session.read_calendar() - clock[0] - first
            assert ahead - back - 1e-5 <= after <= ahead + there + 1e-5
            needed = max(ahead - back - before, before - ahead - there, 0.0)
            assert abs(after - before) == pytest.approx(needed, abs=1e-5)


async def test_a_clock_that_is_set_while_nodes_run_changes_nothing(
    members: list[NodeSession], empty_database: str, monkeypatch: pytest.MonkeyPatch
):
    right = time.time
    for member in members:
        await member.open()
    clocks = [SharedClock(member, node_session.boot_seconds) for member in members]
    records = NodeRecords(empty_database, HASTY, members[0])
    for wrong in (3_600.0, -86_400.0):
        monkeypatch.setattr(time, "time", lambda: right() + wrong)  # noqa: B023
        for _ in range(2):
            assert [each.time() for each in clocks] == pytest.approx([right()] * 2, abs=0.5)
            assert clocks[0].now() == int(clocks[0].time())
            assert members[0].seconds_behind == pytest.approx(-wrong, abs=0.5)
            await records.look()
    records.close()


async def test_a_database_whose_clock_is_set_is_followed_with_the_next_look(
    members: list[NodeSession], empty_database: str, monkeypatch: pytest.MonkeyPatch
):
    session = members[0]
    await session.open()
    later = node_records._NOW.sql.replace(b"clock_timestamp()", b"clock_timestamp() + '1 hour'")
    monkeypatch.setattr(node_records, "_NOW", Statement(later.decode()))
    records = NodeRecords(empty_database, HASTY, session)
    look = await records.look()
    records.close()
    assert look.now == pytest.approx(time.time() + 3_600, abs=0.5)
    assert session.read_calendar() == pytest.approx(look.now, abs=0.5)


async def test_a_node_whose_clock_is_far_off_is_refused(
    members: list[NodeSession], session: NodeSession, monkeypatch: pytest.MonkeyPatch
):
    right = time.time
    monkeypatch.setattr("greenroom.persistence.nodes.session.time.time", lambda: right() + 31)
    with pytest.raises(StorageError, match=r"31\.0 s ahead of .* may differ by 30 s; set both by"):
        await members[0].open()

    await session.open()  # alone it may
