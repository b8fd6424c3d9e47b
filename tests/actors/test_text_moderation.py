"""The check for offensive words: what it finds, what it leaves alone, what it costs."""

# ruff: noqa: RUF001 (look-alikes are what this is about)

from __future__ import annotations

import json
import random
import unicodedata
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from greenroom.actors.text import lexicon as lexicon_module
from greenroom.actors.text.folding import FOLDED_CHARACTERS_MAX, Folded, fold_character
from greenroom.actors.text.lexicon import LANGUAGES, fold, lexicon
from greenroom.actors.text.moderation import (
    DEFAULT_LANGUAGES,
    moderator,
    read_languages,
)
from greenroom.actors.text.names import FREE, NameRules, check_player_name, check_title
from greenroom.actors.text.refusals import NameRefused
from greenroom.contract.allowed_values import CENSORED_CHARACTERS_MAX

ENGLISH = moderator()


@pytest.mark.parametrize(
    ("text", "filtered"),
    [
        ("", ""),
        ("  ", "  "),
        ("hello there", "hello there"),
        ("what the FUCK, man", "what the ****, man"),
        ("shit", "****"),
        ("you son of a bitch!", "you *** ** * *****!"),
        ("unfuckable", "**********"),
        ("fuuuuck", "*******"),
        ("sh1t a$$hole", "**** *******"),
        ("b!tch", "*****"),
        ("f u c k you", "* * * * you"),
        ("f.u.c.k you", "******* you"),
        ("sh-it", "*****"),
        ("fu\u200bck", "*****"),
        ("fuсk", "****"),
        ("ｆｕｃｋ", "****"),
        ("🅵🆄🅲🅺", "****"),
        ("fück", "****"),
        ("f*ck s**t", "**** ****"),
        ("xXfuckerXx", "**********"),
        ("DickMaster", "****Master"),
        ("dick69", "****69"),
        ("a\nshit\tb", "a\n****\tb"),
    ],
)
def test_what_offends_is_starred_and_the_rest_stays(text: str, filtered: str):
    censored = ENGLISH.censor(text)
    assert censored.filtered == filtered
    assert censored.clean is (text == filtered)
    assert ENGLISH.is_offensive(text) is not censored.clean


@pytest.mark.parametrize(
    "text",
    [
        "Scunthorpe", "Essex", "Penistone", "Cockburn", "Matsushita", "Shittu", "Hancock",
        "assassin", "class", "cook the books", "therapist", "Therapist42", "analysis", "raccoon",
        "rapped", "assess", "Dickens", "xXx_Ninja_xXx", "push it", "push-it", "who're you",
        "as soon as", "J.R.R. Tolkien",
        "a b c d e f", "4 the win", "10:30", "5455", "****", "!!!", "gun $5",
    ],
)  # fmt: skip
def test_harmless_words_are_left_alone(text: str):
    assert ENGLISH.censor(text).filtered == text


@pytest.mark.parametrize(
    "text",
    [
        "T17", "A55", "A55 road", "AS52", "a_55", "Guest2455", "Guest4550", "room_455_b",
        "Clan-8008-x", "c00k 5455",
    ],
)  # fmt: skip
def test_digits_behind_a_word_are_a_number(text: str):
    assert ENGLISH.censor(text).filtered == text


@pytest.mark.parametrize("text", ["a55hole", "n-1-g-g-e-r", "5h1t", "pu55y", "sh1t55", "dick_69"])
def test_digits_within_a_word_are_letters(text: str):
    assert ENGLISH.is_offensive(text)


NUMBERED_NAMES = 100_000
NUMBERED_SEED = 2455


def test_no_number_makes_a_harmless_name_offensive():
    chance = random.Random(NUMBERED_SEED)
    words = ["Guest", "Player", "Knight", "As", "Ti", "Bo", "Cu", "Coc", "Fa", "Se", *"ABCFPSTX"]
    assert not any(map(ENGLISH.is_offensive, words))
    numbers = (
        f"{chance.choice(words)}{chance.choice(['', '', '_', '-', ' '])}"
        f"{chance.randrange(10 ** chance.randint(1, 6))}"
        for _ in range(NUMBERED_NAMES)
    )
    assert [name for name in numbers if ENGLISH.is_offensive(name)] == []


@pytest.mark.parametrize(
    ("language", "bad", "good"),
    [
        ("de", "du Arschloch", "here Anita stick"),
        ("fr", "fils de pute", "le concombre"),
        ("ru", "xуй пи3дец", "употреблять"),
        ("zh", "你是傻逼吗", "性格很好"),
        ("ja", "この野郎セックス", "グローブ"),
        ("ko", "야 개새끼야", "시발점"),
        ("th", "ไอ้เหี้ย", "สัดส่วน"),
        ("ar", "كس امك", "كسر الباب"),
        ("nl", "klootzak", "een asbak"),
    ],
)
def test_every_language_has_words_of_its_own(language: str, bad: str, good: str):
    check = moderator((language,))
    assert check.is_offensive(bad)
    assert not check.is_offensive(good)
    assert not ENGLISH.is_offensive(bad)


def test_a_text_is_checked_in_all_languages_of_the_game():
    both = moderator(("de", "en"))
    assert both.censor("fuck, Arschloch").filtered == "****, *********"
    assert moderator(("de",)).censor("shit, Hure").filtered == "shit, ****"


def test_every_language_that_may_be_named_has_words():
    found = lexicon().languages
    assert all(any(bits & 1 << number for bits in found) for number in range(len(LANGUAGES)))


TEXTS = st.text(max_size=60) | st.text("fuckshitas .*-13@\u200bсА", max_size=60)


@given(TEXTS)
def test_a_filtered_text_is_as_long_and_clean_and_changed_in_stars_alone(text: str):
    censored = ENGLISH.censor(text)
    assert len(censored.filtered) == len(text)
    assert all(
        after in {before, "*"} for before, after in zip(text, censored.filtered, strict=True)
    )
    assert censored.clean is (censored.filtered == text)
    assert not ENGLISH.is_offensive(censored.filtered)


@given(st.characters())
def test_a_character_comes_down_to_little(char: str):
    assert len(fold_character(char)) <= FOLDED_CHARACTERS_MAX
    assert fold(fold_character(char)) == fold_character(char).strip()


@pytest.mark.parametrize("char", ["\ufdfa", "\u3300", "a", "f u ", "𝖋", "cum", "a1", "fuсk ", "ﬃ"])
def test_a_text_of_a_thousand_characters_is_never_much_more_than_that(char: str):
    text = (char * CENSORED_CHARACTERS_MAX)[:CENSORED_CHARACTERS_MAX]
    views = Folded(text).list_readings()
    assert len(views) <= 7
    assert all(
        len(view.text) <= FOLDED_CHARACTERS_MAX * CENSORED_CHARACTERS_MAX + 1 for view in views
    )
    matches = sum(
        len(lexicon().automaton.find_matches_as_indexes(view.drawn, overlapping=True))
        for view in views
    )
    assert matches <= 8 * CENSORED_CHARACTERS_MAX
    assert len(ENGLISH.censor(text).filtered) == CENSORED_CHARACTERS_MAX


def test_what_is_too_long_is_not_looked_at():
    assert not ENGLISH.is_offensive("." * CENSORED_CHARACTERS_MAX + "shit")


@settings(max_examples=30)
@given(st.text(max_size=200))
def test_half_a_surrogate_pair_harms_nobody(text: str):
    assert len(ENGLISH.censor(text + "\ud800 shit").filtered) == len(text) + 6


@pytest.mark.parametrize(
    ("document", "languages"),
    [
        ({}, DEFAULT_LANGUAGES),
        ({"moderation": None}, DEFAULT_LANGUAGES),
        ({"moderation": {}}, DEFAULT_LANGUAGES),
        ({"moderation": {"languages": None}}, DEFAULT_LANGUAGES),
        ({"moderation": {"languages": ["de", "en", "de"]}}, ("de", "en")),
        ({"moderation": {"languages": ["pt-BR", "zh_Hans", "EN"]}}, ("en", "pt", "zh")),
    ],
)
def test_the_game_document_says_which_languages(document: object, languages: tuple[str, ...]):
    assert read_languages(msgspec.json.encode(document)) == (languages, [])


@pytest.mark.parametrize(
    ("moderation", "problem"),
    [
        ("7", "moderation is not an object"),
        ("[]", "moderation is not an object"),
        ('{"languages": "en"}', "moderation.languages is not an array of language codes"),
        ('{"languages": []}', "moderation.languages is not an array of language codes"),
        (
            '{"languages": [' + ",".join(['"en"'] * 99) + "]}",
            "moderation.languages is not an array of language codes",
        ),
        ('{"languages": ["en", "xx"]}', "moderation.languages names none we know: 'xx'"),
        ('{"languages": [1]}', "moderation.languages names none we know: 1"),
        ("[" * 2_000 + "]" * 2_000, "moderation cannot be read"),
    ],
)
def test_a_malformed_choice_is_ignored_and_reported(moderation: str, problem: str):
    document = b'{"moderation": ' + moderation.encode() + b"}"
    assert read_languages(document) == (DEFAULT_LANGUAGES, [problem])


def test_a_name_that_offends_is_refused_after_the_other_rules():
    refusal = "^Player name must not contain offensive words$"
    with pytest.raises(NameRefused, match=refusal):
        check_player_name("ShitLord", FREE)
    with pytest.raises(NameRefused, match=r"^Player name must be lower case$"):
        check_player_name("ShitLord", NameRules(case="lower"))
    assert check_player_name("Hurensohn", FREE) == "Hurensohn"
    with pytest.raises(NameRefused, match=refusal):
        check_player_name("Hurensohn", FREE, moderator(("de",)))


def test_titles_keep_the_same_rules():
    assert check_title("room_name", " Scunthorpe United ", FREE) == "Scunthorpe United"
    assert check_title("room_name", "🐸" * 120, FREE) == "🐸" * 120
    for title, text in [
        ("x" * 121, "room_name must be at most 120 characters"),
        ("shit show", "room_name must not contain offensive words"),
        ("a\u200bb", "room_name must not contain zero-width characters"),
    ]:
        with pytest.raises(NameRefused) as refused:
            check_title("room_name", title, FREE)
        assert str(refused.value) == text


def test_the_policy_has_no_word_twice_in_two_minds():
    policies = json.loads((Path(lexicon_module.__file__).parent / "words/policy.json").read_bytes())
    assert policies.keys() <= set(LANGUAGES)
    for policy in policies.values():
        assert policy.keys() <= {"inside", "added", "unused", "whole", "innocent"}
        assert not set(policy.get("added", ())) & set(policy.get("unused", ()))
        assert all(unicodedata.is_normalized("NFC", w) for words in policy.values() for w in words)
