"""A game's private settings, for the operator alone. Pure: no clock, no database.

Clients neither see nor change them, and the game document knows nothing of them. On the command
line they are texts (`greenroom game settings`). If one setting of a command is wrong, nothing is
changed. The text of a refusal never quotes a secret.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Mapping
from typing import Annotated, Final, Literal, get_args

import msgspec

from greenroom.actors.game.refusals import GameSettingRefused
from greenroom.behaviour.errors import BadStat
from greenroom.behaviour.stats import Stat, check_declared

APP_ID_MAX: Final = 2**32 - 1
KEY_DIGITS: Final = 32
SHOWN_CHARACTERS_MAX: Final = 40
LEADERBOARDS_MAX: Final = 8
"""Most indexes that a game may have."""
_FieldName = Annotated[str, msgspec.Meta(pattern="^[A-Za-z0-9_]{1,100}$")]
_Board = Annotated[list[_FieldName], msgspec.Meta(min_length=1, max_length=16)]
PlayerIdForm = Literal["string", "integer"]
_STATS: Final = msgspec.json.Decoder(dict[str, Stat])
_BOARDS: Final = msgspec.json.Decoder(list[_Board])


class GameSettings(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The settings of one game. Platform sign-in needs both of Steam's."""

    steam_app_id: int | None = None
    """The game's number on Steam."""
    steam_publisher_key: str | None = None
    """A secret: the publisher's key for Steam's partner interface."""
    clients_write_player_data: bool = True
    """True if players' own tokens may write their documents."""
    stats: dict[str, Stat] = {}
    """The players' numbers that the server alone writes, besides those that behaviours declare."""
    leaderboards: tuple[tuple[str, ...], ...] = ()
    """The fields that players are ranked by; empty: clients choose."""
    register_player_id: PlayerIdForm = "string"
    """The type of `player_id` in register's answer. Released clients in C++ and .NET read a number.
    """

    def __repr__(self) -> str:
        """Show no secret: a repr ends up in logs."""
        return f"GameSettings({settings_as_json(self)})"


def change_settings(
    settings: GameSettings, assigned: Mapping[str, str], removed: Collection[str]
) -> GameSettings:
    """Return the settings with some assigned and others back at their defaults.

    Args:
        settings: as they are.
        assigned: name to text, as an operator types it.
        removed: names.

    Raises:
        GameSettingRefused: a name that is unknown or given twice, or a value of the wrong kind.
    """
    for name in (*assigned, *removed):
        if name not in _PARSERS:
            raise GameSettingRefused(_unknown(name))
        if name in assigned and name in removed:
            raise GameSettingRefused(f"{name} is both set and unset: choose one.")
    values = {name: _PARSERS[name](text.strip()) for name, text in assigned.items()}
    values |= {name: getattr(_DEFAULTS, name) for name in removed}
    return msgspec.structs.replace(settings, **values)


def settings_as_json(settings: GameSettings) -> dict[str, object]:
    """Return the settings by name; of a secret only whether it is `set` or `not set`."""
    values = msgspec.structs.asdict(settings)
    values["stats"] = msgspec.to_builtins(settings.stats)
    return {
        name: ("not set" if value is None else "set") if name in SECRETS else value
        for name, value in values.items()
    }


def _app_id(text: str) -> int:
    number = int(text) if text.isascii() and text.isdecimal() and len(text) <= 10 else 0
    if not 1 <= number <= APP_ID_MAX:
        raise GameSettingRefused(
            f"steam_app_id must be a whole number from 1 to {APP_ID_MAX}, not {_quoted(text)}."
        )
    return number


def _publisher_key(text: str) -> str:
    if len(text) != KEY_DIGITS or not set(text) <= set("0123456789abcdefABCDEF"):
        raise GameSettingRefused(
            f"steam_publisher_key must be the {KEY_DIGITS} hexadecimal digits that Steam's partner "
            "site shows; what was given is not."
        )
    return text


def _leaderboards(text: str) -> tuple[tuple[str, ...], ...]:
    try:
        boards = _BOARDS.decode(text)
    except msgspec.MsgspecError:
        boards = []
    declared = tuple(dict.fromkeys(tuple(dict.fromkeys(board)) for board in boards))
    if not 1 <= len(declared) <= LEADERBOARDS_MAX:
        raise GameSettingRefused(
            f"leaderboards must be 1 to {LEADERBOARDS_MAX} arrays of 1 to 16 field names, such as "
            f'[["level","xp"],["wins"]], not {_quoted(text)}.'
        )
    return declared


def _stats(text: str) -> dict[str, Stat]:
    try:
        declared = _STATS.decode(text)
        check_declared(declared, "the setting")
    except (msgspec.MsgspecError, BadStat) as error:
        raise GameSettingRefused(
            'stats must be an object such as {"wins":{},"best_seconds":{"kind":"number","minimum":0'
            f',"maximum":3600}}}}, not {_quoted(text)}: {error}.'
        ) from None
    return declared


def _player_id_form(text: str) -> str:
    if text not in get_args(PlayerIdForm):
        raise GameSettingRefused(
            f"register_player_id must be string or integer, not {_quoted(text)}."
        )
    return text


def _truth(text: str) -> bool:
    if text not in {"true", "false"}:
        raise GameSettingRefused(
            f"clients_write_player_data must be true or false, not {_quoted(text)}."
        )
    return text == "true"


_PARSERS: Final[dict[str, Callable[[str], object]]] = {
    "steam_app_id": _app_id,
    "steam_publisher_key": _publisher_key,
    "clients_write_player_data": _truth,
    "leaderboards": _leaderboards,
    "stats": _stats,
    "register_player_id": _player_id_form,
}
_DEFAULTS: Final = GameSettings()

NAMES: Final = tuple(_PARSERS)
SECRETS: Final = frozenset({"steam_publisher_key"})


def _quoted(text: str) -> str:
    shortened = text if len(text) <= SHOWN_CHARACTERS_MAX else text[:SHOWN_CHARACTERS_MAX] + "…"
    return ascii(shortened)


def _unknown(name: str) -> str:
    near = difflib.get_close_matches(name[:SHOWN_CHARACTERS_MAX], NAMES, n=1)
    advice = f"did you mean {near[0]}?" if near else f"there are {', '.join(NAMES)}."
    return f"There is no game setting {_quoted(name)}: {advice}"
