"""Write the TypeScript SDK into the demo's page, as the compiler makes it.

    python scripts/demo_page.py            needs Node and the compiler: npm ci in sdk/typescript
    python scripts/demo_page.py --check    write nothing; fail if anything would change

The page is in the package, so that `greenroom demo` needs neither. tests/sdks compares.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TYPESCRIPT = ROOT / "sdk" / "typescript"
COMPILER = TYPESCRIPT / "node_modules" / "typescript" / "bin" / "tsc"
TARGET = ROOT / "greenroom" / "demo" / "page" / "sdk"
OPTIONS = ("--removeComments", "--declaration", "false")
NOT_FOR_PLAYERS = {"admin.js", "generated/admin-calls.js"}
"""Modules that work with a game's admin key, which no page has."""
COMPILE_SECONDS_MAX = 100.0


def main(arguments: Sequence[str]) -> int:
    """Do what the arguments say; return the exit status."""
    if arguments not in ([], ["--check"]):
        print(__doc__)
        return 0 if arguments in (["-h"], ["--help"]) else 2
    if not COMPILER.exists():
        print("There is no compiler: run `npm ci` in sdk/typescript.", file=sys.stderr)
        return 1
    made, there = compile_sdk(), read(TARGET)
    changed = sorted(name for name in made | there if made.get(name) != there.get(name))
    if arguments:
        for name in changed:
            print(f"{name} has drifted: run python scripts/demo_page.py", file=sys.stderr)
        return 1 if changed else 0
    for name in changed:
        path = TARGET / name
        if name not in made:
            path.unlink()
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(made[name])
    print(f"Wrote {len(changed)} of {len(made)} files; the others were right.")
    return 0


def compile_sdk() -> dict[str, bytes]:
    """Return the SDK's modules, by their paths."""
    with tempfile.TemporaryDirectory(prefix="greenroom-sdk-") as folder:
        subprocess.run(
            ["node", str(COMPILER), *OPTIONS, "--outDir", folder],
            cwd=TYPESCRIPT,
            check=True,
            timeout=COMPILE_SECONDS_MAX,
        )
        found = read(Path(folder))
    return {name: text for name, text in found.items() if name not in NOT_FOR_PLAYERS}


def read(folder: Path) -> dict[str, bytes]:
    """Return the modules of a folder, by their paths in it."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*.js")}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
