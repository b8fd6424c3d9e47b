"""Servers with workers, as real processes that are really killed."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import count
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest
from child_kit import is_alive
from command_kit import assert_one_sentence, command
from postgres_kit import PostgresProcess
from server_kit import Api, data_directory
from waiting import block_until
from workers_kit import Crew, crew

from greenroom.actors.kernel.shards import SHARDS
from greenroom.control.admin.cluster_messages import DrainNode
from greenroom.control.admin.messages import ShowPlayer
from greenroom.control.client import call
from greenroom.control.errors import ControlError
from greenroom.control.protocol import socket_path

CALLS = 40
"""Connections that the kernel spreads over the workers: none is left out but by a wonder."""

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture
def running(data_dir: Path) -> Iterator[Crew]:
    """A server with two workers on an embedded Postgres."""
    with crew(data_dir, 2, GREENROOM_RATE_LIMIT_FACTOR="1000") as server:
        yield server


@pytest.fixture(scope="module")
def shared() -> Iterator[Crew]:
    """The same for tests that leave it as it is: three processes take seconds to start."""
    with (
        data_directory() as directory,
        crew(directory, 2, GREENROOM_RATE_LIMIT_FACTOR="1000") as server,
    ):
        yield server


def requests_by_node(server: Crew) -> dict[str, float]:
    """Return how many calls of the API each node has answered, as `/metrics` says."""
    api = Api(server.address, server.new_game("metrics"))
    text = api.call("GET", "/metrics").body.decode()
    counts: dict[str, float] = {}
    for labels, value in re.findall(
        r"^greenroom_http_requests_total{(.*)} (\S+)$", text, re.MULTILINE
    ):
        node = re.search(r'node="([^"]*)"', labels)
        assert node is not None, labels
        counts[node[1]] = counts.get(node[1], 0) + float(value)
    return counts


def try_to_register(api: Api) -> int:
    """Try to register a player; return the status."""
    body = {"player_name": "Bob"}
    return api.call("POST", "/api/game_players.php/register", body).status


def play(api: Api, calls: int = CALLS) -> None:
    """Register a player, and read their record over a new connection each time."""
    player_id, token = api.register()
    for number in range(calls):
        body = {"number": number}
        assert api.call("PUT", "/api/game_data.php/player/update", body, player=token).status == 200
        reply = api.call("GET", "/api/game_data.php/player/get", player=token)
        assert (reply.status, reply.json["player_id"]) == (200, player_id), reply
        assert reply.json["data"] == {"number": number}, (
            "a change that was acknowledged is not there"
        )


def wait_served(api: Api) -> None:
    """Wait until a game is served again: a change on its way to a dead owner is answered 500."""
    block_until(lambda: api.call("GET", "/api/game_data.php/game/get").status == 200)


def test_any_worker_serves_any_call(shared: Crew):
    games = [shared.new_game(f"game {number}") for number in range(6)]
    for game in games:
        play(Api(shared.address, game), 10)
    by_node = requests_by_node(shared)
    assert len(by_node) == 2
    assert min(by_node.values()) >= 10, by_node
    nodes = shared.nodes()
    assert sum(node.shards for node in nodes) == 1024
    assert all(node.shards > 300 for node in nodes), nodes


def test_each_worker_can_be_reached_by_itself(shared: Crew):
    game = shared.new_game()
    for node in shared.nodes():
        assert node.own_http is not None
        url = urlsplit(node.own_http)
        api = Api((url.hostname or "", url.port or 0), game)
        before = requests_by_node(shared).get(node.name, 0)
        play(api, 10)
        assert requests_by_node(shared)[node.name] >= before + 21, node


def test_a_killed_worker_is_started_again_and_its_siblings_go_on(running: Crew):
    games = [Api(running.address, running.new_game(f"game {number}")) for number in range(4)]
    killed = running.kill_worker(1)
    for api in games:
        wait_served(api)
        play(api, 10)
    block_until(lambda: killed not in running.pids() and len(running.pids()) == 2)
    running.wait_all_up()
    assert [node.restarts for node in running.workers()] == [1, 0]
    for api in games:
        play(api, 10)


def test_a_worker_that_dies_in_a_loop_rests_and_costs_nobody_anything(running: Crew):
    api = Api(running.address, running.new_game())
    _, token = api.register()
    room = {"room_name": "here", "max_players": 4}  # else the game would go back when it is empty
    made = api.call("POST", "/api/game_room.php/create", room, player=token)
    assert made.status == 200, made
    _, second = running.pids()
    running.kill_worker(1)
    # A change that was on its way to the killed one is answered 500: nobody knows what came of it.
    block_until(lambda: try_to_register(api) == 200)  # from here on the game lives at the second
    while not running.workers()[0].state.startswith("resting"):
        for pid in running.pids():
            if pid != second:
                with suppress(ProcessLookupError):  # it may have been killed just before
                    os.kill(pid, signal.SIGKILL)
        play(api, 2)
    assert running.pids() == [second]
    play(api)


def test_a_killed_parent_leaves_no_orphan_and_the_next_start_works(data_dir: Path):
    with crew(data_dir, 2) as server:
        game = server.new_game()
        _, token = Api(server.address, game).register()
        server.kill()
        server.start()
        reply = Api(server.address, game).call("GET", "/api/game_data.php/player/get", player=token)
        assert reply.status == 200, reply
        old, new = set(server.seen), set(server.pids())
        assert not old & new
        assert not any(is_alive(pid) for pid in old)


def test_a_server_is_ready_after_a_hard_stop_when_every_shard_is_served(
    data_dir: Path, postgres_server: PostgresProcess
):
    url = postgres_server.create_database("workers_hard_stop")
    with crew(data_dir, 2, "--database-url", url) as server:
        game = server.new_game()
        for pid in server.pids():
            os.kill(pid, signal.SIGSTOP)  # so that it does not stop in order
        stopped = server.pids()
        server.kill()
        for pid in stopped:
            os.kill(pid, signal.SIGKILL)
        server.start()
        assert sum(n.shards for n in server.nodes() if n.pid in server.pids()) == 1024
        api = Api(server.address, game)
        assert api.call("GET", "/readyz").status == 200
        assert try_to_register(api) == 200
        assert "is gone; took over" in server.log.read_text()


def test_a_restart_in_order_is_no_cause_for_a_warning(data_dir: Path):
    with crew(data_dir, 2) as server:
        assert server.stop() == 0
        server.start()
        os.kill(server.pids()[0], signal.SIGTERM)
        server.wait_logged("worker 1 has ended, as it was told")
        block_until(lambda: server.workers()[0].restarts == 1)
        server.wait_all_up()
        lines = [
            json.loads(line) for line in server.log.read_text().splitlines() if line[:1] == "{"
        ]
        assert [line for line in lines if line["level"] not in {"info", "debug"}] == []
        assert any(", which has ended" in line["message"] for line in lines)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_storm_of_signals_stops_everything_in_order(data_dir: Path, number: signal.Signals):
    with crew(data_dir, 2) as server:
        for pid in (*server.pids(), server.pid, *server.pids()):
            os.kill(pid, number)
        assert server.stop(number) == 0, server.log.read_text()
        assert "Traceback" not in server.log.read_text()


def test_a_hangup_has_each_worker_read_its_certificate(shared: Crew):
    os.kill(shared.pid, signal.SIGHUP)
    shared.wait_logged("nothing to reload")
    block_until(lambda: shared.log.read_text().count("nothing to reload") == 2)


def test_ports_that_are_taken_or_collide_are_told_in_one_sentence(data_dir: Path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        others = ["--realtime-port", "0", "--udp-port", "0"]
        done = command("serve", "--workers", "2", "--port", port, *others, data_dir=data_dir)
    assert_one_sentence(done, f"cannot listen on TCP port {port} of 127.0.0.1: another program")
    ports = ["--port", "20082", "--realtime-port", "20081"]
    done = command("serve", "--workers", "2", *ports, data_dir=data_dir)
    assert_one_sentence(done, "2 workers take the realtime ports 20081 to 20082, and port is 20082")


@pytest.mark.usefixtures("cold_starts")
def test_no_secret_is_in_any_command_line_or_log(data_dir: Path, postgres_server: PostgresProcess):
    url = postgres_server.create_database("workers_secrets")
    secret = "metrics-token-that-nobody-may-see"
    with crew(data_dir, 2, GREENROOM_DATABASE_URL=url, GREENROOM_METRICS_TOKEN=secret) as server:
        for pid in (server.pid, *server.pids()):
            line = Path(f"/proc/{pid}/cmdline").read_text()
            assert secret not in line
            assert "dbname" not in line
            assert "postgresql" not in line
        assert secret not in server.log.read_text()
        shown = command("config", "show", "--json", data_dir=data_dir).json
        assert (shown["workers"], shown["metrics_token"]) == (2, "***")


def test_each_line_of_a_worker_names_its_node(shared: Crew):
    text = shared.log.read_text()
    lines = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    nodes = {line["node"] for line in lines if "node" in line}
    host = socket.gethostname()
    assert nodes == {f"{host}-1", f"{host}-2"}


def test_commands_find_what_they_name_at_whatever_node(shared: Crew):
    games = [shared.new_game(f"game {number}") for number in range(4)]
    for game in games:
        api = Api(shared.address, game)
        player_id, token = api.register()
        created = api.call("POST", "/api/game_room.php/create", {"room_name": "here"}, player=token)
        assert created.status == 200, created
        room_id = created.json["room_id"]
        shown = command("room", "show", room_id, "--json", data_dir=shared.data_dir)
        assert shown.json["game_id"] == game.game_id
        banned = command("player", "ban", str(player_id), "--json", data_dir=shared.data_dir)
        assert banned.json["player_id"] == player_id, banned.err
        assert api.call("GET", "/api/game_data.php/player/get", player=token).status == 403
        listed = command("player", "list", str(game.game_id), "--json", data_dir=shared.data_dir)
        assert [one["player_id"] for one in listed.json["players"]] == [player_id]
    rooms = command("room", "list", "--json", data_dir=shared.data_dir).json
    assert len(rooms["rooms"]) == rooms["total"]
    games_listed = command("game", "list", "--json", data_dir=shared.data_dir).json["games"]
    assert [game["name"] for game in games_listed].count("first-game") == 1
    acts = command("audit", "--json", data_dir=shared.data_dir).json["acts"]
    assert [act["action"] for act in acts].count("player.ban") == 4


def test_the_tree_has_every_worker_and_what_is_below_it(shared: Crew):
    drawn = command("tree", data_dir=shared.data_dir).out
    assert drawn.count("worker ") == 2
    assert drawn.count("storage") == 2
    assert "postgres" in drawn


def test_the_cluster_is_shown_drained_and_moved_by_the_command_line(running: Crew):
    shown = command("cluster", "status", "--json", data_dir=running.data_dir).json
    first, second = shown["nodes"]
    wanted = {"node", "name", "pid", "host", "state", "shards", "rooms", "players", "http"}
    assert wanted <= first.keys()
    assert first["http"] == running.ready["http"]
    game = running.new_game()
    api = Api(running.address, game)
    play(api, 3)
    done = command("cluster", "drain", str(first["node"]), "--json", data_dir=running.data_dir)
    assert done.json == {"node": first["node"], "shards": 0}, done.err
    after = {node.node: node for node in running.nodes()}
    assert (after[first["node"]].shards, after[second["node"]].shards) == (0, 1024)
    assert after[first["node"]].state == "draining"
    for number in range(4):  # each worker is asked by turns, that one too
        play(Api(running.address, running.new_game(f"game {number}")), 1)
    play(api)
    refused = command("cluster", "drain", str(second["node"]), data_dir=running.data_dir)
    assert_one_sentence(refused, "No other node could take the shards")
    unknown = command("cluster", "drain", "nobody", data_dir=running.data_dir)
    assert_one_sentence(unknown, "There is no node nobody")


def test_while_the_only_worker_that_is_not_drained_stops_no_call_fails(running: Crew):
    first, second = running.nodes()
    call(socket_path(running.data_dir), DrainNode(node=str(first.node)))
    block_until(lambda: running.nodes()[1].shards == SHARDS)
    url = urlsplit(first.own_http or "")
    api = Api((url.hostname or "", url.port or 0), running.new_game())
    players = [api.register()[1] for _ in range(8)]
    is_over = threading.Event()

    def change(token: str) -> int:
        for number in count(1):
            path = "/api/game_data.php/player/update"
            answer = api.call("PUT", path, {"number": number}, player=token)
            assert answer.status == 200, (answer, running.log.read_text())
            if is_over.is_set():
                return number
        raise AssertionError

    with ThreadPoolExecutor(len(players)) as pool:
        changing = [pool.submit(change, token) for token in players]
        os.kill(second.pid, signal.SIGTERM)
        try:
            block_until(lambda: second.node not in {node.node for node in running.nodes()})
        finally:
            is_over.set()
    for token, numbers in zip(players, changing, strict=True):
        kept = api.call("GET", "/api/game_data.php/player/get", player=token).json
        assert kept["data"] == {"number": numbers.result()}


def test_a_shard_is_moved_where_somebody_wants_it(running: Crew):
    first, second = running.nodes()
    game = running.new_game()
    api = Api(running.address, game)
    play(api, 3)
    for to in (first, second):
        for shard in range(0, 1024, 64):
            moved = command(
                "cluster", "move", str(shard), str(to.node), "--json", data_dir=running.data_dir
            )
            assert moved.json == {"shard": shard, "node": to.node}, moved.err
        play(api, 3)


def test_a_backup_is_made_beside_the_workers_and_a_restore_is_refused(shared: Crew):
    file = shared.data_dir / "backup.zip"
    assert command("backup", str(file), data_dir=shared.data_dir).status == 0
    refused = command("restore", str(file), "--force", data_dir=shared.data_dir)
    assert_one_sentence(refused, "A server runs on")


def test_a_killed_embedded_postgres_counts_once_as_a_restart_of_the_parents(running: Crew):
    pid = int((running.data_dir / "postgres" / "postmaster.pid").read_text().split()[0])
    api = Api(running.address, running.new_game("metrics"))
    os.kill(pid, signal.SIGKILL)
    line = re.compile(
        rf'^greenroom_restarts_total{{node="{re.escape(socket.gethostname())}",'
        r'service="greenroom/postgres"} (\S+)$',
        re.MULTILINE,
    )

    def counted() -> list[str]:
        return line.findall(api.call("GET", "/metrics").body.decode())

    def explain() -> str:
        postgres = running.data_dir / "postgres.log"
        return "\n".join([*counted(), running.log.read_text(), postgres.read_text()])

    block_until(lambda: counted() == ["1.0"], explain=explain)
    page = api.call("GET", "/metrics").body.decode()
    assert f'greenroom_log_lines_total{{level="warning",node="{socket.gethostname()}"}}' in page


def test_a_refusal_that_one_worker_meets_ends_the_readiness_of_all(
    data_dir: Path, database_url: str
):
    with (
        crew(data_dir, 2, "--database-url", database_url) as server,
        psycopg.connect(database_url, autocommit=True) as connection,
    ):
        game = server.new_game()
        player_id, _ = Api(server.address, game).register()
        urls = [urlsplit(node.own_http or "") for node in server.nodes()]
        workers = [Api((url.hostname or "", url.port or 0), game) for url in urls]

        def readiness() -> list[int]:
            return [worker.call("GET", "/readyz").status for worker in workers]

        block_until(lambda: readiness() == [200, 200])
        connection.execute("ALTER TABLE bans RENAME TO bans_away")
        with pytest.raises(ControlError, match="SQLSTATE 42P01"):
            call(socket_path(data_dir), ShowPlayer(player_id=player_id))
        block_until(lambda: readiness() == [503, 503])
        connection.execute("ALTER TABLE bans_away RENAME TO bans")
        block_until(lambda: readiness() == [200, 200])


def test_doctor_knows_workers(shared: Crew):
    done = command("doctor", "--json", data_dir=shared.data_dir, GREENROOM_WORKERS="2")
    checks = {check["name"]: check for check in done.json["checks"]}
    assert checks["server"]["status"] == "ok", checks
    assert "2 workers" in checks["server"]["text"]


def test_workers_of_two_servers_on_one_database_are_refused(
    data_dir: Path, postgres_server: PostgresProcess
):
    url = postgres_server.create_database("workers_twice")
    (data_dir / "one").mkdir()
    with crew(data_dir / "one", 2, "--database-url", url):
        ports = ["--port", "0", "--realtime-port", "0", "--udp-port", "0"]
        done = command(
            *("serve", "--workers", "2", "--database-url", url, *ports), data_dir=data_dir / "two"
        )
        assert_one_sentence(done, "served by the workers of another server")
        alone = command("serve", "--database-url", url, *ports, data_dir=data_dir / "three")
        assert_one_sentence(alone, "they are a cluster")
