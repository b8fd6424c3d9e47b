"""The table of what shows the specification: it is whole, and what is not whole is found."""

from __future__ import annotations

from pathlib import Path

import conformance
import pytest

SPECIFICATION = """# Title

One sentence. Another, e.g. this one (with `code`). `third` here.

## Part (of it)

1. An item. It has two.

| Head | Line |
|---|---|
| a | `x` (b) |
| c. D | |
"""


def test_the_table_names_every_sentence_and_every_test_that_it_names_is_there() -> None:
    assert conformance.main([]) == 0


def test_without_a_specification_the_tests_are_still_looked_for(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.setattr(conformance, "SPECIFICATION", tmp_path / "none")
    assert conformance.main([]) == 0
    monkeypatch.setattr(conformance, "TESTS", tmp_path)
    assert conformance.main([]) == 1


def test_a_page_is_cut_into_sentences_items_and_rows() -> None:
    units = conformance.units_of(SPECIFICATION)
    assert [(unit.section, unit.text) for unit in units] == [
        ("title", "One sentence."),
        ("title", "Another, e.g. this one (with `code`)."),
        ("title", "`third` here."),
        ("part", "An item."),
        ("part", "It has two."),
        ("part", "a | `x` (b)"),
        ("part", "c. D"),
    ]
    assert len({unit.key for unit in units}) == len(units)


def test_what_is_amiss_is_told() -> None:
    units = conformance.units_of(SPECIFICATION)[:3]
    first, second, _ = units
    page = (
        f"| {first.key} | One sentence. | `a.py::test_there`, `a.py::test_gone` |\n"
        f"| {second.key} | Another text | none: a reason |\n"
        "| title-000000 | Never said. | neither |\n"
    )
    rows = conformance.rows_of(page)
    assert conformance.check_tests(rows, frozenset({"a.py::test_there"})) == [
        f"{first.key}: no such test: a.py::test_gone",
        "title-000000: neither test nor reason",
    ]
    told = conformance.check_units(units, rows)
    assert told == [
        f"no row: {units[2].key} third here.",
        "no such sentence: title-000000 Never said.",
        f"{second.key} is not “Another text” but “Another, e.g. this one (with code).”",
    ]
    assert conformance.check_units(units[:1], [rows[0], rows[0]]) == [f"two rows: {first.key}"]


def test_a_text_that_no_test_expects_is_told() -> None:
    quoted = "`You must\nwait`; `[A-Za-z0-9_]`; `room_name must be at most\n120 characters`"
    wire = f"\n## 2. Texts\n\n{quoted}\n## 3."
    texts = conformance.texts_of(wire)
    assert texts[len(texts) - 3 :] == [
        "You must wait",
        "room_name must be at most 120 characters",
        "matchmaking_name must be at most 120 characters",
    ]
    literals = frozenset(texts) - {"You must wait"}
    assert conformance.check_texts(texts, literals) == [
        "no test over a socket expects: You must wait"
    ]
