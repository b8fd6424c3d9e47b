"""Places and locales that commands meet on real machines: none makes them speak of a bug."""

from __future__ import annotations

import errno
import json
import os
import pwd
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from server_kit import ServerProcess

import greenroom as package
from greenroom.control.files import why_not

GREENROOM = [sys.executable, "-m", "greenroom"]
SECONDS_MAX = 60.0
LATIN_1 = {"PYTHONIOENCODING": "iso-8859-1"}
NO_UTF_8 = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
USER = pwd.getpwuid(os.geteuid()).pw_name
WITHOUT_ROOTS_RIGHTS = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"]


def run(*line: str, **environment: str) -> subprocess.CompletedProcess[bytes]:
    given = {name: value for name, value in os.environ.items() if name != "DATABASE_URL"}
    return subprocess.run(
        line, env=given | environment, capture_output=True, timeout=SECONDS_MAX, check=False
    )


def greenroom(*arguments: str, **environment: str) -> subprocess.CompletedProcess[bytes]:
    return run(*GREENROOM, *arguments, **environment)


def shell(arguments: str, redirection: str) -> subprocess.CompletedProcess[bytes]:
    return run("/bin/sh", "-c", f"{shlex.join(GREENROOM)} {arguments} {redirection}")


def assert_no_bug(done: subprocess.CompletedProcess[bytes], status: int) -> None:
    assert b"Traceback" not in done.stderr, done.stderr.decode(errors="replace")
    assert b"bug" not in done.stderr
    assert done.returncode == status, done.stderr


def test_a_backup_cannot_be_written_where_nobody_may_look(data_dir: Path) -> None:
    locked = data_dir / "locked"
    locked.mkdir(mode=0)
    as_somebody = WITHOUT_ROOTS_RIGHTS if os.geteuid() == 0 else []
    line = [*as_somebody, *GREENROOM, "backup", str(locked / "x.zip"), "--data-dir", str(data_dir)]
    done = run(*line)
    assert_no_bug(done, 1)
    told = done.stderr.decode()
    assert told == (
        f"greenroom: Cannot write {locked}/x.zip (Permission denied): let the user {USER} write "
        "there, or name a file in another folder.\n"
    )


@pytest.mark.parametrize("name", ["a/x.zip", "file/x.zip", "x" * 300, "\ud800.zip"])
@pytest.mark.parametrize("command", ["backup", "restore"])
def test_a_place_that_takes_no_backup_is_one_sentence(
    command: str, name: str, data_dir: Path
) -> None:
    (data_dir / "file").touch()
    place = os.fsencode(data_dir) + b"/" + name.encode("utf-8", "surrogatepass")
    done = greenroom(command, os.fsdecode(place), "--data-dir", str(data_dir / "none"))
    assert_no_bug(done, 1)
    assert done.stderr.count(b"\n") == 1
    assert not (data_dir / "none").exists()


def test_the_tree_and_the_doctor_are_drawn_in_any_encoding(server: ServerProcess) -> None:
    where = ("--data-dir", str(server.data_dir))
    for encoding, branch in (("iso-8859-1", "|-- "), ("ascii", "-- "), ("utf-8", "├── ")):
        done = greenroom("tree", *where, PYTHONIOENCODING=encoding)
        assert_no_bug(done, 0)
        told = done.stdout.decode()
        assert branch in told or encoding == "ascii", told


def test_advice_of_the_doctor_is_drawn_in_latin_1(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    done = greenroom("doctor", "--data-dir", str(tmp_path / "file"), **LATIN_1)
    assert_no_bug(done, 1)
    assert b"\n      -> " in done.stdout


@pytest.mark.parametrize("word", ["dé", "日本", "b\udce9d"], ids=["latin", "japanese", "no utf-8"])
def test_a_data_directory_may_have_any_name_without_utf_8(word: str, data_dir: Path) -> None:
    place = data_dir / word
    for command in (["config", "show"], ["config", "show", "--json"], ["doctor", "--json"]):
        done = greenroom(*command, "--data-dir", str(place), GREENROOM_PORT="0", **NO_UTF_8)
        assert b"Traceback" not in done.stderr, done.stderr.decode()
    assert not place.exists()
    done = greenroom("db", "migrate", "--data-dir", str(place), **NO_UTF_8)
    if word.isprintable():
        assert_no_bug(done, 0)
    else:
        assert_no_bug(done, 1)
        assert b"is not UTF-8: choose another --data-dir" in done.stderr


def test_names_may_have_any_letters_without_utf_8(server: ServerProcess) -> None:
    place = ("--json", "--data-dir", str(server.data_dir))
    done = greenroom("game", "create", "Übung", *place, **NO_UTF_8)
    assert_no_bug(done, 0)
    assert json.loads(done.stdout)["name"] == "Übung"
    assert_no_bug(greenroom("game", "create", "b\udce9d", *place, **NO_UTF_8), 2)


@pytest.mark.parametrize("arguments", ["config show", "config show --json", "--help", "--version"])
def test_an_output_that_is_full_is_one_sentence(arguments: str) -> None:
    done = shell(arguments, ">/dev/full")
    assert_no_bug(done, 1)
    assert done.stderr == (
        b"greenroom: Cannot write the output (No space left on device): make space there, or name "
        b"another place.\n"
    )


@pytest.mark.parametrize("redirection", [">&-", "2>&-", ">&- 2>&-", "2>/dev/full"])
def test_an_output_that_is_closed_changes_no_exit_status(redirection: str) -> None:
    for arguments, status in (("config show", 0), ("game show x", 2), ("restore /nope/x", 1)):
        assert_no_bug(shell(arguments, redirection), status)


def test_a_directory_that_was_removed_is_no_bug(data_dir: Path) -> None:
    for number, arguments in enumerate(("config show", "new x", "backup x.zip")):
        gone = data_dir / str(number)
        gone.mkdir()
        line = f"cd {gone} && rmdir {gone} && exec {shlex.join(GREENROOM)} {arguments}"
        done = run("/bin/sh", "-c", line, PYTHONPATH=str(Path(package.__file__).parents[1]))
        assert b"Traceback" not in done.stderr, done.stderr.decode()
        assert b"bug" not in done.stderr


@pytest.mark.parametrize(
    ("number", "advice"),
    [
        (errno.EACCES, f"(Permission denied): let the user {USER} write there, or go elsewhere."),
        (errno.ENOSPC, "(No space left on device): make space there, or go elsewhere."),
        (errno.EROFS, "(Read-only file system): mount it so that it can be written to, or "),
        (errno.EIO, "(Input/output error): look at the disk (dmesg), or go elsewhere."),
        (errno.ENAMETOOLONG, "(File name too long): choose a shorter name."),
        (errno.EISDIR, "(Is a directory): go elsewhere."),
    ],
)
def test_what_cannot_be_written_comes_with_advice(number: int, advice: str) -> None:
    assert why_not(OSError(number, os.strerror(number)), "go elsewhere").startswith(advice)
