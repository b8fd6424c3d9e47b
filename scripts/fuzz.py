"""Have schemathesis attack a real server of the kinds that are named, or of either.

SCHEMATHESIS_PYTHON is the Python of the environment that schemathesis lives in. What
`/openapi.json` promises is what is checked: every answer's status and shape, no 500, valid
requests accepted and invalid ones refused. The requests are the same every time, unless TEST_SEED
gives others and FUZZ_SECONDS goes on making them; `scripts/search` does.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), *map(str, (ROOT / "tests" / "support").glob("**/"))]

from server_kit import Api, Game, ServerProcess  # noqa: E402 (found by the line above)

from greenroom.control.admin.messages import ChangeGameSettings  # noqa: E402
from greenroom.control.client import call  # noqa: E402
from greenroom.control.protocol import socket_path  # noqa: E402

BYSTANDERS = 50
"""Players with the lowest ids, the first that a fuzzer bans; the one it plays comes after them."""

CONFIG = ROOT / "scripts" / "schemathesis.toml"
SERVERS = ("greenroom", "hypercorn")
FUZZED_LAST = "/(rotate|ban)$"
"""Paths fuzzed last: after these the player's token may open nothing any more."""
PASSES = ("--exclude-path-regex", "--include-path-regex")
"""The options of the two passes: without these paths, then only these."""
FIXED_EXAMPLES = "40"
"""For each operation, at most. A number, not a time: a slow machine finds what a fast one finds."""


def main() -> int:
    """Fuzz each kind of server that the command line names; return the exit status."""
    return max([fuzz(kind) for kind in sys.argv[1:] or SERVERS])


def fuzz(kind: str) -> int:
    """Start a server, run schemathesis over it; return the exit status."""
    print(f"schemathesis on --server {kind}", flush=True)
    with tempfile.TemporaryDirectory(prefix="greenroom-") as name:
        data_dir = Path(name)
        data_dir.chmod(0o711)  # root's Postgres runs as another user
        server = ServerProcess(data_dir, "--server", kind, GREENROOM_RATE_LIMIT_FACTOR="1000000")
        try:
            server.start()
            game = server.new_game("fuzzed")
            # the stat of the example: a call with an undeclared one is refused
            declared = {"stats": '{"coins": {}}'}
            call(socket_path(data_dir), ChangeGameSettings(game.game_id, declared))
            statuses = [attack(server, game, each) for each in PASSES]
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
    command += [*extent(), "--request-timeout", "60"]
    command += ["--report-dir", str(server.data_dir / "report")]
    url = f"{server.ready['http']}/openapi.json"
    return subprocess.run([*command, url], check=False, cwd=server.data_dir).returncode


def extent() -> list[str]:
    """Return the options that say which requests, and how many."""
    seconds, seed = os.environ.get("FUZZ_SECONDS"), os.environ.get("TEST_SEED")
    if seconds and seed:
        return ["--seed", seed, "--max-time", seconds]
    return ["--generation-deterministic", "--max-examples", FIXED_EXAMPLES]


if __name__ == "__main__":
    sys.exit(main())
