"""The censor area: texts, filtered; names, refused."""

# ruff: noqa: RUF001 (look-alikes are what this is about)

from __future__ import annotations

from typing import Any

import pytest
from server_kit import Api

PATH = "/api/censor.php"
GERMAN = {"moderation": {"languages": ["de", "en"]}}


def censor(api: Api, body: Any, query: str = "") -> tuple[int, Any]:
    reply = api.call("POST", PATH + query, body)
    return reply.status, reply.json


def refused(text: str) -> tuple[int, Any]:
    return 400, {"success": False, "error": text}


@pytest.mark.parametrize("query", ["", "?format=engine", "?format=unity"])
@pytest.mark.parametrize(
    ("text", "clean", "filtered"),
    [
        ("good game", True, "good game"),
        ("what the fuck", False, "what the ****"),
        ("Scunthorpe / Düsseldorf 🐸", True, "Scunthorpe / Düsseldorf 🐸"),
        (" \t ", True, " \t "),
        ("f u c k 🐸", False, "* * * * 🐸"),
        ("x" * 1_000, True, "x" * 1_000),
        ("🐸" * 1_000, True, "🐸" * 1_000),
        ("shit " * 200, False, "**** " * 200),
    ],
)
def test_a_text_comes_back_filtered(api: Api, query: str, text: str, clean: bool, filtered: str):
    status, told = censor(api, {"text": text}, query)
    assert status == 200
    assert told == {"success": True, "clean": clean, "filtered": filtered}


@pytest.mark.parametrize("body", [None, {}, {"text": None}, {"text": ""}, {"other": 1}])
def test_a_text_is_required(api: Api, body: Any):
    assert censor(api, body) == refused("text is required")


@pytest.mark.parametrize("text", [1, True, [], {}, "a\x00b"])
def test_a_text_is_a_string(api: Api, text: Any):
    assert censor(api, {"text": text}) == refused("text must be a string")


@pytest.mark.parametrize("char", ["a", "🐸", "\ufdfa"])
def test_a_text_has_at_most_a_thousand_characters(api: Api, char: str):
    assert censor(api, {"text": char * 1_001}) == refused("text must be at most 1000 characters")


def test_the_key_is_asked_for_before_the_text(api: Api):
    reply = api.call("POST", PATH, {}, headers={"X-Api-Token": None})
    assert (reply.status, reply.json) == (401, {"success": False, "error": "API token is required"})
    reply = api.call("POST", PATH, {}, headers={"X-Api-Token": "nonsense"})
    assert reply.status == 401
    assert reply.json == {
        "success": False,
        "error": "Invalid API token",
        "message": "Authentication failed",
    }
    reply = api.call("GET", PATH)
    assert (reply.status, reply.json["error"]) == (404, "Invalid endpoint")


def test_the_languages_are_the_games(api: Api, other: Api):
    document = "/api/game_data.php/game/update"
    text = {"text": "du Arschloch"}
    assert censor(api, text)[1]["clean"] is True
    assert api.call("PUT", document, GERMAN, admin=True).status == 200
    assert censor(api, text)[1] == {"success": True, "clean": False, "filtered": "du *********"}
    assert censor(other, text)[1]["clean"] is True
    assert api.call("PUT", document, {"moderation": 7}, admin=True).status == 200
    assert censor(api, text)[1]["clean"] is True
    assert censor(api, {"text": "shit"})[1]["clean"] is False


@pytest.mark.parametrize("name", ["ShitLord", "f u c k", "n1gg3r", "a$$hole", "fuсk you"])
def test_a_name_that_offends_is_refused(api: Api, name: str):
    text = refused("Player name must not contain offensive words")
    path = "/api/game_players.php"
    reply = api.call("POST", f"{path}/register", {"player_name": name})
    assert (reply.status, reply.json) == text
    _, token = api.register("Ada")
    reply = api.call("PUT", f"{path}/rename", {"new_name": name}, player=token)
    assert (reply.status, reply.json) == text


def test_names_of_people_and_places_are_not(api: Api):
    for name in ("Scunthorpe", "Cockburn", "Hancock", "Matsushita", "Therapist42"):
        api.register(name)
