"""The role in a Postgres of one's own, as docs/how-to/deploy.md makes it: owner of nothing else."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from postgres_kit import PostgresProcess
from server_kit import Api, ServerProcess

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "how-to" / "deploy.md"


@pytest.fixture(scope="module")
def database(postgres_server: PostgresProcess) -> Iterator[str]:
    """The database of the page, and the URL of its role."""
    if shutil.which("psql") is None:
        pytest.skip("no psql")
    (block,) = re.findall(r"```psql\n(.*?)```", PAGE.read_text(), re.DOTALL)
    command = ["psql", "-X", "-v", "ON_ERROR_STOP=1", postgres_server.conninfo("postgres")]
    # the tests' superuser has the role's name
    script = re.sub(r"\b(ROLE|TO) greenroom\b", r"\1 server_role", block)
    subprocess.run(command, input=script, text=True, check=True, capture_output=True)
    yield f"host={postgres_server.directory} user=server_role dbname=greenroom"
    postgres_server.drop_database("greenroom")
    administer(postgres_server, "postgres", "DROP ROLE server_role")


def administer(server: PostgresProcess, database: str, sql: str) -> None:
    with psycopg.connect(server.conninfo(database), autocommit=True) as connection:
        connection.execute(sql.encode())


def greenroom(database: str, data_dir: Path, *arguments: str) -> tuple[int, Any]:
    """Run a command; return its status and its JSON."""
    ended = subprocess.run(
        [
            *(sys.executable, "-m", "greenroom", *arguments, "--json"),
            *("--data-dir", str(data_dir), "--database-url", database),
        ],
        env=os.environ | {"PYTHONPATH": str(ROOT), "GREENROOM_PORT": "0"},
        capture_output=True,
        text=True,
        check=False,
    )
    return ended.returncode, json.loads(ended.stdout)


def doctor(database: str, data_dir: Path) -> dict[str, Any]:
    _, report = greenroom(database, data_dir, "doctor")
    (check,) = [check for check in report["checks"] if check["name"] == "database"]
    assert isinstance(check, dict)
    return check


def test_the_least_role_migrates_serves_backs_up_and_restores(database: str, data_dir: Path):
    with psycopg.connect(database) as connection:
        rights = connection.execute(
            "SELECT rolsuper, rolcreatedb, rolcreaterole, rolreplication, rolbypassrls,"
            " pg_catalog.pg_get_userbyid(datdba) = rolname"
            " FROM pg_roles, pg_database WHERE rolname = current_user AND datname = 'greenroom'"
        ).fetchone()
    assert rights == (False,) * 6
    assert doctor(database, data_dir)["status"] == "ok"
    server = ServerProcess(data_dir, "--database-url", database)
    backup = data_dir / "backup.zip"
    try:
        server.start()  # which migrates
        api = Api(server.address, server.new_game())
        assert api.register("Ada")
        assert greenroom(database, data_dir, "backup", str(backup))[0] == 0
        assert server.stop() == 0, server.log.read_text()
        assert greenroom(database, data_dir, "restore", str(backup), "--force")[0] == 0
        assert all(
            m["is_applied"] for m in greenroom(database, data_dir, "db", "status")[1]["migrations"]
        )
        assert server.start().ready
        assert doctor(database, data_dir)["status"] == "ok"
    finally:
        server.stop()
        server.kill()


TAKEN = {
    "REVOKE CREATE ON SCHEMA public FROM server_role": "GRANT CREATE ON SCHEMA public TO",
    "REVOKE USAGE ON SCHEMA public FROM PUBLIC, server_role": "GRANT USAGE ON SCHEMA public TO",
    "REVOKE SELECT, DELETE ON players FROM server_role": "GRANT DELETE, SELECT ON TABLE players TO",
    "REVOKE SELECT ON schema_migrations FROM server_role": "GRANT SELECT ON TABLE schema_migrat",
    "REVOKE USAGE ON SEQUENCE player_ids FROM server_role": "GRANT USAGE ON SEQUENCE player_ids",
}


@pytest.mark.parametrize("taken", TAKEN)
def test_the_doctor_says_which_right_is_missing_and_it_helps(
    database: str, data_dir: Path, postgres_server: PostgresProcess, taken: str
):
    assert greenroom(database, data_dir, "db", "migrate")[0] == 0
    administer(postgres_server, "greenroom", taken)
    check = doctor(database, data_dir)
    assert check["status"] == "fail", check
    given = check["advice"].partition("psql: ")[2]
    assert TAKEN[taken] in given
    administer(postgres_server, "greenroom", given)
    assert doctor(database, data_dir)["status"] == "ok"


def test_a_start_without_a_right_says_who_knows_more(
    database: str, data_dir: Path, postgres_server: PostgresProcess
):
    administer(postgres_server, "greenroom", "REVOKE CREATE ON SCHEMA public FROM server_role")
    status, told = greenroom(database, data_dir, "game", "list")
    administer(postgres_server, "greenroom", "GRANT CREATE ON SCHEMA public TO server_role")
    assert status == 1
    assert "permission denied for schema public" in told["error"]
    assert "greenroom doctor says which right" in told["error"]
