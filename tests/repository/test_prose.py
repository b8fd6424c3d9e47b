"""The English of docs, docstrings and comments, as far as it can be counted."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import prose
import pytest

LONG = " ".join(["on"] * 26)
LONGER = " ".join(["on"] * 31)


@pytest.fixture(scope="module")
def findings() -> list[prose.Finding]:
    """Everything that is found in the repository."""
    return list(prose.find(prose.written_files()))


def test_no_part_of_the_repository_has_more_findings_than_it_may_still_have(
    findings: list[prose.Finding],
) -> None:
    allowed = prose.read_ratchet()
    problems: list[str] = []
    for part, counts in prose.count(findings).items():
        for rule, n in counts.items():
            if n > (may := allowed.get(part, {}).get(rule, 0)):
                problems.append(f"{part}: {n} of rule {rule}, where {may} are allowed:")
                problems += [f"  {f}" for f in findings if (f.part, f.rule) == (part, rule)]
    assert not problems, "\n".join(problems)


def test_what_is_still_allowed_is_what_is_still_there(findings: list[prose.Finding]) -> None:
    counts, allowed = prose.count(findings), prose.read_ratchet()
    assert prose.lowered(allowed, counts) == allowed, "run `python scripts/prose.py --lower`"


def test_the_numbers_are_lowered_and_never_raised() -> None:
    allowed = {"docs": {"pronoun": 3, "columns": 2}, "bench": {"sentence": 1}}
    counts = {"docs": Counter(pronoun=1, columns=9), "tests": Counter(pronoun=4)}
    assert prose.lowered(allowed, counts) == {"docs": {"pronoun": 1, "columns": 2}, "bench": {}}
    assert prose.ratchet_text({"docs": {"pronoun": 1}, "bench": {}}).endswith(
        '\n"docs" = { pronoun = 1 }\n'
    )


def of_page(text: str) -> list[tuple[int, str]]:
    return [(found.line, found.rule) for found in prose.in_page("docs/page.md", text)]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (f"# {LONG}\n\n{LONG}.\n", [(3, "sentence")]),
        (f"{'o' * 121}\n| {'o' * 121} |\n", [(1, "columns")]),
        (f"Short.\nShort. {LONG[:60]}\n{LONG[60:]}\n", [(2, "sentence")]),
        (f"- one\n- {LONG[:60]}\n  {LONG[60:]}\n", [(2, "sentence")]),
        (f"{LONG[:60]}\n- {LONG[60:]}\n", []),
        (f"ends at 8082.\n{LONG[:30]} `in code. {LONG}`.\n", []),
        ("one\n" * 6, []),
        ("one\n" * 7, [(1, "paragraph")]),
        ("- one\n" * 7, []),
        ("The player moves.\nThen he waits, and she goes.\n", [(2, "pronoun"), (2, "pronoun")]),
        ("| he | moves |\n", [(1, "pronoun")]),
        (f"| {LONG} |\n", []),
        (f"```sh\n{LONG} he\n```\n\n    {LONG} she\n", []),
        (f"[here](https://example.org/{'x' * 120})\n", []),
        ("`he` and here, the, shell\n", []),
        ("It ends.\nWho polls is told, too.\n", [(2, "beginning")]),
        ("- one\n- Of these\n  two remain.\n", [(2, "beginning")]),
        ("What is it?\n\nWhere: here.\n\nWhat it does:\n\n# Who may write\n", []),
    ],
)
def test_what_is_found_in_a_page(text: str, found: list[tuple[int, str]]) -> None:
    assert of_page(text) == found


def of_module(text: str, path: str = "greenroom/module.py") -> list[tuple[int, str]]:
    return [(found.line, found.rule) for found in prose.in_python(path, text)]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('"""Whether it is open."""\n', [(1, "beginning")]),
        ('"""So many are kept."""\n', [(1, "beginning")]),
        ('"""Ask where it is. Whatever it says."""\n', []),
        ('x = 1\n"""Of a thing."""\n', [(2, "beginning")]),
        (
            'def f():\n    """Return what he has.\n\n    More.\n    His.\n    """\n',
            [(2, "pronoun"), (5, "pronoun")],
        ),
        ('x = 1  # what he has\ny = "what he has"\nz = "he"\n', [(1, "pronoun"), (2, "pronoun")]),
        ("def test_the_host_kicks_whom_he_likes(): ...\n", [(1, "pronoun")]),
        ("there = is_his_own = other\n", [(1, "pronoun")]),
        (f'"""Do.\n\n{LONGER[:60]}\n{LONGER[60:]}.\n"""\n', [(3, "sentence")]),
        (f'"""Do.\n\nArgs:\n    a: {LONG[:60]}\n    b: {LONG[60:]}\n"""\n', []),
        (f'"""Do::\n\n    {LONGER}\n\nAnd on.\n"""\n', []),
    ],
)
def test_what_is_found_in_a_module(text: str, found: list[tuple[int, str]]) -> None:
    assert of_module(text) == found


def test_texts_outside_of_the_package_may_say_what_they_like() -> None:
    assert of_module('y = "what he has"\n', "tests/http/test_names.py") == []


def test_what_is_found_in_the_comments_of_other_files() -> None:
    text = "value = he\n# what he has\n-- and she\n"
    assert [found.line for found in prose.in_comments("deploy/x.conf", text)] == [2, 3]


@pytest.mark.parametrize(
    ("path", "part"),
    [
        ("README.md", ""),
        ("docs/decisions/0001.md", "docs"),
        ("greenroom/config.py", "greenroom"),
        ("greenroom/http/areas/games.py", "greenroom/http"),
        ("tests/http/test_x.py", "tests/http"),
    ],
)
def test_findings_are_counted_for_the_part_that_they_are_in(path: str, part: str) -> None:
    assert prose.Finding(path, 1, "pronoun", "").part == part


def test_a_finding_is_told_with_file_line_rule_and_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "page.md").write_text("The player moves.\n\nThen he waits.\n")
    monkeypatch.setattr(prose, "ROOT", tmp_path)
    assert prose.main(["docs/"]) == 1
    assert capsys.readouterr().out.splitlines()[0] == "docs/page.md:3: pronoun: Then he waits."
    assert prose.main(["greenroom"]) == 0
