"""Follows a page of the docs: runs its shell commands in order, as a reader would paste them."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import re
import shutil
import socket
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from browser_kit import Page
from server_kit import Game
from waiting import block_until

ROOT = Path(__file__).resolve().parents[3]
SECONDS_MAX = 100.0
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
WRITTEN = re.compile(r"(Save this as|Add this to the end of)\s`([^`]+)`:\n\n\Z")
HEADING = re.compile(r"^##? (.+)$", re.MULTILINE)

OWN_SETTINGS = "[ ! -e greenroom.toml ] || unset GREENROOM_DATA_DIR"
"""Lets a project's settings say where its data is."""
SHIMS = {
    "serve": OWN_SETTINGS + "; exec {python} -P -m greenroom serve",
    "greenroom": "exec {python} -P -m greenroom",
    "test": "exec {python} -m pytest -q -p no:cacheprovider",
}
"""Stand for the scripts: what they do once the environment, the tests' own here, is made."""

LASTING = re.compile(r"scripts/serve(?!.* --help)|python3 -m http\.server")
"""Commands that stay in the foreground, and so have a terminal of their own."""

LAST_LINE = re.compile(r"described at .*\n|first game's keys: .*\n")
"""The last line that a server prints when it starts."""


class Block(NamedTuple):
    """A fenced block: the section it is in, its language, its text, the file that it is for."""

    section: str
    language: str
    text: str
    file: str = ""
    """The file that the page says the text belongs in."""
    is_added: bool = False
    """True if the text goes to the end of that file; otherwise it is all of it."""


def blocks_of(page: Path) -> list[Block]:
    """Return every fenced block of a page, in order."""
    text = page.read_text()
    found = []
    for match in FENCE.finditer(text):
        before = text[: match.start()]
        headings = HEADING.findall(FENCE.sub("", before))
        block = Block(headings[-1], match[1], match[2])
        if (told := WRITTEN.search(before)) is not None:
            block = block._replace(file=told[2], is_added=told[1].startswith("Add"))
        found.append(block)
    return found


def write_block(directory: Path, block: Block) -> None:
    """Write a block into its file, as the page says."""
    path = directory / block.file
    path.parent.mkdir(parents=True, exist_ok=True)
    before = path.read_text() if block.is_added else ""
    path.write_text(f"{before}\n{block.text}" if before else block.text)


async def enter_room(page: Page, url: str, name: str, key: str = "") -> None:
    """Come to a room as the page of a tutorial has it; an invitation has the key already."""
    await page.show(url)
    for field, text in (("name", name), ("key", key)):
        if text:
            await page.evaluate(f"document.getElementById('{field}').value = {json.dumps(text)}")
    await page.click("#entrance button")
    await page.until("globalThis.room?.state")


def free_port() -> int:
    """Return a port that nobody has at the moment."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


def write_down(terminal: int, output: Path) -> None:
    """Write what a terminal shows to a file, until nobody has the terminal open any more."""
    with open(terminal, "rb", buffering=0) as shown, output.open("wb", buffering=0) as file:
        with contextlib.suppress(OSError):  # what Linux answers once the far end is closed
            shutil.copyfileobj(shown, file)


class Reader:
    """Somebody with a checkout, some terminals, and ports of their own."""

    def __init__(self, directory: Path) -> None:
        """Have nothing but the checkout; `directory` is for all that is made."""
        self.checkout = directory / "checkout"
        self._home = directory
        self._terminals: list[subprocess.Popen[bytes]] = []
        self.said = ""
        """The output of the last command."""
        self.filled: dict[str, str] = {}
        """The values of the page's placeholders, as far as they are known."""
        self.ports = {name: free_port() for name in ("8080", "8081", "8000")}
        self._environment = os.environ | {
            "HOME": str(directory),
            "PYTHONPATH": str(ROOT),
            "GREENROOM_DATA_DIR": str(directory / "data"),
            "GREENROOM_PORT": str(self.ports["8080"]),
            "GREENROOM_REALTIME_PORT": str(self.ports["8081"]),
            "GREENROOM_UDP_PORT": "0",
        }
        scripts = self.checkout / "scripts"
        scripts.mkdir(parents=True)
        for name in ("examples", "pyproject.toml"):
            (self.checkout / name).symlink_to(ROOT / name)
        for name, command in SHIMS.items():
            line = command.format(python=sys.executable)
            (scripts / name).write_text(f'#!/bin/sh\n{line} "$@"\n')
            (scripts / name).chmod(0o755)
        program = self.checkout / "bin"
        program.mkdir()
        (program / "greenroom").symlink_to(scripts / "greenroom")
        self._environment["PATH"] = f"{program}{os.pathsep}{os.environ['PATH']}"

    def fill(self, text: str) -> str:
        """Return a text of the page as this reader would write it."""
        for placeholder, value in self.filled.items():
            text = text.replace(placeholder, value)
        for port, ours in self.ports.items():
            text = re.sub(rf"(127\.0\.0\.1:|server ){port}\b", rf"\g<1>{ours}", text)
        return text

    def paste(self, commands: str) -> None:
        """Run the lines of a block; what lasts goes on in a terminal of its own."""
        commands = self.fill(commands).replace("\\\n", " ")
        for line in commands.splitlines():
            if LASTING.search(line):
                self._open_terminal(line)
            else:
                self.said = self._run(line)
                self._note(self.said)

    def write(self, block: Block) -> None:
        """Write a block into its file; the ports alone are others."""
        write_block(self.checkout, block._replace(text=self.fill(block.text)))

    def _run(self, line: str) -> str:
        done = subprocess.run(
            ["sh", "-ec", line],
            cwd=self.checkout,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=SECONDS_MAX,
            check=False,
        )
        assert done.returncode == 0, (line, done.stdout, done.stderr)
        return done.stdout

    def _open_terminal(self, line: str) -> None:
        is_server = "scripts/serve" in line
        port = self.ports["8080" if is_server else "8000"]
        output = self._home / f"terminal-{len(self._terminals)}.txt"
        *before, last = line.split(" && ")
        command = " && ".join([*before, f"exec {last}"])
        near, far = pty.openpty()
        self._terminals.append(
            subprocess.Popen(
                ["sh", "-ec", command],
                cwd=self.checkout,
                env=self._environment,
                stdout=far,
                stderr=far,
            )
        )
        os.close(far)
        output.touch()
        threading.Thread(target=write_down, args=(near, output), daemon=True).start()
        self._wait(f"http://127.0.0.1:{port}/{'readyz' if is_server else ''}", output)

        def has_said_all() -> bool:
            assert self._terminals[-1].poll() is None, output.read_text()
            return LAST_LINE.search(output.read_text()) is not None

        if is_server:
            block_until(has_said_all, SECONDS_MAX, explain=output.read_text)
        self.said = output.read_text()
        self._note(self.said)

    def _wait(self, url: str, output: Path) -> None:
        """Wait until what was started answers."""

        def answers() -> bool:
            try:
                urllib.request.urlopen(url, timeout=10).close()
            except OSError:
                assert self._terminals[-1].poll() is None, output.read_text()
                return False
            return True

        block_until(answers, SECONDS_MAX, explain=output.read_text)

    def _note(self, said: str) -> None:
        """Remember the keys and ids that a command has shown."""
        shown = {
            "gr_api_…": re.search(r"project key\s+(gr_api_\w+)", said),
            "gr_adm_…": re.search(r"admin key\s+(gr_adm_\w+)", said),
            "gr_plr_…": re.search(r'"private_key":"(gr_plr_\w+)"', said),
            "ROOM_ID": re.search(r'"room_id":"(\w+)"', said),
        }
        self.filled |= {name: match[1] for name, match in shown.items() if match}
        registered = re.findall(r'"private_key":"(gr_plr_\w+)","player_name":"(\w+)"', said)
        self.filled |= {f"{name.upper()}_TOKEN": token for token, name in registered}

    @property
    def address(self) -> tuple[str, int]:
        """Return where the server answers HTTP."""
        return "127.0.0.1", self.ports["8080"]

    @property
    def ready(self) -> dict[str, Any]:
        """Return the server's addresses."""
        return {"realtime": f"ws://127.0.0.1:{self.ports['8081']}"}

    def new_game(self) -> Game:
        """Return the first game."""
        return Game(1, self.filled["gr_api_…"], self.filled["gr_adm_…"])

    def compare(self, shown: str) -> None:
        """Compare an answer that the page shows with the last one that came."""
        assert shape(json.loads(self.said)) == shape(json.loads(shown)), self.said

    def kill_server(self) -> None:
        """End the server that was started last, as `kill -9` does."""
        self._terminals[-1].kill()
        self._terminals.pop().wait(SECONDS_MAX)

    def leave(self) -> None:
        """Stop what runs in every terminal."""
        for terminal in self._terminals:
            terminal.terminate()
        for terminal in self._terminals:
            terminal.wait(SECONDS_MAX)


def shape(value: Any) -> Any:
    """Return what of an answer is the same each time: names, kinds, booleans, errors."""
    match value:
        case Mapping():
            kept = {name: shape(inner) for name, inner in value.items()}
            return kept | {name: value[name] for name in ("error", "status") if name in value}
        case list():
            return [shape(inner) for inner in value]
        case bool() | None:
            return value
        case _:
            return type(value).__name__
