"""Two real workers, one of which has all the load: a shard moves, and no caller notices."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
from command_kit import command
from server_kit import Api
from waiting import block_until
from workers_kit import WHOLE_GAMES, Crew, crew

from greenroom.actors.kernel.shards import home_shard

pytestmark = [pytest.mark.slow, pytest.mark.long, pytest.mark.timeout(300)]

NOTICED_SECONDS_MAX = 120.0


class Caller:
    """Reads a player's record over and over."""

    def __init__(self, api: Api) -> None:
        self.shard = home_shard(api.game.game_id)
        self.statuses: Counter[int] = Counter()
        self.lost: list[str] = []
        self._api = api
        self._player_id, self._token = api.register()
        self._is_over = threading.Event()

    def run(self) -> None:
        while not self._is_over.is_set():
            number = self.statuses.total()
            body = {"number": number}
            changed = self._api.call(
                "PUT", "/api/game_data.php/player/update", body, player=self._token
            )
            reply = self._api.call("GET", "/api/game_data.php/player/get", player=self._token)
            self.statuses.update([changed.status, reply.status])
            if reply.json.get("data") != body:
                self.lost.append(f"{body} was acknowledged, and is not there: {reply}")

    def metrics(self) -> str:
        return self._api.call("GET", "/metrics").body.decode()

    def stop(self) -> None:
        self._is_over.set()


@contextmanager
def calling(callers: list[Caller]) -> Generator[None]:
    threads = [threading.Thread(target=caller.run) for caller in callers]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        for caller in callers:
            caller.stop()
        for thread in threads:
            thread.join()


def two_callers(server: Crew) -> list[Caller]:
    """Return callers of two games that live in different shards."""
    callers: list[Caller] = []
    while len(callers) < 2:
        caller = Caller(Api(server.address, server.new_game(f"game {len(callers)}")))
        if caller.shard not in {other.shard for other in callers}:
            callers.append(caller)
    return callers


def shares(server: Crew) -> list[float]:
    """Return the load of each worker, the least first."""
    return sorted(node.turns_per_second or 0.0 for node in server.nodes())


def gather(server: Crew, callers: list[Caller]) -> None:
    """Have the first worker own both games. Somebody calls them, so they stay there."""
    first = str(server.nodes()[0].node)
    for caller in callers:
        moved = command("cluster", "move", str(caller.shard), first, data_dir=server.data_dir)
        assert moved.status == 0, moved.err


def test_a_shard_moves_to_the_worker_without_load_and_no_call_fails(data_dir: Path) -> None:
    with crew(data_dir, 2, GREENROOM_RATE_LIMIT_FACTOR="1000", **WHOLE_GAMES) as server:
        callers = two_callers(server)
        with calling(callers):
            gather(server, callers)
            block_until(
                lambda: server.balance().moved == 1,
                seconds_max=NOTICED_SECONDS_MAX,
                explain=lambda: f"{server.balance()}",
            )
            block_until(lambda: shares(server)[0] > 10.0, explain=lambda: shares(server))
        for caller in callers:
            assert caller.statuses.keys() == {200}, caller.statuses
            assert caller.lost == []
        shown = command("cluster", "status", data_dir=server.data_dir).out
        assert "TURNS/S" in shown
        assert "No shard moves by load: " in shown
        metrics = callers[0].metrics()
        assert 'greenroom_cluster_shards_balanced_total{node="' in metrics
        assert server.log.read_text().count("has moved from node") == 1


def test_nothing_moves_once_it_is_switched_off(data_dir: Path) -> None:
    with crew(data_dir, 2, GREENROOM_BALANCE_SHARDS="false") as server:
        balance = server.balance()
        assert balance.why == "it is switched off: balance_shards is false"
        assert balance.moving is None
