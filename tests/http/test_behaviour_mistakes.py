"""A studio's hook may raise whatever Python has: its room alone is harmed, and ^C still stops."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from server_kit import Api, Reply, ServerProcess, serving_modules

ROOMS = "/api/game_room.php"
MISTAKES = '''"""Rooms whose hooks raise what they are asked to raise."""

import builtins
from pathlib import Path

from greenroom.behaviour import Action, BehaviourBug, Complete, Member, Room, RoomBehaviour, Verdict


class MuteBug(BehaviourBug):
    def __str__(self) -> str:
        raise GeneratorExit


class Masked:
    @property
    def __class__(self) -> type:
        raise GeneratorExit


class Mistakes(RoomBehaviour[dict[str, int]]):
    tick_hz = 10

    def on_tick(self, room: Room[dict[str, int]], dt: float) -> None:
        if (hook := room.rules.get("ticks")) is not None:
            self.fail(str(hook))

    def on_action(self, room: Room[dict[str, int]], by: Member, action: Action) -> Verdict:
        if action.action_type == "loop":
            Path(action.request_data["path"]).touch()
            while True:
                pass
        if action.action_type == "masked":
            return Masked()
        self.fail(action.action_type)
        return Complete("well")

    def fail(self, how: str) -> None:
        if how == "group":
            raise BaseExceptionGroup("several", [KeyboardInterrupt(), ValueError()])
        if how == "mute":
            raise MuteBug
        if how != "well":
            raise getattr(builtins, how)
'''
RAISED = ("GeneratorExit", "KeyboardInterrupt", "BaseException", "SystemExit", "group")


@pytest.fixture(scope="module")
def studio(new_database: Callable[[], str]) -> Iterator[ServerProcess]:
    entry = ("--database-url", new_database(), "--behaviours", "*/mistakes=mistakes:Mistakes")
    with serving_modules(
        {"mistakes": MISTAKES}, *entry, GREENROOM_RATE_LIMIT_FACTOR="1000"
    ) as server:
        yield server


class Table:
    """A room of one, with the behaviour."""

    def __init__(self, api: Api, **rules: str) -> None:
        self._api = api
        _, self.token = api.register()
        body = {"rules": {"type": "mistakes", **rules}, "realtime": True}
        made = api.call("POST", f"{ROOMS}/create", body, player=self.token)
        assert made.status == 200, made
        self.room_id: str = made.json["room_id"]

    def act(self, action_type: str, data: object = None) -> Reply:
        body = {"target_players": "host", "action_type": action_type, "request_data": data}
        return self._api.call("POST", f"{ROOMS}/actions", body, player=self.token)


@pytest.mark.parametrize("raised", [*RAISED, "mute", "masked"])
def test_whatever_a_hook_raises_harms_its_own_turn_alone(studio: ServerProcess, raised: str):
    api = Api(studio.address, studio.new_game())
    harmed, other = Table(api), Table(api)
    assert harmed.act(raised).status == 500
    assert harmed.act("well").status == 200
    assert other.act("well").status == 200


@pytest.mark.parametrize("raised", [*RAISED, "mute"])
def test_nor_does_a_tick_that_raises_it(studio: ServerProcess, raised: str):
    api = Api(studio.address, studio.new_game())
    logged = studio.log.stat().st_size
    ticking = Table(api, ticks=raised)
    studio.wait_logged(f"on_tick crashed in room {ticking.room_id}", logged)
    assert Table(api).act("well").status == 200


def test_a_real_interrupt_while_a_hook_runs_stops_the_server(studio: ServerProcess, tmp_path: Path):
    table = Table(Api(studio.address, studio.new_game()))
    runs = tmp_path / "runs"
    acting = threading.Thread(target=table.act, args=("loop", {"path": str(runs)}))
    acting.start()
    deadline = time.monotonic() + 30
    while not runs.exists():
        assert time.monotonic() < deadline
    assert studio.stop(signal.SIGINT) == 0
    acting.join()
    assert "stopping at SIGINT" in studio.log.read_text()
    studio.start()
