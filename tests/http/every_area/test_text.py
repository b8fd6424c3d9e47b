"""Names and titles in every script, as long as may be, come back as they were sent."""

# ruff: noqa: RUF001 (characters that look like others are what this is about)

from __future__ import annotations

import pytest
from server_kit import Api

ROOM = "/api/game_room.php"

WORDS = {
    "right to left": "שלום עולם",
    "arabic": "غرفة الأصدقاء",
    "mixed directions": "Room אבג 123",
    "emoji": "🎮🐸🚀",
    "flags and skins": "🇩🇪👍🏽",
    "combining": "Zoe\u0308 a\u0301\u0302",
    "composed": "Zoë",
    "han": "蛙の部屋",
    "devanagari": "मेरा कमरा",
    "thai": "ห้องของฉัน",
    "beyond the first plane": "𝔊𝔯𝔢𝔢𝔫 𐍈",
    "quotes": "\"Ada\" & 'Bob' <b>/\\</b>",
    "percent and braces": "100% {room} $1 %s",
    "sql": "'); DROP TABLE players; --",
}


@pytest.mark.parametrize("word", WORDS.values(), ids=WORDS)
def test_a_title_comes_back_as_it_was_sent(api: Api, word: str):
    for title in (word, (word * 120)[:119] + "x"):
        _, token = api.register()
        made = api.call("POST", f"{ROOM}/create", {"room_name": title}, player=token)
        assert (made.status, made.json.get("room_name")) == (200, title)
        listed = api.call("POST", f"{ROOM}/list", {"search": title[:120]}).json["rooms"]
        assert [room["room_name"] for room in listed] == [title]
        current = api.call("GET", f"{ROOM}/current", player=token).json
        assert current["room"]["room_name"] == title
        assert title.encode().replace(b"\\", b"\\\\").replace(b'"', b'\\"') in made.body
        api.call("POST", f"{ROOM}/stop", player=token)


@pytest.mark.parametrize("character", ["x", "א", "🐸", "\u0301"])
def test_a_title_has_at_most_120_characters(api: Api, character: str):
    _, token = api.register()
    refused = api.call("POST", f"{ROOM}/create", {"room_name": character * 121}, player=token)
    assert (refused.status, refused.json) == (
        400,
        {"success": False, "error": "room_name must be at most 120 characters"},
    )
    taken = api.call("POST", f"{ROOM}/create", {"room_name": "x" + character * 119}, player=token)
    assert taken.json.get("room_name") == "x" + character * 119


@pytest.mark.parametrize("word", WORDS.values(), ids=WORDS)
def test_a_name_comes_back_as_it_was_sent(api: Api, word: str):
    for name in (word, (word * 50)[:49] + "x"):
        _, token = api.register(name)
        login = api.call("PUT", "/api/game_players.php/login", player=token)
        assert login.json["player"]["player_name"] == name
        renamed = api.call(
            "PUT",
            "/api/game_players.php/rename",
            {"new_name": f"x{name}"[:50].strip()},
            player=token,
        )
        assert renamed.json.get("new_name") == f"x{name}"[:50].strip()
        got = api.call("GET", "/api/game_data.php/player/get", player=token)
        assert got.json["player_name"] == f"x{name}"[:50].strip()


def test_titles_keep_the_rules_of_the_game(api: Api):
    rules = {"scripts": ["Latin"], "case": "lower", "digits": False, "spaces": False}
    document = {"room_title_rules": rules, "name_rules": {"scripts": ["Latin", "Cyrillic"]}}
    assert api.call("PUT", "/api/game_data.php/game/update", document, admin=True).status == 200
    _, token = api.register("Ольга")
    for title, text in (
        ("ольга", "room_name must use only these scripts: Latin"),
        ("Den", "room_name must be lower case"),
        ("den1", "room_name must not contain digits"),
        ("the den", "room_name must not contain spaces"),
        ("a\u202eb", "room_name must not contain bidirectional characters"),
        ("a\u200bb", "room_name must not contain zero-width characters"),
        ("shit", "room_name must not contain offensive words"),
    ):
        refused = api.call("POST", f"{ROOM}/create", {"room_name": title}, player=token)
        assert (title, refused.status, refused.json) == (
            title,
            400,
            {"success": False, "error": text},
        )
    made = api.call("POST", f"{ROOM}/create", {"room_name": "den"}, player=token)
    assert made.json.get("room_name") == "den"
