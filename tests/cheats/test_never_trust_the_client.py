"""The how-to "Never trust the client", followed to the letter: each of its blocks is run."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from textwrap import indent
from typing import Any

import cards
import pytest
import race
from command_kit import command
from page_kit import ROOT, blocks_of
from server_kit import Api, Reply, ServerProcess

from greenroom.behaviour import Joining, Refused
from greenroom.testing import RoomHarness

PAGE = ROOT / "docs" / "how-to" / "never-trust-the-client.md"
DECLARES, CHECKS, COUNTS, BELIEVES, CHEATS = blocks_of(PAGE)
COMMANDS = re.findall(r"^    (greenroom .+)$", PAGE.read_text(), re.MULTILINE)
UPDATE = "/api/game_data.php/player/update"
READ_ONLY = "Clients may not write player_data in this game"


def follow(code: str, **names: Any) -> dict[str, Any]:
    """Paste a block beneath what the reader has already; return what there is then."""
    found = {**vars(race), **names}
    exec(code, found)
    return found


def test_what_is_not_declared_is_refused_before_a_handler_sees_it():
    room = RoomHarness(follow(DECLARES.text)["Racing"])
    ann = room.join("Ann")
    for wrong in ({"number": 0}, {"number": 11}, {"number": "1"}, {}):
        with pytest.raises(Refused, match="Invalid data for lap"):
            room.act(ann, "lap", wrong)
    with pytest.raises(Refused, match='"lpa": did you mean "lap"'):
        room.act(ann, "lpa", {"number": 1})
    with pytest.raises(Refused, match='"over" is unknown'):
        room.say(ann, "over", {"winner": ann})
    assert room.act(ann, "lap", {"number": 10}).status == "completed"


DEAL = """
    @action("turn")
    def deal(self, room, by, turn: dict[str, int]):
        room.state.turn = turn["of"]
"""


def test_nobody_joins_while_a_game_is_on():
    body = f"class Closed(RoomBehaviour[Table]):\n{CHECKS.text}{DEAL}"
    room = RoomHarness(follow(body, Table=cards.Table, Joining=Joining)["Closed"])
    ann = room.join("Ann")
    room.act(ann, "turn", {"of": ann})
    with pytest.raises(Refused, match="A game is on: come back when it is over"):
        room.join("Bob")
    room.act(ann, "turn", {"of": 0})
    room.join("Bob")


WIN = """
    @action("win")
    def win(self, room, by):
        winner = by.player_id
"""


def test_a_stat_is_counted_as_declared():
    [line] = re.findall(r"`(room\.player\(winner\)\..+?)`", PAGE.read_text())
    room = RoomHarness(follow(f"{COUNTS.text}{WIN}        {line}\n")["Racing"])
    ann = room.join("Ann")
    room.act(ann, "win")
    assert room.stats == {ann: {"races_won": 1}}


@pytest.mark.skipif(shutil.which("node") is None, reason="no Node")
def test_a_page_believes_the_server_alone():
    said: list[tuple[dict[str, Any], bool]] = [
        ({"type": "receive", "sender": {"is_host": True, "is_server": True}}, True),
        ({"type": "receive", "sender": {"is_host": True}}, False),
        ({"type": "receive", "sender": {"is_host": True, "is_server": "true"}}, False),
        ({"type": "receive", "sender": {}, "data": {"is_server": True}, "is_server": True}, False),
    ]
    body = indent(BELIEVES.text, "  ")
    messages = json.dumps([message for message, _ in said])
    code = (
        "const believed = []; const believe = (message) => believed.push(message);\n"
        f"const messages = {messages};\nfor (const message of messages) {{\n{body}}}\n"
        "console.log(JSON.stringify(messages.map((message) => believed.includes(message))));"
    )
    done = subprocess.run(["node", "-e", code], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == [is_believed for _, is_believed in said]


def test_a_cheater_gets_nowhere_in_the_race():
    harness = {"pytest": pytest, "RoomHarness": RoomHarness, "Refused": Refused}
    follow(CHEATS.text, **harness)["test_nobody_cheats"]()


def refuses(reply: Reply, text: str, status: int) -> None:
    assert (reply.status, reply.json["error"]) == (status, text), reply


def test_documents_are_closed_to_clients_as_the_page_says(studio: ServerProcess):
    game = studio.new_game()
    api = Api(studio.address, game)
    _, token = api.register()
    [line] = COMMANDS
    words = line.replace(" ID ", f" {game.game_id} ").split()[1:]
    done = command(*words, data_dir=studio.data_dir)
    assert done.status == 0, done.err

    refuses(api.call("PUT", UPDATE, {"score": 9}, player=token), READ_ONLY, 400)
    wrong = {"X-Api-Private-Token": game.key}
    reply = api.call("PUT", UPDATE, {"score": 9}, player=token, headers=wrong)
    assert reply.status == 401, reply
    reply = api.call("PUT", UPDATE, {"score": 9}, player=token, admin=True)
    assert reply.status == 200, reply
    path, body = "/api/game_players.php/register", {"player_name": "Ada"}
    refuses(api.call("POST", path, {**body, "player_data": {"score": 9}}), READ_ONLY, 400)
    assert api.call("POST", path, {**body, "player_data": {}}).status == 200
