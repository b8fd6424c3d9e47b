"""Commands that show a server or its set-up: `config show`, `tree`, `doctor`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from greenroom.cli.common import CommandGroup, Invocation, with_common_options
from greenroom.cli.output import details, shown, table

if TYPE_CHECKING:
    from greenroom.supervisors.tree import TreeNode


@click.group(cls=CommandGroup)
def config() -> None:
    """Show the settings."""


@config.command()
@with_common_options
def show(invocation: Invocation) -> None:
    """Show every setting and its source. Secrets are masked."""
    from greenroom.config import masked

    loaded = invocation.load()
    values = masked(loaded.settings)
    told = {name: f"{_setting(value)}  ({loaded.sources[name]})" for name, value in values.items()}
    invocation.show(values, details(told))


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

    checks = examine(invocation.settings())
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
