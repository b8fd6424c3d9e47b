"""A game's private settings: what is taken, what is refused, and what is never shown."""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from greenroom.actors.game.messages import ChangeGameSettings, GameSettingsReplaced
from greenroom.actors.game.refusals import GameSettingRefused
from greenroom.actors.game.settings import NAMES, GameSettings, change_settings, settings_as_json

KEY = "0123456789abcdefABCDEF0123456789"
FULL = GameSettings(
    steam_app_id=480,
    steam_publisher_key=KEY,
    clients_write_player_data=False,
    leaderboards=(("level", "xp"), ("wins",)),
    register_player_id="integer",
)


def test_settings_are_assigned_together_and_unset_to_their_defaults():
    texts = {
        "steam_app_id": " 480 ",
        "steam_publisher_key": f"{KEY}\n",
        "clients_write_player_data": "false",
        "leaderboards": ' [["level", "xp", "level"], ["wins"], ["wins"]]\n',
        "register_player_id": " integer\n",
    }

    assert change_settings(GameSettings(), texts, []) == FULL
    assert change_settings(FULL, {}, ["steam_publisher_key"]).steam_publisher_key is None
    assert change_settings(FULL, {}, NAMES) == GameSettings()
    assert change_settings(FULL, {}, []) == FULL


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("steam_app_id", "", "steam_app_id must be a whole number from 1 to 4294967295, not ''."),
        ("steam_app_id", "0", "not '0'"),
        ("steam_app_id", "-1", "not '-1'"),
        ("steam_app_id", "4294967296", "not '4294967296'"),
        ("steam_app_id", "٤٨٠", r"not '\\u0664"),
        ("steam_app_id", "9" * 10_000, r"not .9{40}.u2026.\."),
        ("steam_publisher_key", KEY[:-1], "32 hexadecimal digits"),
        ("steam_publisher_key", KEY + "0", "32 hexadecimal digits"),
        ("steam_publisher_key", "g" * 32, "32 hexadecimal digits"),
        ("steam_publisher_key", "", "32 hexadecimal digits"),
        ("clients_write_player_data", "yes", "must be true or false, not 'yes'"),
        ("register_player_id", "int", "register_player_id must be string or integer, not 'int'."),
        ("register_player_id", "", "must be string or integer, not ''."),
        ("register_player_id", "Integer", "must be string or integer"),
        ("leaderboards", "level,xp", r"such as \[\["),
        ("leaderboards", "[]", "1 to 8 arrays of 1 to 16 field names"),
        ("leaderboards", "[[]]", "1 to 8 arrays"),
        ("leaderboards", '[["a b"]]', "1 to 8 arrays"),
        ("leaderboards", '["level"]', "1 to 8 arrays"),
        ("leaderboards", f"[{','.join(f'[{chr(34)}{n}{chr(34)}]' for n in range(9))}]", "1 to 8"),
        ("stats", "[]", r"such as \{\"wins\":\{\}"),
        ("stats", '{"9lives":{}}', "letters, digits and underscores"),
        ("stats", '{"wins":{"maximum":1e400}}', "stats must be"),
        ("stats", '{"wins":{"minimum":2,"maximum":1}}', "minimum must not be above maximum"),
        ("stats", '{"wins":{"kind":"word"}}', "kind"),
        ("stats", '{"wins":{"max":1}}', "unknown field `max`"),
        ("stats", json.dumps({f"s{n}": {} for n in range(33)}), "32 are the most"),
        ("steam_appid", "480", "did you mean steam_app_id?"),
        ("\x1b[2J", "480", r"no game setting '\\x1b\[2J': there are steam_app_id"),
    ],
)
def test_what_is_wrong_is_refused_with_what_would_be_right(name: str, text: str, told: str):
    with pytest.raises(GameSettingRefused, match=told) as refused:
        change_settings(FULL, {name: text}, [])

    assert str(refused.value).isprintable()


def test_an_unknown_name_cannot_be_unset_nor_one_be_set_and_unset():
    with pytest.raises(GameSettingRefused, match="no game setting 'x'"):
        change_settings(FULL, {}, ["x"])
    with pytest.raises(GameSettingRefused, match="both set and unset"):
        change_settings(FULL, {"steam_app_id": "1"}, ["steam_app_id"])


@given(st.text(), st.sampled_from([*NAMES, "else"]))
def test_no_text_does_anything_but_change_its_setting_or_be_refused(text: str, name: str):
    try:
        changed = change_settings(FULL, {name: text}, [])
    except GameSettingRefused:
        return
    assert msgspec.json.decode(msgspec.json.encode(changed), type=GameSettings) == changed


def test_a_secret_is_shown_nowhere():
    assert settings_as_json(FULL) == {
        "steam_app_id": 480,
        "steam_publisher_key": "set",
        "clients_write_player_data": False,
        "leaderboards": (("level", "xp"), ("wins",)),
        "register_player_id": "integer",
        "stats": {},
    }
    assert settings_as_json(GameSettings())["steam_publisher_key"] == "not set"
    for value in (
        FULL,
        GameSettingsReplaced(1, FULL, 1),
        ChangeGameSettings({"steam_publisher_key": KEY}, ()),
    ):
        assert KEY not in repr(value)
    with pytest.raises(GameSettingRefused) as refused:
        change_settings(FULL, {"steam_publisher_key": f"{KEY}x"}, [])
    assert KEY not in str(refused.value)
