"""/llms.txt and /llms-full.txt: everything is in them, and links lead somewhere."""

from __future__ import annotations

import json
import re

import pytest

from greenroom.http.describe.openapi import build
from greenroom.http.describe.reference import QUERY_WORDS_MAX, Reference
from greenroom.http.endpoints import ENDPOINTS

DOCUMENT = build(ENDPOINTS)
REFERENCE = Reference(DOCUMENT)


def test_the_index_is_in_the_format_of_llms_txt() -> None:
    lines = REFERENCE.index.decode().splitlines()
    assert lines[0] == "# Greenroom"
    assert lines[2].startswith("> ")
    headings = [line for line in lines if line.startswith("#")]
    assert all(heading.startswith("## ") for heading in headings[1:])
    after = lines[lines.index(headings[1]) :]
    item = re.compile(r"- \[[^\]]+\]\(/[^)]*\): .+")
    assert all(item.fullmatch(line) or line in headings or not line for line in after)


def test_every_endpoint_is_in_the_index_and_its_link_leads_to_its_heading() -> None:
    index, full = REFERENCE.index.decode(), REFERENCE.full.decode()
    headings = re.findall(r"^### (.+)$", full, re.MULTILINE)
    anchors = [re.sub(r"[^\w -]", "", each.lower()).replace(" ", "-") for each in headings]
    links = re.findall(r"\(/llms-full\.txt#([^)]+)\)", index)
    assert "\n## Realtime messages\n" in full
    assert sorted(links) == sorted([*anchors, "realtime-messages"])
    assert len(set(anchors)) == len(anchors)
    assert sorted(headings) == sorted(f"{row.method} {row.path}" for row in ENDPOINTS)


@pytest.mark.parametrize("row", ENDPOINTS, ids=lambda row: row.path)
def test_the_reference_tells_all_about_an_operation(row) -> None:
    (text,) = (o.text for o in REFERENCE.operations if o.title == f"{row.method} {row.path}")
    operation = DOCUMENT["paths"][row.path][row.method.lower()]
    assert row.summary in text
    assert "`X-Api-Token`" in text
    for field in row.input.__struct_fields__ if row.input is not None else ():
        assert f"`{field}`" in text
    for status, response in operation["responses"].items():
        assert status == "200" or f"- {status}: {response['description']}" in text
    for example in re.findall(r"```json\n(.+?)\n```", text, re.DOTALL):
        json.loads(example)


def test_a_title_counts_more_than_the_text_and_more_words_more_than_either() -> None:
    def best(query: str) -> str:
        return REFERENCE.search(query, 1)[0].title

    assert best("rotate") == "POST /api/game_players.php/rotate"
    assert best("rotate token") == "POST /api/game_players.php/rotate"
    assert best("cheating ban_duration") == "POST /api/game_players.php/ban"
    assert REFERENCE.search("", 5) == []


def test_only_so_many_words_are_looked_for() -> None:
    words = " ".join(f"zz{number}" for number in range(QUERY_WORDS_MAX))
    assert REFERENCE.search(f"{words} rotate", 5) == []
