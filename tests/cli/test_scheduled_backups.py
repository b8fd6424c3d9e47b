"""Scheduled backups: when they are made, what is removed, and what failures leave."""

from __future__ import annotations

import http.client
import json
import math
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import trio
from command_kit import SECONDS_MAX, assert_one_sentence, command, inherited
from server_kit import ServerProcess
from waiting import block_until, until

from greenroom.control.backup_service import BackupService
from greenroom.control.backups import LIST_NAME, BackupFolder, period_seconds
from greenroom.control.errors import OperationRefused
from greenroom.histogram import Histogram

NOON = 1_790_000_000.0
HOUR = 3_600


def write(folder: BackupFolder, now: float) -> Path:
    path = folder.begin(now)
    path.touch()
    return path


def told(service: BackupService) -> dict[str, float]:
    samples = list(service.read_samples())
    return {each.name: each.value for each in samples if not isinstance(each.value, Histogram)}


def backups(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.glob("*.zip"))


def metric(server: ServerProcess, name: str) -> float:
    connection = http.client.HTTPConnection(*server.address)
    try:
        connection.request("GET", "/metrics", headers={"Host": "localhost"})
        lines = connection.getresponse().read().decode().splitlines()
    finally:
        connection.close()
    return next(float(line.split()[-1]) for line in lines if line.startswith(f"{name} "))


@pytest.mark.parametrize(
    ("text", "seconds"), [("1d", 86_400), ("12h", 43_200), ("30m", 1_800), ("366d", 366 * 86_400)]
)
def test_a_period_is_a_number_and_a_unit(text: str, seconds: int) -> None:
    assert period_seconds(text) == seconds


@pytest.mark.parametrize("text", ["", "1", "d", "0d", "-1d", "1.5d", "367d", "1w", "1d ", "٣d"])
def test_other_periods_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="such as 1d"):
        period_seconds(text)


def test_the_newest_are_kept_and_only_files_of_the_schedule_removed(tmp_path: Path) -> None:
    folder = BackupFolder(tmp_path, keep=2)
    assert folder.find_newest() is None
    written = [write(folder, NOON + hour * HOUR).name for hour in range(4)]
    foreign = ["greenroom-20200101T000000Z.zip", "before.zip", "greenroom-20200101T000000Z.zip.txt"]
    for name in foreign:
        (tmp_path / name).touch()
    assert folder.find_newest() == NOON + 3 * HOUR
    assert folder.prune() == written[:2]
    assert backups(tmp_path) == sorted([*written[2:], *foreign[:2]])
    assert folder.prune() == []


def test_a_list_that_names_other_files_removes_none_of_them(tmp_path: Path) -> None:
    (tmp_path / "x").mkdir()
    for place in ("thesis.zip", "x/greenroom-20200101T000000Z.zip"):
        (tmp_path / place).touch()
    names = ["thesis.zip", "x/greenroom-20200101T000000Z.zip", "../greenroom-20200101T000000Z.zip"]
    (tmp_path / LIST_NAME).write_text(json.dumps(names))
    folder = BackupFolder(tmp_path, keep=1)
    write(folder, NOON)
    assert folder.prune() == []
    assert (tmp_path / "thesis.zip").exists()
    assert (tmp_path / "x" / "greenroom-20200101T000000Z.zip").exists()


def test_a_damaged_list_is_told_and_nothing_is_removed(tmp_path: Path) -> None:
    folder = BackupFolder(tmp_path, keep=1)
    paths = [write(folder, NOON), write(folder, NOON + HOUR)]
    (tmp_path / LIST_NAME).write_text("[1")
    for attempt in (folder.find_newest, folder.prune, lambda: folder.begin(NOON)):
        with pytest.raises(OperationRefused, match="is damaged: move it away"):
            attempt()
    assert all(path.exists() for path in paths)


def test_what_a_killed_backup_left_is_removed_by_the_next(tmp_path: Path) -> None:
    folder = BackupFolder(tmp_path, keep=3)
    killed = folder.begin(NOON)
    half, foreign = tmp_path / f".{killed.name}.77", tmp_path / ".other.zip.77"
    half.touch()
    foreign.touch()
    write(folder, NOON + HOUR)
    assert (half.exists(), foreign.exists()) == (False, True)
    assert folder.find_newest() == NOON + HOUR


@pytest.mark.parametrize("place", ["none", "file"])
def test_a_folder_that_cannot_be_used_is_one_sentence(place: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OperationRefused, match="Cannot keep backups in"):
        BackupFolder(tmp_path / place, keep=1).begin(NOON)


def test_a_folder_that_is_not_there_ends_the_command_at_once(
    data_dir: Path, tmp_path: Path
) -> None:
    done = command("backup", "--every", "1m", str(tmp_path / "none"), data_dir=data_dir)
    assert done.status == 1, done.err
    assert "there is no such folder; make it first" in done.err


def test_the_command_goes_on_beside_a_server_until_it_is_told_to_stop(
    data_dir: Path, database_url: str, tmp_path: Path
) -> None:
    server = ServerProcess(data_dir, "--database-url", database_url).start()
    try:
        line = [sys.executable, "-m", "greenroom", "backup", "--every", "1m", "--keep", "1"]
        line += [str(tmp_path), "--data-dir", str(data_dir), "--json"]
        with (
            inherited(signal.SIGINT, signal.SIG_DFL),
            subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process,
        ):
            assert process.stdout is not None
            first = json.loads(process.stdout.readline())
            assert first["rows"]["games"] == 1
            assert backups(tmp_path) == [Path(first["file"]).name]
            process.send_signal(signal.SIGINT)
            assert process.wait(SECONDS_MAX) == 130
    finally:
        assert server.stop() == 0


def test_a_failure_is_told_and_the_command_goes_on(data_dir: Path, tmp_path: Path) -> None:
    line = [sys.executable, "-m", "greenroom", "backup", "--every", "1m", str(tmp_path)]
    line += ["--data-dir", str(data_dir / "none")]
    with subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        assert process.stderr.readline().startswith(b"greenroom: The backup failed: There is no da")
        assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        assert process.wait(SECONDS_MAX) != 0
    assert backups(tmp_path) == []


@pytest.mark.parametrize(
    "arguments",
    [["--keep", "3"], ["--verify", "--force"], ["--every", "1d", "--verify"], ["--every", "1w"]],
    ids=" ".join,
)
def test_options_that_contradict_each_other_are_refused(
    arguments: list[str], data_dir: Path
) -> None:
    done = command("backup", "x.zip", *arguments, data_dir=data_dir)
    assert done.status == 2, done.err


def test_the_server_makes_backups_by_itself_and_tells_their_age(
    data_dir: Path, database_url: str, tmp_path: Path
) -> None:
    (data_dir / "greenroom.toml").write_text(f'backup_dir = "{tmp_path}"\nbackup_keep = 2\n')
    server = ServerProcess(data_dir, "--database-url", database_url).start()
    try:
        made = block_until(lambda: backups(tmp_path))
        block_until(lambda: metric(server, "greenroom_backup_age_seconds") < math.inf)
        assert 0 <= metric(server, "greenroom_backup_age_seconds") < SECONDS_MAX
        assert metric(server, "greenroom_backup_failures_total") == 0
        done = command("backup", "--verify", str(tmp_path / made[0]), data_dir=data_dir)
        assert done.status == 0, done.err
        assert "each as it was saved" in done.out
    finally:
        assert server.stop() == 0


async def test_a_failed_backup_is_counted_and_leaves_the_older_ones(
    data_dir: Path, tmp_path: Path
) -> None:
    folder = BackupFolder(tmp_path, keep=1)
    old = write(folder, NOON)
    service = BackupService(folder, HOUR, data_dir / "none")
    with pytest.raises(OperationRefused, match="There is no database in"):
        await service.back_up()
    assert backups(tmp_path) == [old.name]
    async with trio.open_nursery() as nursery:
        await nursery.start(service.run)
        await until(lambda: told(service)["greenroom_backup_failures"] == 1)
        nursery.cancel_scope.cancel()
    assert told(service)["greenroom_backup_age_seconds"] != math.inf


def test_a_backup_is_verified_without_touching_the_database(
    data_dir: Path, database_url: str, tmp_path: Path
) -> None:
    away = {"DATABASE_URL": database_url, "TMPDIR": str(data_dir)}
    assert command("game", "create", "Chess", data_dir=data_dir, **away).status == 0
    file = tmp_path / "b.zip"
    assert command("backup", str(file), data_dir=data_dir, **away).status == 0
    before = sorted(path.name for path in data_dir.iterdir())
    done = command("backup", "--verify", str(file), "--json", data_dir=data_dir, **away)
    assert done.status == 0, done.err
    assert done.json["rows"]["games"] == 1
    assert sorted(path.name for path in data_dir.iterdir()) == before, "its database is removed"
    content = bytearray(file.read_bytes())
    content[200] ^= 1
    file.write_bytes(content)
    assert_one_sentence(
        command("backup", "--verify", str(file), data_dir=data_dir, **away), "b.zip"
    )
    missing = command("backup", "--verify", str(tmp_path / "none"), data_dir=data_dir, **away)
    assert_one_sentence(missing, "Cannot read")
