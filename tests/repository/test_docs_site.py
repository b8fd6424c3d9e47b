"""The site of docs/: every page is in the menu, and what leads nowhere fails the build."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from docs_site import dead_links
from environment import KINDS, is_current, python_of

ROOT = Path(__file__).resolve().parents[2]
INDEX = ROOT / "docs" / "index.md"
KIND_FOLDERS = {
    "Tutorials": "tutorials",
    "How-to guides": "how-to",
    "Reference": "reference",
    "Explanation": "explanation",
}
PAGES_MAX = 20
SPHINX = ROOT / KINDS["docs"][0]

needs_sphinx = pytest.mark.skipif(
    not is_current(SPHINX, "docs"), reason="no environment for the docs: run scripts/docs once"
)


def linked(page: Path) -> Iterator[Path]:
    """The pages that a page links to; a link to a folder is one to all that is in it."""
    for link in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
        target = (page.parent / link).resolve()
        yield from target.glob("*.md") if target.is_dir() else [target]


def test_every_page_is_in_the_index_under_one_of_its_kinds() -> None:
    headings = re.findall(r"^## (.+)$", INDEX.read_text(), re.MULTILINE)
    assert headings[: len(KIND_FOLDERS)] == list(KIND_FOLDERS)
    pages = {*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")} - {INDEX}
    assert sorted(pages - set(linked(INDEX))) == []


@pytest.mark.parametrize("heading", KIND_FOLDERS)
def test_a_page_stands_in_the_folder_of_its_kind(heading: str) -> None:
    text = INDEX.read_text().split(f"## {heading}\n")[1].split("\n## ")[0]
    links = {INDEX.parent / link for link in re.findall(r"\]\(([^)#:]+)\)", text)}
    kinds = {INDEX.parent / folder for folder in KIND_FOLDERS.values()}
    pages = set((INDEX.parent / KIND_FOLDERS[heading]).glob("*.md"))
    assert {link for link in links if link.parent in kinds} == pages
    assert len(pages) <= PAGES_MAX


def test_no_page_stands_between_the_folders() -> None:
    assert list(INDEX.parent.glob("*.md")) == [INDEX]


def build(source: Path, site: Path) -> subprocess.CompletedProcess[str]:
    """Run Sphinx as `scripts/docs` does."""
    code = "import sys; from pathlib import Path; from docs_site import build; "
    code += "sys.exit(not build(*map(Path, sys.argv[1:])))"
    scratch = source.parent / "scratch"
    return subprocess.run(
        [python_of(SPHINX), "-c", code, source, site, scratch],
        env={"PYTHONPATH": str(ROOT / "scripts")},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A checkout of two pages."""
    docs = tmp_path / "checkout" / "docs"
    docs.mkdir(parents=True)
    shutil.copy(ROOT / "docs" / "conf.py", docs)
    index = "# Index\n\n## Reference\n\n- [A page](page.md)\n- [More](more)\n"
    (docs / "index.md").write_text(index)
    (docs / "more").mkdir()
    (docs / "more" / "one.md").write_text("# One\n")
    (docs / "page.md").write_text("# A page\n\n## Its end\n\nSee [its end](#its-end), [..](..).\n")
    return docs.parent


@needs_sphinx
def test_a_site_is_made_with_a_menu_of_what_the_index_links_to(source: Path) -> None:
    site = source.parent / "site"
    done = build(source, site)
    assert done.returncode == 0, done.stderr
    text = (site / "docs" / "index.html").read_text()
    assert re.search(r'caption-text">Reference<.*href="page.html">A page<', text, re.DOTALL)
    assert list(dead_links(site)) == []
    (site / "_downloads").mkdir()
    (site / "_downloads" / "game.html").write_text('<script src="game.js"></script>')
    alone = "_downloads/game.html: game.js leads nowhere"
    assert list(dead_links(site)) == [alone]
    (site / "docs" / "page.html").unlink()
    assert any(link.endswith("page.html leads nowhere") for link in dead_links(site))


@needs_sphinx
def test_a_folders_readme_stands_for_its_pages(source: Path) -> None:
    (source / "docs" / "more" / "README.md").write_text("# More of it\n")
    site = source.parent / "site"
    done = build(source, site)
    assert done.returncode == 0, done.stderr
    assert 'href="more/README.html">More</a>' in (site / "docs" / "index.html").read_text()
    assert 'href="one.html">One</a>' in (site / "docs" / "more" / "README.html").read_text()


@needs_sphinx
@pytest.mark.parametrize(
    ("page", "text", "complaint"),
    [
        ("page.md", "# A page\n\n[x](missing.md)\n", "'missing.md'"),
        ("page.md", "# A page\n\n[x](index.md#missing)\n", "'missing'"),
        ("page.md", "# A page\n\n[x](#missing)\n", "'missing'"),
        ("page.md", "# A page\n\n![x](missing.png)\n", "missing.png"),
        ("more.md", "# In no menu\n", "included in any toctree"),
    ],
    ids=["page", "anchor", "anchor of its own", "picture", "menu"],
)
def test_what_leads_nowhere_fails_the_build(
    source: Path, page: str, text: str, complaint: str
) -> None:
    (source / "docs" / page).write_text(text)
    done = build(source, source.parent / "site")
    assert done.returncode != 0
    assert complaint in done.stderr
