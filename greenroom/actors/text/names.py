"""Names of players: the rules every game has, and those that its owner wrote into its document.

    "name_rules": {"scripts": ["Latin", "Han"], "case": "lower", "digits": true, "spaces": false}

`case` is `any`, `lower` or `upper`. Each of the four may be left out, and then allows everything. A
malformed one is ignored and reported, so that an owner's typing error locks nobody out.

Always refused are:

- offensive words (`moderation.py` finds them);
- control and bidirectional characters, and those that take no room (zero-width spaces and joiners,
  fillers, tags): two names could look alike, or rewrite the line that they stand in;
- characters without a meaning (private use, noncharacters, unassigned ones);
- names of combining marks alone.

Where scripts are restricted, characters that NFKC replaces by others (full-width letters,
mathematical alphabets, ligatures) are refused too: they are look-alikes that belong to every
script.
"""

from __future__ import annotations

import unicodedata
from typing import Final, Literal, get_args

import msgspec
import regex

from greenroom.actors.text.moderation import Moderator, moderator
from greenroom.actors.text.nesting import read_without_fractions
from greenroom.actors.text.refusals import NameRefused
from greenroom.contract.allowed_values import TITLE_CHARACTERS_MAX

NAME_CHARACTERS_MIN: Final = 2
NAME_CHARACTERS_MAX: Final = 50
SCRIPTS_MAX: Final = 32
"""A rule with more scripts is malformed, because the pattern made of them must be bounded."""

Case = Literal["any", "lower", "upper"]


class NameRules(msgspec.Struct, frozen=True):
    """The rules of a game for names; the defaults allow everything."""

    scripts: tuple[str, ...] = ()
    """Unicode names of scripts; empty allows all."""
    case: Case = "any"
    digits: bool = True
    spaces: bool = True


FREE: Final = NameRules()

_OFFENSIVE: Final = "must not contain offensive words"
_CONTROL: Final = regex.compile(r"[\p{Cc}\p{Cs}\p{Zl}\p{Zp}]")
_BIDIRECTIONAL: Final = regex.compile(r"\p{Bidi_Control}")
# Variation selector 16 after a pictograph gives it colours, so it is visible.
_ZERO_WIDTH: Final = regex.compile(
    r"(?<!\p{Extended_Pictographic})\uFE0F|[\p{Default_Ignorable_Code_Point}--\uFE0F]|\u2800",
    regex.VERSION1,
)
# Code points that Unicode reserves for pictographs may have been assigned since.
_MEANINGLESS: Final = regex.compile(r"[\p{Co}[\p{Cn}--\p{Extended_Pictographic}]]", regex.VERSION1)
_VISIBLE: Final = regex.compile(r"[\p{L}\p{N}\p{P}\p{S}\p{Extended_Pictographic}]", regex.VERSION1)
_SCRIPT_NAME: Final = regex.compile(r"[A-Za-z][A-Za-z_ ]{1,39}")


def check_player_name(name: str, rules: NameRules, moderation: Moderator | None = None) -> str:
    """Return the name, trimmed, if it keeps all rules.

    Args:
        name: the name as it was typed.
        rules: the game's.
        moderation: the check for offensive words, in the game's languages; English by default.

    Raises:
        NameRefused: with the text for the player.
    """
    trimmed = name.strip()
    if not NAME_CHARACTERS_MIN <= len(trimmed) <= NAME_CHARACTERS_MAX:
        raise NameRefused("Player name must be between 2 and 50 characters")
    broken = broken_rule(trimmed, rules)
    if broken is not None:
        raise NameRefused(f"Player name {broken}")
    if (moderation or moderator()).is_offensive(trimmed):
        raise NameRefused(f"Player name {_OFFENSIVE}")
    return trimmed


def check_title(
    field: str, title: str, rules: NameRules, moderation: Moderator | None = None
) -> str:
    """Return the title of a room or lobby, trimmed, if it keeps all rules.

    Args:
        field: the name that errors give it, `room_name` or `matchmaking_name`.
        title: the title as it was typed.
        rules: the game's.
        moderation: the check for offensive words, in the game's languages; English by default.

    Raises:
        NameRefused: with the text for the player.
    """
    trimmed = title.strip()
    if len(trimmed) > TITLE_CHARACTERS_MAX:
        raise NameRefused(f"{field} must be at most {TITLE_CHARACTERS_MAX} characters")
    broken = broken_rule(trimmed, rules)
    if broken is not None:
        raise NameRefused(f"{field} {broken}")
    if (moderation or moderator()).is_offensive(trimmed):
        raise NameRefused(f"{field} {_OFFENSIVE}")
    return trimmed


def broken_rule(text: str, rules: NameRules) -> str | None:
    """Return the demand of the first broken rule (`must be lower case`), None if all are kept."""
    # Most names are plain ASCII, in which nothing is to be found that is always refused.
    if not (text.isascii() and text.isprintable()) or text.isspace():
        refused = _always_refused(text)
        if refused is not None:
            return refused
    if rules.scripts:
        if not _allowed_script(rules.scripts).fullmatch(text):
            return f"must use only these scripts: {', '.join(rules.scripts)}"
        if unicodedata.normalize("NFKC", text) != unicodedata.normalize("NFC", text):
            return "must not contain look-alikes of other characters"
    if rules.case == "lower" and any(char.isupper() or _is_title(char) for char in text):
        return "must be lower case"
    if rules.case == "upper" and any(char.islower() or _is_title(char) for char in text):
        return "must be upper case"
    if not rules.digits and any(char.isdigit() for char in text):
        return "must not contain digits"
    if not rules.spaces and any(char.isspace() for char in text):
        return "must not contain spaces"
    return None


def _always_refused(text: str) -> str | None:
    """Return the demand that a text breaks by characters which no game allows, None for none."""
    if _CONTROL.search(text):
        return "must not contain control characters"
    if _BIDIRECTIONAL.search(text):
        return "must not contain bidirectional characters"
    if _ZERO_WIDTH.search(text):
        return "must not contain zero-width characters"
    if _MEANINGLESS.search(text):
        return "must not contain private-use or unassigned characters"
    if text and _VISIBLE.search(text) is None:
        return "must contain more than combining marks"
    return None


def _is_title(char: str) -> bool:
    """Return whether a character is both cases at once, as in ǅ."""
    return unicodedata.category(char) == "Lt"


def read_name_rules(document: bytes, field: str) -> tuple[NameRules, list[str]]:
    """Read the rules that stand in a game document.

    Args:
        document: the game document, a JSON object's bytes.
        field: where the rules stand in it, `name_rules` or `room_title_rules`.

    Returns:
        The rules, and what was wrong with those that had to be ignored.
    """
    try:
        written = msgspec.json.decode(document, type=dict[str, msgspec.Raw]).get(field)
        if written is None:
            return FREE, []
        values = read_without_fractions(written)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return FREE, [f"{field} cannot be read"]
    if values is None:
        return FREE, []
    if not isinstance(values, dict):
        return FREE, [f"{field} is not an object"]
    problems: list[str] = []
    found: dict[str, object] = {}
    for name, value in values.items():
        if name in NameRules.__struct_fields__ and value is not None:
            try:
                found[name] = _READERS[name](value)
            except ValueError as error:
                problems.append(f"{field}.{name} {error}")
    return msgspec.convert(found, NameRules), problems


def _read_scripts(value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or len(value) > SCRIPTS_MAX:
        raise ValueError(f"is not an array of at most {SCRIPTS_MAX} script names")
    for script in value:
        if not isinstance(script, str) or not _is_script(script):
            raise ValueError(f"names no Unicode script: {script!r:.60}")
    return tuple(value)


def _read_case(value: object) -> str:
    if not isinstance(value, str) or value not in get_args(Case):
        raise ValueError("is none of any, lower, upper")
    return value


def _read_flag(value: object) -> bool:
    if value is True or value is False:
        return value
    raise ValueError("is not a boolean")


_READERS: Final = {
    "scripts": _read_scripts,
    "case": _read_case,
    "digits": _read_flag,
    "spaces": _read_flag,
}


def _is_script(name: str) -> bool:
    """Return whether Unicode has a script of this name."""
    if _SCRIPT_NAME.fullmatch(name) is None:
        return False
    try:
        regex.compile(rf"\p{{Script_Extensions={name}}}")
    except regex.error:
        return False
    return True


def _allowed_script(scripts: tuple[str, ...]) -> regex.Pattern[str]:
    """Return the pattern of these scripts and of what all share; `regex` caches it."""
    classes = "".join(
        rf"\p{{Script_Extensions={name}}}" for name in ("Common", "Inherited", *scripts)
    )
    return regex.compile(f"[{classes}]*")
