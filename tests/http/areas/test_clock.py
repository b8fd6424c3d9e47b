"""Effects of time: bans that expire, players who fall silent. On servers of the tests' own."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psycopg
import pytest
from server_kit import Api, ServerProcess

SECONDS_MAX = 20.0
HOUR = 3_600
DAY = 24 * HOUR


@pytest.fixture
def clocked(data_dir: Path, database_url: str) -> Iterator[ServerProcess]:
    """A server that looks often and is soon impatient."""
    server = ServerProcess(
        data_dir,
        *("--database-url", database_url),
        GREENROOM_STALE_SECONDS="2",
        GREENROOM_SWEEP_SECONDS="0.1",
        GREENROOM_RATE_LIMIT_FACTOR="1000",
    )
    try:
        yield server.start()
    finally:
        server.kill()


def ban(api: Api, player_id: int, **fields: object) -> str:
    body = {"player_id": player_id, "ban_duration": "year", **fields}
    reply = api.call("POST", "/api/game_players.php/ban", body, admin=True)
    assert reply.status == 200, reply
    return str(reply.json["ban_id"])


def test_a_ban_tells_the_time_that_is_left_in_its_largest_unit(
    clocked: ServerProcess, database_url: str
):
    """The bans' ends are moved in the database, for nobody can wait so long."""
    api = Api(clocked.address, clocked.new_game())
    ends = {
        "You are banned. Ban expires in less than a minute": 40,
        "You are banned. Ban expires in 1 minute": 100,
        "You are banned. Ban expires in 59 minutes": HOUR - 20,
        "You are banned. Ban expires in 1 hour": HOUR + 60,
        "You are banned. Ban expires in 23 hours": DAY - 60,
        "You are banned. Ban expires in 1 day": DAY + 60,
        "You are banned. Ban expires in 27 days": 28 * DAY - 60,
        "You are banned. Ban expires in 1 month": 32 * DAY,
        "You are banned. Ban expires in 11 months": 360 * DAY,
        "You are banned. Ban expires in 1 year": 367 * DAY,
        "You are banned. Ban expires in 2 years": 732 * DAY,
    }
    tokens: dict[str, str] = {}
    bans: dict[str, str] = {}
    for text in ends:
        player_id, tokens[text] = api.register()
        bans[text] = ban(api, player_id)
    player_id, over = api.register()
    bans["over"] = ban(api, player_id)
    player_id, reasoned = api.register()
    bans["reasoned"] = ban(api, player_id, ban_reason="Cheating")
    player_id, for_ever = api.register()
    ban(api, player_id, ban_reason="Cheating", ban_duration="forever")
    assert clocked.stop() == 0
    with psycopg.connect(database_url, autocommit=True) as connection:
        for text, seconds in {**ends, "over": -1, "reasoned": 32 * DAY}.items():
            connection.execute(
                "UPDATE bans SET banned_until = now() + make_interval(secs => %s)"
                " WHERE ban_id = %s",
                (seconds, bans[text]),
            )
    api.address = clocked.start().address

    def login(token: str) -> tuple[int, object]:
        reply = api.call("PUT", "/api/game_players.php/login", player=token)
        return reply.status, reply.json.get("error")

    assert [login(tokens[text]) for text in ends] == [(403, text) for text in ends]
    assert login(reasoned) == (403, "You are banned: Cheating. Ban expires in 1 month")
    assert login(for_ever) == (403, "You are banned: Cheating. This is a permanent ban.")
    assert login(over) == (200, None)


def test_who_falls_silent_is_offline_until_their_next_call(clocked: ServerProcess):
    api = Api(clocked.address, clocked.new_game())
    (silent, token), (beating, heart) = api.register("Silent"), api.register("Beating")

    def beat_and_list() -> dict[int, dict[str, object]]:
        assert api.call("POST", "/api/game_players.php/heartbeat", player=heart).status == 200
        listed = api.call("GET", "/api/game_players.php/list", admin=True).json["players"]
        return {player["id"]: player for player in listed}

    deadline = time.monotonic() + SECONDS_MAX
    while (players := beat_and_list())[silent]["is_online"]:
        assert time.monotonic() < deadline
    assert players[beating]["is_online"] is True
    stamps = [players[silent][name] for name in ("last_heartbeat", "last_logout")]
    last, out = [datetime.fromisoformat(str(stamp)) for stamp in stamps]
    assert (out - last).total_seconds() >= 1  # of 2, for stamps are whole seconds

    assert api.call("GET", "/api/game_data.php/player/get", player=token).status == 200
    assert beat_and_list()[silent]["is_online"] is True


@pytest.mark.parametrize("logs_out", [False, True])
def test_a_member_who_falls_silent_keeps_their_seat_and_is_reached_by_nothing(
    clocked: ServerProcess, logs_out: bool
):
    api = Api(clocked.address, clocked.new_game())
    (host_id, host), (guest_id, guest) = api.register("Host"), api.register("Guest")

    def room(method: str, operation: str, token: str, body: object = None) -> Any:
        reply = api.call(method, f"/api/game_room.php/{operation}", body, player=token)
        assert reply.status == 200, reply
        return reply.json

    room_id = room("POST", "create", host)["room_id"]
    room("POST", f"{room_id}/join", guest)
    if logs_out:
        assert api.call("POST", "/api/game_players.php/logout", player=guest).status == 200
    deadline = time.monotonic() + SECONDS_MAX
    while all(entry["is_online"] for entry in room("GET", "players", host)["players"]):
        assert time.monotonic() < deadline
    for operation, kind in (("updates", "type"), ("actions", "action_type")):
        sent = room("POST", operation, host, {"target_players": "all", kind: "x"})
        assert sent["target_players_ids"] == [host_id]
    current = room("GET", "current", guest)
    assert (current["room"]["room_id"], current["room"]["is_online"]) == (room_id, True)
    sent = room("POST", "updates", host, {"target_players": "all", "type": "x"})
    assert sent["target_players_ids"] == [host_id, guest_id]


def test_every_timestamp_is_utc_wherever_the_server_stands(data_dir: Path, database_url: str):
    server = ServerProcess(data_dir, "--database-url", database_url, TZ="Pacific/Kiritimati")
    try:
        api = Api(server.start().address, server.new_game())
        _, token = api.register()
        document = {"when": "2026-03-13 14:01:49", "updated_at": "yesterday"}
        updated = api.call("PUT", "/api/game_data.php/player/update", document, player=token)
        room = api.call("POST", "/api/game_room.php/create", {}, player=token)
        assert room.status == 200
        current = api.call("GET", "/api/game_room.php/current", player=token)
        login = api.call("PUT", "/api/game_players.php/login", player=token)
        told = api.call("GET", "/api/time.php")
        now = datetime.now(UTC)
        found = re.findall(
            r'"(\w+_at|last_\w+|room_\w+|utc)":"(\d{4}-[^"]+)"',
            "".join(reply.body.decode() for reply in (updated, current, told)),
        )
        assert {"updated_at", "joined_at", "last_heartbeat", "room_created_at", "utc"} <= {
            name for name, _ in found
        }
        player = login.json["player"]
        found += [(name, player[name]) for name in ("created_at", "updated_at", "last_heartbeat")]
        for name, stamp in found:
            form = r"[\d-]{10}T[\d:]{8}" + (r"\+00:00" if name == "utc" else "Z")
            assert re.fullmatch(form, stamp), name
            assert abs((datetime.fromisoformat(stamp) - now).total_seconds()) < 60
        assert player["player_data"] == document
        assert abs(told.json["timestamp"] - now.timestamp()) < 60
        assert server.stop() == 0
    finally:
        server.kill()
