"""The systemd unit, and what the server tells a service manager: the tests play systemd."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from server_kit import ServerProcess

from greenroom.control.service_manager import ServiceManager

ROOT = Path(__file__).resolve().parents[2]
SECONDS_MAX = 60.0
SILENCE_SECONDS = 1.0
WATCHDOG_USEC = 300_000
EXPOSURE_MAX = 25
"""In tenths, as `systemd-analyze security` counts: below is `OK`, half of `MEDIUM`."""


class Systemd:
    """The socket that systemd would give a service, at a path or in the abstract name space."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(name.replace("@", "\0", 1))
        self._socket.settimeout(SECONDS_MAX)

    def hear(self) -> str:
        """The next message."""
        return self._socket.recv(4096).decode()

    def hear_until(self, text: str) -> list[str]:
        """All messages up to the one that begins so."""
        heard = [self.hear()]
        while not heard[-1].startswith(text):
            heard.append(self.hear())
        return heard

    def hears_nothing(self) -> bool:
        """Forget what has come, and tell whether nothing comes for a while."""
        self._socket.setblocking(False)
        try:
            while True:
                self.hear()
        except BlockingIOError:
            pass
        self._socket.settimeout(SILENCE_SECONDS)
        try:
            self.hear()
        except TimeoutError:
            return True
        finally:
            self._socket.settimeout(SECONDS_MAX)
        return False

    def close(self) -> None:
        self._socket.close()


@pytest.fixture(params=["a path", "abstract"])
def systemd(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Systemd]:
    abstract = f"@greenroom-{secrets.token_hex(8)}"
    playing = Systemd(abstract if request.param == "abstract" else str(tmp_path / "notify"))
    try:
        yield playing
    finally:
        playing.close()


def test_a_server_says_when_it_answers_reloads_lives_and_stops(systemd: Systemd, data_dir: Path):
    asked = {"NOTIFY_SOCKET": systemd.name, "WATCHDOG_USEC": str(WATCHDOG_USEC)}
    server = ServerProcess(data_dir, **asked, PYTHONFAULTHANDLER="1")
    server.begin()
    try:
        assert systemd.hear() == "READY=1"  # nothing before, not even Postgres's own word
        assert server.is_ready()
        assert systemd.hear() == "WATCHDOG=1"
        os.kill(server.pid, signal.SIGHUP)
        assert "RELOADING=1\nMONOTONIC_USEC=" in systemd.hear_until("RELOADING")[-1]
        assert systemd.hear() == "READY=1"
        os.kill(server.pid, signal.SIGSTOP)  # as a loop that hangs
        assert systemd.hears_nothing()
        os.kill(server.pid, signal.SIGCONT)
        assert systemd.hear() == "WATCHDOG=1"
        assert server.stop() == 0, server.log.read_text()
        assert systemd.hear_until("STOPPING")[-1] == "STOPPING=1"
        assert systemd.hears_nothing()
    finally:
        server.kill()


def test_a_hung_server_that_systemd_aborts_leaves_its_stack(data_dir: Path, database_url: str):
    server = ServerProcess(data_dir, "--database-url", database_url, PYTHONFAULTHANDLER="1")
    try:
        server.start()
        assert server.stop(signal.SIGABRT) == -signal.SIGABRT
        assert "Current thread" in server.log.read_text()
    finally:
        server.kill()


def test_what_the_manager_asked_is_not_handed_on(systemd: Systemd):
    environ = {"NOTIFY_SOCKET": systemd.name, "WATCHDOG_PID": "1", "WATCHDOG_USEC": "9", "PATH": ""}
    ServiceManager.take(environ).tell_ready()
    assert systemd.hear() == "READY=1"
    assert environ == {"PATH": ""}


async def test_another_process_or_nonsense_owes_no_sign_of_life(systemd: Systemd):
    for pid, usec in (("1", "1000"), ("", ""), ("", "soon"), ("", "0"), ("", "-5"), ("", "²")):
        asked = {"NOTIFY_SOCKET": systemd.name, "WATCHDOG_PID": pid, "WATCHDOG_USEC": usec}
        await ServiceManager(asked).tell_alive()  # returns at once
    assert systemd.hears_nothing()


@pytest.mark.parametrize("name", ["", "vsock:2:1234", "notify", "/nowhere/at/all", "@nobody", "@"])
def test_a_manager_that_is_not_there_is_told_nothing(name: str, caplog: pytest.LogCaptureFixture):
    manager = ServiceManager({"NOTIFY_SOCKET": name})
    manager.tell_ready()
    manager.tell_stopping()
    assert len(caplog.records) == (1 if name else 0)


def test_a_manager_that_does_not_read_holds_nobody_up(systemd: Systemd):
    manager = ServiceManager({"NOTIFY_SOCKET": systemd.name})
    for _ in range(10_000):  # more than any queue of datagrams holds
        manager.tell_ready()


@pytest.fixture
def unit(tmp_path: Path) -> Path:
    """The unit and its drop-in, as they would be installed, for a checkout that is here."""
    if shutil.which("systemd-analyze") is None:
        pytest.skip("no systemd-analyze")
    text = (ROOT / "deploy" / "greenroom.service").read_text()
    assert text.count("/opt/greenroom") >= 2
    file = tmp_path / "greenroom.service"
    file.write_text(text.replace("/opt/greenroom", str(ROOT)))
    return file


def analyze(*arguments: str) -> str:
    command = ["systemd-analyze", *arguments]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout + ended.stderr


def test_systemd_has_nothing_to_say_about_the_unit(unit: Path):
    assert analyze("verify", str(unit)) == ""


def test_systemd_has_nothing_to_say_about_the_unit_with_low_ports(unit: Path):
    folder = unit.with_name("greenroom.service.d")
    folder.mkdir()
    shutil.copy(ROOT / "deploy" / "greenroom-low-ports.conf", folder / "low-ports.conf")
    assert analyze("verify", str(unit)) == ""


def test_systemd_finds_the_unit_little_exposed(unit: Path):
    analyze("security", "--offline=true", f"--threshold={EXPOSURE_MAX}", "--no-pager", str(unit))
