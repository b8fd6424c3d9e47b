"""The data directory: one holder at a time, and a clear sentence for everything else."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from greenroom.control.datadir import hold_data_dir, holder_of
from greenroom.control.errors import DataDirError, DataDirInUse
from greenroom.control.files import write_whole

NOBODY = 65_534
HOLD = """
import sys, signal
from pathlib import Path
from greenroom.control.datadir import hold_data_dir
with hold_data_dir(Path(sys.argv[1]), sys.argv[2]):
    print("held", flush=True)
    signal.pause()
"""


def test_it_is_made_for_its_owner_alone(tmp_path: Path) -> None:
    data_dir = tmp_path / "a" / "b"
    with hold_data_dir(data_dir):
        assert stat.S_IMODE(data_dir.stat().st_mode) == (0o711 if os.geteuid() == 0 else 0o700)
        assert stat.S_IMODE((data_dir / "lock").stat().st_mode) == 0o600
        holder = holder_of(data_dir)
        assert holder is not None
        assert (holder.pid, holder.purpose) == (os.getpid(), "server")
    assert holder_of(data_dir) is None


@pytest.mark.parametrize(
    ("purpose", "text"),
    [("server", "A greenroom server (pid "), ("command", "A greenroom command")],
)
def test_a_second_process_is_told_who_holds_it(tmp_path: Path, purpose: str, text: str) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path), purpose], stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        try:
            with pytest.raises(DataDirInUse) as refused, hold_data_dir(tmp_path):
                pass
        finally:
            process.send_signal(signal.SIGKILL)
            process.wait()
    assert text in str(refused.value)
    assert str(process.pid) in str(refused.value)
    with hold_data_dir(tmp_path):
        pass  # what was killed holds nothing


def test_it_can_be_held_again_and_again(tmp_path: Path) -> None:
    for _ in range(3):
        with hold_data_dir(tmp_path), pytest.raises(DataDirInUse), hold_data_dir(tmp_path):
            pass


def test_a_file_in_its_place_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(DataDirError, match="is not a directory"), hold_data_dir(file):
        pass
    with pytest.raises(DataDirError, match="Cannot make"), hold_data_dir(file / "below"):
        pass


def test_a_directory_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    place = Path("/proc/self") if os.geteuid() == 0 else tmp_path
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(DataDirError, match="Cannot write"), hold_data_dir(place):
            pass
        with pytest.raises(DataDirError, match="Cannot make"), hold_data_dir(place / "new" / "er"):
            pass
    finally:
        tmp_path.chmod(0o700)


def test_a_link_in_place_of_the_lock_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "lock").symlink_to(tmp_path / "victim")
    with pytest.raises(DataDirError), hold_data_dir(tmp_path):
        pass
    assert not (tmp_path / "victim").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_what_root_writes_in_somebodys_directory_is_theirs(tmp_path: Path) -> None:
    os.chown(tmp_path, NOBODY, NOBODY)
    with hold_data_dir(tmp_path, "command"):
        write_whole(tmp_path / "last-backup.json", b"{}")
    assert {path.name for path in tmp_path.iterdir()} == {"lock", "last-backup.json"}
    assert {path.stat().st_uid for path in tmp_path.iterdir()} == {NOBODY}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes another user")
def test_a_lock_of_somebody_else_is_named_with_what_to_do(data_dir: Path) -> None:
    (data_dir / "lock").touch(0o600)
    os.chown(data_dir, NOBODY, NOBODY)
    os.seteuid(NOBODY)
    try:
        with pytest.raises(DataDirError) as refused, hold_data_dir(data_dir):
            pass
    finally:
        os.seteuid(0)
    assert f"{data_dir / 'lock'} (Permission denied): it belongs to the user 0" in str(
        refused.value
    )
    assert f"chown -R {NOBODY} {data_dir}" in str(refused.value)


def test_files_are_written_whole_with_their_mode(tmp_path: Path) -> None:
    path = tmp_path / "x"
    write_whole(path, b"one")
    write_whole(path, b"two", mode=0o644)
    assert path.read_bytes() == b"two"
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    assert list(tmp_path.iterdir()) == [path]


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.mkdir()
    with pytest.raises(OSError, match="directory"):
        write_whole(path, b"new")
    assert list(tmp_path.iterdir()) == [path]
