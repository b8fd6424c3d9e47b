"""Nodes of a cluster: shards are taken, taken over and handed over, and have one writer each."""

from __future__ import annotations

from contextlib import closing

import psycopg
import pytest
import trio
from postgres_kit import FakeWriter, registered, select
from waiting import until

from greenroom.actors.game.messages import GameCreated
from greenroom.actors.kernel.errors import CommitUnsettled, Moved, StorageUnavailable
from greenroom.actors.kernel.journal import JournalEntry, Snapshot
from greenroom.actors.kernel.shards import SHARDS
from greenroom.actors.player.messages import PlayerPresenceSaved, PlayerRenamed
from greenroom.persistence.driver import DatabaseConnection
from greenroom.persistence.errors import QueryFailed, StorageFenced
from greenroom.persistence.nodes.identity import NodeIdentity
from greenroom.persistence.settings import StorageSettings
from greenroom.persistence.storage import Storage

CASTOR = NodeIdentity(name="castor", host="castor", pid=17, addresses={"http": "10.0.0.1:80"})
POLLUX = NodeIdentity(name="pollux", host="pollux", pid=18)


class Running:
    """A node that runs until it is stopped, or until the fence stops it."""

    def __init__(self, conninfo: str, settings: StorageSettings, who: NodeIdentity) -> None:
        self.storage = Storage(conninfo, settings, who, alone=False)
        self.scope = trio.CancelScope()
        self.fenced: StorageFenced | None = None
        self.ended = trio.Event()

    async def run(self, *, task_status: trio.TaskStatus[None]) -> None:
        with self.scope:
            try:
                await self.storage.run(task_status=task_status)
            except StorageFenced as error:
                self.fenced = error
        self.ended.set()

    @property
    def id(self) -> int:
        return self.storage.session.node_id

    async def take_free(self, *shards: int) -> None:
        self.storage.session.gain(await self.storage.nodes.take_free(shards))

    async def take_over(self, dead: Running, *shards: int, proven: bool = True) -> dict[int, int]:
        taken = await self.storage.nodes.take_over(dead.id, shards, proven=proven)
        self.storage.session.gain(taken)
        return taken

    async def write(self, key: str, sequence: int, shard: int) -> None:
        writer = FakeWriter(f"room/{key}")
        batch = self.storage.committer.submit(writer, [entry(key, sequence, shard)])
        await batch.wait(writer, 10)


def entry(key: str, sequence: int, shard: int) -> JournalEntry:
    return JournalEntry("room", key, sequence, 1, b"%d" % sequence, 1_700_000_000, shard)


def snapshot(key: str, version: int, shard: int) -> Snapshot:
    return Snapshot(
        kind="room", key=key, version=version, kept_from=1, format=1, payload=b"s", shard=shard
    )


@pytest.fixture
async def castor(empty_database: str, settings: StorageSettings, nursery: trio.Nursery) -> Running:
    castor = Running(empty_database, settings, CASTOR)
    await nursery.start(castor.run)
    return castor


@pytest.fixture
async def pollux(
    castor: Running, empty_database: str, settings: StorageSettings, nursery: trio.Nursery
) -> Running:
    pollux = Running(empty_database, settings, POLLUX)
    await nursery.start(pollux.run)
    return pollux


async def journal(connection: DatabaseConnection) -> list[tuple[object, ...]]:
    """Key, sequence, shard and epoch of every entry."""
    return await select(
        connection,
        "SELECT key, sequence, shard::bigint, epoch FROM journal ORDER BY key, sequence",
    )


async def test_a_look_shows_who_is_there_and_whose_the_shards_are(castor: Running, pollux: Running):
    first = await castor.storage.nodes.look()
    assert [row.node_id for row in first.nodes] == [castor.id, pollux.id]
    (ours, theirs) = first.nodes
    assert (ours.name, ours.pid, ours.addresses) == ("castor", 17, {"http": "10.0.0.1:80"})
    assert (theirs.has_lock, theirs.has_ended, theirs.is_alone) == (True, False, False)
    assert 0 < theirs.lease_seconds <= 3
    assert first.owners.keys() == set(range(SHARDS))
    assert {owner.node_id for owner in first.owners.values()} == {None}

    assert (await castor.storage.nodes.look()).owners == {}
    await pollux.take_free(3, 1000)
    second = await castor.storage.nodes.look()
    assert {shard: owner.node_id for shard, owner in second.owners.items()} == {
        3: pollux.id,
        1000: pollux.id,
    }
    assert second.owners[3].epoch == pollux.storage.session.shards.epochs[3]
    assert second.now == pytest.approx(first.now, abs=60)


async def test_what_a_node_tells_of_itself_others_see(castor: Running, pollux: Running):
    nodes = castor.storage.nodes
    await nodes.describe(state="up", load=0.25)
    await nodes.describe(is_on_bus=True, addresses={"bus": "x"})

    row = (await pollux.storage.nodes.look()).nodes[0]
    assert (row.state, row.load, row.is_on_bus, row.addresses) == ("up", 0.25, True, {"bus": "x"})


async def test_shards_that_nobody_owns_are_taken_once(castor: Running, pollux: Running):
    assert (await castor.storage.nodes.take_free(range(10))).keys() == set(range(10))
    assert (await pollux.storage.nodes.take_free(range(5, 15))).keys() == set(range(10, 15))


async def test_entries_carry_their_shard_and_the_epoch_of_its_owner(
    castor: Running, pollux: Running, connection: DatabaseConnection
):
    await castor.take_free(1)
    await pollux.take_free(2)
    await castor.write("a", 1, 1)
    await pollux.write("b", 1, 2)

    first = castor.storage.session.shards.epochs[1]
    second = pollux.storage.session.shards.epochs[2]
    assert first != second
    assert await journal(connection) == [("a", 1, 1, first), ("b", 1, 2, second)]


async def test_what_a_shard_holds_is_loaded_alone(castor: Running):
    await castor.take_free(1, 2)
    store = castor.storage.journal
    for key, shard in (("a", 1), ("b", 2), ("c", 1)):
        await castor.write(key, 1, shard)
        await castor.write(key, 2, shard)
    assert await store.save([snapshot("a", 1, 1), snapshot("b", 2, 2)]) == set()

    assert await store.list_keys("room", [1]) == ["a", "c"]
    found = await store.load("room", ["a", "c"], page=1)
    assert found.keys() == {"a", "c"}
    assert found["a"].snapshot == snapshot("a", 1, 1)
    assert [e.sequence for e in found["a"].entries] == [1, 2]  # it keeps the first
    assert found["c"].snapshot is None
    assert [e.sequence for e in found["c"].entries] == [1, 2]
    assert {r.shard for r in found.values()} == {1}
    assert found["c"].entries[0] == entry("c", 1, 1)

    everything = await store.load("room", await store.list_keys("room"))
    assert {key: recovered.shard for key, recovered in everything.items()} == {
        "a": 1,
        "b": 2,
        "c": 1,
    }
    assert await store.list_keys("lobby", [1, 2]) == []
    assert await store.recover("room", "c") == found["c"]
    assert await store.recover("room", "nobody") is None


async def test_what_is_not_this_nodes_is_thrown_back_unwritten(
    castor: Running, connection: DatabaseConnection
):
    await castor.take_free(1)
    with pytest.raises(Moved):
        await castor.write("a", 1, 2)
    assert await castor.storage.journal.save([snapshot("a", 1, 2)]) == {("room", "a")}

    await castor.write("a", 1, 1)
    assert [row[2] for row in await journal(connection)] == [1]


async def test_a_shard_is_handed_over_behind_all_that_was_written(
    castor: Running, pollux: Running, connection: DatabaseConnection
):
    await castor.take_free(1, 2)
    old = castor.storage.session.shards.epochs[1]
    (new,) = await castor.storage.nodes.draw_epochs(1)
    committer, writer = castor.storage.committer, FakeWriter("room/a")
    before = [committer.submit(writer, [entry("a", n, 1)]) for n in range(1, 4)]
    settled = committer.hand_over(1, new, pollux.id)
    with pytest.raises(Moved):
        committer.submit(writer, [entry("a", 4, 1)])
    other = committer.submit(writer, [entry("b", 1, 2)])  # the other shard goes on

    await settled(10)
    for batch in (*before, other):
        await batch.wait(writer, 10)
    look = await pollux.storage.nodes.look()
    assert look.owners[1] == (pollux.id, new)
    pollux.storage.session.gain({1: new})
    await pollux.write("a", 4, 1)
    epochs = [epoch for key, _, _, epoch in await journal(connection) if key == "a"]
    assert epochs == [old, old, old, new]
    assert await castor.storage.journal.save([snapshot("a", 3, 1)]) == {("room", "a")}
    assert await pollux.storage.journal.save([snapshot("a", 4, 1)]) == set()


async def test_presence_that_was_set_aside_is_written_before_the_shard_is_another_nodes(
    castor: Running, pollux: Running, connection: DatabaseConnection
):
    await castor.take_free(1, 2)
    await castor.storage.accounts.create_owner("local", "unlimited")
    game = GameCreated(1, 1, "First", b"api", b"admin", b"0123456789abcdef", 1, (1,))
    here, there = FakeWriter("player/1", 1), FakeWriter("player/2", 2)
    committer = castor.storage.committer
    await committer.submit(here, [game, registered(1), registered(2)]).wait(here, 10)
    (epoch,) = await castor.storage.nodes.draw_epochs(1)

    committer.submit(here, [PlayerPresenceSaved(1, False, 5)])
    committer.submit(there, [PlayerPresenceSaved(2, False, 5)])
    queued = committer.read_statistics()
    settled = committer.hand_over(1, epoch, pollux.id)
    assert (queued.background_rows, committer.read_statistics().background_rows) == (2, 1)
    for event in (PlayerPresenceSaved(1, True, 6), PlayerRenamed(1, "Late", 6)):
        with pytest.raises(Moved):
            committer.submit(here, [event])
    await settled(10)

    rows = await select(
        connection, "SELECT is_online, player_name FROM players WHERE player_id = 1"
    )
    assert rows == [(False, "Player 1")]


async def test_a_shard_that_was_given_away_cannot_be_given_away_again(
    castor: Running, pollux: Running, connection: DatabaseConnection
):
    await castor.take_free(1)
    first, second = await castor.storage.nodes.draw_epochs(2)
    await castor.storage.committer.hand_over(1, first, pollux.id)(10)
    with pytest.raises(Moved, match="only its owner"):
        castor.storage.committer.hand_over(1, second, castor.id)

    castor.storage.session.gain({1: first})  # a bug: it believes that it still has it
    with pytest.raises(Exception, match="the database refused"):
        await castor.storage.committer.hand_over(1, second, castor.id)(10)
    owners = await select(connection, "SELECT node_id, epoch FROM shards WHERE shard = 1")
    assert owners == [(pollux.id, first)]


async def test_a_flush_waits_for_all_that_was_submitted(
    castor: Running, connection: DatabaseConnection
):
    await castor.take_free(1)
    writer = FakeWriter("room/a")
    for number in range(1, 50):
        castor.storage.committer.submit(writer, [entry("a", number, 1)])
    await castor.storage.committer.flush()
    assert len(await journal(connection)) == 49
    await castor.storage.committer.flush()  # nothing waits


async def test_a_living_node_loses_nothing(castor: Running, pollux: Running):
    await castor.take_free(1)
    assert await pollux.take_over(castor, 1, proven=False) == {}
    await castor.write("a", 1, 1)
    assert castor.fenced is None


async def test_a_node_whose_lease_ran_out_is_taken_over_and_writes_no_more(
    castor: Running, pollux: Running, connection: DatabaseConnection
):
    await castor.take_free(1, 2, 3)
    await castor.write("a", 1, 1)
    await connection.script(
        f"UPDATE nodes SET lease_until = now() - interval '1 s' WHERE node_id = {castor.id}",
        seconds_max=10,
    )

    taken = await pollux.take_over(castor, 1, 2, 999, proven=False)

    assert taken.keys() == {1, 2}
    with pytest.raises(CommitUnsettled):
        await castor.write("a", 2, 1)
    with trio.fail_after(10):
        await castor.ended.wait()
    assert castor.fenced is not None
    assert "taken over" in str(castor.fenced)
    await pollux.write("a", 2, 1)
    assert [row[1] for row in await journal(connection)] == [1, 2]
    with pytest.raises(QueryFailed, match="may not write any more"):
        await castor.storage.journal.save([snapshot("a", 2, 1)])
    assert await castor.storage.nodes.renew() is False
    with pytest.raises(StorageFenced, match="this one stops"):
        await castor.storage.nodes.take_free([7])
    look = await pollux.storage.nodes.look()
    assert [row.node_id for row in look.nodes if row.has_ended] == [castor.id]  # it has shard 3
    assert (await pollux.take_over(castor, 3, proven=False)).keys() == {3}
    assert [row.node_id for row in (await pollux.storage.nodes.look()).nodes] == [pollux.id]


async def test_a_take_over_ends_a_session_that_stopped_in_the_middle_of_sending(
    castor: Running, pollux: Running, empty_database: str, connection: DatabaseConnection
):
    await castor.take_free(1)
    await castor.write("a", 1, 1)
    name = f"greenroom node {castor.id}"
    with closing(psycopg.connect(empty_database, application_name=name)) as stuck:
        # as a process that is stopped between two packets leaves it: the end never comes
        stuck.pgconn.enter_pipeline_mode()
        stuck.pgconn.send_query_params(f"SELECT advance_node({castor.id}, 2)".encode(), None)
        stuck.pgconn.flush()
        state = (
            "SELECT count(*) FROM pg_stat_activity WHERE state = 'active'"
            f" AND wait_event = 'ClientRead' AND application_name = '{name}'"
        )

        async def is_stuck() -> bool:
            return await select(connection, state) == [(1,)]

        await until(is_stuck)
        with trio.fail_after(30):  # if the session is left, it is refused much sooner
            taken = await pollux.take_over(castor, 1)

    assert taken.keys() == {1}
    with trio.fail_after(30):
        await castor.ended.wait()
    assert castor.fenced is not None
    assert "pollux" in str(castor.fenced)


async def test_a_take_over_waits_for_what_is_under_way_and_then_holds(
    castor: Running, pollux: Running, empty_database: str, connection: DatabaseConnection
):
    """Somebody whose session cannot be ended holds the row; nothing is taken meanwhile."""
    await castor.take_free(1)
    holder = await DatabaseConnection.connect(empty_database, seconds_max=10)
    await holder.script(f"BEGIN; SELECT hold_node({castor.id})", seconds_max=10)

    with pytest.raises(StorageUnavailable):
        await pollux.storage.nodes.take_over(castor.id, [1], proven=True)
    assert await select(connection, "SELECT node_id FROM shards WHERE shard = 1") == [(castor.id,)]

    await holder.script("COMMIT", seconds_max=10)
    assert (await pollux.take_over(castor, 1)).keys() == {1}
    holder.close()


async def test_snapshots_do_not_hold_the_committer_up(
    castor: Running, connection: DatabaseConnection
):
    await castor.take_free(1)
    await connection.script(f"BEGIN; SELECT hold_node({castor.id})", seconds_max=10)
    with trio.fail_after(1):
        await castor.write("a", 1, 1)
    await connection.script("COMMIT", seconds_max=10)


async def test_a_node_that_stops_in_order_ends_its_row(
    castor: Running, pollux: Running, connection: DatabaseConnection
):
    await castor.take_free(1)
    castor.scope.cancel()
    with trio.fail_after(10):
        await castor.ended.wait()

    (row, _) = (await pollux.storage.nodes.look()).nodes
    assert (row.has_ended, row.has_lock) == (True, False)
    assert (await pollux.take_over(castor, 1, proven=False)).keys() == {1}


async def test_a_dead_nodes_shards_can_be_left_to_others(castor: Running, pollux: Running):
    await castor.take_free(1)
    await pollux.storage.nodes.end_node(castor.id)
    with pytest.raises(CommitUnsettled):
        await castor.write("a", 1, 1)
    assert (await pollux.take_over(castor, 1, proven=False)).keys() == {1}


async def test_renewals_and_commits_are_noted(castor: Running):
    session = castor.storage.session
    times = [session.renewed_at]
    assert await castor.storage.nodes.renew() is True
    times.append(session.renewed_at)
    await castor.take_free(1)
    await castor.write("a", 1, 1)
    times.append(session.renewed_at)
    assert times == sorted(set(times))
