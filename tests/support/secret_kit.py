"""A whole session played with every kind of secret, and a search for what became of each."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from realtime_kit import dial
from server_kit import Api, Game, Reply, ServerProcess
from steam_kit import APP_ID, KEY, SteamServer
from udp_kit import fast, open_keys

from greenroom.control.admin.messages import ChangeGameSettings, RotateKeys
from greenroom.control.client import call
from greenroom.control.protocol import socket_path
from greenroom.fastlane.frames import ClientMessage

ROOMS, LOBBIES = "/api/game_room.php", "/api/matchmaking.php"
PLAYERS = "/api/game_players.php"
METRICS_TOKEN = "metrics-9f3c1b7a5d"
PASSWORDS = {
    "room password": "xyzzy-room-0451",
    "lobby password": "xyzzy-lobby-0452",
    "new room password": "xyzzy-room-0453",
    "wrong password": "xyzzy-wrong-0454",
}
BUGGY = '''"""A studio whose code fails, and which brings a bug to the server itself."""

from typing import Any

import msgspec

from greenroom.actors.room.rules import membership as rules
from greenroom.behaviour import Room, RoomBehaviour


class Nothing(msgspec.Struct):
    """No state."""


class Buggy(RoomBehaviour[Nothing]):
    """Fails at every action."""

    def on_action(self, room: Room[Nothing], *arguments: Any) -> None:
        raise RuntimeError("a bug of the studio")


real = rules.password_matches


def password_matches(password: str | None, password_hash: bytes) -> bool:
    """Crash where a password is `crash`."""
    if password and password.startswith("crash"):
        raise RuntimeError("a bug of the server")
    return real(password, password_hash)


rules.password_matches = password_matches
'''
"""The server in question is another process, so this is how a bug gets in there."""


class Session:
    """Requests and answers, and every secret by its kind."""

    def __init__(self, server: ServerProcess, steam: SteamServer, game: Game) -> None:
        self.server = server
        self.steam = steam
        self.api = Api(server.address, game)
        self.room_id = ""
        self.player_ids: list[int] = []
        self.replies: list[tuple[str, Reply]] = []
        self.secrets = {
            "project key": game.key,
            "admin key": game.private,
            "publisher key": KEY,
            "metrics token": METRICS_TOKEN,
            "crashing password": "crash-xyzzy-0455",
            **PASSWORDS,
        }

    def operate(self, operation: Any) -> Any:
        """Do what an operator does beside the server."""
        return call(socket_path(self.server.data_dir), operation)

    def call(self, method: str, path: str, body: object = None, **more: Any) -> Reply:
        reply = self.api.call(method, path, body, **more)
        self.replies.append((f"{method} {path.partition('?')[0]}", reply))
        return reply

    def ask(self, path: str, body: object = None, method: str = "POST", **more: Any) -> Any:
        reply = self.call(method, path, body, **more)
        assert reply.status == 200, (path, reply)
        return reply.json

    def play(self) -> None:
        """Everything but realtime."""
        settings = {"steam_app_id": str(APP_ID), "steam_publisher_key": KEY}
        self.operate(ChangeGameSettings(game_id=self.api.game.game_id, assigned=settings))
        tokens = [self._register(name) for name in ("Ada", "Bob", "Eve")]
        self._sign_in()
        old = tokens[0]
        tokens[0] = self.ask(f"{PLAYERS}/rotate", player=old)["private_key"]
        self.secrets |= {"rotated token": old, "token of Ada": tokens[0]}
        self._rooms(*tokens[:2])
        self._lobbies(tokens[2])
        self._owner(tokens[2])
        self._mistakes(tokens[0])

    def _register(self, name: str) -> str:
        answer = self.ask(f"{PLAYERS}/register", {"player_name": name})
        self.player_ids.append(int(answer["player_id"]))
        self.secrets[f"token of {name}"] = answer["private_key"]
        return str(answer["private_key"])

    def _sign_in(self) -> None:
        good, wrong = "14" * 60, "15" * 60
        self.secrets |= {"ticket": good, "wrong ticket": wrong}
        self.steam.ticket(good)
        body = {"platform_ticket": good, "player_name": "Gabe"}
        self.secrets["token of Gabe"] = self.ask(f"{PLAYERS}/register", body)["private_key"]
        body["platform_ticket"] = wrong
        assert self.call("POST", f"{PLAYERS}/register", body).status == 401
        self.steam.raw = b"HTTP/1.1 403 No\r\nContent-Length: 0\r\n\r\n"
        assert self.call("POST", f"{PLAYERS}/register", body).status == 429
        self.steam.behave()

    def _rooms(self, ada: str, bob: str) -> None:
        room = {
            "room_name": "R",
            "password": PASSWORDS["room password"],
            "realtime": True,
            "rules": {"type": "buggy"},
        }
        made = self.ask(f"{ROOMS}/create", room, player=ada)
        self.room_id, self.secrets["join token"] = made["room_id"], made["join_token"]
        join = f"{ROOMS}/{self.room_id}/join"
        for name, status in (("wrong", 400), ("crashing", 500), ("room", 200)):
            body = {"password": self.secrets[f"{name} password"]}
            assert self.call("POST", join, body, player=bob).status == status
        change = {"password": PASSWORDS["new room password"]}
        self.ask(f"{ROOMS}/password", change, player=ada)
        action = {"action_type": "a", "target_players": "host"}
        assert self.call("POST", f"{ROOMS}/actions", action, player=bob).status == 500
        self.ask(f"{ROOMS}/current", method="GET", player=bob)
        self.secrets["realtime token"] = self.ask("/api/realtime.php/token", player=ada)["token"]
        self.secrets["realtime token of Bob"] = self.ask("/api/realtime.php/token", player=bob)[
            "token"
        ]

    def _lobbies(self, eve: str) -> None:
        lobby = {"max_players": 4, "password": PASSWORDS["lobby password"]}
        made = self.ask(f"{LOBBIES}/create", lobby, player=eve)
        lobby_id, self.secrets["lobby join token"] = made["matchmaking_id"], made["join_token"]
        other = self._register("Zoe")
        for name, status in (("wrong", 400), ("lobby", 200)):
            body = {"password": PASSWORDS[f"{name} password"]}
            reply = self.call("POST", f"{LOBBIES}/{lobby_id}/join", body, player=other)
            assert reply.status == status
        self.ask(f"{LOBBIES}/current", method="GET", player=eve)

    def _owner(self, token: str) -> None:
        self.ask(f"{PLAYERS}/list", method="GET", admin=True)
        wrong = {"X-Api-Private-Token": self.api.game.private[:-1] + "x"}
        self.call("GET", f"{PLAYERS}/list", headers=wrong)
        ban = {"player_id": self.player_ids[2], "ban_duration": "day"}
        self.ask(f"{PLAYERS}/ban", ban, admin=True)
        assert self.call("POST", f"{PLAYERS}/heartbeat", player=token).status == 403
        path = "/api/game_data.php/game/update"
        self.ask(path, {"level": 1}, method="PUT", admin=True)

    def _mistakes(self, token: str) -> None:
        """Yield mistakes that clients make with a secret: it is in the wrong place, or garbled."""
        query = f"?X-Game-Player-Token={token}&password={PASSWORDS['room password']}"
        garbled = b'{"password": "%b", ' % PASSWORDS["room password"].encode()
        typed = {"password": [PASSWORDS["room password"]]}
        for path in (f"{ROOMS}/current", f"{ROOMS}/{token}/join", "/docs", "/nowhere", "/metrics"):
            self.call("GET", path + query)
        for body in (garbled, typed, {"private_key": token, "player_name": token * 9}):
            self.call("POST", f"{ROOMS}/create", body, player=token)
            self.call("POST", f"{PLAYERS}/register", body)
        for key in (token, self.api.game.private, KEY, self.api.game.key + "x"):
            self.call("POST", f"{PLAYERS}/heartbeat", player=key)
            self.call("POST", f"{ROOMS}/list", headers={"X-Api-Token": key})
        self.call("POST", "/mcp", {"jsonrpc": "2.0", "id": 1, "method": token})

    async def connect(self) -> None:
        """The realtime part: a channel, a fast lane, tokens that open nothing."""
        url = self.server.ready["realtime"].rstrip("/") + "/"
        bob = self.secrets["realtime token of Bob"]
        async with dial(url, bob) as other, dial(url, self.secrets["realtime token"]) as client:
            await client.expect("connected")
            async with fast(client) as lane:
                await lane.say(ClientMessage("c", b"{}"))
            while (await other.take())["type"] != "receive":
                pass
            keys = await open_keys(client)
            self.secrets["lane key"] = keys["client_key"]
            self.secrets["other lane key"] = keys["server_key"]
            await client.send({"type": "send", "command": bob, "target": "nobody"})
            await client.expect("error")
        for token in (self.secrets["token of Ada"], self.secrets["realtime token"] + "0"):
            async with dial(url, token) as client:
                assert (await client.closed())[0] == 1008
        async with dial(url + "?token=" + bob, None) as client:
            assert (await client.closed())[0] == 1008

    def rotate_keys(self) -> None:
        """At the end, for the old ones are no use afterwards."""
        keys = self.operate(RotateKeys(game_id=self.api.game.game_id))
        self.secrets |= {"new key": keys.api_token, "new admin key": keys.api_private_token}


def forms(secret: str) -> Iterator[bytes]:
    """Return forms of a secret where it is stored: plain, in hex, in base64, as its own bytes."""
    raw = secret.encode()
    yield raw
    yield raw.hex().encode()
    yield from (base64.b64encode(b"x" * pad + raw)[4 if pad else 0 : -4] for pad in range(3))
    if len(secret) >= 32 and len(secret) % 2 == 0 and not set(secret) - set("0123456789abcdef"):
        yield bytes.fromhex(secret)


def found_in(data: bytes, secrets: dict[str, str]) -> set[str]:
    """Return the names of the secrets that some bytes hold, in whichever form."""
    folded = data.lower()
    return {
        name
        for name, secret in secrets.items()
        if any(form in data or form.lower() in folded for form in forms(secret))
    }


def files_of(directory: Path) -> Iterator[Path]:
    """Every file and directory below one; sockets left out."""
    for path in sorted(directory.rglob("*")):
        if not path.is_symlink() and (path.is_file() or path.is_dir()):
            yield path
