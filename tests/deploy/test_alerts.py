"""The alerts of `deploy/`: each fault is provoked in a real server, and its own alert fires alone.

A real Prometheus scrapes the server. Only the durations in the rules are shorter than in earnest.
"""

from __future__ import annotations

import datetime as dt
import itertools
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psycopg
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from postgres_kit import PostgresProcess
from prometheus_kit import Prometheus, needs_prometheus, until, watching
from server_kit import Api, ServerProcess

from greenroom.control.last_backup import last_backup, note_backup

pytestmark = [pytest.mark.slow, needs_prometheus]

QUIET_SECONDS = 8.0
"""Longer than any rule waits in these tests, so that a second alert would have fired, too."""
FREE = {"GREENROOM_RATE_LIMIT_FACTOR": "1000"}
LOGIN = "/api/game_players.php/login"
LOOP = '''"""A room whose hook never ends."""

from greenroom.behaviour import Action, Member, Room, RoomBehaviour, Verdict


class Loop(RoomBehaviour[dict[str, int]]):
    def on_action(self, room: Room[dict[str, int]], by: Member, action: Action) -> Verdict:
        while True:
            pass
'''

_numbers = itertools.count(1)


@contextmanager
def players(api: Api) -> Iterator[None]:
    """Have a player play, as long as the block runs, whatever becomes of the calls."""
    _, token = api.register()
    is_over = threading.Event()

    def play() -> None:
        while not is_over.wait(0.05):
            with suppress(OSError):
                api.call("POST", "/api/game_players.php/heartbeat", player=token)

    thread = threading.Thread(target=play)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def only(prometheus: Prometheus, alert: str) -> None:
    """Wait for an alert, and a while longer; nothing else may fire meanwhile, or have fired."""
    until(prometheus.fired)
    time.sleep(QUIET_SECONDS)  # what must not happen is not announced
    assert prometheus.fired() == {alert}


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """The directory of Prometheus."""
    return tmp_path


@pytest.fixture
def embedded(data_dir: Path) -> Iterator[ServerProcess]:
    """A server with its own Postgres."""
    server = ServerProcess(data_dir, **FREE)
    try:
        yield server.start()
    finally:
        server.stop()


def test_nothing_fires_while_all_is_well(embedded: ServerProcess, directory: Path) -> None:
    api = Api(embedded.address, embedded.new_game())
    with players(api), watching(directory, embedded.ready["http"]) as prometheus:
        time.sleep(2 * QUIET_SECONDS)  # what must not happen is not announced
        assert prometheus.value("greenroom:answers:rate5m") > 1, "there was traffic"
        assert prometheus.fired() == set()


def test_database_away(data_dir: Path, directory: Path) -> None:
    postgres = PostgresProcess.make()
    try:
        postgres.start()
        url = postgres.create_database("away")
        server = ServerProcess(data_dir, "--database-url", url, **FREE).start()
        api = Api(server.address, server.new_game())
        with players(api), watching(directory, server.ready["http"]) as prometheus:
            postgres.kill()
            only(prometheus, "GreenroomDatabaseAway")
        postgres.start()
        server.stop()
    finally:
        postgres.remove()


def test_refused_reads(postgres_server: PostgresProcess, data_dir: Path, directory: Path) -> None:
    name = f"alerts_{next(_numbers)}"
    url = postgres_server.create_database(name)
    server = ServerProcess(data_dir, "--database-url", url, **FREE).start()
    try:
        api = Api(server.address, server.new_game())
        _, token = api.register()
        api.call("POST", "/api/game_players.php/logout", player=token)
        server.stop()
        server.start()
        api = Api(server.address, api.game)
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(b"ALTER TABLE bans RENAME TO bans_away")
        with watching(directory, server.ready["http"]) as prometheus:
            assert api.call("PUT", LOGIN, player=token).status == 500
            only(prometheus, "GreenroomDatabaseRefuses")
    finally:
        server.stop()


def test_disk_full(directory: Path) -> None:
    disk = Path(tempfile.mkdtemp(prefix="greenroom-disk-"))
    mount = ["mount", "-t", "tmpfs", "-o", "size=400m,mode=0755", "tmpfs", str(disk)]
    if shutil.which("mount") is None or subprocess.call(mount):
        disk.rmdir()
        pytest.skip("a small disk may not be mounted here")
    server = ServerProcess(disk, **FREE)
    try:
        server.start()
        api = Api(server.address, server.new_game())
        with players(api), watching(directory, server.ready["http"]) as prometheus:
            with (disk / "filler").open("wb") as filler:
                left = os.statvfs(disk).f_bavail * os.statvfs(disk).f_frsize
                os.posix_fallocate(filler.fileno(), 0, left - (4 << 20))
            only(prometheus, "GreenroomDiskFull")
        (disk / "filler").unlink()
    finally:
        server.stop()
        subprocess.run(["umount", "-l", str(disk)], check=False)
        disk.rmdir()


def test_overload(data_dir: Path, database_url: str, directory: Path) -> None:
    server = ServerProcess(
        data_dir, "--database-url", database_url, GREENROOM_REQUESTS_IN_FLIGHT_MAX="2", **FREE
    ).start()
    api = Api(server.address, server.new_game())
    is_over = threading.Event()

    def crowd() -> None:
        while not is_over.is_set():
            api.call("POST", "/api/game_players.php/register", {"player_name": "Ada"})

    threads = [threading.Thread(target=crowd) for _ in range(16)]
    try:
        with watching(directory, server.ready["http"]) as prometheus:
            for thread in threads:
                thread.start()
            only(prometheus, "GreenroomOverloaded")
    finally:
        is_over.set()
        for thread in threads:
            thread.join()
        server.stop()


def test_an_outage_made_of_429s(data_dir: Path, database_url: str, directory: Path) -> None:
    """Nothing is slow, nothing fails: a limit refuses nearly everybody."""
    setting = {"GREENROOM_READ_CALLS_PER_SECOND_ADDRESS": "0.01"}
    server = ServerProcess(
        data_dir, "--database-url", database_url, GREENROOM_RATE_BURST_SECONDS="1", **setting
    ).start()
    try:
        api = Api(server.address, server.new_game())
        with watching(directory, server.ready["http"]) as prometheus:
            is_over = threading.Event()

            def ask() -> None:
                while not is_over.wait(0.05):
                    api.call("GET", "/api/time.php")

            thread = threading.Thread(target=ask)
            thread.start()
            try:
                only(prometheus, "GreenroomCallsRefused")
            finally:
                is_over.set()
                thread.join()
    finally:
        server.stop()


def test_crash_loop(postgres_server: PostgresProcess, data_dir: Path, directory: Path) -> None:
    """The database refuses what a player would become, so their actor crashes, again and again."""
    url = postgres_server.create_database(f"alerts_{next(_numbers)}")
    server = ServerProcess(data_dir, "--database-url", url, **FREE).start()
    try:
        api = Api(server.address, server.new_game())
        _, token = api.register()
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(b"ALTER TABLE players ADD CHECK (player_name <> 'Boom') NOT VALID")
        with players(api), watching(directory, server.ready["http"]) as prometheus:
            until(lambda: prometheus.query("greenroom_restarts_total"))

            def crashed() -> bool:
                name = {"new_name": "Boom"}
                api.call("PUT", "/api/game_players.php/rename", name, player=token)
                time.sleep(0.5)  # a player renames themselves again at leisure
                return bool(prometheus.fired())

            until(crashed)
            only(prometheus, "GreenroomCrashLoop")
    finally:
        server.stop()


def test_hook_loop(data_dir: Path, database_url: str, directory: Path) -> None:
    (data_dir / "looping.py").write_text(LOOP)
    entry = ("--behaviours-dir", str(data_dir), "--behaviours", "looping:Loop")
    server = ServerProcess(
        data_dir, "--database-url", database_url, *entry, GREENROOM_HOOK_SECONDS_MAX="0.05", **FREE
    ).start()
    try:
        api = Api(server.address, server.new_game())
        _, token = api.register()
        assert api.call("POST", "/api/game_room.php/create", {}, player=token).status == 200
        act = {"target_players": "host", "action_type": "loop", "request_data": {}}
        with players(api), watching(directory, server.ready["http"]) as prometheus:

            def looped() -> bool:
                api.call("POST", "/api/game_room.php/actions", act, player=token)
                time.sleep(0.5)  # loops without a pause are an overload, which refuses calls
                return bool(prometheus.fired())

            until(looped)
            only(prometheus, "GreenroomHooksFail")
    finally:
        server.stop()


def test_certificate_near_its_end(data_dir: Path, database_url: str, directory: Path) -> None:
    certificate = _certificate(data_dir, days=3)
    settings = {
        "GREENROOM_TLS_CERTIFICATE_FILE": str(certificate),
        "GREENROOM_TLS_KEY_FILE": str(certificate),
    }
    server = ServerProcess(data_dir, "--database-url", database_url, **settings).start()
    try:
        with watching(directory, server.ready["http"]) as prometheus:
            only(prometheus, "GreenroomCertificateEnds")
    finally:
        server.stop()


def _certificate(directory: Path, days: float) -> Path:
    """Make a certificate that ends after so many days, and its key, in one file."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = dt.datetime.now(dt.UTC)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=days))
        .sign(key, hashes.SHA256())
    )
    path = directory / "certificate.pem"
    path.write_bytes(
        made.public_bytes(serialization.Encoding.PEM)
        + key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return path


def test_backup_too_old(embedded: ServerProcess, directory: Path) -> None:
    file, data_dir = directory / "backup.zip", embedded.data_dir
    command = [sys.executable, "-m", "greenroom", "backup", str(file), "--data-dir", str(data_dir)]
    subprocess.run(command, check=True, capture_output=True)
    saved_at = last_backup(data_dir)
    assert saved_at is not None
    assert abs(saved_at - time.time()) < 60
    with watching(directory, embedded.ready["http"]) as prometheus:
        name = "greenroom_last_backup_timestamp_seconds"
        until(lambda: abs(prometheus.value(name) - saved_at) < 1)
        time.sleep(QUIET_SECONDS)  # what must not happen is not announced
        assert prometheus.fired() == set()
        note_backup(data_dir, saved_at - 3 * 86400)
        only(prometheus, "GreenroomBackupOld")
