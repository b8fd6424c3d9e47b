"""The examples of /openapi.json are one story, and this plays it: they work, and they are true.

Every operation is called once as its example says, by its code samples, against a new server. What
is answered must be the example, apart from what chance and time decide: each random id and each
secret has one stand-in throughout. `STORY_WRITE=1 scripts/test tests/http/describe/test_story.py`
writes the examples anew from what a server answers.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from answer_judge import DOCUMENT
from server_kit import Game, ServerProcess, tell_judges

from greenroom.control.admin.messages import ChangeGameSettings
from greenroom.control.client import call as operate
from greenroom.control.protocol import socket_path
from greenroom.http.auth import ADMIN_KEY_HEADER, PLAYER_TOKEN_HEADER, PROJECT_KEY_HEADER
from greenroom.http.describe import examples
from greenroom.http.describe.code_samples import SERVER
from greenroom.http.endpoints import ENDPOINTS
from greenroom.http.router import Router
from greenroom.http.table import Endpoint

TOLD_AT = dt.datetime(2026, 3, 13, 14, 1, 49, tzinfo=dt.UTC)
"""When the whole story happens."""
TAG_LETTERS = "23456789BCDFGHJKLMNPQRSTVWXYZ"
BASE62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

HEX = re.compile(r"[0-9a-f]{16}|[0-9a-f]{32}|[0-9a-f]{64}")
TAG = re.compile(rf"#[{TAG_LETTERS}]{{8}}")
TOKEN = re.compile(r"gr_plr_\w+")
TIMES = ("%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%dT%H:%M:%S+00:00", "%Y-%m-%d %H:%M:%S UTC")
PORTS = {"port": 8081, "udp_port": 8082}

ROUTER: Router[Endpoint] = Router()
for _endpoint in ENDPOINTS:
    ROUTER.add(_endpoint.method, _endpoint.path, _endpoint)


class StandIns:
    """Stand-ins of the examples for what chance and time decide, and the way back."""

    def __init__(self) -> None:
        self._shown: dict[str, str] = {}

    def shown(self, value: Any, name: str = "") -> Any:
        """Return a value as the examples show it."""
        if isinstance(value, dict):
            return {key: self.shown(part, key) for key, part in value.items()}
        if isinstance(value, list):
            return [self.shown(part, name) for part in value]
        if isinstance(value, str):
            return self._text(value, name)
        if name in PORTS:
            return PORTS[name]
        if name == "seconds_since_heartbeat":
            return 0
        if name in {"timestamp", "original_timestamp"}:
            return int(_moved(dt.datetime.fromtimestamp(value, dt.UTC)).timestamp())
        return value

    def real(self, text: str) -> str:
        """Return a text with what really stands behind the stand-ins."""
        for real, shown in self._shown.items():
            text = text.replace(shown, real)
        return text

    def _text(self, value: str, name: str) -> str:
        for form in TIMES:
            try:
                when = dt.datetime.strptime(value, form).replace(tzinfo=dt.UTC)
            except ValueError:
                continue
            return _moved(when).strftime(form)
        if value not in self._shown and (made := self._made(value, name)):
            self._shown[value] = made
        return self._shown.get(value, value)

    def _made(self, value: str, name: str) -> str | None:
        digest = hashlib.sha256(f"{name} {len(self._shown)}".encode()).digest()
        if HEX.fullmatch(value):
            return digest.hex()[: len(value)]
        if TAG.fullmatch(value):
            return "#" + "".join(TAG_LETTERS[byte % len(TAG_LETTERS)] for byte in digest[:8])
        if TOKEN.fullmatch(value):
            return "gr_plr_" + "".join(BASE62[byte % 62] for byte in (digest * 2)[: len(value) - 7])
        return None


def _moved(when: dt.datetime) -> dt.datetime:
    """Return a time of the story: as many hours from its moment as it is from now."""
    hours = round((when.timestamp() - time.time()) / 3600)
    return TOLD_AT + dt.timedelta(hours=hours)


Send = Callable[[str, str, str, Mapping[str, str], Any], Any]
"""Sends operation id, method, target, headers and body; returns the JSON of the answer."""


class Teller:
    """Plays the story on one server."""

    def __init__(self, server: ServerProcess, game: Game, send: Send | None) -> None:
        self.stand_ins = StandIns()
        self.told: dict[str, dict[str, Any]] = {}
        self.tokens: dict[str, str] = {}
        self.server = server
        self._game = game
        self._send = send

    def tell(
        self, who: str, method: str, target: str, body: Any = None, query: Mapping[str, Any] = {}
    ) -> Any:
        """Make the call that is an operation's example; `who` is a player, or the admin."""
        endpoint, _ = ROUTER.find(method, f"/api/{target}")
        assert endpoint is not None, target
        name = operation_id(endpoint.path)
        assert name not in self.told, f"{name} is told twice"
        values = dict(zip(endpoint.path_names, _path_values(endpoint.path, target), strict=True))
        request = {"path": values, "query": query, "body": body}
        asked = "&".join(f"{key}={quote(str(value), safe='')}" for key, value in query.items())
        answer = self._call(name, who, method, f"{target}?{asked}" if asked else target, body)
        shown = {key: value for key, value in request.items() if value}
        self.told[name] = self.stand_ins.shown(shown | {"answer": answer})
        if method == "GET" and not query:
            formed = self._call("", who, method, f"{target}?format=engine", None)
            told = self.told[name]["answer"]
            assert self.stand_ins.shown(formed) == examples.engine_form(told)
        return answer

    def call(self, who: str, method: str, target: str, body: Any = None) -> Any:
        """Make a call that the story needs, and no example shows."""
        return self._call("", who, method, target, body)

    def _call(self, name: str, who: str, method: str, target: str, body: Any) -> Any:
        path = f"/api/{target}"
        headers = {PROJECT_KEY_HEADER: self._game.key}
        if who == "admin":
            headers[ADMIN_KEY_HEADER] = self._game.private
        elif who:
            headers[PLAYER_TOKEN_HEADER] = self.tokens[who]
        send = self._send if name and self._send is not None else self._send_plainly
        answer = send(name, method, path, headers, body)
        assert answer["success"] is True, (method, path, answer)
        tell_judges(method, path, 200, answer)
        self.stand_ins.shown(answer)
        return answer

    def _send_plainly(
        self, _: str, method: str, path: str, headers: Mapping[str, str], body: Any
    ) -> Any:
        sent = None if body is None else json.dumps(body)
        options = [part for pair in headers.items() for part in ("-H", ": ".join(pair))]
        data = [] if sent is None else ["--data-raw", sent]
        url = f"http://{':'.join(map(str, self.server.address))}{path}"
        return json.loads(run("curl", "-s", "-X", method, *options, *data, url))


def operation_id(path: str) -> str:
    words = path.removeprefix("/api/").replace(".php", "")
    return "_".join("".join(c if c.isalnum() else " " for c in words).split())


def _path_values(pattern: str, target: str) -> Iterator[str]:
    pairs = zip(pattern.split("/"), f"/api/{target}".split("/"), strict=True)
    return (given for part, given in pairs if part.startswith("{"))


def run(*command: str, environment: Mapping[str, str] = {}) -> str:
    done = subprocess.run(
        command, env=os.environ | environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, (command, done.stdout, done.stderr)
    return done.stdout


# The story.


def tell_all(teller: Teller) -> None:
    """Ada and Ben play, first in a room of Ada's, then in one that was a lobby."""
    _tell_of_the_game(teller)
    _tell_of_players(teller)
    _tell_of_friends(teller)
    _tell_of_a_room(teller)
    _tell_of_lobbies(teller)
    _tell_of_the_end(teller)


def _tell_of_the_game(teller: Teller) -> None:
    tell = teller.tell
    tell("", "GET", "time.php", query={"utc": "+1"})
    tell("admin", "PUT", "game_data.php/game/update", {"client": {"version_min": "1.4.0"}})
    tell("", "GET", "game_data.php/game/get")
    tell("", "POST", "censor.php", {"text": "Oh shit, sorry"})


def _register(teller: Teller, name: str, document: object, *, told: bool = False) -> int:
    call = teller.tell if told else teller.call
    body = {"player_name": name, "player_data": document}
    account = call("", "POST", "game_players.php/register", body)
    teller.tokens[name.lower()] = account["private_key"]
    return int(account["player_id"])


def _tell_of_players(teller: Teller) -> None:
    tell = teller.tell
    _register(teller, "Ada", {"level": 3, "xp": 1250}, told=True)
    for name, document in {
        "Ben": {"level": 4, "xp": 2100},
        "Cleo": {"level": 2, "xp": 700},
        "Dan": {"level": 1, "xp": 90},
        "Eve": {"level": 1, "xp": 40},
    }.items():
        _register(teller, name, document)
    tell("ada", "PUT", "game_players.php/login")
    tell("ada", "POST", "game_players.php/heartbeat")
    tell("cleo", "PUT", "game_players.php/rename", {"new_name": "Cleopatra"})
    rotated = tell("cleo", "POST", "game_players.php/rotate")
    teller.tokens["cleo"] = rotated["private_key"]
    tell("ada", "GET", "game_data.php/player/get")
    tell("ada", "PUT", "game_data.php/player/update", {"level": 4, "xp": 1400})
    tell("", "POST", "leaderboard.php", {"sort_by": ["level", "xp"], "limit": 10})


def _tell_of_friends(teller: Teller) -> None:
    tell, call = teller.tell, teller.call
    tag = call("ben", "PUT", "game_players.php/login")["player"]["player_tag"]
    tell("ada", "POST", "friends.php/lookup", {"player_tag": tag})
    tell("ada", "POST", "friends.php/request", {"player_tag": tag})
    tell("ben", "POST", "friends.php/accept", {"player_id": 1})
    call("ada", "POST", "friends.php/request", {"player_id": 3})
    call("dan", "POST", "friends.php/request", {"player_id": 1})
    tell("ada", "GET", "friends.php/list")
    tell("ada", "POST", "friends.php/decline", {"player_id": 4})
    call("cleo", "POST", "friends.php/accept", {"player_id": 1})
    tell("ada", "POST", "friends.php/platform", {"platform_ids": ["76561197960287930"]})


def _tell_of_a_room(teller: Teller) -> None:
    tell, call, area = teller.tell, teller.call, "game_room.php"
    wanted = {"room_name": "Ada's den", "max_players": 4, "realtime": True}
    wanted |= {"rules": {"mode": "duel"}, "player_data": {"colour": "blue"}}
    room = tell("ada", "POST", f"{area}/create", wanted)
    tell("", "POST", f"{area}/list", {"search": "den", "limit": 20})
    tell("ben", "POST", f"{area}/{room['room_id']}/join", {"player_data": {"colour": "red"}})
    tell("ada", "GET", f"{area}/players")
    tell("ada", "POST", f"{area}/heartbeat")
    asked = {"target_players": "host", "action_type": "place", "request_data": {"cell": 4}}
    sent = tell("ben", "POST", f"{area}/actions", asked)
    tell("ada", "GET", f"{area}/actions/pending")
    done = {"status": "completed", "response_data": {"placed": True}}
    tell("ada", "POST", f"{area}/actions/{sent['action_ids'][0]}/complete", done)
    tell("ben", "GET", f"{area}/actions/poll")
    said = {"target_players": "others", "type": "chat", "data": {"text": "Well played"}}
    tell("ada", "POST", f"{area}/updates", said)
    tell("ben", "GET", f"{area}/current")
    tell("ben", "POST", f"{area}/updates/poll", {"from_players": "host"})
    tell("ben", "POST", "realtime.php/token")
    tell("ada", "POST", f"{area}/password", {"password": "sesame"})
    renewed = tell("ada", "POST", f"{area}/join_token")
    entrance = {"join_token": renewed["join_token"]}
    call("cleo", "POST", f"{area}/{room['room_id']}/join", entrance)
    tell("ada", "POST", f"{area}/kick", {"player_id": 3})
    tell("ben", "POST", f"{area}/leave")
    tell("ada", "POST", f"{area}/stop")


def _tell_of_lobbies(teller: Teller) -> None:
    tell, call, area = teller.tell, teller.call, "matchmaking.php"
    wanted = {"max_players": 4, "matchmaking_name": "Evening duel", "join_by_requests": True}
    wanted |= {"realtime_room": True, "can_leave_room": True, "rules": {"mode": "duel"}}
    lobby = tell("ada", "POST", f"{area}/create", wanted)
    tell("", "POST", f"{area}/list", {"search": "duel", "limit": 20})
    call("ada", "POST", "friends.php/invite", {"player_id": 2})
    invite = call("ben", "GET", "friends.php/invites")["invites"][0]
    tell("ben", "POST", "friends.php/invites/decline", {"invite_id": invite["invite_id"]})
    here = f"{area}/{lobby['matchmaking_id']}"
    asked = tell("ben", "POST", f"{here}/request", {"player_data": {"colour": "red"}})
    tell("ada", "GET", f"{area}/current")
    tell("ada", "POST", f"{area}/{asked['request_id']}/response", {"action": "approve"})
    tell("ben", "GET", f"{area}/{asked['request_id']}/status")
    tell("ada", "POST", "friends.php/invite", {"player_id": 3})
    invites = tell("cleo", "GET", "friends.php/invites")["invites"]
    tell("cleo", "POST", "friends.php/invites/accept", {"invite_id": invites[0]["invite_id"]})
    tell("ada", "POST", f"{area}/password", {"password": "sesame"})
    renewed = tell("ada", "POST", f"{area}/join_token")
    tell("dan", "POST", f"{here}/join", {"join_token": renewed["join_token"]})
    tell("ada", "GET", f"{area}/players")
    tell("ada", "POST", f"{area}/heartbeat")
    tell("ada", "POST", f"{area}/kick", {"player_id": 4})
    tell("ada", "POST", f"{area}/start")
    other = call("dan", "POST", f"{area}/create", {"max_players": 2})
    call("eve", "POST", f"{area}/{other['matchmaking_id']}/join")
    tell("eve", "POST", f"{area}/leave")
    tell("dan", "POST", f"{area}/stop")
    call("dan", "POST", f"{area}/create", {"max_players": 2})
    tell("dan", "POST", f"{area}/remove")


def _tell_of_the_end(teller: Teller) -> None:
    tell = teller.tell
    # Stats are declared by an operator, as docs/reference/stats.md says.
    declared = {"stats": '{"coins": {}}'}
    operate(socket_path(teller.server.data_dir), ChangeGameSettings(1, declared))
    bought = {"coins": {"increment": 50}}
    paid = {"player_id": 1, "request_id": "order-81", "changes": bought}
    tell("admin", "POST", "game_data.php/player/stats", paid)
    tell("ada", "POST", "friends.php/remove", {"player_id": 3})
    tell("ada", "POST", "game_players.php/logout")
    wanted = {"player_id": 4, "ban_duration": "week", "ban_reason": "Cheating"}
    tell("admin", "POST", "game_players.php/ban", wanted)
    tell("admin", "GET", "game_players.php/list", query={"limit": 2, "after_id": 3})
    tell("admin", "POST", "game_players.php/unban", {"player_id": 4})


# The tests.


@pytest.fixture
def fresh(data_dir: Path, database_url: str) -> Iterator[tuple[ServerProcess, Game]]:
    """A new server with its first game and nobody in it, as a reader has it."""
    database = ("--database-url", database_url)
    server = ServerProcess(data_dir, *database, GREENROOM_RATE_LIMIT_FACTOR="1000").start()
    keys = json.loads((data_dir / "first-game.json").read_text())
    yield server, Game(1, keys["api_token"], keys["api_private_token"])
    server.stop()


def sampler(server: ServerProcess, language: str, stand_ins: Callable[[], StandIns]) -> Send:
    """Return what sends by running an operation's code sample in a language."""

    def send(name: str, method: str, path: str, headers: Mapping[str, str], body: object) -> Any:
        samples = {each["lang"]: each["source"] for each in operation(name)["x-codeSamples"]}
        source = stand_ins().real(samples[language])
        source = source.replace(SERVER, f"http://{':'.join(map(str, server.address))}")
        tokens = {
            "API_TOKEN": headers[PROJECT_KEY_HEADER],
            "API_PRIVATE_TOKEN": headers.get(ADMIN_KEY_HEADER, ""),
            "PLAYER_TOKEN": headers.get(PLAYER_TOKEN_HEADER, ""),
        }
        if language == "Shell":
            return json.loads(run("bash", "-c", source, environment=tokens))
        if language == "Python":
            return json.loads(run(sys.executable, "-c", source, environment=tokens))
        program = ["--input-type=module", "-e", source]
        return json.loads(run("node", *program, environment=tokens))

    return send


def operation(name: str) -> Any:
    (found,) = (
        operation
        for methods in DOCUMENT["paths"].values()
        for operation in methods.values()
        if operation["operationId"] == name
    )
    return found


PROGRAMS = {"Shell": "curl", "Python": sys.executable, "JavaScript": "node"}


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("language", PROGRAMS)
def test_every_example_works_as_its_code_sample_and_is_what_is_answered(
    fresh: tuple[ServerProcess, Game], language: str
):
    if shutil.which(PROGRAMS[language]) is None or shutil.which("curl") is None:
        pytest.skip(f"{PROGRAMS[language]} is not installed")
    server, game = fresh
    is_written = bool(os.environ.get("STORY_WRITE"))
    send = None if is_written else sampler(server, language, lambda: teller.stand_ins)
    teller = Teller(server, game, send)
    tell_all(teller)
    if is_written:
        written = json.dumps(teller.told, indent=1, ensure_ascii=False) + "\n"
        Path(str(examples.FILE)).write_text(written)
    assert set(teller.told) == {operation_id(endpoint.path) for endpoint in ENDPOINTS}
    kept = json.loads(examples.FILE.read_text())
    for name, told in teller.told.items():
        assert told == kept[name], name
