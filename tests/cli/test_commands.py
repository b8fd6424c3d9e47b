"""The command line as whole processes: beside a server, without one, and with everything wrong."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import shlex
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import urlopen

import psycopg
import pytest
import trio
from certificate_kit import Authority, shown
from command_kit import SECONDS_MAX, Done, assert_one_sentence, command, inherited
from server_kit import ServerProcess

import greenroom
from greenroom.app import open_admin_context
from greenroom.cli import checks
from greenroom.config import Settings
from greenroom.control.admin.messages import ShowTree
from greenroom.control.client import call
from greenroom.control.datadir import hold_data_dir
from greenroom.control.protocol import socket_path


def serve(data_dir: Path, *arguments: str) -> Done:
    ports = ("--realtime-port", "0", "--udp-port", "0")
    return command("serve", "--port", "0", *ports, *arguments, data_dir=data_dir)


@pytest.mark.timeout(400)  # some fifty processes, one after the other
def test_every_command_works_without_a_server_and_beside_one(
    data_dir: Path, database_url: str
) -> None:
    environment = {"DATABASE_URL": database_url}

    def run(*arguments: str) -> Any:
        done = command(*arguments, "--json", data_dir=data_dir, **environment)
        assert done.status == 0, done.err
        return done.json

    def session(name: str) -> None:
        run("owner", "create", name)
        assert run("owner", "set-plan", name, "pro")["plan"] == "pro"
        game = run("game", "create", "Chess", "--owner", name)
        number = str(game["game_id"])
        assert run("game", "show", number)["owner"] == name
        assert run("game", "rotate-keys", number)["api_token"] != game["api_token"]
        assert run("player", "list", number)["players"] == []
        assert run("room", "list", number) == {"rooms": [], "total": 0}
        assert run("lobby", "list", number) == {"lobbies": [], "total": 0}
        assert run("game", "settings", number, "--set", "steam_app_id=480")["steam_app_id"] == 480
        assert number in [str(listed["game_id"]) for listed in run("game", "list")["games"]]
        assert all(m["is_applied"] for m in run("db", "status")["migrations"])
        assert run("db", "migrate")["applied_now"] == []
        assert run("db", "url")["url"].startswith("postgresql://")
        assert run("game", "delete", number, "--yes")["game_id"] == game["game_id"]
        assert run("config", "show")["database_url"]
        assert {check["status"] for check in run("doctor", "--config", str(config))["checks"]} <= {
            "ok",
            "warn",
        }

    config = data_dir / "ports.toml"
    config.write_text("port = 0\nrealtime_port = 0\nudp_port = 0\n")
    session("alone")
    assert_one_sentence(command("tree", data_dir=data_dir), "No server runs on", "--data-dir")
    server = ServerProcess(data_dir, "--database-url", database_url).start()
    try:
        session("beside")
        assert run("tree")["state"] == "running"
        refused = command("game", "list", "--database-url", "postgres://x/other", data_dir=data_dir)
        assert_one_sentence(refused, "uses another database")
    finally:
        assert server.stop() == 0
    assert not (data_dir / "control.sock").exists()


def test_a_backup_beside_a_server_is_restored_where_no_server_runs(
    data_dir: Path, database_url: str, tmp_path: Path
) -> None:
    environment = {"DATABASE_URL": database_url}
    file = str(tmp_path / "night.zip")
    server = ServerProcess(data_dir, "--database-url", database_url).start()
    try:
        done = command("backup", file, "--json", data_dir=data_dir)
        assert done.status == 0, done.err
        assert done.json["rows"]["games"] == 1
        assert stat.S_IMODE(Path(file).stat().st_mode) == 0o600
        assert_one_sentence(command("backup", file, data_dir=data_dir), "is there already")
        assert command("backup", file, "--force", data_dir=data_dir).status == 0
        assert_one_sentence(command("restore", file, data_dir=data_dir), "stop it first")
        assert command("owner", "create", "Late", data_dir=data_dir).status == 0
        assert command("game", "rotate-keys", "1", "--yes", data_dir=data_dir).status == 0
    finally:
        assert server.stop() == 0
    assert_one_sentence(
        command("restore", file, data_dir=data_dir, **environment), "1 games", "--force"
    )
    done = command("restore", file, "--force", data_dir=data_dir, **environment)
    assert done.status == 0, done.err
    assert "Restored" in done.out
    assert "the old ones work again: of game 1." in done.out
    owners = command("owner", "list", "--json", data_dir=data_dir, **environment).json["owners"]
    assert [owner["name"] for owner in owners] == ["local"]
    assert_one_sentence(
        command("backup", "/nowhere/b.zip", data_dir=data_dir, **environment),
        "first make the folder /nowhere",
    )
    assert_one_sentence(
        command("restore", str(data_dir / "lock"), data_dir=data_dir, **environment), "no backup"
    )


def test_the_ready_file_is_there_exactly_while_the_server_serves(
    data_dir: Path, database_url: str
) -> None:
    server = ServerProcess(data_dir, "--database-url", database_url)
    file = data_dir / "ready.json"
    server.start()
    assert set(server.ready) == {"http", "realtime", "udp_port", "pid"}
    assert server.ready["pid"] == server.pid
    assert server.ready["http"] == f"http://127.0.0.1:{server.address[1]}"
    assert file.read_bytes().count(b"\n") == 1
    second = serve(data_dir, "--ready-file", str(file))
    assert_one_sentence(second, "already uses the data directory", str(server.pid))
    assert file.exists(), "a second server that is refused leaves it alone"
    server.kill()
    assert file.exists(), "nobody was there to remove it"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        arguments = ("--database-url", database_url, "--port", port)
        assert_one_sentence(serve(data_dir, "--ready-file", str(file), *arguments))
    assert not file.exists(), "but the next start does"
    server.start()
    assert server.stop() == 0
    assert not file.exists()


def test_json_of_serve_is_one_line(data_dir: Path, database_url: str) -> None:
    arguments = ["--data-dir", str(data_dir), "--database-url", database_url, "--json"]
    ports = ["--port", "0", "--realtime-port", "0", "--udp-port", "0"]
    line = [sys.executable, "-m", "greenroom", "serve", *arguments, *ports]
    with subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        ready = json.loads(process.stdout.readline())
        process.send_signal(signal.SIGINT)
        assert process.stdout.read() == b""
        assert process.wait(SECONDS_MAX) == 0
    assert ready["first_game"] == {"game_id": 1, "name": "first-game", "owner": "local"}
    assert ready["first_game_file"] == str(data_dir / "first-game.json"), "its keys are there"
    assert ready["pid"] == process.pid


def test_a_taken_port_is_one_sentence(data_dir: Path, database_url: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = serve(data_dir, "--database-url", database_url, "--port", port)
    assert_one_sentence(done, port, "another program listens there")


@contextlib.contextmanager
def taken_ports() -> Iterator[list[int]]:
    """Ports for HTTP, WebSocket and UDP, all of them taken."""
    with contextlib.ExitStack() as stack:
        kinds = (socket.SOCK_STREAM, socket.SOCK_STREAM, socket.SOCK_DGRAM)
        taken = [stack.enter_context(socket.socket(socket.AF_INET, kind)) for kind in kinds]
        for each in taken:
            each.bind(("127.0.0.1", 0))
            if each.type == socket.SOCK_STREAM:
                each.listen()
        yield [each.getsockname()[1] for each in taken]


def test_the_first_port_is_named_of_several_that_are_taken(data_dir: Path) -> None:
    names = ("--port", "--realtime-port", "--udp-port")
    with taken_ports() as ports:
        given = [[name, str(port)] for name, port in zip(names, ports, strict=True)]
        for first in range(3):
            arguments = [each for pair in given[first:] for each in pair]
            protocol = "UDP" if first == 2 else "TCP"
            done = serve(data_dir, *arguments)
            assert_one_sentence(done, f"{protocol} port {ports[first]} ", "listens there")
    assert [path.name for path in data_dir.iterdir()] == ["lock"], (
        "no database was made for nothing"
    )


@pytest.mark.parametrize("server", ["greenroom", "hypercorn"])
def test_a_certificate_that_cannot_be_used_is_one_sentence(
    data_dir: Path, database_url: str, server: str
) -> None:
    given = {
        "GREENROOM_TLS_CERTIFICATE_FILE": str(data_dir / "none.pem"),
        "GREENROOM_TLS_KEY_FILE": str(data_dir / "none.key"),
    }
    ports = ("--port", "0", "--realtime-port", "0", "--udp-port", "0")
    arguments = ("serve", *ports, "--database-url", database_url, "--server", server)
    done = command(*arguments, data_dir=data_dir, **given)
    assert_one_sentence(done, "none.pem", "No such file")


def test_a_data_directory_that_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    for place in (file, file / "below", Path("/proc/greenroom")):
        assert_one_sentence(serve(place), str(place), "--data-dir")
        assert_one_sentence(command("game", "list", data_dir=place), str(place), "--data-dir")


def test_a_database_that_cannot_be_reached_is_one_sentence(data_dir: Path) -> None:
    done = serve(data_dir, "--database-url", "postgresql://u:s3cret@nowhere.invalid/x")
    assert_one_sentence(done, "database")
    assert "s3cret" not in done.err


@contextlib.contextmanager
def postgres_that_refuses(message: bytes) -> Iterator[int]:
    """Something that speaks just enough of Postgres's protocol to send everybody away."""
    fields = b"SFATAL\0VFATAL\0C28P01\0M" + message + b"\0\0"
    refusal = b"E" + (len(fields) + 4).to_bytes(4, "big") + fields

    def refuse(listener: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = listener.accept()
                with connection:
                    length = int.from_bytes(connection.recv(4), "big")
                    while connection.recv(4) == (80877103).to_bytes(4, "big") and length == 8:
                        connection.sendall(b"N")  # no TLS here
                        length = int.from_bytes(connection.recv(4), "big")
                    connection.recv(length)
                    connection.sendall(refusal)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=refuse, args=(listener,), daemon=True).start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)


def test_a_wrong_password_is_one_sentence_without_it(data_dir: Path) -> None:
    with postgres_that_refuses(b'password authentication failed for user "anna"') as port:
        url = f"postgresql://anna:s3cret@127.0.0.1:{port}/x"
        for done in (
            serve(data_dir, "--database-url", url),
            command("game", "list", "--database-url", url, data_dir=data_dir),
            command("db", "status", "--database-url", url, data_dir=data_dir),
        ):
            assert_one_sentence(done, "password")
            assert "s3cret" not in done.err


def test_a_schema_of_a_newer_version_is_one_sentence(data_dir: Path, database_url: str) -> None:
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute(
            "INSERT INTO schema_migrations (version, name, checksum, applied_at)"
            " VALUES (9999, '9999_future', '', now())"
        )
    assert_one_sentence(serve(data_dir, "--database-url", database_url), "newer")
    for arguments in (("game", "list"), ("db", "migrate"), ("db", "status")):
        done = command(*arguments, "--database-url", database_url, data_dir=data_dir)
        assert_one_sentence(done, "newer")


async def test_a_database_held_from_elsewhere_is_one_sentence_that_says_by_whom(
    data_dir: Path, tmp_path: Path, database_url: str
) -> None:

    settings = Settings(data_dir=tmp_path, database_url=database_url)
    async with open_admin_context(settings):

        def attempt() -> list[Done]:
            return [
                serve(data_dir, "--database-url", database_url),
                command("game", "list", "--database-url", database_url, data_dir=data_dir),
            ]

        for done in await trio.to_thread.run_sync(attempt):
            assert_one_sentence(done, f"held by host {socket.gethostname()}", f"pid {os.getpid()}")


class OnTerminal(ServerProcess):
    """A server that is started on a terminal of its own."""

    _on_terminal = (
        "import fcntl, os, runpy, sys, termios;"
        "os.setsid();"
        "fcntl.ioctl(os.open(sys.argv.pop(1), os.O_RDWR), termios.TIOCSCTTY, 0);"
        "runpy.run_module('greenroom', run_name='__main__')"
    )

    def __init__(self, data_dir: Path) -> None:
        self.terminal, far = os.openpty()
        self.program = ("-c", self._on_terminal, os.ttyname(far))
        super().__init__(data_dir)


def test_a_closed_terminal_stops_the_server_and_its_postgres_unless_under_nohup(
    data_dir: Path,
) -> None:
    with inherited(signal.SIGHUP, signal.SIG_DFL):
        server: ServerProcess = (on_terminal := OnTerminal(data_dir)).start()
    postmaster = data_dir / "postgres" / "postmaster.pid"
    assert postmaster.exists()
    os.kill(server.pid, signal.SIGHUP)
    server.wait_logged("nothing to reload")
    os.close(on_terminal.terminal)
    assert server.wait() == 0
    assert "stopping at SIGHUP" in server.log.read_text()
    assert not postmaster.exists()

    server = ServerProcess(data_dir)

    with inherited(signal.SIGHUP, signal.SIG_IGN):
        server.start()
    os.kill(server.pid, signal.SIGHUP)
    assert call(socket_path(data_dir), ShowTree()).state == "running"
    assert server.stop() == 0


def test_sighup_reloads_the_certificate_of_both_ports(
    data_dir: Path, database_url: str, tmp_path: Path
) -> None:
    authority = Authority(tmp_path)
    first = authority.issue(begins_in_days=-3, days=-1)
    files = {
        "GREENROOM_TLS_CERTIFICATE_FILE": str(authority.certificate),
        "GREENROOM_TLS_KEY_FILE": str(authority.key),
    }
    with inherited(signal.SIGHUP, signal.SIG_DFL):
        server = ServerProcess(data_dir, "--database-url", database_url, **files).start()
    assert f"{authority.certificate} expired at" in server.log.read_text()
    ports = [server.address[1], urlsplit(server.ready["realtime"]).port]
    assert [trio.run(shown, port) for port in ports] == [first, first]
    second = authority.issue(days=40)
    before = len(server.log.read_bytes())
    os.kill(server.pid, signal.SIGHUP)
    server.wait_logged("is valid until", before)
    assert [trio.run(shown, port) for port in ports] == [second, second]
    url = f"{server.ready['http']}/metrics"
    with urlopen(url, context=authority.trusting()) as answer:
        text = answer.read().decode()
    (line,) = [x for x in text.splitlines() if x.startswith("greenroom_tls_certificate_expiry_")]
    assert 39 < (float(line.split()[1]) - time.time()) / 86_400 < 41
    assert server.stop() == 0


def test_a_draining_server_is_not_ready_and_goes_on_until_a_second_signal(
    data_dir: Path, database_url: str
) -> None:
    drain = {"GREENROOM_DRAIN_SECONDS": "3600"}
    server = ServerProcess(data_dir, "--database-url", database_url, **drain).start()
    kept = http.client.HTTPConnection(*server.address, timeout=30)

    def ask() -> tuple[int, str | None]:
        kept.request("GET", "/readyz")
        answer = kept.getresponse()
        answer.read()
        return answer.status, answer.getheader("Connection")

    assert ask() == (200, None)
    os.kill(server.pid, signal.SIGTERM)
    server.wait_logged("stopping at SIGTERM in 3600 s")
    assert ask() == (503, "close")
    kept.request("GET", "/healthz")
    assert kept.getresponse().status == 200
    kept.close()
    assert server.stop() == 0


CERTIFICATES = {
    "valid": ((-1, 90), "ok", "is valid until"),
    "expiring": ((-1, 29), "warn", "is valid only until"),
    "expired": ((-3, -1), "fail", "expired at"),
    "early": ((1, 90), "fail", "is not valid before"),
}


@pytest.mark.parametrize("state", CERTIFICATES)
def test_the_doctor_tells_how_long_the_certificate_is_valid(tmp_path: Path, state: str) -> None:
    (begins_in_days, days), status, text = CERTIFICATES[state]
    authority = Authority(tmp_path)
    authority.issue(days=days, begins_in_days=begins_in_days)
    settings = Settings(
        data_dir=tmp_path, tls_certificate_file=authority.certificate, tls_key_file=authority.key
    )
    check = checks._tls(settings)
    assert (check.status, text in check.text) == (status, True), check
    assert bool(check.advice) == (status != "ok")
    authority.key.chmod(0o604)
    assert checks._tls(settings).status == ("warn" if status == "ok" else status)


def test_a_server_beside_a_kubernetes_service_starts_and_says_what_it_ignores(
    data_dir: Path, database_url: str
) -> None:
    links = {"GREENROOM_PORT": "tcp://10.0.0.1:8080", "GREENROOM_SERVICE_HOST": "10.0.0.1"}
    server = ServerProcess(data_dir, "--database-url", database_url, **links).start()
    assert server.stop() == 0
    told = [line for line in server.log.read_text().splitlines() if "service links" in line]
    assert len(told) == 1, told
    assert "GREENROOM_PORT, GREENROOM_SERVICE_HOST" in told[0]


def test_commands_wait_for_each_other(data_dir: Path, database_url: str) -> None:
    with contextlib.ExitStack() as stack:
        stack.enter_context(hold_data_dir(data_dir, "command"))
        line = [sys.executable, "-m", "greenroom", "game", "list", "--data-dir", str(data_dir)]
        process = subprocess.Popen(
            [*line, "--database-url", database_url, "--json"], stdout=subprocess.PIPE
        )
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(1.0)  # it has found the directory in use, and waits
        stack.close()
        out, _ = process.communicate(timeout=SECONDS_MAX)
    assert json.loads(out) == {"games": []}


def test_an_interrupted_command_stops_what_it_started(data_dir: Path) -> None:
    """Without a server, it has started an embedded Postgres: none may be left behind."""
    line = [sys.executable, "-m", "greenroom", "db", "migrate", "--data-dir", str(data_dir)]
    with subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        while not (data_dir / "lock").exists() and process.poll() is None:
            pass
        process.send_signal(signal.SIGTERM)
        process.wait(SECONDS_MAX)
    assert process.returncode in {130, -signal.SIGTERM}
    assert command("db", "migrate", data_dir=data_dir).status == 0
    done = command("game", "list", "--json", data_dir=data_dir)
    assert done.json == {"games": []}


READERS = (
    ["backup", "x.zip"],
    ["db", "status"],
    ["db", "url"],
    ["game", "list"],
    ["game", "settings", "1"],
    ["lobby", "list"],
    ["owner", "list"],
    ["player", "ban", "1"],
    ["player", "list"],
    ["player", "show", "1"],
    ["room", "history", "x"],
    ["tree"],
)


@pytest.mark.parametrize("arguments", READERS, ids=" ".join)
def test_what_reads_makes_no_database_where_there_is_none(
    arguments: list[str], data_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(greenroom.__file__).parents[1]))
    monkeypatch.chdir(tmp_path)
    for place in (data_dir / "elsewhere", data_dir):
        assert_one_sentence(command(*arguments, data_dir=place), str(place))
    assert list(data_dir.iterdir()) == list(tmp_path.iterdir()) == []


def test_the_embedded_database_works_without_a_server(data_dir: Path) -> None:
    created = command("game", "create", "Chess", "--json", data_dir=data_dir).json
    listed = command("game", "list", "--json", data_dir=data_dir).json["games"]
    assert [game["game_id"] for game in listed] == [created["game_id"]]
    status = command("db", "status", data_dir=data_dir)
    assert (status.status, "pending" in status.out) == (0, False)
    doctor = command("doctor", "--json", data_dir=data_dir, GREENROOM_PORT="0").json["checks"]
    checks = {check["name"]: check["status"] for check in doctor}
    assert checks["postgres"] == checks["database"] == "ok"
    assert stat.S_IMODE((data_dir / "lock").stat().st_mode) == 0o600


def test_the_doctor_says_what_is_wrong(data_dir: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = command(
            *("doctor", "--json", "--database-url", "postgresql://u:s3cret@127.0.0.1:1/x"),
            data_dir=data_dir,
            GREENROOM_PORT=port,
            GREENROOM_TLS_CERTIFICATE_FILE=str(data_dir / "none.pem"),
            GREENROOM_TLS_KEY_FILE=str(data_dir / "none.key"),
        )
    checks = {check["name"]: check for check in done.json["checks"]}
    assert done.status == 1
    assert {name for name, check in checks.items() if check["status"] == "fail"} == {
        "ports",
        "tls",
        "database",
    }
    assert all(check["advice"] for check in checks.values() if check["status"] != "ok")
    assert port in checks["ports"]["text"]
    assert "s3cret" not in done.out + done.err


def test_the_doctor_says_nothing_of_a_database_whose_postgres_is_not_right(data_dir: Path) -> None:
    (data_dir / "postgres").symlink_to(data_dir / "nowhere")
    done = command("doctor", "--json", data_dir=data_dir, GREENROOM_PORT="0")
    checks = {check["name"]: check for check in done.json["checks"]}
    assert checks["postgres"]["status"] == "fail"
    assert (checks["database"]["status"], checks["database"]["text"]) == ("warn", "not looked at")


def test_output_into_a_closed_pipe_is_no_bug(data_dir: Path) -> None:
    line = shlex.join([sys.executable, "-m", "greenroom", "config", "show", "--data-dir", "/x"])
    done = subprocess.run(
        ["/bin/sh", "-c", f"{line} | true"], capture_output=True, check=False, text=True
    )
    assert done.stderr == ""
