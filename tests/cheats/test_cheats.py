"""A modified client at the table of every game that ships, as guest and as host: in vain.

After each attempt, what the members are shown, who they are and everybody's stats are as before,
and the refusal says what is documented. Then an honest game still goes to its right end.
"""

from __future__ import annotations

import ast
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from cheat_kit import (
    CLASSES,
    DATA,
    EXAMPLES,
    LOBBIES,
    PASSWORD,
    ROOMS,
    STATS,
    Seat,
    Table,
    open_table,
    settle,
)
from honest_kit import PLAYERS, play, wait_for_stat
from server_kit import Reply, ServerProcess

import greenroom
from greenroom.fastlane.frames import ClientMessage

PACKAGE = Path(greenroom.__file__).parent
MARK = {"is_server": True}
FORGED = {**MARK, "sender": MARK, "winner": 1, "stats": {"wins": 9}, "player_id": 1}
STRICT = [kind for kind in CLASSES if kind != "relay"]
SAID_BY_SERVER = ("over", "places", "start", "dealt", "doubted", "lap", "won", "state", "receive")
FLY = {"x": 0, "y": 0, "angle": 0, "fire": False, "number": 1}
TYPOS = {
    "arena": ("ster", "steer"),
    "bluff": ("duobt", "doubt"),
    "cards": ("plai", "play"),
    "comets": ("fyl", "fly"),
    "guessing": ("gues", "guess"),
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
    "comets": [
        ("fly", {**FLY, "x": 1.01}),
        ("fly", {**FLY, "y": None}),
        ("fly", {**FLY, "angle": "0"}),
        ("fly", {**FLY, "fire": 1}),
        ("fly", {**FLY, "number": -1}),
    ],
    "guessing": [("guess", {"number": n}) for n in (0, 101, "50", 50.5, None)],
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
    "guessing": ("guess", {"number": 1}),
    "noughts": ("place", {"cell": 0}),
    "race": ("lap", {"number": 10}),
    "tictactoe": ("again", {}),
}
"""An action that changes nothing, where that is not `look`; of noughts, if it is not their turn."""
MESSAGES = {"arena": ["steer"], "comets": ["fly"], "skirmish": ["shoot", "steer"]}
"""The games that take messages, and which."""
WITHOUT_ACTIONS = {"comets"}


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
        stat, before = STATS.get(kind, "wins"), table.stats()  # a ship may begin at a star
        document = {**FORGED, stat: 10**9, "stats": {stat: 10**9}}
        for cheat in (*players(table), table.stranger):
            cheat.done("PUT", f"{DATA}/player/update", document)
            found = cheat.done("GET", f"{DATA}/player/get")
            assert found["data"] == document, "their own document is theirs, to the letter"
            assert found.get("stats", {}) == before[cheat.player_id]
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


async def idle_players(table: Table) -> list[Seat]:
    """Return the players whose action of `SETTLED_AT_ONCE` changes nothing."""
    if table.kind != "noughts":
        return [*players(table)]
    (shared, _), *_ = await table.look()
    return [seat for seat in players(table) if seat.player_id != shared["turn"]]


@pytest.mark.parametrize("kind", CLASSES)
async def test_nobody_answers_an_action_that_is_not_theirs(studio: ServerProcess, kind: str):
    async with besieged(studio, kind) as table:
        answer = {"status": "completed", "response_data": FORGED, **FORGED}
        for asks in await idle_players(table):
            sent = asks.ask(*SETTLED_AT_ONCE.get(kind, ("look", {})))
            assert (sent.status == 200) == (kind not in WITHOUT_ACTIONS), sent
            ids = ["0" * 32, *sent.json.get("action_ids", [])]
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
        meant_by_action = "" if kind in WITHOUT_ACTIONS else f': did you mean "{meant}"? This room '
        meant_by_message = f': did you mean "{meant}"? This room ' if kind in MESSAGES else ""
        for cheat in players(table):
            refused(cheat.ask(typo), f'"{typo}"{meant_by_action}')
            error(await cheat.act_connected(typo, {}), f'"{typo}"{meant_by_action}')
            error(await cheat.say(typo, {}), f'"{typo}"{meant_by_message}')
            frames = await cheat.send("{", [], {"type": "send"})
            assert [f["type"] for f in frames if f["type"] == "error"] == ["error"] * 3


@pytest.mark.parametrize("kind", WRONG)
async def test_values_out_of_range_or_of_another_type_are_refused(studio: ServerProcess, kind: str):
    async with besieged(studio, kind) as table:
        for cheat in players(table):
            for name, data in WRONG[kind]:
                text = f"Invalid data for {name}: "
                by_action = f'"{name}" is a message' if kind in WITHOUT_ACTIONS else text
                refused(cheat.ask(name, data), by_action)
                error(await cheat.act_connected(name, data), by_action)
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


async def replay_move(table: Table, cheat: Seat, name: str, data: Any, text: str) -> None:
    """Make a move, and make it again: under its id, and as a new one, which is refused."""
    first = await cheat.act_connected(name, data, id="once")
    assert (first["type"], first["status"]) == ("action_result", "completed")
    before = await table.look()
    again = await cheat.act_connected(name, data, id="once", again=True)
    assert again["action_id"] == first["action_id"]
    assert again["response_data"] == first["response_data"]
    assert cheat.act(name, data) == {"error": text}
    assert await table.look() == before


async def replay_lap(table: Table) -> None:
    await replay_move(table, table.guest, "lap", {"number": 1}, "No short cuts")


async def replay_mark(table: Table) -> None:
    (shared, _), *_ = await table.look()
    cheat = table.seats[shared["turn"]]
    await replay_move(table, cheat, "place", {"cell": 0}, "It is not your turn")
    before = await table.look()
    assert table.other(cheat).act("place", {"cell": 0}) == {"error": "That cell is taken"}
    assert await table.look() == before


async def replay_claim(table: Table) -> None:
    seen = table.host.act("look")["table"]
    cheat = table.seats[seen["turn"]]
    data = {"move": seen["move"], "cards": cheat.act("look")["hand"][:1]}
    await replay_move(table, cheat, "lay", data, "It is not your turn")
    other, move = table.other(cheat), data["move"] + 1  # then an old move, when it is their turn
    other.act("lay", {"move": move, "cards": other.act("look")["hand"][:1]})
    before = await table.look()
    told = f"That is move {data['move']}, and move {move + 1} is due"
    assert cheat.act("lay", data) == {"error": told}
    assert await table.look() == before


async def replay_draw(table: Table) -> None:
    cheat = table.seats[table.host.act("look")["table"]["turn"]]
    await replay_move(table, cheat, "draw", {}, "It is not your turn")


async def replay_guesses(table: Table) -> None:
    """Make each guess again under its id, the right one, too: it is one win."""
    cheat, found, low, high = table.guest, "", 1, 100
    while found != "right":
        number = (low + high) // 2
        guess = {"number": number}
        first = await cheat.act_connected("guess", guess, id=f"g{number}")
        for _ in range(3):
            again = await cheat.act_connected("guess", guess, id=f"g{number}", again=True)
            assert again["action_id"] == first["action_id"]
            assert again["response_data"] == first["response_data"]
        found = first["response_data"]["it_is"]
        low, high = (number + 1, high) if found == "higher" else (low, number - 1)
    assert await wait_for_stat(cheat, STATS["guessing"]) == 1
    await settle(table)
    assert table.stats()[cheat.player_id] == {STATS["guessing"]: 1}


async def replay_inputs(table: Table) -> None:
    """Send one packet of the fast lane over and over, and one that asks for too much."""
    before = await table.look()
    name = MESSAGES[table.kind][-1]
    data = FLY if name == "fly" else {"x": 0, "y": 0}
    for cheat in players(table):
        async with cheat.lane() as lane:
            packet = await lane.say(ClientMessage(name, json.dumps(data).encode()))
            for _ in range(20):
                await lane.udp.send(packet)
            await lane.say(ClientMessage(name, json.dumps({**data, "x": 99}).encode()))
            await lane.show_address()
        assert (await cheat.say(name, data))["type"] == "sent"
    assert await table.look() == before


REPLAYS: dict[str, Callable[[Table], Awaitable[None]]] = {
    "arena": replay_inputs,
    "bluff": replay_claim,
    "cards": replay_draw,
    "comets": replay_inputs,
    "guessing": replay_guesses,
    "noughts": replay_mark,
    "race": replay_lap,
    "skirmish": replay_inputs,
    "tictactoe": replay_mark,
}


@pytest.mark.parametrize("kind", REPLAYS)
async def test_what_is_sent_again_counts_once(studio: ServerProcess, kind: str):
    async with open_table(studio, kind) as table:
        await REPLAYS[kind](table)


def behaviours_of(folder: Path, package: str) -> Iterator[str]:
    """Return the behaviours in the modules of a folder, as entries of the setting name them."""
    for path in sorted(folder.glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                bases = [ast.unparse(base).partition("[")[0] for base in node.bases]
                if "RoomBehaviour" in bases and not path.name.startswith("test_"):
                    yield f"{package}{path.stem}:{node.name}"


def test_no_game_that_ships_is_forgotten():
    """Each is at a table, and every kind of cheat has a way to be played against it."""
    shipped = [
        *behaviours_of(EXAMPLES, ""),
        *behaviours_of(PACKAGE / "demo", "greenroom.demo."),
        *behaviours_of(PACKAGE / "cli" / "starter", "greenroom.cli.starter."),
    ]
    assert sorted(CLASSES.values()) == sorted(shipped)
    assert PLAYERS.keys() == CLASSES.keys()
    for cheats in (STATS, TYPOS, WRONG, REPLAYS):
        assert sorted(cheats) == sorted(STRICT), "only the relay's game is its host's client's"
