"""Hold the files for Docker, Compose and Kubernetes against rules that others have written.

hadolint judges the Dockerfile, the schema of the Compose Specification the compose files, and the
schemas of several versions of Kubernetes the manifests. Each judge also gets a copy with a mistake
that it must find, so that one which looks at nothing does not pass.

DEPLOY_PYTHON is the Python of the environment that the judges live in. `scripts/test` runs this.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
DEPLOY = ROOT / "deploy"
KUBERNETES = ("1.30", "1.33", "1.37")
"""The oldest version that the manifests are for, one of today, the newest that the judge knows."""


class Case(NamedTuple):
    """A file, its judge, and a mistake."""

    command: tuple[str, ...]
    file: Path
    right: str
    wrong: str


def cases(programs: Path) -> Iterator[Case]:
    """Yield every file with every judge of its kind.

    Args:
        programs: the directory of the judges.
    """
    hadolint = (str(programs / "hadolint"), "--no-color")
    yield Case(hadolint, DEPLOY / "Dockerfile", "WORKDIR /opt/", "WORKDIR opt/")
    compose = (str(programs / "check-jsonschema"), "--builtin-schema", "vendor.compose-spec")
    for file in (DEPLOY / "compose.yaml", DEPLOY / "cluster" / "compose.yaml"):
        yield Case(compose, file, "depends_on:", "depend_on:")
    for version in KUBERNETES:
        kubernetes = (str(programs / "kubernetes-validate"), "--strict", "-k", version)
        file = DEPLOY / "cluster" / "kubernetes.yaml"
        yield Case(kubernetes, file, "podManagementPolicy:", "podManagement:")


def main() -> int:
    """Run all judges over all files; return the exit status."""
    programs = Path(os.environ["DEPLOY_PYTHON"]).parent
    troubles = [trouble for case in cases(programs) for trouble in judge(case)]
    print("\n".join(troubles) or "the files of deploy/ are as their programs want them")
    return 1 if troubles else 0


def judge(case: Case) -> Iterator[str]:
    """Yield what is wrong with a file, or with its judge."""
    name = f"{Path(case.command[0]).name} {' '.join(case.command[1:])}"
    done = run(case.command, case.file)
    if done.returncode != 0:
        yield f"{name} refuses {case.file}:\n{done.stdout}{done.stderr}"
    text = case.file.read_text()
    if case.right not in text:
        yield f"{case.file} has no {case.right!r} any more: name another mistake here"
    with tempfile.TemporaryDirectory() as directory:
        broken = Path(directory) / case.file.name
        broken.write_text(text.replace(case.right, case.wrong, 1))
        if run(case.command, broken).returncode == 0:
            yield f"{name} does not see {case.wrong!r} in {case.file}"


def run(command: tuple[str, ...], file: Path) -> subprocess.CompletedProcess[str]:
    """Have a judge read a file."""
    return subprocess.run(
        [*command, str(file)], capture_output=True, text=True, timeout=120, check=False
    )


if __name__ == "__main__":
    sys.exit(main())
