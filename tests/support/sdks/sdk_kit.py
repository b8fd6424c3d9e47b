"""SDKs as their users have them: built, and run in Node or on a page of a browser."""

from __future__ import annotations

import fcntl
import json
import shutil
import subprocess
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Protocol

import pytest
import trio
from browser_kit import needs_browser, open_browser, serve_files

ROOT = Path(__file__).resolve().parents[3]
TYPESCRIPT = ROOT / "sdk" / "typescript"
COMPILER = TYPESCRIPT / "node_modules" / "typescript" / "bin" / "tsc"
BUILD = (("--removeComments", "--declaration", "false"), ("--emitDeclarationOnly",))
"""The compiler's options in the script `build` of package.json: comments stay in the types."""
ANSWER_SECONDS_MAX = 60.0
BUILD_SECONDS_MAX = 100.0

HAS_NODE = shutil.which("node") is not None
needs_compiler = pytest.mark.skipif(
    not (HAS_NODE and COMPILER.exists()),
    reason="no Node, or no compiler: npm ci in sdk/typescript",
)
PLATFORMS = (pytest.param("node"), pytest.param("chromium", marks=needs_browser))


def build_typescript() -> Path:
    """Compile the SDK, unless another process has; return its folder.

    The compiler checks the types of the whole package as it goes.
    """
    written = TYPESCRIPT / "dist" / "index.js"
    with (TYPESCRIPT / "tsconfig.json").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        sources = [*TYPESCRIPT.glob("src/**/*.ts"), TYPESCRIPT / "tsconfig.json"]
        newest = max(path.stat().st_mtime_ns for path in sources)
        if not written.exists() or written.stat().st_mtime_ns < newest:
            shutil.rmtree(TYPESCRIPT / "dist", ignore_errors=True)
            for options in BUILD:
                run_node(str(COMPILER), *options)
            written.touch()
    return TYPESCRIPT


def run_node(*arguments: str) -> str:
    """Run a program in Node to its good end; return what it printed."""
    done = subprocess.run(
        ["node", *arguments],
        cwd=TYPESCRIPT,
        capture_output=True,
        text=True,
        timeout=BUILD_SECONDS_MAX,
        check=False,
    )
    assert done.returncode == 0, f"{arguments}\n{done.stdout[-8000:]}\n{done.stderr[-8000:]}"
    return done.stdout


class Platform(Protocol):
    """A place where JavaScript runs, with `sdk`, `admin` and `story` at hand."""

    async def evaluate(self, expression: str) -> Any:
        """Return what an expression gives, once it is there."""
        ...


class NodeHost:
    """A Node that evaluates expressions, one at a time."""

    def __init__(self, process: trio.Process) -> None:
        self._process = process
        self._buffer = b""

    async def evaluate(self, expression: str) -> Any:
        assert self._process.stdin is not None
        line = " ".join(expression.split("\n")) + "\n"
        with trio.fail_after(ANSWER_SECONDS_MAX):
            await self._process.stdin.send_all(line.encode())
            answer = json.loads(await self._read_line())
        assert "error" not in answer, answer["error"]
        return answer["value"]

    async def _read_line(self) -> bytes:
        assert self._process.stdout is not None
        while b"\n" not in self._buffer:
            more = await self._process.stdout.receive_some()
            assert more, "Node has ended"
            self._buffer += more
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line


@asynccontextmanager
async def open_platform(name: str) -> AsyncGenerator[Platform]:
    """A Node, or a page of a browser, with the TypeScript SDK."""
    folder = await trio.to_thread.run_sync(build_typescript)
    if name == "node":
        async with open_node(folder / "test" / "host.mjs") as node:
            yield node
    else:
        with serve_files(folder) as where:
            async with open_browser() as browser:
                page = await browser.new_page()
                await page.show(f"{where}/test/page.html")
                await page.until("globalThis.story")
                yield page


@asynccontextmanager
async def open_node(program: Path) -> AsyncGenerator[NodeHost]:
    """A Node that runs a program of `evaluate`'s kind."""
    async with trio.open_nursery() as nursery:
        process = await nursery.start(start_process, ["node", str(program)])
        try:
            yield NodeHost(process)
        finally:
            process.kill()
            with trio.CancelScope(shield=True):
                await process.wait()


async def start_process(command: list[str], *, task_status: trio.TaskStatus[trio.Process]) -> None:
    """Run a process with pipes for its input and output."""
    await trio.run_process(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        check=False,
        task_status=task_status,
    )
