"""A real server whose database was changed by hand: its next start puts players right."""

from __future__ import annotations

import http.client
import re
from pathlib import Path

import psycopg
import pytest
from server_kit import Api, ServerProcess

ROOMS = "/api/game_room.php"


def mended(server: ServerProcess) -> int:
    """Return how many players lost a seat where they do not live, as the metrics tell."""
    connection = http.client.HTTPConnection(*server.address, timeout=30)
    try:
        connection.request("GET", "/metrics")
        text = connection.getresponse().read().decode()
    finally:
        connection.close()
    found = re.findall(r"^greenroom_misplaced_players_total\{(.*)\} (\S+)$", text, re.MULTILINE)
    assert found
    return sum(int(float(v)) for ls, v in found if 'where="seat"' in ls and '"mended"' in ls)


def move_by_hand(database_url: str, player_id: int) -> None:
    """Change in which partition of their game a player lives."""
    with psycopg.connect(database_url) as connection:
        (row,) = connection.execute(
            "UPDATE players AS p SET shard = (SELECT s FROM unnest(g.shards) AS s"
            " WHERE s <> coalesce(p.shard, g.shards[1]) ORDER BY s LIMIT 1)"
            " FROM games AS g WHERE g.game_id = p.game_id AND p.player_id = %s RETURNING p.shard",
            [player_id],
        )
        assert row[0] is not None


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_member_whose_row_was_changed_by_hand_is_put_out_at_the_next_start(
    data_dir: Path, database_url: str, workers: str
):
    options = ("--database-url", database_url, "--workers", workers)
    server = ServerProcess(data_dir, *options, GREENROOM_PARTITIONS_PER_GAME="4").start()
    try:
        api = Api(server.address, server.new_game())
        (host_id, host), (guest_id, guest) = api.register("Ada"), api.register("Bob")
        made = api.call("POST", f"{ROOMS}/create", {"max_players": 4}, player=host)
        assert made.status == 200, made
        room_id = made.json["room_id"]
        joined = api.call("POST", f"{ROOMS}/{room_id}/join", {}, player=guest)
        assert joined.status == 200, joined
        assert mended(server) == 0
        assert server.stop() == 0
        move_by_hand(database_url, guest_id)
        server.start()
        api.address = server.address
        server.wait_logged(f"player {guest_id} sat in room {room_id}")
        assert mended(server) == 1
        current = [api.call("GET", f"{ROOMS}/current", player=one) for one in (host, guest)]
        assert [one.json["in_room"] for one in current] == [True, False], current
        assert api.call("POST", f"{ROOMS}/create", {"max_players": 4}, player=guest).status == 200
        assert f"player {host_id} " not in server.read_log()
        assert server.stop() == 0
    finally:
        server.kill()
