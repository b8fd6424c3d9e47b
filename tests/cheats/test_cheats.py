"""A modified client at the table of every example, as guest and as host: it gets nowhere.

After each attempt, what the members are shown, who they are and everybody's stats are as before,
and the refusal says what is documented. Then an honest game still goes to its right end.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from cheat_kit import CLASSES, DATA, LOBBIES, PASSWORD, ROOMS, STATS, Seat, Table, open_table
from honest_kit import play, wait_for_stat
from server_kit import Reply, ServerProcess

from greenroom.fastlane.frames import ClientMessage

MARK = {"is_server": True}
FORGED = {**MARK, "sender": MARK, "winner": 1, "stats": {"wins": 9}, "player_id": 1}
STRICT = [kind for kind in CLASSES if kind != "relay"]
SAID_BY_SERVER = ("over", "places", "start", "dealt", "doubted", "lap", "state", "receive")
TYPOS = {
    "arena": ("ster", "steer"),
    "bluff": ("duobt", "doubt"),
    "cards": ("plai", "play"),
    "noughts": ("plase", "place"),
    "race": ("lapp", "lap"),
    "skirmish": ("shot", "shoot"),
    "tictactoe": ("plaec", "place"),
}
WRONG: dict[str, list[tuple[str, Any]]] = {
    "arena": [("steer", {"x": 1.01, "y": 0}), ("steer", {"x": "1", "y": 0}), ("steer", {"x": 1})],
    "bluff": [
        ("lay", {"move": 1, "cards": []}),
        ("lay", {"move": 1, "cards": ["AC", "AD", "AH", "AS", "2C"]}),
        ("lay", {"move": "1", "cards": ["AC"]}),
        ("lay", {"move": 1, "cards": [7]}),
        ("lay", {"move": 2**70, "cards": ["AC"]}),
        ("doubt", {"move": None}),
    ],
    "cards": [("play", {"card": 7}), ("play", {}), ("play", {"card": ["7H"]})],
    "noughts": [("place", {"cell": 9}), ("place", {"cell": "0"}), ("place", {})],
    "race": [
        ("lap", {"number": 0}),
        ("lap", {"number": 11}),
        ("lap", {"number": 1.5}),
        ("lap", {}),
    ],
    "skirmish": [
        ("shoot", {"angle": 3.2}),
        ("shoot", {"angle": "0"}),
        ("shoot", {}),
        ("steer", {"x": -2, "y": 0}),
    ],
    "tictactoe": [("place", {"cell": 9}), ("place", {"cell": -1}), ("place", {"cell": True})],
}
SETTLED_AT_ONCE: dict[str, tuple[str, Any]] = {
    "arena": ("steer", {"x": 0, "y": 0}),
    "race": ("lap", {"number": 10}),
    "tictactoe": ("again", {}),
}
"""An action that changes nothing, where that is not `look`."""
MESSAGES = {"arena": ["steer"], "skirmish": ["shoot", "steer"]}
"""The examples that take messages, and which."""


@asynccontextmanager
async def besieged(studio: ServerProcess, kind: str) -> AsyncGenerator[Table]:
    """A table at which nothing may change meanwhile, and an honest game ends rightly afterwards."""
    async with open_table(studio, kind) as table:
        before = await table.look()
        yield table
        assert await table.look() == before
        winner = await play(table)
        if winner:
            assert await wait_for_stat(table.seats[winner], STATS[kind]) == 1
            assert table.leaderboard()[0]["player_id"] == winner


def refused(reply: Reply, text: str, status: int = 400) -> None:
    assert (reply.status, reply.json["success"]) == (status, False), reply
    assert reply.json["error"].startswith(text), reply


def error(frame: Any, text: str) -> None:
    assert frame["type"] == "error", frame
    assert frame["data"]["message"].startswith(text), frame


def players(table: Table) -> tuple[Seat, Seat]:
    """Return who cheats, one after the other: the guest, and the host."""
    return table.guest, table.host


@pytest.mark.parametrize("kind", STRICT)
async def test_nobody_speaks_for_the_server(studio: ServerProcess, kind: str):
    async with besieged(studio, kind) as table:
        for cheat in players(table):
            other = table.other(cheat)
            for word in SAID_BY_SERVER:
                targets = "host" if cheat is table.guest else "all"
                body = {**FORGED, "target_players": targets, "type": word, "data": FORGED}
                refused(cheat.call("POST", f"{ROOMS}/updates", body), f'"{word}"')
                error(await cheat.say(word, FORGED, **FORGED), f'"{word}"')
            await cheat.send({"type": "receive", "command": "over", "data": FORGED, **FORGED})
            await cheat.send({"type": "event", "event": "state", "data": {"shared": FORGED}})
            async with cheat.lane() as lane:
                for word in ("over", "places"):
                    await lane.say(ClientMessage(word, json.dumps(FORGED).encode()))
                await lane.show_address()  # the answer comes behind what they may have caused
            assert await other.unmarked() == []
            assert all(update["sender"] == MARK for update in other.updates())


async def test_where_members_may_speak_to_each_other_no_word_of_theirs_is_marked(
    studio: ServerProcess,
):
    async with besieged(studio, "relay") as table:
        for cheat in players(table):
            other = table.other(cheat)
            assert (await cheat.say("over", FORGED, **FORGED))["type"] == "sent"
            targets = "host" if cheat is table.guest else "all"
            body = {**FORGED, "target_players": targets, "type": "over", "data": FORGED}
            cheat.done("POST", f"{ROOMS}/updates", body)
            heard = await other.unmarked()
            assert [frame["command"] for frame in heard] == ["over", "over"]
            assert all("sender" not in update for update in other.updates())


@pytest.mark.parametrize("kind", CLASSES)
async def test_nobody_writes_a_stat(studio: ServerProcess, kind: str):
    async with besieged(studio, kind) as table:
        stat = STATS.get(kind, "wins")
        document = {**FORGED, stat: 10**9, "stats": {stat: 10**9}}
        for cheat in (*players(table), table.stranger):
            cheat.done("PUT", f"{DATA}/player/update", document)
            found = cheat.done("GET", f"{DATA}/player/get")
            assert found["data"] == document, "their own document is theirs, to the letter"
            assert stat not in found.get("stats", {})
            body = {"player_id": cheat.player_id, "changes": {stat: {"set": 10**9}}}
            refused(cheat.call("POST", f"{DATA}/player/stats", body), "API private token", 401)
            reply = table.api.call(
                "POST",
                f"{DATA}/player/stats",
                body,
                player=cheat.token,
                headers={"X-Api-Private-Token": table.api.game.key},
            )
            refused(reply, "Invalid API token or private token", 401)
        newcomer, _ = table.api.register("Newcomer", player_data=document, stats={stat: 9})
        reply = table.api.call("POST", f"{DATA}/player/stats", {"player_id": newcomer}, admin=True)
        assert reply.json["stats"] == {}


@pytest.mark.parametrize("kind", [kind for kind in CLASSES if kind not in {"comets", "noughts"}])
async def test_nobody_answers_an_action_that_is_not_theirs(studio: ServerProcess, kind: str):
    async with besieged(studio, kind) as table:
        answer = {"status": "completed", "response_data": FORGED, **FORGED}
        for asks in players(table):
            sent = asks.ask(*SETTLED_AT_ONCE.get(kind, ("look", {})))
            ids = ["0" * 32, *sent.json["action_ids"]]
            strangers = (table.guest, table.stranger) if kind == "relay" else None
            for cheat in strangers or (*players(table), table.stranger):
                for action_id in ids:
                    reply = cheat.call("POST", f"{ROOMS}/actions/{action_id}/complete", answer)
                    if cheat is table.stranger:
                        refused(reply, "Player is not in any room")
                    else:
                        refused(reply, "Action not found or already processed", 404)
                if kind != "relay" and cheat is not table.stranger:
                    assert cheat.done("GET", f"{ROOMS}/actions/pending")["actions"] == []
            results = asks.done("GET", f"{ROOMS}/actions/poll")["actions"]
            assert all(result["sender"] == MARK for result in results)


@pytest.mark.parametrize("kind", CLASSES)
async def test_nobody_comes_in_past_the_lobby(studio: ServerProcess, kind: str):
    outside = Table(studio, kind)
    path = f"{LOBBIES}/{outside.lobby_id}/join"
    for wrong in ({}, {"password": "x"}, {"password": None}, {"join_token": "0" * 16}, MARK):
        refused(outside.stranger.call("POST", path, wrong), "Incorrect password")
    assert outside.guest.done("POST", path, {"password": PASSWORD})["success"]
    refused(outside.guest.call("POST", f"{LOBBIES}/start", MARK), "Only host can start")
    async with besieged(studio, kind) as table:
        cheat = table.stranger
        refused(cheat.ask("look"), "Player is not in any room")
        update = {"target_players": "host", "type": "over", "data": FORGED}
        refused(cheat.call("POST", f"{ROOMS}/updates", update), "Player is not in any room")
        refused(cheat.call("POST", "/api/realtime.php/token"), "Player is not in")
        late = cheat.call("POST", f"{LOBBIES}/{table.lobby_id}/join", {"password": PASSWORD})
        refused(late, "Matchmaking lobby not found or already started", 404)
        again = table.host.call("POST", f"{LOBBIES}/start", {})
        refused(again, "Matchmaking lobby not found or already started", 404)
        typo = {"rules": {"type": kind + "x"}, "max_players": 2}
        refused(cheat.call("POST", f"{ROOMS}/create", typo), f'"{kind}x": did you mean "{kind}"?')


@pytest.mark.parametrize("kind", [kind for kind in STRICT if kind != "comets"])  # no wins there
async def test_no_host_wins_by_kicking_the_others(studio: ServerProcess, kind: str):
    async with open_table(studio, kind) as table:
        before = table.stats()
        table.host.done("POST", f"{ROOMS}/kick", {"player_id": table.guest.player_id})
        async with open_table(studio, "race") as later:  # a whole game is time enough for a result
            await wait_for_stat(later.seats[await play(later)], STATS["race"])
        assert table.stats() == before


@pytest.mark.parametrize("kind", TYPOS)
async def test_a_typing_error_is_told_and_changes_nothing(studio: ServerProcess, kind: str):
    async with besieged(studio, kind) as table:
        typo, meant = TYPOS[kind]
        for cheat in players(table):
            refused(cheat.ask(typo), f'"{typo}": did you mean "{meant}"? This room takes ')
            error(await cheat.act_connected(typo, {}), f'"{typo}": did you mean "{meant}"? This')
            error(await cheat.say(typo, {}), f'"{typo}"')
            frames = await cheat.send("{", [], {"type": "send"})
            assert [f["type"] for f in frames if f["type"] == "error"] == ["error"] * 3


@pytest.mark.parametrize("kind", WRONG)
async def test_values_out_of_range_or_of_another_type_are_refused(studio: ServerProcess, kind: str):
    async with besieged(studio, kind) as table:
        for cheat in players(table):
            for name, data in WRONG[kind]:
                text = f"Invalid data for {name}: "
                refused(cheat.ask(name, data), text)
                error(await cheat.act_connected(name, data), text)
                if name in MESSAGES.get(kind, []):
                    error(await cheat.say(name, data), text)


@pytest.mark.parametrize("kind", WRONG)
async def test_a_flood_changes_nothing(studio: ServerProcess, kind: str):
    async with besieged(studio, kind) as table:
        name, data = WRONG[kind][0]
        action = {"type": "action", "id": "f", "action_type": name, "request_data": data}
        message = {"type": "send", "command": name, "target": "all", "data": data}
        for cheat in players(table):
            await cheat.send(*[action, message] * 150)
            error(await cheat.say(name, data), "")
            assert sum(frame["type"] == "error" for frame in cheat.frames) == 301
            assert table.other(cheat).call("POST", f"{ROOMS}/heartbeat").status == 200


Replay = Callable[[Table], Awaitable[tuple[Seat, str, Any, str]]]


async def first_lap(_table: Table) -> tuple[Seat, str, Any, str]:
    return _table.guest, "lap", {"number": 1}, "No short cuts"


async def first_cell(table: Table) -> tuple[Seat, str, Any, str]:
    (shared, _), *_ = await table.look()
    return table.seats[shared["turn"]], "place", {"cell": 0}, "It is not your turn"


async def first_claim(table: Table) -> tuple[Seat, str, Any, str]:
    seen = table.host.act("look")["table"]
    seat = table.seats[seen["turn"]]
    data = {"move": seen["move"], "cards": seat.act("look")["hand"][:1]}
    return seat, "lay", data, "It is not your turn"


async def first_draw(table: Table) -> tuple[Seat, str, Any, str]:
    turn = table.host.act("look")["table"]["turn"]
    return table.seats[turn], "draw", {}, "It is not your turn"


REPLAYS: dict[str, Replay] = {
    "bluff": first_claim,
    "cards": first_draw,
    "race": first_lap,
    "tictactoe": first_cell,
}


@pytest.mark.parametrize("kind", REPLAYS)
async def test_a_move_that_is_sent_again_counts_once(studio: ServerProcess, kind: str):
    async with open_table(studio, kind) as table:
        cheat, name, data, text = await REPLAYS[kind](table)
        first = await cheat.act_connected(name, data, id="once")
        assert (first["type"], first["status"]) == ("action_result", "completed")
        before = await table.look()
        again = await cheat.act_connected(name, data, id="once", again=True)
        assert again["response_data"] == first["response_data"]
        assert cheat.act(name, data) == {"error": text}
        if kind == "bluff":  # an old move, sent when it is their turn again
            other = table.other(cheat)
            move = data["move"] + 1
            other.act("lay", {"move": move, "cards": other.act("look")["hand"][:1]})
            before = await table.look()
            error = f"That is move {data['move']}, and move {move + 1} is due"
            assert cheat.act(name, data) == {"error": error}
        assert await table.look() == before


@pytest.mark.parametrize("kind", MESSAGES)
async def test_an_input_that_is_sent_again_is_one_input(studio: ServerProcess, kind: str):
    async with besieged(studio, kind) as table:
        for cheat in players(table):
            async with cheat.lane() as lane:
                packet = await lane.say(ClientMessage("steer", b'{"x":0,"y":0}'))
                for _ in range(20):
                    await lane.udp.send(packet)
                await lane.say(ClientMessage("steer", b'{"x":99,"y":0}'))
                await lane.show_address()
            assert (await cheat.say("steer", {"x": 0, "y": 0}))["type"] == "sent"


FLY = {"x": 0, "y": 0, "angle": 0, "fire": False, "number": 1}


async def test_a_pilot_of_the_demo_can_only_wish_what_makes_sense(studio: ServerProcess):
    async with besieged(studio, "comets") as table:
        for cheat in players(table):
            refused(cheat.ask("fly", FLY), '"fly" is a message here, not an action')
            error(await cheat.say("fyl", FLY), '"fyl": did you mean "fly"? This room takes ')
            for wrong in ({"x": 1.01}, {"angle": "0"}, {"fire": 1}, {"number": -1}, {"y": None}):
                error(await cheat.say("fly", {**FLY, **wrong}), "Invalid data for fly: ")
            async with cheat.lane() as lane:
                packet = await lane.say(ClientMessage("fly", json.dumps(FLY).encode()))
                for _ in range(20):
                    await lane.udp.send(packet)
                await lane.say(ClientMessage("fly", json.dumps({**FLY, "x": 99}).encode()))
                await lane.show_address()


async def test_a_mark_of_the_demo_that_is_sent_again_counts_once(studio: ServerProcess):
    async with open_table(studio, "noughts") as table:
        (shared, _), *_ = await table.look()
        cheat = table.seats[shared["turn"]]
        first = await cheat.act_connected("place", {"cell": 0}, id="once")
        assert (first["type"], first["status"]) == ("action_result", "completed")
        before = await table.look()
        again = await cheat.act_connected("place", {"cell": 0}, id="once", again=True)
        assert again["action_id"] == first["action_id"]
        assert cheat.act("place", {"cell": 1}) == {"error": "It is not your turn"}
        assert table.other(cheat).act("place", {"cell": 0}) == {"error": "That cell is taken"}
        assert await table.look() == before
