"""The words that offend, by language, and one automaton that finds them all in one pass.

The word data beside this module is read once. `words/README.md` tells where the data comes from,
and what we changed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache, lru_cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Final

import msgspec
import regex
from ahocorasick_rs import AhoCorasick, Implementation, MatchKind

from greenroom.actors.text.folding import fold_character

SEVERITY_MIN: Final = 2
"""The least of four degrees in the English list; the first is mild (`bloody`, `hell`)."""
LOOSE_CHARACTERS_MIN: Final = 4
"""From this length on a word with a repeated vowel counts as the same word. In shorter words it is
another one: `cok`, `cook`."""
MASKED_CHARACTERS_MIN: Final = 4
MASKED_CHARACTERS_MAX: Final = 8
"""Words up to this length are also found with a star in place of a vowel: `f*ck`."""

LANGUAGES: Final = (
    "ar", "cs", "da", "de", "en", "es", "fa", "fi", "fil", "fr", "hi", "hu", "it", "ja", "ko",
    "nl", "no", "pl", "pt", "ru", "sv", "th", "tr", "uk", "zh",
)  # fmt: skip
"""Codes of ISO 639, as a game may name them."""

STARRED_CHARACTERS: Final = (4, 5)
_CYRILLIC: Final = frozenset({"ru", "uk"})
_VOWEL: Final = re.compile(r"(?<=[a-z])[aeiou](?=[a-z])")
_RUN: Final = re.compile(r"((.)\2*)")
_DOUBLE: Final = re.compile(r"(.)\1")
_Spelling = tuple[tuple[int, ...], bool, bool]
# Words of these scripts stand among others without a blank: so long they must be, to be one
# wherever their letters are found. Katakana words are told apart by the script around them.
_ANYWHERE: Final = regex.compile(
    r"[\p{Han}]{2,}|\p{Hangul}{3,}|[\p{Hiragana}\p{Han}]{3,}|[\p{Thai}]{4,}"
)
_TWO_SYLLABLES: Final = regex.compile(r"\p{Hangul}{2}")
"""The beginning of a Korean word; particles may follow."""


class LexiconEntry(msgspec.Struct, frozen=True):
    """One spelling of a word, as one or more languages have it."""

    languages: int
    """One bit for each language, in the order of `LANGUAGES`."""
    runs: tuple[int, ...]
    """How often each character of the drawn spelling is written."""
    begins: bool
    """True if a word must begin where the match does."""
    ends: bool


class Lexicon:
    """All words of all languages."""

    def __init__(self) -> None:
        """Read the word data and build the automaton: a tenth of a second."""
        self._entries: dict[str, dict[_Spelling, int]] = {}
        innocent: dict[str, int] = {}
        listed: set[str] = set()
        policies = msgspec.json.decode(_read("policy.json"), type=dict[str, dict[str, list[str]]])
        for number, language in enumerate(LANGUAGES):
            policy = policies.get(language, {})
            bit = 1 << number
            unused = {fold(word) for word in policy.get("unused", ())}
            folded = ((word, fold(word)) for word in _words(language))
            wanted = [both for both in folded if both[1] not in unused]
            wanted += ((word, fold(word)) for word in policy.get("added", ()))
            listed.update(spelling for _, spelling in wanted)
            for word, spelling in wanted:
                begins, ends = _edges(word)
                self._add(spelling, bit, begins=begins, ends=ends)
            for word in policy.get("whole", ()):
                self._add(fold(word), bit, begins=True, ends=True)
            for word in policy.get("inside", ()):
                self._add_starred(word, bit)
                self._add(fold(word), bit, begins=False, ends=False)
            exceptions = _exceptions() if language == "en" else ()
            for word in (*policy.get("innocent", ()), *exceptions):
                innocent[fold(word)] = innocent.get(fold(word), 0) | bit
        self._innocent = {word: bits for word, bits in innocent.items() if word not in listed}
        self.entries = tuple(
            tuple(LexiconEntry(languages, *spelling) for spelling, languages in found.items())
            for found in self._entries.values()
        )
        """The entries of each pattern of the automaton."""
        self.languages = tuple(
            _union(entry.languages for entry in entries) for entries in self.entries
        )
        """The languages of all entries of each pattern together."""
        self.automaton = AhoCorasick(
            list(self._entries),
            matchkind=MatchKind.Standard,
            implementation=Implementation.ContiguousNFA,
            store_patterns=False,
        )
        del self._entries

    def is_innocent(self, word: str, languages: int) -> bool:
        """Return whether a whole word is innocent although a part of it offends."""
        if self._innocent.get(word, 0) & languages:
            return True
        return any(pattern.fullmatch(word) for pattern in self._make_innocent_parts(languages))

    @lru_cache(maxsize=64)  # noqa: B019 (there is only one lexicon)
    def _make_innocent_parts(self, languages: int) -> tuple[regex.Pattern[str], ...]:
        """Return one pattern for all innocent words of which the lists have only a part."""
        parts = [
            regex.escape(word).replace(r"\*", ".*")
            for word, bits in self._innocent.items()
            if "*" in word and bits & languages
        ]
        return (regex.compile("|".join(parts)),) if parts else ()

    def _add_starred(self, word: str, language: int) -> None:
        """Add the spelling that leaves the first and the last letter alone: `f**k`."""
        if word.isascii() and len(word) in STARRED_CHARACTERS:
            starred = word[0] + "*" * (len(word) - 2) + word[-1]
            runs = (1, len(word) - 2, 1)
            entries = self._entries.setdefault(_RUN.sub(r"\2", starred), {})
            key = runs, True, True
            entries[key] = entries.get(key, 0) | language

    def _add(self, folded: str, language: int, *, begins: bool, ends: bool) -> None:
        spellings = [folded]
        if folded.isascii() and MASKED_CHARACTERS_MIN <= len(folded) <= MASKED_CHARACTERS_MAX:
            spellings += [
                folded[: vowel.start()] + "*" + folded[vowel.end() :]
                for vowel in _VOWEL.finditer(folded)
            ]
        for spelling in spellings:
            runs, drawn = (1,) * len(spelling), spelling
            if _DOUBLE.search(spelling):
                found = _RUN.findall(spelling)
                runs = tuple(len(run) for run, _ in found)
                drawn = "".join(character for _, character in found)
            if drawn:
                entries = self._entries.setdefault(drawn, {})
                key = runs, begins, ends
                entries[key] = entries.get(key, 0) | language


@cache
def lexicon() -> Lexicon:
    """Return the one lexicon; the first call reads it."""
    return Lexicon()


class _FoldedCharacters(dict[int, str]):
    """The folded form of each character that the lists have, by its code."""

    def __missing__(self, code: int) -> str:
        """Fold a character when it is met first."""
        folded = self[code] = fold_character(chr(code))
        return folded


_folded_characters: Final = _FoldedCharacters()


def fold(word: str) -> str:
    """Return a word of the lists in the spelling that texts are folded to."""
    return word.translate(_folded_characters).strip()


def _edges(word: str) -> tuple[bool, bool]:
    """Return whether a match must begin, and end, at the edge of a word."""
    if word.isascii():
        return True, True
    if _ANYWHERE.fullmatch(word):
        return False, False
    return True, not _TWO_SYLLABLES.fullmatch(word)


def _union(bits: Iterable[int]) -> int:
    union = 0
    for each in bits:
        union |= each
    return union


class _Profanity(msgspec.Struct):
    match: str
    severity: int
    exceptions: tuple[str, ...] = ()


def _data() -> Traversable:
    return files("greenroom.actors.text") / "words"


def _has(name: str) -> bool:
    return (_data() / name).is_file()


def _read(name: str) -> bytes:
    return (_data() / name).read_bytes()


@cache
def _profanities() -> list[_Profanity]:
    return msgspec.json.decode(_read("profanity-list/en.json"), type=list[_Profanity])


def _words(language: str) -> Iterator[str]:
    """Yield the words of a language."""
    if language == "en":
        for profanity in _profanities():
            if profanity.severity >= SEVERITY_MIN:
                yield from profanity.match.replace("*", "").split("|")
    elif _has(f"naughty-words/{language}.json"):
        yield from msgspec.json.decode(_read(f"naughty-words/{language}.json"), type=list[str])
    if _has(f"badwords/{language}.txt"):
        for word in _read(f"badwords/{language}.txt").decode().split("\n"):
            # transliterations, and English words that were left in, are no Cyrillic
            if word and (language not in _CYRILLIC or not word.isascii()):
                yield word


def _exceptions() -> Iterator[str]:
    """Yield the English words that the list names as innocent although a part of them offends."""
    for profanity in _profanities():
        for exception in profanity.exceptions:
            for word in profanity.match.replace("*", "").split("|"):
                yield exception.replace("*", word)
