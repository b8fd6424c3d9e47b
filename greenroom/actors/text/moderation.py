"""Finds offensive words in a text, in the languages of a game, and masks them.

Pure and bounded: a few passes over at most `CENSORED_CHARACTERS_MAX` characters. Callers refuse
longer texts; characters beyond that are not checked.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise
from typing import Final

import msgspec

from greenroom.actors.text.folding import Folded, Reading, is_run_on
from greenroom.actors.text.lexicon import (
    LANGUAGES,
    LOOSE_CHARACTERS_MIN,
    Lexicon,
    LexiconEntry,
    lexicon,
)
from greenroom.actors.text.nesting import read_without_fractions
from greenroom.contract.allowed_values import CENSORED_CHARACTERS_MAX

PASSES_MAX: Final = 3
"""Passes over a text. Masking words may leave others that were a part of them; after the last pass
the whole text is masked."""
MASK: Final = "*"
DEFAULT_LANGUAGES: Final = ("en",)


class Censored(msgspec.Struct, frozen=True):
    """The result of checking a text."""

    clean: bool
    filtered: str
    """The text, as long as before, with a `*` for every character that offends."""


class Moderator:
    """The check of texts in a choice of languages; it has no other state."""

    def __init__(self, languages: tuple[str, ...] = DEFAULT_LANGUAGES) -> None:
        """Make a moderator for these languages, codes of `LANGUAGES`."""
        self.languages = languages
        self._bits = sum(1 << LANGUAGES.index(language) for language in set(languages))

    def is_offensive(self, text: str) -> bool:
        """Return whether a text has an offensive word."""
        return next(self._find_offences(text), None) is not None

    def censor(self, text: str) -> Censored:
        """Return whether a text is clean, and its filtered form."""
        text = text[:CENSORED_CHARACTERS_MAX]
        filtered = text
        for _ in range(PASSES_MAX):
            masked = self._mask(filtered)
            if masked == filtered:
                return Censored(filtered == text, filtered)
            filtered = masked
        if self.is_offensive(filtered):
            filtered = "".join(char if char.isspace() else MASK for char in text)
        return Censored(clean=False, filtered=filtered)

    def _mask(self, text: str) -> str:
        chars: list[str] | None = None
        for start, end in self._find_offences(text):
            chars = chars or list(text)
            for place in range(start, end):
                if not chars[place].isspace():
                    chars[place] = MASK
        return text if chars is None else "".join(chars)

    def _find_offences(self, text: str) -> Iterator[tuple[int, int]]:
        """Yield the stretches of a text that offend; they may overlap."""
        words = lexicon()
        folded = Folded(text[:CENSORED_CHARACTERS_MAX])
        covered = bytearray(len(folded.source))
        for view in folded.list_readings():
            for start, end in self._search_reading(words, folded, view, covered):
                covered[start:end] = b"\1" * (end - start)
                yield start, end

    def _search_reading(
        self, words: Lexicon, folded: Folded, view: Reading, covered: bytearray
    ) -> Iterator[tuple[int, int]]:
        bits, languages, starts, at = self._bits, words.languages, view.starts, view.at
        matches = words.automaton.find_matches_as_indexes(view.drawn, overlapping=True)
        for pattern, first, last in matches:
            if not languages[pattern] & bits:
                continue
            start, end = starts[first], starts[last]
            if covered[at[start]] and covered[at[end - 1]]:
                continue  # a part of a stretch that was found already
            if view.text[start:end] == view.plain[start:end]:
                continue  # judged already
            for entry in words.entries[pattern]:
                if entry.languages & bits and _fits(entry, view, first, last):
                    found = self._find_stretch(words, folded, view, entry, (start, end))
                    if found is not None:
                        yield at[found[0]], at[found[1] - 1] + 1
                        break

    def _find_stretch(
        self,
        words: Lexicon,
        folded: Folded,
        view: Reading,
        entry: LexiconEntry,
        bounds: tuple[int, int],
    ) -> tuple[int, int] | None:
        """Return the stretch of the reading to mask for a match, None if the match is innocent."""
        start, end = bounds
        if (entry.begins or view.is_glued) and not folded.is_edge(view, start):
            return None
        if (entry.ends or view.is_glued) and not folded.is_edge(view, end):
            return None
        if view.text[start:end].isascii() or not (entry.begins or is_run_on(view.text[start])):
            first, last = view.find_word_bounds(start, end)
            if words.is_innocent(view.text[first:last], self._bits):
                return None
            if not entry.begins:
                return first, last
        return start, end


def _fits(entry: LexiconEntry, view: Reading, first: int, last: int) -> bool:
    """Return whether letters are repeated as in the entry, or in order to hide the word."""
    starts = view.starts
    if starts[last] - starts[first] == last - first == sum(entry.runs):
        return True
    is_loose = last - first >= LOOSE_CHARACTERS_MIN
    for written, (start, end) in zip(entry.runs, pairwise(starts[first : last + 1]), strict=True):
        times = end - start
        if times == written:
            continue
        # two consonants instead of one are often another word: raped, rapped
        least = 2 if is_loose and view.text[start] in "aeiou" else 3
        if times < max(written, least):
            return False
    return True


@lru_cache(maxsize=256)
def moderator(languages: tuple[str, ...] = DEFAULT_LANGUAGES) -> Moderator:
    """Return the moderator for these languages."""
    return Moderator(languages)


def prepare() -> None:
    """Read the word data now, so that no request waits for it."""
    lexicon()


def read_languages(document: bytes) -> tuple[tuple[str, ...], list[str]]:
    """Read which languages a game document wants texts checked in.

        {"moderation": {"languages": ["en", "de"]}}

    Args:
        document: the game document, a JSON object's bytes.

    Returns:
        The languages, and what was wrong if they had to be ignored.
    """
    try:
        written = msgspec.json.decode(document, type=dict[str, msgspec.Raw]).get("moderation")
        value = None if written is None else read_without_fractions(written)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return DEFAULT_LANGUAGES, ["moderation cannot be read"]
    if value is None:
        return DEFAULT_LANGUAGES, []
    if not isinstance(value, dict):
        return DEFAULT_LANGUAGES, ["moderation is not an object"]
    names = value.get("languages")
    if names is None:
        return DEFAULT_LANGUAGES, []
    if not isinstance(names, list) or not names or len(names) > len(LANGUAGES):
        return DEFAULT_LANGUAGES, ["moderation.languages is not an array of language codes"]
    found: list[str] = []
    for name in names:
        code = name.replace("_", "-").partition("-")[0].lower() if isinstance(name, str) else ""
        if code not in LANGUAGES:
            return DEFAULT_LANGUAGES, [f"moderation.languages names none we know: {name!r:.60}"]
        found.append(code)
    return tuple(sorted(set(found))), []
