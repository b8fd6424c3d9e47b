"""Commands that show a server or its set-up: `config show`, `tree`, `doctor`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from greenroom.cli.common import CommandGroup, Invocation, with_common_options
from greenroom.cli.output import details, shown, table

if TYPE_CHECKING:
    from pathlib import Path

    from greenroom.control.admin.messages import SettingsInForce
    from greenroom.supervisors.tree import TreeNode


@click.group(cls=CommandGroup)
def config() -> None:
    """Show the settings."""


@config.command()
@click.option(
    "--next-start",
    is_flag=True,
    help="Show what the next start would use, even while a server runs.",
)
@with_common_options
def show(invocation: Invocation, *, next_start: bool) -> None:
    """Show every setting and its source. Secrets are masked.

    They are those in force in the running server. Without one they are what the next start would
    use, with the flags, variables and file of this command.
    """
    from greenroom.setting_masks import masked

    loaded = invocation.load()
    data_dir = loaded.settings.data_dir
    running = None if next_start else _in_force(data_dir)
    if running is None:
        title = f"What the next start on {data_dir} would use:"
        values, sources = masked(loaded.settings), dict(loaded.sources)
    else:
        title = f"What the server that runs on {data_dir} (pid {running.pid}) uses:"
        values, sources = running.settings, running.sources
    told = {name: f"{_setting(value)}  ({sources[name]})" for name, value in values.items()}
    result = values | {"is_running": running is not None, "sources": sources}
    invocation.show(result, f"{shown(title)}\n{details(told)}")


def _in_force(data_dir: Path) -> SettingsInForce | None:
    """Return the settings of the server that runs on a data directory, if one does.

    Raises:
        ControlError: it does not answer.
    """
    from greenroom.control.admin.messages import ShowSettings
    from greenroom.control.client import NoServer, call
    from greenroom.control.protocol import socket_path

    try:
        return call(socket_path(data_dir), ShowSettings())
    except NoServer:
        return None


@click.command()
@with_common_options
def tree(invocation: Invocation) -> None:
    """Draw the running server's supervision tree: states, restarts and waiting commands."""
    from greenroom.control.admin.messages import ShowTree

    root = invocation.perform(ShowTree())
    text = table(("name", "state", "restarts", "mailbox"), _drawn(root))
    invocation.show(root, text)


@click.command()
@click.pass_context
@with_common_options
def doctor(invocation: Invocation, context: click.Context) -> None:
    """Check this machine and the set-up, and say what to do about each problem."""
    from greenroom.cli.checks import examine

    checks = examine(invocation.load_settings())
    lines = [
        f"{check.status:<4}  {check.name}: {shown(check.text)}"
        + (f"\n      → {shown(check.advice)}" if check.advice else "")
        for check in checks
    ]
    invocation.show({"checks": checks}, "\n".join(lines))
    if any(check.status == "fail" for check in checks):
        context.exit(1)


def _setting(value: object) -> str:
    return ", ".join(map(str, value)) or "none" if isinstance(value, list) else shown(value)


def _drawn(node: TreeNode, lead: str = "", below: str = "") -> Iterator[tuple[object, ...]]:
    """Draw a node and what is below it as rows of a table.

    Args:
        node: the node to draw.
        lead: what stands before its name.
        below: what stands before the names of the nodes under it.
    """
    yield lead + node.name, node.state, node.restarts, node.mailbox
    for child in node.children:
        is_last = child is node.children[-1]
        yield from _drawn(
            child, below + ("└── " if is_last else "├── "), below + ("    " if is_last else "│   ")
        )
