"""How Sphinx makes a site of the pages: `scripts/docs` runs it.

The source is the whole checkout, so that a link leads to the same place on the site as in the
repository. `index.md` is plain Markdown: the links of each of its sections become the site's menu.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import TYPE_CHECKING

from sphinx import addnodes

if TYPE_CHECKING:
    from docutils import nodes
    from sphinx.application import Sphinx

ROOT = Path(__file__).resolve().parent.parent

project = "Greenroom"
author = "Greenroom contributors"
copyright = "Greenroom contributors"  # noqa: A001  Sphinx asks for it by this name

extensions = ["myst_parser"]
root_doc = "docs/index"
include_patterns = [
    "*.md",
    "bench/RESULTS.md",
    "docs/**.md",
    "examples/clients/README.md",
    "greenroom/actors/text/words/README.md",
]
exclude_patterns = [".*", "**/__pycache__", "**/node_modules", "build", "dist"]
nitpicky = True

myst_heading_anchors = 4
"""Headings down to this level have an anchor, made of their text as code forges make it."""

html_theme = "furo"
html_title = "Greenroom"
html_copy_source = False
html_show_sourcelink = False
html_show_sphinx = False

MENU_SECTION = re.compile(r"^## (.+)\n((?:.|\n)*?)(?=^## |\Z)", re.MULTILINE)
LINK = re.compile(r"\[([^]]+)\]\(([^)#:]+)\)")


def add_menu(_app: Sphinx, name: str, content: list[str]) -> None:
    """Add hidden toctrees: to the index, of the pages that its sections link to; to a README."""
    if name == root_doc:
        for title, text in MENU_SECTION.findall(content[0]):
            entries = [entry for link in LINK.findall(text) for entry in menu_entries(*link)]
            content[0] += toctree(entries, f":caption: {title}\n")
    elif name.startswith("docs/") and name.endswith("/README"):
        content[0] += toctree(pages_beside(ROOT / f"{name}.md"))


def toctree(entries: list[str], options: str = "") -> str:
    """Return a hidden toctree; nothing, if nothing is to be in it."""
    lines = "\n".join(entries)
    return f"\n\n```{{toctree}}\n:hidden:\n{options}\n{lines}\n```\n" if entries else ""


def menu_entries(text: str, link: str) -> list[str]:
    """Return what a link of the index adds to the menu; of a folder its README, or all pages."""
    path = ROOT / "docs" / link
    readme = path / "README.md"
    if path.is_dir() and not readme.exists():
        return pages_beside(readme)
    page = readme if path.is_dir() else path
    return [f"{text} <{page_name(page)}>"]


def pages_beside(readme: Path) -> list[str]:
    """Return the other pages of a README's folder, in the order of their names."""
    return [page_name(path) for path in sorted(readme.parent.glob("*.md")) if path != readme]


def page_name(path: Path) -> str:
    """Return what a toctree calls a page."""
    return "/" + posixpath.normpath(path.relative_to(ROOT).with_suffix("").as_posix())


def drop_links_to_folders(_app: Sphinx, document: nodes.document) -> None:
    """Show a link to a folder as its text alone: the site has no page for it."""
    for link in list(document.findall(addnodes.pending_xref)):
        folder = (ROOT / f"{link['refdoc']}.md").parent / link["reftarget"]
        if folder.is_dir():
            link.replace_self(link.children)


def setup(app: Sphinx) -> None:
    """Register the above."""
    app.connect("source-read", add_menu)
    app.connect("doctree-read", drop_links_to_folders)
