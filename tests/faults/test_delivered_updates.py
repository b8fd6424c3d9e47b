"""Updates that a poll has delivered stay so: after a stop, and after a kill as of a snapshot."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from server_kit import Api, ServerProcess
from waiting import block_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

ROOM = "/api/game_room.php"


class Table:
    """A host who sends numbered updates, and a guest who polls them."""

    def __init__(self, data_dir: Path, database_url: str, snapshot_seconds: float) -> None:
        self.server = ServerProcess(
            data_dir,
            GREENROOM_DATABASE_URL=database_url,
            GREENROOM_SNAPSHOT_SECONDS=str(snapshot_seconds),
        ).start()
        self._game = self.server.new_game()
        _, self._host = self._api.register("Ann")
        _, self._guest = self._api.register("Bob")
        made = self._api.call("POST", f"{ROOM}/create", {"max_players": 2}, player=self._host)
        path = f"{ROOM}/{made.json['room_id']}/join"
        assert self._api.call("POST", path, {}, player=self._guest).status == 200

    @property
    def _api(self) -> Api:
        return Api(self.server.address, self._game)

    def send(self, *numbers: int) -> None:
        for number in numbers:
            told = {"target_players": "others", "type": "move", "data": {"n": number}}
            sent = self._api.call("POST", f"{ROOM}/updates", told, player=self._host)
            assert sent.status == 200, sent

    def poll(self) -> list[int]:
        """Return the numbers that a poll delivers."""
        found = self._api.call("POST", f"{ROOM}/updates/poll", {}, player=self._guest)
        return [update["data"]["n"] for update in found.json["updates"]]

    def waiting(self) -> list[int]:
        """Return the numbers that `current` tells, which delivers nothing."""
        found = self._api.call("GET", f"{ROOM}/current", player=self._guest)
        return [update["data"]["n"] for update in found.json["pending_updates"]]

    def begin_again(self, end: Callable[[], object]) -> None:
        end()
        self.server.start()


@contextmanager
def table(data_dir: Path, database_url: str, snapshot_seconds: float) -> Iterator[Table]:
    """A table at which a poll has delivered the updates 0 to 2."""
    made = Table(data_dir, database_url, snapshot_seconds)
    try:
        made.send(0, 1, 2)
        assert made.poll() == [0, 1, 2]
        yield made
        assert made.server.stop() == 0
    finally:
        made.server.kill()


def test_what_a_poll_has_delivered_stays_delivered_when_the_server_is_stopped(
    data_dir: Path, database_url: str
) -> None:
    with table(data_dir, database_url, 1_000) as at:
        at.send(3)
        assert at.waiting() == [3]
        for _ in range(2):  # a second time nothing has changed since
            at.begin_again(at.server.stop)
            assert at.waiting() == [3]
        assert at.poll() == [0, 1, 2, 3]  # without a cursor it tells all again
        at.begin_again(at.server.stop)  # and nothing but the poll has changed the room
        assert at.waiting() == []


def test_after_a_kill_it_is_as_of_the_last_snapshot_and_nothing_is_lost(
    data_dir: Path, database_url: str
) -> None:
    with table(data_dir, database_url, 1_000) as at:
        at.send(3)
        at.begin_again(at.server.kill)
        assert at.waiting() == [0, 1, 2, 3]  # no snapshot was due yet
        assert at.poll() == [0, 1, 2, 3]


def test_after_a_kill_what_was_delivered_before_the_last_snapshot_stays_delivered(
    data_dir: Path, database_url: str
) -> None:
    def written_at() -> object:
        with psycopg.connect(database_url) as connection:
            found = connection.execute("SELECT updated_at FROM snapshots WHERE kind = 'room'")
            return found.fetchone()

    with table(data_dir, database_url, 0.2) as at:
        for number in (3, 4):  # a snapshot may have been on its way
            before = written_at()
            at.send(number)
            block_until(lambda: written_at() != before, 60)  # noqa: B023
        at.begin_again(at.server.kill)
        assert at.waiting() == [3, 4]
