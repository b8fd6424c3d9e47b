"""A database that answers and refuses: seen, told, counted, and over when it reads again."""

from __future__ import annotations

import http.client
import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import psycopg
import pytest
from postgres_kit import PostgresProcess
from prometheus_client.parser import text_string_to_metric_families
from server_kit import Api, ServerProcess
from waiting import block_until

from greenroom.actors.player.tokens import PLAYER_TOKEN, TOKEN_RANDOM_BYTES, make_token
from greenroom.control.admin.messages import ShowPlayer
from greenroom.control.client import call
from greenroom.control.errors import ControlError
from greenroom.control.protocol import socket_path

SECONDS_MAX = 20.0
_numbers = itertools.count(1)


class Refusing(NamedTuple):
    """A server on a database that belongs to an ordinary role, and a way to harm that."""

    server: ServerProcess
    api: Api
    postgres: PostgresProcess
    database: str
    role: str

    def sql(self, text: str) -> None:
        """Run SQL as the superuser, `{role}` and `{database}` being the server's."""
        with psycopg.connect(self.postgres.conninfo(self.database), autocommit=True) as connection:
            connection.execute(text.format(role=self.role, database=self.database).encode())

    def readiness(self) -> int:
        return self._get("/readyz")[0]

    def metric(self, name: str, **labels: str) -> float:
        """Return a sample's value, 0 where it is not there."""
        families = text_string_to_metric_families(self._get("/metrics")[1].decode())
        found = [
            sample.value
            for family in families
            for sample in family.samples
            if sample.name == name and sample.labels == labels
        ]
        return found[0] if found else 0.0

    def lines(self) -> list[dict[str, Any]]:
        """Return what was logged."""
        return [
            json.loads(line)
            for line in self.server.log.read_text().splitlines()
            if line.startswith("{")
        ]

    def refusals(self) -> list[str]:
        return [line["message"] for line in self.lines() if "refused a read" in line["message"]]

    def _get(self, path: str) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection(*self.server.address, timeout=30)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()


@pytest.fixture
def refusing(postgres_server: PostgresProcess, data_dir: Path) -> Iterator[Refusing]:
    name = f"refusing_{next(_numbers)}"
    with psycopg.connect(postgres_server.conninfo("postgres"), autocommit=True) as connection:
        connection.execute(f"CREATE ROLE {name} LOGIN".encode())
        connection.execute(f"CREATE DATABASE {name} OWNER {name}".encode())
    conninfo = postgres_server.conninfo(name).replace("user=greenroom", f"user={name}")
    server = ServerProcess(data_dir, "--database-url", conninfo, GREENROOM_COMMIT_SECONDS_MAX="1")
    server.start()
    try:
        api = Api(server.address, server.new_game())
        yield Refusing(server, api, postgres_server, name, name)
    finally:
        server.stop()


def log_in(api: Api, token: str) -> int:
    return api.call("PUT", "/api/game_players.php/login", player=token).status


UNKNOWN_TOKEN = make_token(PLAYER_TOKEN, b"\0" * TOKEN_RANDOM_BYTES)
HARMS = [
    pytest.param(
        "REVOKE SELECT ON players FROM {role}",
        "GRANT SELECT ON players TO {role}",
        "permission denied for table players (SQLSTATE 42501); give the server's role",
        id="revoked",
    ),
    pytest.param(
        "ALTER TABLE bans RENAME TO bans_away",
        "ALTER TABLE bans_away RENAME TO bans",
        'relation "bans" does not exist (SQLSTATE 42P01); was the schema changed by hand?',
        id="renamed",
    ),
]


@pytest.mark.parametrize(("harm", "repair", "words"), HARMS)
def test_refused_reads_are_told_counted_and_end_readiness_until_they_work_again(
    refusing: Refusing, harm: str, repair: str, words: str
) -> None:
    player_id, token = refusing.api.register()
    refusing.api.call("POST", "/api/game_players.php/logout", player=token)
    refusing.server.stop()
    refusing.server.start()  # so that nobody is in memory
    refusing = refusing._replace(api=Api(refusing.server.address, refusing.api.game))
    assert refusing.readiness() == 200

    refusing.sql(harm)
    statuses = {log_in(refusing.api, token) for _ in range(20)}

    assert statuses == {500}, "an honest error, not one that asks to come back"
    assert refusing.readiness() == 503
    assert refusing.metric("greenroom_storage_failed_reads_total", kind="refused") >= 20
    assert refusing.metric("greenroom_storage_is_ready") == 0
    told = refusing.refusals()
    # The other statement that may fail meanwhile counts the players' bytes, once after a start.
    assert 1 <= len(told) <= 2, "20 failures of a statement are one line"
    assert told[0].startswith(f"the database refused a read: {words}")
    with pytest.raises(ControlError, match="The database refused: ") as caught:
        call(socket_path(refusing.server.data_dir), ShowPlayer(player_id=player_id))
    assert words in str(caught.value)

    refusing.sql(repair)
    block_until(lambda: refusing.readiness() == 200)
    assert log_in(refusing.api, token) == 200
    assert "the database reads again what it did not" in refusing.server.log.read_text()


def test_another_reason_for_the_same_read_is_told_at_once(refusing: Refusing) -> None:
    for harm, repair in (
        ("REVOKE SELECT ON players FROM {role}", "GRANT SELECT ON players TO {role}"),
        ("ALTER TABLE players RENAME TO others", "ALTER TABLE others RENAME TO players"),
    ):
        refusing.sql(harm)
        assert log_in(refusing.api, UNKNOWN_TOKEN) == 500
        refusing.sql(repair)
        block_until(lambda: refusing.readiness() == 200)
    told = refusing.refusals()
    assert [line for line in told if "SQLSTATE 42501" in line]
    assert [line for line in told if "SQLSTATE 42P01" in line]


def test_a_reader_that_cannot_connect_ends_readiness_though_the_writer_can(
    refusing: Refusing,
) -> None:
    _, token = refusing.api.register()
    refusing.sql("ALTER ROLE {role} NOLOGIN")
    refusing.sql(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity a WHERE usename = '{role}'"
        " AND NOT EXISTS (SELECT FROM pg_locks l WHERE l.pid = a.pid AND locktype = 'advisory')"
    )

    assert (
        refusing.api.call("PUT", "/api/game_players.php/login", player=UNKNOWN_TOKEN).status == 500
    )
    assert refusing.metric("greenroom_storage_is_open") == 1, "the writer has its connection"
    assert refusing.readiness() == 503
    assert "is not permitted to log in" in refusing.refusals()[0]

    refusing.sql("ALTER ROLE {role} LOGIN")
    block_until(lambda: refusing.readiness() == 200)
    assert log_in(refusing.api, token) == 200


def test_refused_changes_are_an_honest_error_and_told(refusing: Refusing) -> None:
    _, token = refusing.api.register()
    refusing.sql("REVOKE UPDATE ON players FROM {role}")

    def write() -> int:
        return refusing.api.call(
            "PUT", "/api/game_data.php/player/update", {"score": 1}, player=token
        ).status

    assert write() == 500, "nobody knows in time what became of it"
    assert {write() for _ in range(5)} == {500}
    assert refusing.readiness() == 503
    told = [line for line in refusing.lines() if "refuses changes" in line["message"]]
    assert [line["level"] for line in told] == ["error"]
    assert "permission denied for table players (SQLSTATE 42501)" in told[0]["message"]

    refusing.sql("GRANT UPDATE ON players TO {role}")
    block_until(lambda: refusing.readiness() == 200)
    assert write() == 200


def test_a_read_that_waits_for_a_lock_is_told_and_ends_readiness(refusing: Refusing) -> None:
    with psycopg.connect(refusing.postgres.conninfo(refusing.database)) as other:
        other.execute("LOCK TABLE players")
        reply = refusing.api.call("PUT", "/api/game_players.php/login", player=UNKNOWN_TOKEN)
        assert reply.status == 429, "it may pass"
        block_until(lambda: refusing.readiness() == 503)
        assert refusing.metric("greenroom_storage_failed_reads_total", kind="slow") >= 1
        assert "another session holds a lock" in refusing.server.log.read_text()
    block_until(lambda: refusing.readiness() == 200)
