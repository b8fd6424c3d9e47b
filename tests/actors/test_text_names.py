"""Rules for names: those of every game, and those of its owner."""

# ruff: noqa: RUF001 (look-alikes are what this is about)

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from greenroom.actors.text.moderation import DEFAULT_LANGUAGES, read_languages
from greenroom.actors.text.names import (
    FREE,
    NameRules,
    check_player_name,
    check_title,
    read_name_rules,
)
from greenroom.actors.text.nesting import read_without_fractions
from greenroom.actors.text.refusals import NameRefused


@pytest.mark.parametrize(
    "name",
    [
        "Al", "x" * 50, "Ann Lee", "Jürgen", "蛙", "Ольга", "محمد", "दीपक", "สมชาย", "한글이름",
        "Ｐｌａｙｅｒ", "ﾊﾝｶｸ", "e\u0301te\u0301", "x_X-99.", "🐸🐸", "I ❤\ufe0f you", "𝕬𝖉𝖆",
    ],
)  # fmt: skip
def test_without_rules_any_script_and_case_passes(name: str):
    if len(name) == 1:
        name *= 2
    assert check_player_name(f" {name}\t", FREE) == name


@pytest.mark.parametrize("name", ["", "  ", "a", " a ", "x" * 51, "x" * 1_000_000])
def test_names_have_2_to_50_characters_after_trimming(name: str):
    with pytest.raises(NameRefused, match=r"^Player name must be between 2 and 50 characters$"):
        check_player_name(name, FREE)


def test_characters_are_counted_not_bytes():
    assert check_player_name("蛙" * 50, FREE) == "蛙" * 50


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("a\x00b", "control"),
        ("a\nb", "control"),
        ("a\x7fb", "control"),
        ("a\x85b", "control"),
        ("a\u2028b", "control"),
        ("a\ud800b", "control"),
        ("a\u202eb", "bidirectional"),
        ("a\u2066b", "bidirectional"),
        ("a\u200fb", "bidirectional"),
        ("a\u061cb", "bidirectional"),
        ("a\u200bb", "zero-width"),
        ("a\u200cb", "zero-width"),
        ("a\u200db", "zero-width"),
        ("a\ufeffb", "zero-width"),
        ("a\u2060b", "zero-width"),
        ("a\u00adb", "zero-width"),
        ("a\ufe0fb", "zero-width"),
        ("\u3164\u3164", "zero-width"),
        ("\u2800\u2800", "zero-width"),
        ("a\U000e0041b", "zero-width"),
        ("a\ue000b", "private-use or unassigned"),
        ("\U000f0000\U0010fffd", "private-use or unassigned"),
        ("a\ufffeb", "private-use or unassigned"),
        ("a\ufdd0b", "private-use or unassigned"),
        ("a\U0001ffffb", "private-use or unassigned"),
        ("a\u0378b", "private-use or unassigned"),
    ],
)
def test_invisible_characters_are_always_refused(name: str, kind: str):
    with pytest.raises(NameRefused, match=f"^Player name must not contain {kind} characters$"):
        check_player_name(name, FREE)


@pytest.mark.parametrize(
    "name", ["\u0301\u0302", "\u0300 \u0301", "\u20dd\u20dd\u20dd", "\u0903\u0903"]
)
def test_a_name_is_more_than_combining_marks(name: str):
    text = "must contain more than combining marks"
    with pytest.raises(NameRefused, match=f"^Player name {text}$"):
        check_player_name(name, FREE)
    with pytest.raises(NameRefused, match=f"^room_name {text}$"):
        check_title("room_name", name, FREE)
    assert check_player_name(f"e{name}", FREE) == f"e{name}"


def test_no_title_is_none_and_new_pictographs_are_names():
    assert check_title("room_name", " ", FREE) == ""
    assert check_player_name("\U0001faff\U0001f2ff", FREE) == "\U0001faff\U0001f2ff"


LATIN = NameRules(scripts=("Latin",))
JAPANESE = NameRules(scripts=("Han", "Hiragana", "Katakana"))


@pytest.mark.parametrize(
    ("name", "rules"),
    [
        ("Jürgen-1_x", LATIN),
        ("e\u0301te", LATIN),
        ("Ann 🐸", LATIN),
        ("蛙のラーメン", JAPANESE),
        ("abc", NameRules(case="lower")),
        ("ab 1", NameRules(case="lower")),
        ("蛙蛙", NameRules(case="upper")),
        ("ABC", NameRules(case="upper")),
        ("Abc", NameRules(digits=False, spaces=False)),
        ("三蛙", NameRules(digits=False)),
    ],
)
def test_names_that_keep_the_owners_rules_pass(name: str, rules: NameRules):
    assert check_player_name(name, rules) == name


@pytest.mark.parametrize(
    ("name", "rules", "text"),
    [
        ("Ольга", LATIN, "must use only these scripts: Latin"),
        ("Аdmin", LATIN, "must use only these scripts: Latin"),  # a Cyrillic A
        ("Ann", JAPANESE, "must use only these scripts: Han, Hiragana, Katakana"),
        ("Ａｄａ", LATIN, "must not contain look-alikes of other characters"),
        ("𝐀𝐝𝐚", LATIN, "must not contain look-alikes of other characters"),
        ("ﬁsh", LATIN, "must not contain look-alikes of other characters"),
        ("aBc", NameRules(case="lower"), "must be lower case"),
        ("ǅabc", NameRules(case="lower"), "must be lower case"),
        ("ABc", NameRules(case="upper"), "must be upper case"),
        ("ab1", NameRules(digits=False), "must not contain digits"),
        ("ab٣", NameRules(digits=False), "must not contain digits"),
        ("ab²", NameRules(digits=False), "must not contain digits"),
        ("a b", NameRules(spaces=False), "must not contain spaces"),
        ("a\u3000b", NameRules(spaces=False), "must not contain spaces"),
    ],
)
def test_the_text_says_which_rule_is_broken(name: str, rules: NameRules, text: str):
    with pytest.raises(NameRefused) as refused:
        check_player_name(name, rules)
    assert str(refused.value) == f"Player name {text}"


def test_rules_are_read_from_the_game_document():
    document = (
        b'{"x": [1], "name_rules": {"scripts": ["Latin", "Greek"], "case": "lower",'
        b' "digits": false, "spaces": false, "colour": "blue"}}'
    )
    assert read_name_rules(document, "name_rules") == (
        NameRules(scripts=("Latin", "Greek"), case="lower", digits=False, spaces=False),
        [],
    )
    assert read_name_rules(document, "room_title_rules") == (FREE, [])


@pytest.mark.parametrize(
    "document",
    [b"{}", b'{"name_rules": null}', b'{"name_rules": {}}', b'{"name_rules": {"case": null}}'],
)
def test_what_is_not_said_is_allowed(document: bytes):
    assert read_name_rules(document, "name_rules") == (FREE, [])


@pytest.mark.parametrize(
    ("written", "problem"),
    [
        (b"5", "name_rules is not an object"),
        (b"[]", "name_rules is not an object"),
        (b'{"scripts": "Latin"}', "name_rules.scripts is not an array"),
        (b'{"scripts": ["Klingon"]}', "name_rules.scripts names no Unicode script: 'Klingon'"),
        (b'{"scripts": ["Latin}]|.*[{x"]}', "name_rules.scripts names no Unicode script"),
        (b'{"scripts": [5]}', "name_rules.scripts names no Unicode script: 5"),
        (b'{"scripts": [' + b'"Latin",' * 32 + b'"Latin"]}', "name_rules.scripts is not an array"),
        (b'{"case": "title"}', "name_rules.case is none of"),
        (b'{"case": ["any"]}', "name_rules.case is none of"),
        (b'{"digits": 0}', "name_rules.digits is not a boolean"),
        (b'{"spaces": "false"}', "name_rules.spaces is not a boolean"),
    ],
)
def test_a_malformed_rule_is_ignored_and_reported(written: bytes, problem: str):
    rules, problems = read_name_rules(b'{"name_rules":' + written + b"}", "name_rules")
    assert rules == FREE
    assert len(problems) == 1
    assert problems[0].startswith(problem)


def test_a_malformed_rule_leaves_the_others_in_force():
    document = b'{"name_rules": {"digits": false, "case": "Upper", "scripts": []}}'
    rules, problems = read_name_rules(document, "name_rules")
    assert rules == NameRules(digits=False)
    assert problems == ["name_rules.case is none of any, lower, upper"]


def test_a_document_that_cannot_be_read_has_no_rules():
    for document in (b"[1]", b"{", b'{"name_rules": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"):
        rules, problems = read_name_rules(document, "name_rules")
        assert rules == FREE
        assert problems


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
)


@given(
    st.dictionaries(st.sampled_from(["scripts", "case", "digits", "spaces", "x"]), json_values),
    st.text(max_size=60),
)
def test_no_document_and_no_name_is_a_crash(written: dict[str, object], name: str):
    document = msgspec.json.encode({"name_rules": written})
    rules, _ = read_name_rules(document, "name_rules")
    try:
        checked = check_player_name(name, rules)
    except NameRefused as refused:
        checked = str(refused)[:16]
    assert checked in {name.strip(), "Player name must"}
    checked.encode()


def test_fractions_in_rules_are_not_read_as_numbers():
    """The decoder takes 40 µs for one like 1e308, and 16 KiB have room for 2,700."""
    document = b'{"name_rules":{"digits":1e308,"scripts":[1e308,1.5]},"moderation":[1e308]}'
    _, problems = read_name_rules(document, "name_rules")
    assert problems == [
        "name_rules.digits is not a boolean",
        "name_rules.scripts names no Unicode script: '1e308'",
    ]
    assert read_languages(document) == (DEFAULT_LANGUAGES, ["moderation is not an object"])
    assert read_without_fractions(b"[1e308,1.5,2]") == ["1e308", "1.5", 2]
