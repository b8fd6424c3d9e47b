"""The command: write the generated files of the SDKs, or check that they are as they should be."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from sdks.emitters import EMITTERS
from sdks.licence import licence_files
from sdks.model import Files
from sdks.pages import PAGES
from sdks.pages.errors import error_files
from sdks.reading import read_contract
from sdks.unity import meta_files
from sdks.vectors import vector_files

ROOT = Path(__file__).resolve().parents[2]

HELP = """\
usage: scripts/sdk            write the generated files of sdk/ and docs/reference/
       scripts/sdk --check    write nothing; fail if any of them would change
"""


def main(arguments: Sequence[str]) -> int:
    """Do what the arguments say; return the exit status."""
    if arguments not in ([], ["--check"]):
        print(HELP, end="")
        return 0 if arguments in (["-h"], ["--help"]) else 2
    files = generate()
    drifted = drift(files, ROOT)
    if not arguments:
        write(files, drifted)
        print(f"Wrote {len(drifted)} of {len(files)} files; the others were right.")
        return 0
    for name in drifted:
        print(f"{name} is not what the contract says: run scripts/sdk", file=sys.stderr)
    return 1 if drifted else 0


def generate() -> Files:
    """Return the text of every generated file, by its path from the root of the checkout."""
    model = read_contract()
    files: Files = vector_files() | error_files()
    for emit in (*EMITTERS, *PAGES):
        files |= emit(model)
    files |= licence_files(ROOT)
    return files | meta_files(ROOT, files)


def drift(files: Mapping[str, str], root: Path) -> list[str]:
    """Return the paths of the files below a root that are missing or differ."""
    return [name for name, text in sorted(files.items()) if _text(root / name) != text]


def write(files: Mapping[str, str], names: Sequence[str]) -> None:
    """Write some of the files into the checkout."""
    for name in names:
        path = ROOT / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(files[name], encoding="utf-8", newline="\n")


def _text(path: Path) -> str | None:
    return path.read_text(encoding="utf-8") if path.is_file() else None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
