"""Check the English of docs, docstrings and comments by what can be counted.

    python scripts/prose.py                    how many findings each part of the repository has
    python scripts/prose.py greenroom/http     each finding there: file, line, rule, text
    python scripts/prose.py --lower            lower the numbers in scripts/prose.toml to today's

The rules, which CONTRIBUTING.md has among the house rules:

- `pronoun`: a player is "they", in docs, docstrings, comments, names and texts of the package.
- `beginning`: the first word of a docstring is not a bare "Of", "As", "Who", "Whether" and so on,
  nor that of a sentence in docs. There "As", questions, labels and heads of lists may stand.
- `sentence`: at most 25 words in docs, 30 in docstrings. Tables, headings and code do not count.
- `paragraph`: at most six lines in docs.
- `columns`: at most 120 in docs. Tables, code and the targets of links do not count.

`scripts/prose.toml` has, for each part, how many findings there still are. The test compares:
more is a mistake, and so is fewer, until the number there is lowered. It only ever goes down.
"""

from __future__ import annotations

import argparse
import ast
import inspect
import io
import re
import subprocess
import sys
import tokenize
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
RATCHET = ROOT / "scripts" / "prose.toml"

WORDS_MAX = 25
"""In a sentence of docs."""
DOCSTRING_WORDS_MAX = 30
"""In a sentence of a docstring: names of arguments and types make them longer."""
PARAGRAPH_LINES_MAX = 6
COLUMNS_MAX = 120

PRONOUN = re.compile(
    r"(?<![^\W_])(?:he|him|his|himself|she|her|hers|herself)(?![^\W_])", re.IGNORECASE
)
"""Parts of names count, as in `is_his`."""
BEGINNING = re.compile(
    r"(?:Of|As|Who|Whom|Whose|Where|Wherever|What|Which|Whoever|Whatever|Whether"
    r"|So (?:many|much|few|little|long|often|far|old|large))\b"
)

DOCS_BEGINNING = re.compile(rf"(?!As\b){BEGINNING.pattern}(?!:)")
DOCS_BEGINNING_ENDS = ("?", ":")
"""A question, or the head of a list, may begin so."""

NOT_PROSE = {
    "tests/faults/reports": "written by scripts/torture and scripts/simulate",
    "greenroom/actors/text/words": "lists of words that others made",
}
"""Folders that hold data, each with the reason why nobody can mend its English."""

COMMENT = re.compile(r"(?:^|\s)(?:#|//|--|\*|<!--)\s(.*)")
COMMENTED = re.compile(r"(?:\.(?:toml|ya?ml|sql|sh|go|gd|cs|m?js|html|css|conf|cfg|service))?")
"""Suffixes of files, other than Python's, whose comments are read."""

ITEM = re.compile(r"\s*(?:\d{1,2}\.|[-*]) ")
SECTION = re.compile(r"(?:Args|Returns|Raises|Yields|Attributes|Note|Example):$")
ARGUMENT = re.compile(r" {4}[\w*., ]+: ")


class Finding(NamedTuple):
    """Something that a rule does not allow."""

    path: str
    line: int
    rule: str
    text: str

    def __str__(self) -> str:
        """Return it as compilers tell their errors."""
        return f"{self.path}:{self.line}: {self.rule}: {self.text}"

    @property
    def part(self) -> str:
        """Return the part of the repository that it is counted for, as `greenroom/http`."""
        folders = self.path.split("/")[:-1]
        return "/".join(folders[:2] if folders[:1] in (["greenroom"], ["tests"]) else folders[:1])


class Block(NamedTuple):
    """Lines that belong together: a paragraph or an entry of a list."""

    line: int
    lines: list[str]


def main(arguments: Sequence[str]) -> int:
    """Print what was found; return the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("paths", nargs="*", help="files or folders to list the findings of")
    parser.add_argument("--lower", action="store_true", help="lower the numbers that are too high")
    chosen = parser.parse_args(arguments)
    findings = list(find(written_files()))
    if chosen.lower:
        allowed = read_ratchet()
        RATCHET.write_text(ratchet_text(lowered(allowed, count(findings))))
    if chosen.paths:
        wanted = [path.removeprefix("./").rstrip("/") for path in chosen.paths]
        findings = [found for found in findings if _is_below(found.path, wanted)]
        print(*findings, sep="\n")
    print(table(count(findings)))
    return 1 if chosen.paths and findings else 0


def _is_below(path: str, folders: Sequence[str]) -> bool:
    """Return whether a path is one of these, or in one of them."""
    return any(path == folder or path.startswith(f"{folder}/") for folder in folders)


def written_files() -> list[str]:
    """Return the files that git knows or would add, and that people wrote, from the root."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        listed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout.decode()
        names = [name for name in listed.split("\0") if name]
    except (OSError, subprocess.CalledProcessError):
        paths = (path.relative_to(ROOT) for path in ROOT.rglob("*") if path.is_file())
        names = [str(path) for path in paths if not any(part[0] == "." for part in path.parts)]
    return [
        name
        for name in sorted(set(names))
        if not _is_below(name, list(NOT_PROSE)) and (ROOT / name).is_file()
    ]


def find(names: Sequence[str]) -> Iterator[Finding]:
    """Yield what is found in these files, which are named from the root."""
    for name in names:
        suffix = Path(name).suffix
        if suffix == ".py":
            yield from in_python(name, (ROOT / name).read_text())
        elif suffix == ".md":
            yield from in_page(name, (ROOT / name).read_text())
        elif COMMENTED.fullmatch(suffix) and Path(name).name != "LICENSE":
            yield from in_comments(name, (ROOT / name).read_text(errors="replace"))


def in_page(path: str, text: str) -> Iterator[Finding]:
    """Yield what is found in a page of Markdown."""
    lines = without_code(text)
    for number, line in enumerate(lines, 1):
        if line.startswith("|"):
            yield from _pronouns(path, number, line)
        elif len(re.sub(r"\]\([^)]*\)|https?://\S+", "", line)) > COLUMNS_MAX:
            yield Finding(path, number, "columns", f"{len(line)}: {line[:60]}…")
    for block in blocks(lines):
        if len(block.lines) > PARAGRAPH_LINES_MAX:
            shown = f"{len(block.lines)} lines: {block.lines[0][:60]}…"
            yield Finding(path, block.line, "paragraph", shown)
        yield from _sentences(path, block, WORDS_MAX)
        yield from _beginnings(path, block)
        for offset, line in enumerate(block.lines):
            yield from _pronouns(path, block.line + offset, line)


def _beginnings(path: str, block: Block) -> Iterator[Finding]:
    """Yield the sentences of docs whose subject is a riddle, as in "Who polls is told"."""
    for line, sentence in _split(block):
        if DOCS_BEGINNING.match(sentence) and not sentence.endswith(DOCS_BEGINNING_ENDS):
            yield Finding(path, line, "beginning", sentence[:100])


def without_code(text: str) -> list[str]:
    """Return the lines of a page; those of code blocks and comments are empty."""
    lines: list[str] = []
    fence = ""
    for line in text.splitlines():
        mark = re.match(r"\s*(`{3,}|~{3,})", line)
        if fence:
            fence = "" if mark and line.strip() == fence else fence
            lines.append("")
        elif mark:
            fence = mark[1]
            lines.append("")
        else:
            before = lines[-1].strip() if lines else ""
            in_code = line.startswith("    ") and not before and not _in_list(lines)
            lines.append("" if in_code or line.startswith("<!--") else line)
    return lines


def _in_list(lines: Sequence[str]) -> bool:
    """Return whether the last line that is not empty belongs to an entry of a list."""
    for line in reversed(lines):
        if line.strip():
            return bool(ITEM.match(line) or line.startswith("  "))
    return False


def blocks(lines: Sequence[str]) -> Iterator[Block]:
    """Yield the paragraphs and entries of lists in a page, without headings and tables."""
    block = Block(0, [])
    for number, line in enumerate([*lines, ""], 1):
        if not line.strip() or line.startswith(("|", "#", "```")):
            if block.lines:
                yield block
            block = Block(0, [])
        elif ITEM.match(line) or not block.lines:
            if block.lines:
                yield block
            block = Block(number, [line])
        else:
            block.lines.append(line)


def in_python(path: str, text: str) -> Iterator[Finding]:
    """Yield what is found in the docstrings, comments and texts of a module."""
    docstrings = list(find_docstrings(ast.parse(text)))
    for node in docstrings:
        yield from in_docstring(path, node.lineno, str(node.value))
    if not PRONOUN.search(text):
        return  # most modules: tokens take longer to make than all else here
    within = {line for node in docstrings for line in range(node.lineno, _end(node) + 1)}
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        read = token.type in {tokenize.COMMENT, tokenize.NAME} or (
            token.type == tokenize.STRING and path.startswith("greenroom/") and " " in token.string
        )
        if read and token.start[0] not in within:
            yield from _pronouns(path, token.start[0], token.string)


def _end(node: ast.Constant) -> int:
    return node.end_lineno or node.lineno


def find_docstrings(tree: ast.AST) -> Iterator[ast.Constant]:
    """Yield every docstring, that of an attribute included."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            for statement in node.body:
                match statement:
                    case ast.Expr(ast.Constant(value=str()) as docstring):
                        yield docstring
                    case _:
                        pass


def in_docstring(path: str, line: int, text: str) -> Iterator[Finding]:
    """Yield what is found in a docstring that begins on this line."""
    text = inspect.cleandoc(text)
    if BEGINNING.match(text):
        yield Finding(path, line, "beginning", text.split("\n", 1)[0])
    for block in docstring_blocks(text):
        yield from _sentences(path, block._replace(line=line + block.line), DOCSTRING_WORDS_MAX)
        for offset, shown in enumerate(block.lines):
            yield from _pronouns(path, line + block.line + offset, shown)


def docstring_blocks(text: str) -> Iterator[Block]:
    """Yield the paragraphs, entries of lists and described arguments of a docstring."""
    block, in_section, is_code = Block(0, []), False, False
    for number, line in enumerate([*text.splitlines(), ""]):
        begins = ITEM.match(line) or SECTION.match(line) or (in_section and ARGUMENT.match(line))
        if (begins or not line.strip()) and block.lines:
            yield block
            block = Block(0, [])
        if SECTION.match(line):
            in_section = True
        elif not line.strip():
            in_section = is_code = False
        elif block.lines:
            block.lines.append(line)
        elif not is_code:
            is_code = not in_section and line.startswith(("    ", ">>>", "|", "\b"))
            block = Block(number, [] if is_code else [line])


def in_comments(path: str, text: str) -> Iterator[Finding]:
    """Yield the pronouns in the comments of a file that is neither Python nor Markdown."""
    for number, line in enumerate(text.splitlines(), 1):
        if comment := COMMENT.search(line):
            yield from _pronouns(path, number, comment[1])


def _pronouns(path: str, line: int, text: str) -> Iterator[Finding]:
    """Yield one finding for each pronoun, code left out."""
    for _ in PRONOUN.finditer(re.sub(r"`[^`]*`", "", text)):
        yield Finding(path, line, "pronoun", text.strip()[:100])


def _sentences(path: str, block: Block, words_max: int) -> Iterator[Finding]:
    """Yield the sentences of a block that have too many words."""
    for line, sentence in _split(block):
        words = [word for word in sentence.split() if re.search(r"\w", word)]
        if len(words) > words_max:
            yield Finding(path, line, "sentence", f"{len(words)} words: {' '.join(words)}")


def _split(block: Block) -> Iterator[tuple[int, str]]:
    """Yield the sentences of a block, each with the line that it begins on."""
    text = plain("\n".join(block.lines))
    at = 0
    for sentence in re.split(r"((?<=[.!?])[)\"'\]]*\s+)", text):
        yield block.line + text.count("\n", 0, at), sentence.strip()
        at += len(sentence)


def plain(text: str) -> str:
    """Return a text without marks; a piece of code is one word, and lines stay lines."""
    text = text[mark.end() :] if (mark := ITEM.match(text)) else text
    text = re.sub(r"`+([^`]+)`+", _one_word, text)
    text = re.sub(r"\]\([^)]*\)", "", text)
    return re.sub(r"[*\[\]]", "", text)


def _one_word(code: re.Match[str]) -> str:
    """Return a piece of code without its spaces; a line that ends in it ends behind it."""
    return re.sub(r"\s+", "·", code[1]).replace(".", "·") + "\n" * code[0].count("\n")


def count(findings: Sequence[Finding]) -> dict[str, Counter[str]]:
    """Return how many findings each part has, by rule."""
    counts: dict[str, Counter[str]] = {}
    for found in findings:
        counts.setdefault(found.part, Counter())[found.rule] += 1
    return counts


def read_ratchet() -> dict[str, dict[str, int]]:
    """Return how many findings each part may have, by rule."""
    return tomllib.loads(RATCHET.read_text()) if RATCHET.exists() else {}


def lowered(
    allowed: Mapping[str, Mapping[str, int]], counts: Mapping[str, Mapping[str, int]]
) -> dict[str, dict[str, int]]:
    """Return what is allowed, each number at most what was counted."""
    lower = {
        part: {rule: min(n, counts.get(part, {}).get(rule, 0)) for rule, n in rules.items()}
        for part, rules in allowed.items()
    }
    return {part: {r: n for r, n in rules.items() if n} for part, rules in lower.items()}


def ratchet_text(allowed: Mapping[str, Mapping[str, int]]) -> str:
    """Return the ratchet as it is written, one part a line."""
    lines = ["# Findings of scripts/prose.py that are still allowed; numbers only ever go down.\n"]
    for part, rules in sorted(allowed.items()):
        if rules:
            numbers = ", ".join(f"{rule} = {n}" for rule, n in sorted(rules.items()))
            lines.append(f'"{part}" = {{ {numbers} }}\n')
    return "".join(lines)


def table(counts: Mapping[str, Mapping[str, int]]) -> str:
    """Return the counts of each part as lines, the sum last."""
    rules = sorted({rule for numbers in counts.values() for rule in numbers})
    total = Counter[str]()
    lines = []
    for part, numbers in sorted(counts.items()):
        total.update(numbers)
        shown = "  ".join(f"{rule} {numbers[rule]}" for rule in rules if numbers.get(rule))
        lines.append(f"{part or 'the root':24} {shown}")
    lines.append(f"{'all':24} " + ("  ".join(f"{r} {total[r]}" for r in rules) or "nothing"))
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
