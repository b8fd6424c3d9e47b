"""Look for what no test has found yet: everything that draws on chance, with a fresh seed.

`scripts/test` does the same every time. This does something else every time: the tests of
hypothesis and those marked `chance`, the machines, schemathesis against either server, and a
torture. It is run by hand, or at night, and decides over no change. What it finds becomes a test
with the very input that failed, and is then mended. Ends with status 1 when it has found something.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
from collections.abc import Mapping, Sequence

from checks import ROOT, choose_cache

MINUTES = 20.0


def main() -> int:
    """Search for as long as the command line says; return the exit status."""
    parser = argparse.ArgumentParser(prog="scripts/search", description=__doc__)
    parser.add_argument("--minutes", type=float, default=MINUTES, help="about (default: 20)")
    parser.add_argument("--seed", type=int, help="repeat a search; drawn and printed by default")
    given = parser.parse_args()
    seed = random.SystemRandom().randrange(10**6) if given.seed is None else given.seed
    print(f"seed {seed}", flush=True)
    found = [name for name, step in steps(given.minutes, seed).items() if not passes(name, step)]
    if not found:
        print("found nothing")
        return 0
    print(f"found something: {', '.join(found)}; make it a test with the input that failed.")
    print(f"`scripts/search --minutes {given.minutes} --seed {seed}` searches again likewise")
    return 1


Step = tuple[Sequence[str], Mapping[str, str]]
"""A command, and the variables that it gets besides ours."""


def steps(minutes: float, seed: int) -> dict[str, Step]:
    """Return what is run, by name: each step a fourth of the time, tests what they take."""
    seconds = str(max(10, int(minutes * 60 / 4)))
    half = str(max(10, int(minutes * 60 / 8)))
    cache = choose_cache()
    chosen = {
        "TEST_SEED": str(seed),
        "PYTHONHASHSEED": str(seed),
        "HYPOTHESIS_STORAGE_DIRECTORY": str(cache / "hypothesis"),
        "PYTHONSAFEPATH": "1",
    }
    options = ("-o", f"cache_dir={cache / 'pytest'}", f"--hypothesis-seed={seed}")
    pytest = (sys.executable, "-m", "pytest", *options)
    drawn = ("-m", "(hypothesis or chance) and not slow", "-n", "2", "--timeout=1800")
    torture = (sys.executable, "scripts/torture.py", "--minutes", str(minutes / 4))
    return {
        "tests": ((*pytest, *drawn), chosen),
        "machines": ((*pytest, "tests/machines"), {**chosen, "MACHINE_SECONDS": seconds}),
        "schemathesis": ((sys.executable, "scripts/fuzz.py"), {**chosen, "FUZZ_SECONDS": half}),
        "torture": ((*torture, "--seed", str(seed)), chosen),
    }


def passes(name: str, step: Step) -> bool:
    """Run a step, shown as it goes; return whether it has found nothing."""
    command, variables = step
    print(f"\n── {name}", flush=True)
    environment = {**os.environ, **variables}
    return subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode == 0


if __name__ == "__main__":
    sys.exit(main())
