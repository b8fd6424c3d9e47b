"""Print results on standard output: tables and details for people, JSON for programs."""

from __future__ import annotations

import codecs
import io
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import click
import msgspec

_IN_ASCII: Final = {"─": "-", "│": "|", "├": "|", "└": "`", "→": "->", "…": "..."}
"""How we draw where a stream's encoding lacks a character."""


def draw_what_streams_can() -> None:
    """Let no character be an error on standard output and standard error, whatever the locale."""
    codecs.register_error("greenroom", _drawn_otherwise)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="greenroom")


def _drawn_otherwise(error: UnicodeError) -> tuple[str, int]:
    """Return another text for characters that an encoding lacks, and where to go on."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    lacking = error.object[error.start : error.end]
    return "".join(_IN_ASCII.get(c) or _escaped(c) for c in lacking), error.end


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode()


def say(line: str = "") -> None:
    """Print a line that the program itself has made."""
    click.echo(line)


def say_json(value: Any) -> None:
    """Print a value as one line of JSON."""
    try:
        line = msgspec.json.encode(value)
    except UnicodeEncodeError:  # the name of a file that is not valid in this locale
        line = json.dumps(msgspec.to_builtins(value)).encode()
    click.echo(line)


def table(headers: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return rows in columns, each as wide as it must be.

    Args:
        headers: one for each column; the last column is not padded.
        rows: values as `shown` shows them.
    """
    lines = [[header.upper() for header in headers]]
    lines.extend([shown(cell) for cell in row] for row in rows)
    widths = [max(len(line[column]) for line in lines) for column in range(len(headers))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def details(values: Mapping[str, object]) -> str:
    """Return one `name  value` for each line, with the values aligned."""
    width = max(len(name) for name in values)
    return "\n".join(f"{name.ljust(width)}  {shown(value)}" for name, value in values.items())


def shown(value: object) -> str:
    """Return a value as people read it. Nothing in it can control their terminal."""
    match value:
        case None | []:
            return "-"
        case bool():
            return "yes" if value else "no"
        case dict() if not value:
            return "-"
        case list() | dict():
            text = msgspec.json.encode(value, enc_hook=str).decode()
        case msgspec.Raw():
            text = bytes(value).decode()
        case _:
            text = str(value)
    return "".join(c if c.isprintable() else _escaped(c) for c in text)
