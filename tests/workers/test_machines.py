"""Machines that are one cluster over a real NATS server: any answers, and any may go."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from command_kit import assert_one_sentence, command
from machines_kit import Machine, running, wait_together
from nats_kit import LARGE_ENOUGH, NatsProcess
from postgres_kit import PostgresProcess
from realtime_kit import dial
from server_kit import Api, Game, data_directory
from waiting import block_until

PASSWORD = "a-password-that-nobody-may-see"
USERS = f'{LARGE_ENOUGH}authorization {{ users: [{{ user: "me", password: "{PASSWORD}" }}] }}\n'

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def machines(postgres_server: PostgresProcess) -> Iterator[list[Machine]]:
    """Two machines; the second has two workers."""
    url = postgres_server.create_database("machines")
    with data_directory() as directory:
        nats = NatsProcess(directory, USERS).start()
        bus = nats.url(f"me:{PASSWORD}@")
        try:
            first = Machine(directory / "one", bus, url)
            second = Machine(directory / "two", bus, url, 2)
            first.is_cold = second.is_cold = True  # a fork has no command line of its own
            with running([first, second]) as found:
                yield found
        finally:
            nats.stop()


def new_games(machines: list[Machine], count: int = 4) -> list[Game]:
    """Make games at all machines by turns."""
    makers = itertools.islice(itertools.cycle(machines), count)
    return [machine.new_game(f"game {number}") for number, machine in enumerate(makers)]


def test_any_machine_answers_any_call(machines: list[Machine]) -> None:
    for game in new_games(machines, 6):
        apis = [Api(machine.address, game) for machine in machines]
        player_id, token = apis[0].register()
        for number, api in enumerate([*apis, *apis]):
            body = {"number": number}
            changed = api.call("PUT", "/api/game_data.php/player/update", body, player=token)
            assert changed.status == 200, changed
            for reader in apis:
                reply = reader.call("GET", "/api/game_data.php/player/get", player=token)
                assert (reply.status, reply.json["player_id"]) == (200, player_id), reply
                assert reply.json["data"] == body


def test_one_first_game_is_made_by_all_machines(machines: list[Machine]) -> None:
    listed = command("game", "list", "--json", data_dir=machines[1].data_dir).json["games"]
    assert [game["name"] for game in listed].count("first-game") == 1


def test_all_nodes_are_shown_at_each_machine_with_their_addresses(machines: list[Machine]) -> None:
    block_until(lambda: all(node.shards > 200 for node in machines[0].nodes()))
    for machine in machines:
        shown = command("cluster", "status", "--json", data_dir=machine.data_dir).json
        assert len(shown["nodes"]) == 3
        assert {node["http"] for node in shown["nodes"]} == {m.ready["http"] for m in machines}
        assert sum(node["shards"] for node in shown["nodes"]) == 1024
        assert all(node["rooms"] is not None for node in shown["nodes"])


async def test_a_token_names_the_machine_of_its_room_and_others_relay(
    machines: list[Machine],
) -> None:
    named = set()
    for number, game in enumerate(new_games(machines, 8)):
        api = Api(machines[number % 2].address, game)  # where they register is where they live
        _, token = api.register()
        room = {"room_name": "here", "realtime": True}
        assert api.call("POST", "/api/game_room.php/create", room, player=token).status == 200
        minted = api.call("POST", "/api/realtime.php/token", player=token)
        assert minted.status == 200, minted
        port = minted.json["realtime_server"]["port"]
        named.add(port)
        wrong = [
            m.ready["realtime"] for m in machines if urlsplit(m.ready["realtime"]).port != port
        ]
        for url in (f"ws://127.0.0.1:{port}", *wrong):
            async with dial(url, minted.json["token"]) as client:
                await client.expect("connected")
    assert len(named) >= 2, "rooms are at several machines"


def test_commands_and_metrics_reach_all_machines(machines: list[Machine]) -> None:
    for game in new_games(machines):
        player_id, token = Api(machines[0].address, game).register()
        for machine in machines:
            api = Api(machine.address, game)
            shown = command("player", "show", str(player_id), "--json", data_dir=machine.data_dir)
            assert shown.json["player_id"] == player_id, shown.err
            banned = command("player", "ban", str(player_id), data_dir=machine.data_dir)
            assert banned.status == 0, banned.err
            assert api.call("GET", "/api/game_data.php/player/get", player=token).status == 403
            assert command("player", "unban", str(player_id), data_dir=machine.data_dir).status == 0
    for machine in machines:
        text = Api(machine.address, new_games(machines, 1)[0]).call("GET", "/metrics").body.decode()
        nodes = {line.partition('node="')[2].partition('"')[0] for line in text.splitlines()}
        told = len(nodes - {""})
        assert told == machine.count + 1, "a machine's metrics are its workers' and their parent's"
        assert command("tree", data_dir=machine.data_dir).out.count("worker ") == machine.count


def test_shards_move_between_machines_by_the_command_line(machines: list[Machine]) -> None:
    first, second = machines
    target = first.own_node()
    for shard in (1, 500, 1000):
        moved = command(
            "cluster", "move", str(shard), str(target), "--json", data_dir=second.data_dir
        )
        assert moved.json == {"shard": shard, "node": target}, moved.err


def test_backups_are_made_beside_the_cluster_and_a_restore_is_refused(
    machines: list[Machine],
) -> None:
    file = machines[0].data_dir.parent / "backup.zip"
    for machine in machines:
        assert command("backup", str(file), "--force", data_dir=machine.data_dir).status == 0
        refused = command("restore", str(file), "--force", data_dir=machine.data_dir)
        assert_one_sentence(refused, "A server runs on")
    variables = {"GREENROOM_DATABASE_URL": machines[0]._environment["GREENROOM_DATABASE_URL"]}
    elsewhere = machines[0].data_dir.parent / "third"
    refused = command("restore", str(file), "--force", data_dir=elsewhere, **variables)
    assert_one_sentence(refused, "A server is at work on the database", "stop it, then restore")


def test_no_password_is_in_any_command_line_log_or_answer(machines: list[Machine]) -> None:
    for machine in machines:
        for pid in (machine.pid, *machine.pids()):
            assert PASSWORD not in Path(f"/proc/{pid}/cmdline").read_text()
        assert PASSWORD not in machine.log.read_text()
        shown = command("config", "show", "--json", data_dir=machine.data_dir)
        assert PASSWORD not in shown.out
        assert "nats://***@127.0.0.1" in shown.json["bus"]


def test_a_machine_that_is_told_to_stop_hands_over_first_and_nobody_notices(
    machines: list[Machine],
) -> None:
    first, second = machines
    apis = [Api(second.address, game) for game in new_games(machines, 6)]
    tokens = [api.register()[1] for api in apis]
    statuses: list[int] = []
    is_over = threading.Event()

    def play() -> None:
        for number in itertools.count():
            for api, token in zip(apis, tokens, strict=True):
                body = {"number": number}
                reply = api.call("PUT", "/api/game_data.php/player/update", body, player=token)
                statuses.append(reply.status)
            if is_over.is_set():
                return

    playing = threading.Thread(target=play)
    playing.start()
    try:
        block_until(lambda: len(statuses) > 20)
        assert first.stop() == 0, first.log.read_text()
        block_until(lambda: second.sees(2))
        assert "0 shards are left" in first.log.read_text()
        before = len(statuses)
        block_until(lambda: len(statuses) > before + 20)
    finally:
        is_over.set()
        playing.join()
    assert set(statuses) == {200}
    first.start()
    first.pids()
    wait_together(machines)
