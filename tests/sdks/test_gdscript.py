"""The scripts for Godot 4, which is not run here: what its grammar and its names say about them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from page_kit import ROOT, blocks_of
from program_kit import SDK

parser = pytest.importorskip("gdtoolkit.parser", reason="gdtoolkit is in requirements-dev.txt")

TEMPLATE = ROOT / "greenroom" / "cli" / "starter" / "clients" / "godot"
PAGE = ROOT / "docs" / "how-to" / "play-from-godot.md"
ADDONS = sorted((SDK / "godot" / "addons").rglob("*.gd"))
SCRIPTS = [*ADDONS, TEMPLATE / "main.gd"]
ONLY_IN_GODOT_3 = re.compile(
    r"\byield\(|\bPool\w+Array\b|\bparse_json\(|\bto_json\(|\bJSON\.(print|parse)\(|\bfuncref\("
    r"|\bOS\.get_ticks|\.connect\([^()]*, self,|\.empty\(\)|\.subarray\(|\.to_utf8\(\)"
    r"|\.instance\(\)"
    r"|\bFile\.new\(|\bDirectory\.new\(|\bord_at\(|\.percent_encode\(|^(tool|export|onready)\b",
    re.MULTILINE,
)
WORDS = {
    r"@export ": "export ",
    r"get_cmdline_user_args": "get_cmdline_args",
    r"await get_tree\(\)\.process_frame": 'yield(get_tree(), "idle_frame")',
    r"await room\.connected": 'yield(room, "connected")',
    r"await (.*)\.completed": r'yield(\1, "completed")',
    r"await (.*)": r'yield(\1, "completed")',
    r"\.message_received\.connect\((\w+)\)": r'.connect("message_received", self, "\1")',
}
"""Patterns of the template's script for Godot 4, and what stands there in the one for Godot 3."""


def syntax_of(text: str) -> None:
    """Raise if a text is no GDScript of Godot 4."""
    parser.parser.parse(text)


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_script_for_godot_4_is_gdscript_of_godot_4(path: Path) -> None:
    text = path.read_text()
    syntax_of(text)
    code = re.sub(r"#.*", "", text)
    found = [match[0] for match in ONLY_IN_GODOT_3.finditer(code)]
    assert not found, "Godot 4 does not know this"


def test_what_the_page_shows_for_godot_4_is_gdscript() -> None:
    [shown] = [each.text for each in blocks_of(PAGE) if "= await " in each.text]
    syntax_of(shown)


def test_what_is_no_gdscript_of_godot_4_is_found() -> None:
    godot3 = SDK / "godot" / "godot3" / "addons" / "greenroom" / "platform"
    scripts = [*godot3.glob("*.gd"), TEMPLATE / "godot3" / "main.gd"]
    assert len(scripts) == 4
    assert all(ONLY_IN_GODOT_3.search(path.read_text()) for path in scripts)
    with pytest.raises(Exception, match="Unexpected token"):
        syntax_of("extends Node\n\nfunc _ready()\n\tpass\n")


def test_the_templates_two_scripts_differ_in_words_alone() -> None:
    text = (TEMPLATE / "main.gd").read_text()
    for word, other in WORDS.items():
        text = re.sub(word, other, text)
    assert text == (TEMPLATE / "godot3" / "main.gd").read_text()
