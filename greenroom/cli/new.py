"""`greenroom new`: make a project to start from, in a directory of its own."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Final

import click

from greenroom.cli.output import say, say_json

STARTER: Final = Path(__file__).parent / "starter"
CHECKOUT: Final = Path(__file__).parents[2]
NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")
FILES: Final = {
    "README.md": "README.md",
    "game.py": "game.py",
    "test_game.py": "test_game.py",
    "greenroom.toml": "greenroom.toml",
    "pyproject.toml": "pyproject.toml",
    "gitignore": ".gitignore",
}
"""The files in `starter/`, and their names in the project."""


@click.command()
@click.argument("name", metavar="NAME")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, and nothing but JSON.")
def new(name: str, *, as_json: bool) -> None:
    """Make a project in the new directory NAME: a room's behaviour, its test, settings.

    Then run `pytest` or `greenroom serve --reload` in that directory.
    """
    if NAME.fullmatch(name) is None:
        raise click.UsageError(
            f"{name!r} is no name for a project: take letters, digits, - and _, 64 at most, and a "
            "letter first. It is made in the current directory."
        )
    project = Path(name)
    try:
        project = Path.cwd() / name
        project.mkdir()
    except FileExistsError:
        raise click.ClickException(
            f"{project} is there already: nothing was written. Take another name."
        ) from None
    except OSError as error:
        raise click.ClickException(f"cannot make {project}: {error.strerror}") from None
    try:
        _fill(project)
    except OSError as error:
        shutil.rmtree(project)  # this command has just made it
        raise click.ClickException(f"cannot write {project}: {error.strerror}") from None
    if as_json:
        say_json({"directory": str(project), "files": sorted(FILES.values())})
        return
    say(f"{project} has a game to begin with:\n")
    say(f"  cd {name}\n  pytest                      # its tests (pip install pytest)")
    say("  greenroom serve --reload    # its server; README.md says more")
    if shutil.which("greenroom") is None:  # scripts/greenroom was called
        say(f"\nBoth need Greenroom in your environment: pip install '{CHECKOUT}[client]'")


def _fill(project: Path) -> None:
    """Write the files of the project."""
    for source, target in FILES.items():
        text = (STARTER / source).read_text(encoding="utf-8")
        (project / target).write_text(text.replace("PROJECT", project.name), encoding="utf-8")
