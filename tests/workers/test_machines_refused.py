"""Machines that cannot join say so in one sentence with what to do, and harm nobody."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from command_kit import Done, assert_one_sentence, command
from machines_kit import Machine, running
from nats_kit import LARGE_ENOUGH, NatsProcess
from postgres_kit import PostgresProcess
from server_kit import Api, ServerProcess, data_directory
from waiting import block_until

USERS = f'{LARGE_ENOUGH}authorization {{ users: [{{ user: "me", password: "right" }}] }}\n'
PORTS = ("--port", "0", "--realtime-port", "0", "--udp-port", "0")

pytestmark = [pytest.mark.slow, pytest.mark.long, pytest.mark.timeout(300)]


class Cluster:
    """A machine that serves, and what others need to join it."""

    def __init__(self, machine: Machine, nats: NatsProcess, url: str) -> None:
        self.machine = machine
        self.nats = nats
        self.url = url
        self.bus = nats.url("me:right@")
        self.api = Api(machine.address, machine.new_game())
        self.token = self.api.register()[1]
        self._nodes = [node.node for node in machine.nodes()]

    def join(self, data_dir: Path, *arguments: str, **environment: str) -> Done:
        """Start another machine, which ends."""
        variables = {"GREENROOM_DATABASE_URL": self.url, "GREENROOM_BUS": self.bus} | environment
        line = ("serve", *PORTS, *arguments)
        return command(*line, data_dir=data_dir, **variables)

    def is_unharmed(self) -> bool:
        """Return whether it serves on, by the same nodes as at first.

        It sees at its next look at the database that another one has ended.
        """
        reply = self.api.call("GET", "/api/game_data.php/player/get", player=self.token)
        assert reply.status == 200, reply
        block_until(lambda: [node.node for node in self.machine.nodes()] == self._nodes)
        return True


@pytest.fixture(scope="module")
def cluster(postgres_server: PostgresProcess) -> Iterator[Cluster]:
    url = postgres_server.create_database("machines_refused")
    with data_directory() as directory:
        nats = NatsProcess(directory, USERS).start()
        try:
            with running([Machine(directory / "one", nats.url("me:right@"), url)]) as [machine]:
                yield Cluster(machine, nats, url)
        finally:
            nats.stop()


def test_another_bus_on_the_same_database(cluster: Cluster, data_dir: Path, tmp_path: Path) -> None:
    other = NatsProcess(tmp_path).start()
    try:
        done = cluster.join(data_dir, GREENROOM_BUS=other.url())
    finally:
        other.stop()
    assert_one_sentence(done, "which is on another bus: give all machines the same NATS servers")
    assert cluster.is_unharmed()


def test_no_bus_on_the_same_database(cluster: Cluster, data_dir: Path) -> None:
    for count, text in (
        ("1", "they are a cluster: stop them, or start this server as one of its nodes"),
        ("2", "a cluster of machines, such as node"),
    ):
        done = cluster.join(data_dir, "--workers", count, GREENROOM_BUS="")
        assert_one_sentence(done, text)
        assert cluster.is_unharmed()


def test_a_server_alone_ends_no_cluster_whose_sessions_are_away(
    cluster: Cluster, data_dir: Path
) -> None:
    ended = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE %s"
    with psycopg.connect(cluster.url, autocommit=True) as connection:
        connection.execute(ended, ("greenroom node%",))
        done = cluster.join(data_dir, GREENROOM_BUS="")
    assert_one_sentence(done, "they are a cluster")
    assert cluster.is_unharmed()


def test_a_cluster_does_not_join_a_server_that_is_alone(
    postgres_server: PostgresProcess, cluster: Cluster, data_dir: Path
) -> None:
    url = postgres_server.create_database("machines_alone")
    (data_dir / "one").mkdir()
    alone = ServerProcess(data_dir / "one", "--database-url", url)
    try:
        alone.start()
        done = cluster.join(data_dir / "two", GREENROOM_DATABASE_URL=url)
    finally:
        assert alone.stop() == 0
    assert_one_sentence(done, "it runs alone: restart it as a node of the cluster, or stop it")


@pytest.mark.parametrize(
    ("environment", "text"),
    [
        ({"GREENROOM_DATABASE_URL": ""}, "set database_url, too, to the same for all"),
        ({"GREENROOM_BUS_NKEY_FILE": "/nowhere/seed"}, "Cannot read /nowhere/seed"),
        ({"GREENROOM_BUS_CA_FILE": "/nowhere/ca"}, "Cannot use /nowhere/ca"),
        ({"GREENROOM_BUS": "nats://"}, "The setting bus has an address that is none"),
        ({"GREENROOM_BUS": "nats://192.0.2.1:4222"}, "host is 127.0.0.1, where the other machines"),
        ({"GREENROOM_BUS": "http://here"}, "bus (GREENROOM_BUS): expected addresses of NATS"),
    ],
)
def test_settings_that_cannot_be(
    cluster: Cluster, data_dir: Path, environment: dict[str, str], text: str
) -> None:
    assert_one_sentence(cluster.join(data_dir, **environment), text)


def test_a_wrong_password_is_told_and_not_shown(cluster: Cluster, data_dir: Path) -> None:
    secret = data_dir / "bus"
    secret.write_text(cluster.nats.url("me:wr0ng@"))
    done = cluster.join(data_dir / "two", GREENROOM_BUS="", GREENROOM_BUS_FILE=str(secret))
    assert_one_sentence(done, "does not let us in", "the user and the password")
    assert "wr0ng" not in done.err
    assert cluster.is_unharmed()


def test_a_nats_server_that_takes_too_little(
    cluster: Cluster, data_dir: Path, tmp_path: Path
) -> None:
    small = NatsProcess(tmp_path, "").start()
    try:
        done = cluster.join(data_dir, GREENROOM_BUS=small.url())
    finally:
        small.stop()
    assert_one_sentence(done, "write `max_payload: 2MB` into its configuration")


def test_ports_that_are_taken(cluster: Cluster, data_dir: Path) -> None:
    port = str(cluster.machine.address[1])
    done = cluster.join(data_dir, "--port", port)
    assert_one_sentence(done, f"cannot listen on TCP port {port} of 127.0.0.1: another program")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        done = cluster.join(data_dir, "--realtime-port", port)
    assert_one_sentence(done, f"cannot listen on TCP port {port} of 127.0.0.1: another program")


@pytest.mark.parametrize(
    ("column", "value", "text"),
    [
        ("protocol", "99", "stop all nodes, and start them with one version"),
        ("host", "'another machine'", "which is each machine itself: set host or advertise here"),
    ],
)
def test_neighbours_of_another_kind(
    cluster: Cluster, data_dir: Path, column: str, value: str, text: str
) -> None:
    with psycopg.connect(cluster.url, autocommit=True) as connection:
        [(before,)] = connection.execute(f"SELECT {column} FROM nodes WHERE ended_at IS NULL")
        change = f"UPDATE nodes SET {column} = {{}} WHERE ended_at IS NULL"
        connection.execute(change.format(value).encode())
        try:
            done = cluster.join(data_dir)
        finally:
            connection.execute(change.format("%s").encode(), (before,))
    assert_one_sentence(done, text)
    assert cluster.is_unharmed()


def test_other_behaviours_are_told_and_join(cluster: Cluster, data_dir: Path) -> None:
    module = "from greenroom.behaviour import RoomBehaviour\nclass Duel(RoomBehaviour): pass\n"
    (data_dir / "duels.py").write_text(module)
    other = Machine(
        data_dir / "two",
        cluster.bus,
        cluster.url,
        GREENROOM_BEHAVIOURS="duels:Duel",
        GREENROOM_BEHAVIOURS_DIR=str(data_dir),
    )
    with running([other], beside=1):
        other.wait_logged("has other behaviours than this node")
