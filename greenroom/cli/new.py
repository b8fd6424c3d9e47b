"""`greenroom new`: make a project to start from, in a directory of its own."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Final

import click

from greenroom.cli.output import say, say_json
from greenroom.control.files import why_not

STARTER: Final = Path(__file__).parent / "starter"
CHECKOUT: Final = Path(__file__).parents[2]
INSTALLED_SDK: Final = STARTER / "sdk"
"""The place where wheels have what clients are built with: scripts/build_backend.py."""
BUILT: Final = CHECKOUT / "sdk" / "typescript" / "dist"
"""The TypeScript SDK with its types, where `npm run build` has made them."""
MODULES: Final = Path(__file__).parents[1] / "demo" / "page" / "sdk"
"""The same without types, which nothing needs to run."""
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
SDKS: Final[dict[str, tuple[tuple[str, str], ...]]] = {
    "typescript": (
        ("typescript/package.json", "greenroom-client/package.json"),
        ("typescript/README.md", "greenroom-client/README.md"),
        ("typescript/LICENSE", "greenroom-client/LICENSE"),
    ),
    "unity": (
        ("csharp/LICENSE", "Greenroom/LICENSE"),
        ("csharp/Runtime", "Greenroom/Runtime"),
    ),
    "godot": (
        ("godot/addons/greenroom", "addons/greenroom"),
        ("godot/godot3/addons/greenroom", "godot3/addons/greenroom"),
    ),
}
"""By client, the parts of `sdk/` that it is built with, and their places in it."""


@click.command()
@click.argument("name", metavar="NAME")
@click.option(
    "--client",
    type=click.Choice(sorted(SDKS)),
    help="Add a client that plays the game, in the directory client.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON, and nothing but JSON.")
def new(name: str, *, client: str | None, as_json: bool) -> None:
    """Make a project in the new directory NAME: a room's behaviour, its test, settings.

    Then run `pytest` or `greenroom serve --reload` in that directory.
    """
    if NAME.fullmatch(name) is None:
        raise click.UsageError(
            f"{name!r} is no name for a project: take letters, digits, - and _, 64 at most, and a "
            "letter first. It is made in the current directory."
        )
    if client is not None:
        _check_sdk(client)
    project = Path(name)
    try:
        project = Path.cwd() / name
        project.mkdir()
    except FileExistsError:
        raise click.ClickException(
            f"{project} is there already: nothing was written. Take another name."
        ) from None
    except OSError as error:
        raise click.ClickException(f"Cannot make {project} {why_not(error)}") from None
    try:
        _fill(project)
        if client is not None:
            _add_client(project, client)
    except OSError as error:
        shutil.rmtree(project)  # this command has just made it
        raise click.ClickException(f"Cannot write {project} {why_not(error)}") from None
    if as_json:
        files = [*FILES.values(), *(["client"] if client is not None else [])]
        say_json({"directory": str(project), "files": sorted(files)})
        return
    say(f"{project} has a game to begin with:\n")
    say(f"  cd {name}\n  pytest                      # its tests (pip install pytest)")
    say("  greenroom serve --reload    # its server; README.md says more")
    if client is not None:
        say(f"  cat client/README.md        # how its client in {client} plays")
    if shutil.which("greenroom") is None:  # scripts/greenroom was called
        say(f"\nBoth need Greenroom in your environment: pip install '{CHECKOUT}[client]'")


def _fill(project: Path) -> None:
    """Write the files of the project."""
    for source, target in FILES.items():
        text = (STARTER / source).read_text(encoding="utf-8")
        (project / target).write_text(text.replace("PROJECT", project.name), encoding="utf-8")


def _check_sdk(client: str) -> None:
    """Refuse if the SDK of a client is not at hand: a copy of the package alone has none.

    Raises:
        click.ClickException: it is not.
    """
    if not all((_sdk() / source).exists() for source, _ in SDKS[client]):
        raise click.ClickException(
            f"the SDK for {client} is not in this copy of Greenroom, so nothing was written. Run "
            "scripts/greenroom of a checkout, or a greenroom that pip has installed."
        )


def _sdk() -> Path:
    """Return the folder of the SDKs: the wheel's, or the checkout's."""
    return INSTALLED_SDK if INSTALLED_SDK.exists() else CHECKOUT / "sdk"


def _add_client(project: Path, client: str) -> None:
    """Write a client into the project, with the SDK that it is built with."""
    target = project / "client"
    shutil.copytree(STARTER / "clients" / client, target)
    for path in target.rglob("*"):
        if path.is_file():
            text = path.read_text(encoding="utf-8")
            path.write_text(text.replace("PROJECT", project.name), encoding="utf-8")
    parts = [(_sdk() / source, name) for source, name in SDKS[client]]
    if client == "typescript":
        parts.append((BUILT if BUILT.exists() else MODULES, "greenroom-client/dist"))
    for path, name in parts:
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        if path.is_dir():
            shutil.copytree(path, target / name)
        else:
            shutil.copyfile(path, target / name)
