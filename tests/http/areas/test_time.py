"""Time: as it is, and shifted."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from urllib.parse import quote

import pytest
from server_kit import Api

PATH = "/api/time.php"


def test_the_time_is_told_in_three_ways(api: Api):
    before = int(time.time())
    reply = api.call("GET", PATH)
    assert reply.status == 200
    told = reply.json
    assert before <= told["timestamp"] <= time.time()
    moment = datetime.fromtimestamp(told["timestamp"], UTC)
    assert told == {
        "success": True,
        "utc": moment.strftime("%Y-%m-%dT%H:%M:%S+00:00"),
        "timestamp": told["timestamp"],
        "readable": moment.strftime("%Y-%m-%d %H:%M:%S UTC"),
    }


@pytest.mark.parametrize(
    ("query", "hours", "text"),
    [
        ("3", 3, "+3"),
        ("+3", 3, "+3"),
        ("%2B3", 3, "+3"),
        ("-2", -2, "-2"),
        ("%20-2%20", -2, "-2"),
        ("%09+14", 14, "+14"),
        ("-14", -14, "-14"),
        ("03", 3, "+3"),
    ],
)
@pytest.mark.parametrize("variant", ["", "&format=engine"])
def test_an_offset_shifts_all_three(api: Api, query: str, hours: int, text: str, variant: str):
    told = api.call("GET", f"{PATH}?utc={query}{variant}").json
    offset = told["offset"]
    original = datetime.fromtimestamp(offset["original_timestamp"], UTC)
    assert offset == {
        "offset_hours": hours,
        "offset_string": text,
        "original_utc": original.strftime("%Y-%m-%dT%H:%M:%S+00:00"),
        "original_timestamp": offset["original_timestamp"],
    }
    assert told["timestamp"] == offset["original_timestamp"] + hours * 3_600
    shifted = datetime.fromtimestamp(told["timestamp"], UTC)
    assert told["utc"] == shifted.strftime("%Y-%m-%dT%H:%M:%S+00:00")
    assert told["readable"] == shifted.strftime("%Y-%m-%d %H:%M:%S UTC")


@pytest.mark.parametrize(
    "query", ["", "utc", "utc=", "utc=%20", "utc=0", "utc=-0", "utc=+0", "x=1"]
)
def test_no_offset_and_zero_give_no_block(api: Api, query: str):
    reply = api.call("GET", f"{PATH}?{query}")
    assert reply.status == 200
    assert "offset" not in reply.json


@pytest.mark.parametrize(
    "value",
    [
        *("15", "-15", "1.5", "abc", "1e1", "++1", "+-1", "٣", "9" * 500, "1 2", "0x1", "\x00"),
        *("\x1f", "\x1c3", "3\x85", "\xa03", "\u20033"),  # white space to Python, or to browsers
    ],
)
def test_other_offsets_are_refused(api: Api, value: str):
    reply = api.call("GET", f"{PATH}?utc={quote(value)}")
    assert reply.status == 400
    assert reply.json["success"] is False
    if "\x00" not in value:
        assert reply.json["error"] == "utc must be a whole number of hours between -14 and 14"


def test_the_time_is_told_to_games_alone(api: Api):
    reply = api.call("GET", PATH, headers={"X-Api-Token": None})
    assert (reply.status, reply.json) == (401, {"success": False, "error": "API key is required"})
    reply = api.call("GET", PATH, headers={"X-Api-Token": "nonsense"})
    assert reply.status == 401
    assert reply.json == {
        "success": False,
        "error": "Invalid API token",
        "message": "Authentication failed",
    }
    reply = api.call("POST", PATH)
    assert (reply.status, reply.json["error"]) == (404, "Invalid endpoint")
