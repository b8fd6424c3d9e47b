"""A database of two machines: the primary is lost, and its synchronous standby promoted."""

from __future__ import annotations

import shutil
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from postgres_kit import PostgresProcess
from server_kit import Api, ServerProcess
from waiting import block_until

SECONDS_MAX = 60.0
GO_ON_SECONDS_MAX = 10.0


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port


class ReplicatedPostgres(PostgresProcess):
    """A Postgres on a port of loopback, which can be copied, and follow another."""

    port = 0

    def start_on_port(self, *options: str) -> None:
        self.port = free_port()
        here = ("fsync=off", "listen_addresses=127.0.0.1", f"port={self.port}")
        self._options = (*here, "hot_standby=on", *options)
        self.start()

    def conninfo(self, database: str) -> str:
        return f"{super().conninfo(database)} port={self.port}"

    def follow(self, primary: ReplicatedPostgres) -> None:
        """Begin as a copy of one that is stopped; start that first."""
        shutil.rmtree(self._data)
        shutil.copytree(primary._data, self._data)
        for path in (self._data, *self._data.rglob("*")):
            shutil.chown(path, self._account.uid, self._account.gid)
        (self._data / "standby.signal").touch()

    def execute(self, statement: str) -> Any:
        with psycopg.connect(self.conninfo("postgres"), autocommit=True) as connection:
            cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else None

    def stop_in_order(self) -> None:
        assert self._process is not None
        self._process.terminate()
        self._process.wait(SECONDS_MAX)


@pytest.fixture
def pair() -> Iterator[tuple[ReplicatedPostgres, ReplicatedPostgres]]:
    """A primary with a synchronous standby."""
    primary, standby = ReplicatedPostgres.make(), ReplicatedPostgres.make()
    assert isinstance(primary, ReplicatedPostgres)
    assert isinstance(standby, ReplicatedPostgres)
    try:
        primary.start_on_port()
        primary.create_database("greenroom")
        primary.stop_in_order()
        standby.follow(primary)
        primary.start_on_port()
        source = f"host=127.0.0.1 port={primary.port} user=greenroom application_name=db2"
        standby.start_on_port(f"primary_conninfo={source}")
        primary.execute("ALTER SYSTEM SET synchronous_standby_names = 'ANY 1 (db2)'")
        primary.execute("SELECT pg_reload_conf()")
        state = "SELECT sync_state FROM pg_stat_replication"
        block_until(lambda: primary.execute(state) == [("quorum",)])
        yield primary, standby
    finally:
        primary.remove()
        standby.remove()


def write_until_acknowledged(api: Api, token: str, number: int) -> float:
    """Write a document until the server says that it is durable; return the seconds it took."""
    began = time.monotonic()

    def is_acknowledged() -> bool:
        path = "/api/game_data.php/player/update"
        reply = api.call("PUT", path, {"number": number}, player=token)
        assert reply.status in {200, 429, 500}, reply
        return reply.status == 200

    block_until(is_acknowledged)
    return time.monotonic() - began


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_the_server_goes_on_with_the_promoted_standby_and_all_that_was_acknowledged(
    pair: tuple[ReplicatedPostgres, ReplicatedPostgres], data_dir: Path, workers: int
) -> None:
    primary, standby = pair
    hosts = f"127.0.0.1:{primary.port},127.0.0.1:{standby.port}"
    url = f"postgresql://greenroom@{hosts}/greenroom?target_session_attrs=read-write"
    several = ("--workers", str(workers)) if workers > 1 else ()
    server = ServerProcess(data_dir, *several, "--database-url", url).start()
    try:
        api = Api(server.address, server.new_game())
        player_id, token = api.register()
        for number in range(20):
            write_until_acknowledged(api, token, number)
        primary.kill()
        read = "SELECT player_data->>'number' FROM players"
        with psycopg.connect(standby.conninfo("greenroom"), autocommit=True) as connection:
            assert connection.execute(read).fetchall() == [("19",)], "it is synchronous"
        standby.execute("SELECT pg_promote()")
        assert write_until_acknowledged(api, token, 20) < GO_ON_SECONDS_MAX
        with psycopg.connect(standby.conninfo("greenroom"), autocommit=True) as connection:
            assert connection.execute(read).fetchall() == [("20",)]
            players = connection.execute("SELECT player_id FROM players").fetchall()
            assert players == [(player_id,)]
    finally:
        assert server.stop() == 0


def test_a_url_whose_hosts_are_all_standbys_is_waited_for(
    pair: tuple[ReplicatedPostgres, ReplicatedPostgres], data_dir: Path
) -> None:
    primary, standby = pair
    url = f"postgresql://greenroom@127.0.0.1:{standby.port}/greenroom"
    server = ServerProcess(data_dir, "--database-url", f"{url}?target_session_attrs=read-write")
    server.begin()
    try:
        server.wait_logged("the database does not answer; trying for")
        primary.kill()
        standby.execute("SELECT pg_promote()")
        block_until(server.is_ready)
    finally:
        assert server.stop() == 0
