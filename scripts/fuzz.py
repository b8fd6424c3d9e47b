"""Have schemathesis attack a real server, by way of its /openapi.json.

SCHEMATHESIS_PYTHON is the Python of the environment that schemathesis lives in. What
`/openapi.json` promises is what is checked: every answer's status and shape, no 500, valid
requests accepted and invalid ones refused.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "support")]

from server_kit import Api, Game, ServerProcess  # noqa: E402 (found by the line above)

BYSTANDERS = 50
"""Players with the lowest ids, the first that a fuzzer bans; the one it plays comes after them."""

MAX_EXAMPLES = 40
CONFIG = ROOT / "scripts" / "schemathesis.toml"
PASSES = ("--exclude-path-regex", "--include-path-regex")
FUZZED_LAST = "/(rotate|ban)$"
"""Paths fuzzed last: after these the player's token may open nothing any more."""


def main() -> int:
    """Start a server, run schemathesis over it; return the exit status."""
    with tempfile.TemporaryDirectory(prefix="greenroom-") as name:
        data_dir = Path(name)
        data_dir.chmod(0o711)  # root's Postgres runs as another user
        server = ServerProcess(data_dir, GREENROOM_RATE_LIMIT_FACTOR="1000000")
        try:
            server.start()
            game = server.new_game("fuzzed")
            statuses = [attack(server, game, option) for option in PASSES]
        finally:
            stopped = server.stop()
        if stopped != 0:
            print(server.log.read_text()[-4000:])
    return max(*statuses, stopped)


def attack(server: ServerProcess, game: Game, option: str) -> int:
    """Run schemathesis over some of the paths with all tokens right; return its exit status."""
    api = Api(server.address, game)
    token = [api.register(f"Player {n}")[1] for n in range(BYSTANDERS + 1)][-1]
    headers = {
        "X-Api-Token": game.key,
        "X-Api-Private-Token": game.private,
        "X-Game-Player-Token": token,
    }
    command = [os.environ["SCHEMATHESIS_PYTHON"], "-m", "schemathesis.cli"]
    command += ["--config-file", str(CONFIG), "run"]
    for name, value in headers.items():
        command += ["--header", f"{name}: {value}"]
    # our 404 for another method on a known path is specified, where the check wants 405
    command += ["--exclude-checks", "unsupported_method", option, FUZZED_LAST]
    command += ["--max-examples", str(MAX_EXAMPLES), "--request-timeout", "10"]
    command += ["--report-dir", str(server.data_dir / "report")]
    url = f"{server.ready['http']}/openapi.json"
    return subprocess.run([*command, url], check=False, cwd=server.data_dir).returncode


if __name__ == "__main__":
    sys.exit(main())
