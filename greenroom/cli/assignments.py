"""Parse `KEY=VALUE` options, whose value may stand in a file or come from standard input."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Final

import click

from greenroom.cli.common import utf8

VALUE_BYTES_MAX: Final = 4096
"""More than any setting needs. It keeps a large @FILE from being read whole."""


def assignments(
    context: click.Context, parameter: click.Parameter, given: Sequence[str]
) -> dict[str, str]:
    """Return the `KEY=VALUE`s of a repeated option by key.

    No error quotes a value, because it may be a secret.

    Raises:
        BadParameter: one is no `KEY=VALUE`, a key is given twice, or a file cannot be read.
    """
    assigned: dict[str, str] = {}
    for text in given:
        key, equals, value = utf8(context, parameter, text).partition("=")
        if not equals or not key:
            raise click.BadParameter("give each as KEY=VALUE")
        if key in assigned:
            raise click.BadParameter(f"{key!a} is given twice")
        assigned[key] = _read(value[1:]) if value.startswith("@") else value
    return assigned


def _read(path: str) -> str:
    """Return the text of a file, or of standard input for `-`, without white space round it."""
    try:
        if path == "-":
            content = sys.stdin.buffer.read(VALUE_BYTES_MAX + 1)
        else:
            with open(path, "rb") as file:  # noqa: PTH123 - click names paths as they were typed
                content = file.read(VALUE_BYTES_MAX + 1)
        text = content.decode().strip()
    except (OSError, UnicodeDecodeError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "not readable as UTF-8 text"
        raise click.BadParameter(f"cannot read {path!a}: {reason}") from None
    if not text or len(content) > VALUE_BYTES_MAX:
        problem = "empty" if not text else f"longer than {VALUE_BYTES_MAX} bytes"
        raise click.BadParameter(f"{path!a} is {problem}")
    return text
