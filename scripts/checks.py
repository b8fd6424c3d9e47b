"""Run everything that a change must pass, which is what CI runs; `scripts/test` calls it.

With arguments only pytest runs, with those arguments.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

HELP = """\
usage: scripts/test            everything CI runs (some fifteen minutes)
       scripts/test ARGS...    pytest alone, with these arguments

Everything is: ruff format, ruff, mypy, pyright, lint-imports, the table of what shows the API's
specification (docs/reference/conformance.md), the site of docs/ built, pytest on several
processes with the pure modules' branch coverage, schemathesis against a running server of either
kind. A failed step does not stop the others. What is random has the same seed in every run;
scripts/search looks further, with fresh ones.

Examples:
  scripts/test tests/actors -k passive     some tests
  scripts/test -m "not slow" -n 2          all but the slow ones, two at a time
  scripts/test --pdb -x                    stop in the debugger

GREENROOM_PYTHON=python3.12 scripts/test   with this Python; `.venv` is made anew when it is another
"""

PURE_CONTRACT = "rules, messages and the supervision policy are pure"
"""The contract of import-linter that says which modules are pure: every branch must be tested."""

WORKERS_MAX = 4
"""Each worker runs Postgres and servers besides."""


def main(arguments: Sequence[str]) -> int:
    """Run the checks; return the exit status."""
    if arguments and arguments[0] in {"-h", "--help"}:
        print(HELP, end="")
        return 0
    cache = choose_cache()
    variables = {
        **os.environ,
        "COVERAGE_FILE": str(cache / "coverage"),
        "HYPOTHESIS_STORAGE_DIRECTORY": str(cache / "hypothesis"),
        "MYPY_CACHE_DIR": str(cache / "mypy"),
        "PYTHONHASHSEED": os.environ.get("PYTHONHASHSEED", "1"),
        "PYTHONPATH": str(ROOT),
        "PYTHONSAFEPATH": "1",
        "RUFF_CACHE_DIR": str(cache / "ruff"),
    }
    pytest = [sys.executable, "-m", "pytest", "-o", f"cache_dir={cache / 'pytest'}"]
    if arguments:
        command = [*pytest, *arguments]
        return subprocess.run(command, cwd=ROOT, env=variables, check=False).returncode
    return run_all(cache, variables, pytest)


def run_all(cache: Path, variables: Mapping[str, str], pytest: Sequence[str]) -> int:
    """Run every step, one after the other; end with pytest's summary line."""
    workers = str(max(2, min(os.cpu_count() or 2, WORKERS_MAX)))
    python, module = sys.executable, (sys.executable, "-m")
    covered = cache / "pure-modules.toml"  # coverage clears away what begins as its data
    covered.write_text(coverage_settings())
    every_branch = (f"--rcfile={covered}", "--fail-under=100")
    lint_imports = "from importlinter.cli import lint_imports_command as run; run()"
    steps: dict[str, Sequence[str]] = {
        "ruff format": (*module, "ruff", "format", "--check", "."),
        "ruff": (*module, "ruff", "check", "."),
        "mypy": (*module, "mypy"),
        "pyright": (*module, "pyright", "--pythonpath", python),
        "lint-imports": (python, "-c", lint_imports, "--cache-dir", str(cache / "imports")),
        "conformance": (python, "scripts/conformance.py"),
        "docs": ("scripts/docs", str(cache / "site")),
        "pytest": (
            *pytest,
            "-n",
            workers,
            "--dist",
            "worksteal",
            "--cov",
            f"--cov-config={covered}",
            "--cov-report=",
        ),
        "coverage of pure code": (*module, "coverage", "report", *every_branch),
        "schemathesis": (python, "scripts/fuzz.py"),
    }
    failed: list[str] = []
    summary = ""
    for name, command in steps.items():
        started = time.monotonic()
        print(f"\n── {name}", flush=True)
        status, last_line = run(command, variables)
        if name == "pytest":
            summary = last_line
        if status != 0:
            failed.append(name)
        verdict = "ok" if status == 0 else "FAILED"
        print(f"── {name}: {verdict}, {time.monotonic() - started:.0f} s", flush=True)
    print(f"\nfailed: {', '.join(failed)}" if failed else "\nall steps passed")
    print(summary)
    return 1 if failed else 0


def coverage_settings() -> str:
    """Return coverage's settings: the pure modules alone, for to trace all takes a third longer."""
    settings = (ROOT / "pyproject.toml").read_text()
    _, _, report = settings.partition("[tool.coverage.report]")
    included = "".join(f'    "{ROOT}/{pattern}",\n' for pattern in pure_files())
    return (
        f"[tool.coverage.run]\nbranch = true\nparallel = true\ninclude = [\n{included}]\n\n"
        f"[tool.coverage.report]{report}"
    )


def pure_files() -> list[str]:
    """Return patterns for the files of all pure modules, as `pyproject.toml` names them."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    contracts = settings["tool"]["importlinter"]["contracts"]
    [contract] = (found for found in contracts if found["name"] == PURE_CONTRACT)
    paths = [module.replace(".", "/") for module in contract["source_modules"]]
    return [pattern for path in paths for pattern in (f"{path}.py", f"{path}/**/*.py")]


def run(command: Sequence[str], variables: Mapping[str, str]) -> tuple[int, str]:
    """Run one step, shown as it goes; return its status and its last line."""
    last_line = ""
    with subprocess.Popen(
        command,
        cwd=ROOT,
        env=variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            print(line, end="", flush=True)
            last_line = line.strip() or last_line
    return process.returncode, re.sub(r"\x1b\[[0-9;]*m", "", last_line)


def choose_cache() -> Path:
    """Return a directory for what the checkers keep: in the checkout where we may write there."""
    cache = ROOT / ".cache"
    if os.access(cache if cache.exists() else ROOT, os.W_OK):
        cache.mkdir(exist_ok=True)
        return cache
    return Path(tempfile.mkdtemp(prefix="greenroom-cache-"))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
