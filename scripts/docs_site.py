"""Build the site of docs/ and check it; `scripts/docs` calls it, with Sphinx's environment.

Every warning is an error: a link or an anchor that leads nowhere, a page that is in no menu.
The pages that come out are looked through once more, for what Sphinx passes over.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

ROOT = Path(__file__).resolve().parent.parent

HELP = """\
usage: scripts/docs [DIRECTORY]    build the site of docs/ (into .cache/site)

Begin to read at DIRECTORY/index.html.
"""

FIRST_PAGE = """\
<!doctype html>
<meta charset="utf-8">
<title>Greenroom</title>
<meta http-equiv="refresh" content="0; url=docs/index.html">
<a href="docs/index.html">Greenroom</a>
"""


def main(arguments: Sequence[str]) -> int:
    """Build the site; return the exit status."""
    if arguments and arguments[0].startswith("-"):
        print(HELP, end="")
        return 0 if arguments[0] in {"-h", "--help"} else 2
    site = Path(arguments[0]) if arguments else ROOT / ".cache" / "site"
    with tempfile.TemporaryDirectory(prefix="greenroom-docs-") as scratch:
        made = Path(scratch) / "site"
        if not build(ROOT, made, Path(scratch) / "pages"):
            return 1
        (made / "index.html").write_text(FIRST_PAGE)
        dead = sorted(dead_links(made))
        print("".join(f"{line}\n" for line in dead), end="", file=sys.stderr)
        if dead:
            return 1
        if site.exists() and not (site / "docs" / "index.html").exists() and any(site.iterdir()):
            print(f"{site} is in the way: it is no site. Move it.", file=sys.stderr)
            return 1
        shutil.rmtree(site, ignore_errors=True)
        shutil.copytree(made, site)
    print(f"Built {site / 'index.html'}")
    return 0


def build(source: Path, site: Path, scratch: Path) -> bool:
    """Have Sphinx make the site of a checkout; return whether it did so without a warning."""
    options = ["--quiet", "--fail-on-warning", "--keep-going", "--jobs", "auto"]
    places = ["-c", str(source / "docs"), "-d", str(scratch), str(source), str(site)]
    command = [sys.executable, "-I", "-m", "sphinx", "-b", "html", *options, *places]
    return subprocess.run(command, check=False).returncode == 0


class Page(HTMLParser):
    """The links of a page, and its anchors."""

    def __init__(self, text: str) -> None:
        """Read it."""
        super().__init__()
        self.links: set[str] = set()
        self.anchors: set[str] = set()
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what a tag says."""
        for name, value in attrs:
            if name == "id" and value:
                self.anchors.add(value)
            elif name in {"href", "src"} and value and tag != "link":
                self.links.add(value)


@cache
def page(path: Path) -> Page:
    """Return a page of the site."""
    return Page(path.read_text())


def dead_links(site: Path) -> Iterator[str]:
    """Yield each link within the site that leads nowhere, with its page.

    A page that is offered for download counts, too: it is copied without the files that it loads.
    """
    for path in site.rglob("*.html"):
        for link in page(path).links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            anchor = unquote(parts.fragment)
            is_there = target.is_file() and (
                not anchor or target.suffix != ".html" or anchor in page(target).anchors
            )
            if not is_there:
                yield f"{path.relative_to(site)}: {link} leads nowhere"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
