"""A real Postgres that tests may kill, and the writers that commit to it."""

from __future__ import annotations

import atexit
import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import psycopg
from server_kit import find_memory
from waiting import block_until

from greenroom.actors.kernel.durability import Batch
from greenroom.actors.kernel.message import Event
from greenroom.actors.player.messages import PlayerRegistered
from greenroom.persistence.committer import Committer
from greenroom.persistence.driver import DatabaseConnection, Query, Row, Statement
from greenroom.persistence.embedded.account import Account, choose_account
from greenroom.persistence.embedded.binaries import Binaries, find_binaries


class PostgresProcess:
    """A Postgres of its own in a temporary directory: unix socket and TCP on loopback."""

    def __init__(
        self,
        directory: Path,
        *,
        options: Sequence[str] = ("fsync=off",),
        environment: Mapping[str, str] = {},
    ) -> None:
        """Make it; `options` are settings, `environment` is added to the server's."""
        self.directory = directory
        self._options = options
        self._environment = environment
        self._account = choose_account(None)
        self._binaries = find_binaries(self._account)
        self._data = directory / "data"
        self._process: subprocess.Popen[bytes] | None = None
        self._log = directory / "log"
        if self._account.is_other:
            os.chown(directory, self._account.uid, self._account.gid)
        copied = self._account.run(
            "cp", "-a", str(_empty(self._account, self._binaries)), str(self._data)
        )
        assert copied.returncode == 0, copied.stderr

    def conninfo(self, database: str) -> str:
        return f"host={self.directory} user=greenroom dbname={database}"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        command = [self._binaries.find_program("postgres"), "-D", str(self._data)]
        options = ["listen_addresses=", f"unix_socket_directories={self.directory}"]
        options += self._options
        command += [word for option in options for word in ("-c", option)]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                command, stdout=log, stderr=log, **self._popen_options()
            )
        block_until(self._answers, explain=self._log.read_text)

    def _answers(self) -> bool:
        """Return whether it takes connections; fails the test when it has ended instead."""
        try:
            psycopg.connect(self.conninfo("postgres")).close()
        except psycopg.OperationalError:
            assert self._process is not None
            assert self._process.poll() is None, self._log.read_text()
            return False
        return True

    def _popen_options(self) -> dict[str, Any]:
        options = dict(self._account.make_popen_options())
        options["env"] = {**options.get("env", os.environ), **self._environment}
        return options

    def kill(self) -> None:
        """SIGKILL to the postmaster and all its children: what a power cut looks like."""
        assert self._process is not None
        self.signal_backends(signal.SIGSTOP)  # so that none is left to write on
        children = _children(self.pid)
        self.signal_backends(signal.SIGKILL)
        self._process.wait()
        # The next Postgres minds who holds the last one's shared memory.
        block_until(lambda: not any(_is_running(child) for child in children))
        (self._data / "postmaster.pid").unlink(missing_ok=True)

    def signal_backends(self, number: signal.Signals) -> None:
        """Send a signal to every process of this Postgres; SIGSTOP makes a black hole of it."""
        for pid in (self.pid, *_children(self.pid)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def recover(self) -> None:
        """Be up again, whatever a test has done."""
        if self._process is not None and self._process.poll() is None:
            self.signal_backends(signal.SIGCONT)
        else:
            self.start()

    def stop(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGQUIT)
            self._process.wait()

    def create_database(self, name: str) -> str:
        with psycopg.connect(self.conninfo("postgres"), autocommit=True) as connection:
            connection.execute(f'CREATE DATABASE "{name}"'.encode())
        return self.conninfo(name)

    def drop_database(self, name: str) -> None:
        with psycopg.connect(self.conninfo("postgres"), autocommit=True) as connection:
            connection.execute(f'DROP DATABASE "{name}" WITH (FORCE)'.encode())

    @classmethod
    def make(cls) -> PostgresProcess:
        return cls(Path(tempfile.mkdtemp(prefix="greenroom-test-", dir=find_memory())))

    def remove(self) -> None:
        self.stop()
        shutil.rmtree(self.directory, ignore_errors=True)


@cache
def _empty(account: Account, binaries: Binaries) -> Path:
    """Return the files of a Postgres with nothing in it, to copy: making them takes longer."""
    directory = Path(tempfile.mkdtemp(prefix="greenroom-test-", dir=find_memory()))
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    if account.is_other:
        os.chown(directory, account.uid, account.gid)
    initdb = account.run(
        binaries.find_program("initdb"),
        *("-D", str(directory / "data"), "-U", "greenroom", "-E", "UTF8"),
        *("--locale", "C", "--auth", "trust", "--no-sync"),
    )
    assert initdb.returncode == 0, initdb.stderr
    return directory / "data"


def _children(pid: int) -> list[int]:
    """The processes that a postmaster has forked."""
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _is_running(pid: int) -> bool:
    """Return whether a process still holds anything: a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


class FakeWriter:
    """An actor's side of a commit, by hand."""

    def __init__(self, label: str = "player/1", shard: int | None = None) -> None:
        self.label = label
        self.shard = shard
        self.generation = 0
        self.errors: list[Exception] = []

    def reject(self, error: Exception) -> None:
        self.generation += 1
        self.errors.append(error)


def registered(player_id: int, **changes: Any) -> PlayerRegistered:
    """A player of game 1 (see the fixture `game`)."""
    fields: dict[str, Any] = {
        "player_id": player_id,
        "game_id": 1,
        "player_name": f"Player {player_id}",
        "player_tag": f"TAG{player_id:05}",
        "token_hash": b"token %d" % player_id,
        "player_data": b'{"level":1}',
        "created_at": 1_700_000_000,
    }
    return PlayerRegistered(**(fields | changes))


async def select(connection: DatabaseConnection, sql: str) -> list[Row]:
    """Run one SELECT."""
    (rows,) = await connection.run(Query(Statement(sql)), seconds_max=10)
    return rows


def submit_each(committer: Committer, writer: FakeWriter, events: Sequence[Event]) -> Batch:
    """Submit events one turn each; return the batch of the last."""
    batch = Batch()
    for event in events:
        batch = committer.submit(writer, [event])
    return batch
