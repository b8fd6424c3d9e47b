"""Folds texts, so that letters that people read as the same have one spelling.

A word has many spellings: full-width and mathematical letters, accents, capitals, and look-alikes
from other scripts. There are also invisible characters, digits and signs in place of letters, and
letters separated by dots or blanks. A `Reading` is a text in one such spelling. Every character of
it knows its place in the source, so that a finding can be shown in the text as it was written.
"""

# ruff: noqa: RUF001 (this module is about look-alikes)

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Sequence
from functools import cached_property, lru_cache
from typing import Final

import regex

FOLDED_CHARACTERS_MAX: Final = 4
"""Characters that one character may fold to.

Some have eighteen (U+FDFA): those stand for themselves, so that a folded text is never much longer
than its source.
"""
SPELLED_PIECE_MAX: Final = 2
"""Letters in a piece of a word that is spelled out: `f u ck`."""
SPELLED_PIECES_MIN: Final = 3

# `re` where it is enough, because it takes half as long
_IGNORED: Final = regex.compile(r"[\p{Default_Ignorable_Code_Point}\p{Cc}\u2800]")
_WORD: Final = regex.compile(r"[\p{L}\p{M}]+")
_CHUNK: Final = re.compile(r"\S+")
_PIECE: Final = regex.compile(r"[\p{L}\p{M}]+|[\p{N}]+")
_HAS_PIECES: Final = regex.compile(r"[\p{L}\p{M}\p{N}][^\s\p{L}\p{M}\p{N}'’`´]+[\p{L}\p{N}]")
_HAS_SPELLED: Final = regex.compile(r"(?<![^\W_])[^\W_]{1,2}(?:[\W_]+[^\W_]{1,2}){2}(?![^\W_])")
_APOSTROPHE: Final = re.compile(r"['’`´]")
_RUN: Final = re.compile(r"(.)\1+")
_DIGIT: Final = regex.compile(r"\p{N}")
_RUN_ON: Final = regex.compile(r"[\p{Han}\p{Hangul}\p{Hiragana}\p{Katakana}\p{Thai}]")
_SCRIPTS: Final = regex.compile(
    r"(?P<kana>[\p{Katakana}\u30fc]+)|(?P<other>[\p{Hiragana}\p{Han}\p{Hangul}]+)"
)

# Digits and signs that stand for letters; `1` and its like may be an i or an l.
_HIDES: Final = str.maketrans("#%", "**")
_SIGNS: Final = str.maketrans("0134578@$!|+(€£¢", "oieastbasiitcelc")
_SIGNS_L: Final = str.maketrans("0134578@$!|+(€£¢", "oleastbasiltcelc")
_SIGNS_CYRILLIC: Final = str.maketrans("0346@$", "озчбас")
_SIGN: Final = re.compile(r"[0134578@$!|+(€£¢]")
_TWO_WAYS: Final = re.compile(r"[1|]")
# Digits behind the last letter of a chunk, or apart from its letters, are a number: `A55`,
# `Guest2455`, `room_101_b`. One digit by itself may be a letter of a word spelled out: `n-1-g`.
_NUMBER: Final = regex.compile(r"\p{N}+(?![^\s]*\p{L})|(?<![\p{L}\p{N}])\p{N}{2,}(?![\p{L}\p{N}])")

# Letters that look like Latin ones and survive NFKC; in words that mix scripts they are meant so.
_LOOK_ALIKES: Final = dict(
    zip(
        "авсеёєгһіїјкмнопрѕтухԁԝьᴜαβεικνορτυχωϲµμηγσғӏսոօցհեѵƒıłøđħɡɑɩɪ",
        "abceeerhiijkmhonpstyxdwbuabeikvoptuxwcuunyofiunoghevfilodhgaii",
        strict=True,
    )
)
_TO_LATIN: Final = str.maketrans(_LOOK_ALIKES)
_TO_CYRILLIC: Final = str.maketrans("abcehikmnoprtuxy3", "авсенікмпорртихуз")
_LATIN: Final = regex.compile(r"\p{Latin}")
_CYRILLIC: Final = regex.compile(r"\p{Cyrillic}")
_ACCENTED: Final = regex.compile(r"[\p{Latin}\p{Greek}\p{Cyrillic}]")
_MARKS: Final = regex.compile(
    r"[\u0300-\u036f\u0483-\u0489\u0640\u064b-\u065f\u0670"
    r"\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]"
)
_KEPT: Final = frozenset("йї")
"""Letters in their own right, which Unicode decomposes into another letter and a mark."""
_ALONE: Final = {"æ": "ae", "œ": "oe", "ø": "o", "ł": "l", "đ": "d", "ı": "i", "#": "*", "%": "*"}


@lru_cache(maxsize=16_384)
def fold_character(char: str) -> str:
    """Return the folded form of a character: at most `FOLDED_CHARACTERS_MAX` characters."""
    if _IGNORED.match(char):
        return " " if char.isspace() else ""
    if 0x1F170 <= ord(char) <= 0x1F189:  # negative squared letters, which NFKC leaves alone
        return chr(ord(char) - 0x1F170 + ord("a"))
    folded = unicodedata.normalize("NFKC", char).casefold()
    if len(folded) > FOLDED_CHARACTERS_MAX:
        return char
    return "".join(map(_bare, folded))


def _bare(char: str) -> str:
    """Return a folded character without its accents."""
    if char.isspace():
        return " "
    if 0xD800 <= ord(char) <= 0xDFFF or _MARKS.match(char):
        return ""
    if char not in _KEPT and _ACCENTED.match(char):
        char = unicodedata.normalize("NFD", char)[0]
    return _ALONE.get(char, char)


class Reading:
    """A text in one spelling, in which repeated letters count as one."""

    def __init__(
        self, text: str, at: Sequence[int], *, plain: str = "", is_glued: bool = False
    ) -> None:
        """Take a folded text.

        Args:
            text: the reading.
            at: the place in the source of each character.
            plain: the plainest reading, if this one replaces single characters of it.
            is_glued: whether its words are joined from pieces with signs between them. A match
                that is a part of such a word is ignored (`push-it`).
        """
        self.text = text
        self.at = at
        self.plain = plain
        self.is_glued = is_glued
        pieces: list[str] = []
        starts: list[int] = []
        done = 0
        for run in _RUN.finditer(text):
            pieces.append(text[done : run.start() + 1])
            starts.extend(range(done, run.start() + 1))
            done = run.end()
        pieces.append(text[done:])
        starts.extend(range(done, len(text) + 1))
        self.drawn = "".join(pieces)
        """The text, with each run of a letter as one character."""
        self.starts = starts
        """The place in `text` where each character of `drawn` begins, and the end of the text."""

    @cached_property
    def _words(self) -> list[tuple[int, int]]:
        return [word.span() for word in _WORD.finditer(self.text)]

    @cached_property
    def _word_starts(self) -> list[int]:
        return [start for start, _ in self._words]

    def find_word_bounds(self, start: int, end: int) -> tuple[int, int]:
        """Return the bounds of the word or words around a stretch of the text."""
        first = bisect_right(self._word_starts, start) - 1
        last = bisect_right(self._word_starts, end - 1) - 1
        if first >= 0:
            start = min(start, self._words[first][0]) if start < self._words[first][1] else start
        if last >= 0:
            end = max(end, self._words[last][1]) if end - 1 < self._words[last][1] else end
        return start, end


class Folded:
    """A folded text, and its readings, the plainest first."""

    def __init__(self, source: str) -> None:
        """Fold a text, once for all its readings."""
        self.source = source
        self._at: Sequence[int] = range(len(source))
        if source.isascii() and source.isprintable():
            self._text = source.lower().translate(_HIDES)
        else:
            parts = [fold_character(char) for char in source]
            self._text = "".join(parts)
            self._at = [place for place, part in enumerate(parts) for _ in part]

    def is_edge(self, view: Reading, place: int) -> bool:
        """Return whether a word of a reading may begin or end before a character."""
        text = view.text
        if place <= 0 or place >= len(text):
            return True
        before, after = text[place - 1], text[place]
        if not (_is_letter(before) and _is_letter(after)):
            return True
        if (_script(before)) != (_script(after)):
            return True
        source, at = self.source, view.at
        return source[at[place - 1]].islower() and source[at[place]].isupper()

    def list_readings(self) -> list[Reading]:
        """Return the readings that differ from each other, the plain text first."""
        text, at = self._text, self._at
        readings = [text]
        if not text.isascii():
            readings += _one_script(text)
        best = readings[1] if len(readings) > 1 else text
        spelled_text = best
        if _SIGN.search(best):
            spelled_text = _with_signs(best, _SIGNS)
            if spelled_text != best:
                readings.append(spelled_text)
                if _TWO_WAYS.search(best):
                    readings.append(_with_signs(best, _SIGNS_L))
        views = [Reading(text, at)]
        views += [Reading(reading, at, plain=text) for reading in dict.fromkeys(readings[1:])]
        spelled, glued = _pieces(spelled_text)
        if spelled:
            views.append(_put_together(spelled_text, at, spelled))
        if glued:
            views.append(_put_together(spelled_text, at, glued, is_glued=True))
        return views


@lru_cache(maxsize=16_384)
def _is_letter(char: str) -> bool:
    return _WORD.match(char) is not None


def is_run_on(char: str) -> bool:
    """Return whether a character's script is written without blanks between words."""
    return _RUN_ON.match(char) is not None


@lru_cache(maxsize=16_384)
def _script(char: str) -> str | None:
    """Return the character's script if it is written without blanks between words, else None."""
    found = _SCRIPTS.match(char)
    return found.lastgroup if found else None


def _one_script(text: str) -> list[str]:
    """Return the text with each word that mixes Latin and Cyrillic put into one script."""
    latin, cyrillic, done = [], [], 0
    for word in _CHUNK.finditer(text):
        chunk = word[0]
        if chunk.isascii() or not _LATIN.search(chunk) or chunk == chunk.translate(_TO_LATIN):
            continue
        between = text[done : word.start()]
        latin += [between, chunk.translate(_TO_LATIN)]
        is_cyrillic = _CYRILLIC.search(chunk) is not None
        cyrillic += [between, chunk.translate(_TO_CYRILLIC) if is_cyrillic else chunk]
        done = word.end()
    if not latin:
        return []
    return ["".join([*latin, text[done:]]), "".join([*cyrillic, text[done:]])]


def _with_signs(text: str, signs: dict[int, int]) -> str:
    """Return the text with signs replaced by letters, except in numbers."""

    def read(chunk: re.Match[str]) -> str:
        word = chunk[0]
        if word.isalpha() or word.isdecimal():
            return word
        is_cyrillic = not word.isascii() and _CYRILLIC.search(word)
        table = _SIGNS_CYRILLIC if is_cyrillic else signs
        if not _DIGIT.search(word):
            return word.translate(table)
        parts: list[str] = []
        done = 0
        for number in _NUMBER.finditer(word):
            parts += [word[done : number.start()].translate(table), number[0]]
            done = number.end()
        return "".join([*parts, word[done:].translate(table)])

    return _CHUNK.sub(read, text)


_Spans = list[tuple[int, int]]


def _pieces(text: str) -> tuple[list[_Spans], list[_Spans]]:
    """Return the words that are spelled out (`f u c k`), and those with signs in them (`fu.ck`)."""
    spelled: list[_Spans] = []
    glued: list[_Spans] = []
    letters: _Spans = []
    short: list[_Spans] = []
    if not (_HAS_PIECES.search(text) or _HAS_SPELLED.search(text)):
        return spelled, glued
    for chunk in _CHUNK.finditer(text):
        pieces = [piece.span() for piece in _PIECE.finditer(text, chunk.start(), chunk.end())]
        if (
            pieces
            and not _APOSTROPHE.search(chunk[0])
            and max(end - start for start, end in pieces) <= SPELLED_PIECE_MAX
        ):
            letters += pieces
            short.append(pieces)
            continue
        _sort_short(letters, short, spelled, glued)
        letters, short = [], []
        if len(pieces) > 1 and not _APOSTROPHE.search(chunk[0]):
            glued.append(pieces)
    _sort_short(letters, short, spelled, glued)
    return spelled, glued


def _sort_short(
    letters: _Spans, chunks: list[_Spans], spelled: list[_Spans], glued: list[_Spans]
) -> None:
    """Read short pieces as one word that is spelled out, or else each chunk of them separately."""
    if _is_spelled(letters):
        spelled.append(letters)
    else:
        glued += [pieces for pieces in chunks if len(pieces) > 1]


def _is_spelled(pieces: _Spans) -> bool:
    """Return whether pieces of one or two letters are a word spelled out."""
    single = sum(end - start == 1 for start, end in pieces)
    return len(pieces) >= SPELLED_PIECES_MIN and single * 2 >= len(pieces)


def _put_together(
    text: str, at: Sequence[int], words: list[_Spans], *, is_glued: bool = False
) -> Reading:
    """Return the reading of these words, without the characters between their pieces."""
    joined: list[str] = []
    places: list[int] = []
    for pieces in words:
        for start, end in pieces:
            joined.append(text[start:end])
            places.extend(at[start:end])
        joined.append(" ")
        places.append(places[-1])
    return Reading("".join(joined), places, is_glued=is_glued)
