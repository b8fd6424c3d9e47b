"""The file of results: a section for each scenario, between two markers."""

from __future__ import annotations

from pathlib import Path

_TITLE = "# Results\n"


def write(file: Path, name: str, text: str) -> None:
    """Put a scenario's section into the file, in place of the one that was there."""
    begin, end = f"<!-- begin {name} -->\n", f"<!-- end {name} -->\n"
    content = file.read_text() if file.exists() else _TITLE
    section = f"{begin}{text.strip()}\n{end}"
    before, found, rest = content.partition(begin)
    if found:
        content = before + section + rest.partition(end)[2]
    else:
        content = f"{content.rstrip()}\n\n{section}"
    file.write_text(content)
