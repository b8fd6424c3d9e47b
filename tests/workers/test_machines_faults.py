"""Machines of one cluster that die, or lose NATS or Postgres: the others go on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from certificate_kit import Authority
from machines_kit import Machine, Wire, running, wait_together, wire
from nats_key_kit import make_seed
from nats_kit import LARGE_ENOUGH, NatsProcess, make_cluster
from postgres_kit import PostgresProcess
from server_kit import Api, data_directory
from waiting import block_until

from greenroom.bus.nats_keys import NatsKey
from greenroom.control.admin.cluster_messages import BalanceShards
from greenroom.control.client import call
from greenroom.control.protocol import socket_path

SEED = make_seed(b"a seed that everybody may know..")

pytestmark = [pytest.mark.slow, pytest.mark.long, pytest.mark.timeout(300)]


class Players:
    """A player in each of some games, who may call any machine."""

    def __init__(self, maker: Machine, games: int = 6) -> None:
        self._games = [maker.new_game(f"game {number}") for number in range(games)]
        self._tokens = [Api(maker.address, game).register()[1] for game in self._games]
        self._number = 0

    def play(self, *machines: Machine) -> None:
        """Write and read a document of each player at each machine; wait until that is served."""
        for machine in machines:
            for game, token in zip(self._games, self._tokens, strict=True):
                self._play_one(Api(machine.address, game), token, machine)

    def _play_one(self, api: Api, token: str, machine: Machine) -> None:
        self._number += 1
        body = {"number": self._number}

        def is_written() -> bool:
            reply = api.call("PUT", "/api/game_data.php/player/update", body, player=token)
            assert reply.status in {200, 429, 500}, reply
            return reply.status == 200

        block_until(is_written, explain=machine.log.read_text)
        reply = api.call("GET", "/api/game_data.php/player/get", player=token)
        assert reply.json["data"] == body, reply


class Pair:
    """Two machines on a Postgres of their own; the second reaches NATS over a wire."""

    def __init__(self, machines: list[Machine], postgres: PostgresProcess) -> None:
        self.first, self.second = machines
        self.postgres = postgres
        self.players = Players(self.first)

    def ids(self) -> list[int]:
        return sorted(node.node for node in self.first.nodes())

    def wait_whole(self) -> None:
        """Wait until both serve, and have each its share of the shards, players included."""
        wait_together([self.first, self.second])
        block_until(lambda: all(node.shards for node in self.first.nodes()))
        call(socket_path(self.first.data_dir), BalanceShards())


@pytest.fixture(scope="module")
def nats() -> Iterator[NatsProcess]:
    with data_directory() as directory:
        server = NatsProcess(directory).start()
        try:
            yield server
        finally:
            server.stop()


@pytest.fixture(scope="module")
def cable(nats: NatsProcess) -> Iterator[Wire]:
    with wire(nats.port) as found:
        yield found


@pytest.fixture(scope="module")
def pair(nats: NatsProcess, cable: Wire) -> Iterator[Pair]:
    postgres = PostgresProcess.make()
    try:
        postgres.start()
        url = postgres.create_database("machines_faults")
        with data_directory() as directory:
            first = Machine(directory / "one", nats.url(), url)
            second = Machine(directory / "two", f"nats://127.0.0.1:{cable.port}", url)
            with running([first, second]) as machines:
                yield Pair(machines, postgres)
    finally:
        postgres.remove()


@pytest.fixture
def whole(pair: Pair) -> Pair:
    """The pair as it was before a test, with players at both machines."""
    pair.wait_whole()
    pair.players.play(pair.first, pair.second)
    return pair


def test_nats_is_killed_and_comes_again(whole: Pair, nats: NatsProcess) -> None:
    before = whole.ids()
    nats.stop()
    whole.first.wait_logged("has hung up")
    nats.start()
    whole.players.play(whole.first, whole.second)
    assert whole.ids() == before, "nobody was taken for dead"


def test_postgres_is_killed_and_comes_again(whole: Pair) -> None:
    before = whole.ids()
    whole.postgres.kill()
    whole.postgres.start()
    whole.players.play(whole.first, whole.second)
    assert whole.ids() == before, "nobody was taken for dead"


def test_a_machine_that_is_cut_off_from_nats_hands_over_through_postgres(
    whole: Pair, cable: Wire
) -> None:
    before = whole.ids()
    cable.cut()
    whole.players.play(whole.first)
    block_until(lambda: min(node.shards for node in whole.second.nodes()) == 0)
    cable.mend()
    whole.wait_whole()
    whole.players.play(whole.second)
    assert whole.ids() == before


def test_a_machine_whose_nats_falls_silent_leaves_it_and_comes_again(
    whole: Pair, cable: Wire
) -> None:
    offset = whole.second.log.stat().st_size
    cable.fall_silent()
    whole.second.wait_logged("does not answer any more", offset)
    cable.mend()
    whole.wait_whole()
    whole.players.play(whole.first, whole.second)


def test_a_killed_machine_is_taken_over_and_comes_again(whole: Pair) -> None:
    before = whole.second.own_node()
    whole.second.kill_all()
    whole.players.play(whole.first)
    block_until(lambda: before not in whole.ids())
    whole.second.start()
    whole.wait_whole()
    whole.players.play(whole.first, whole.second)


def test_three_nats_servers_with_tls_and_seeds_of_which_one_dies(
    postgres_server: PostgresProcess, data_dir: Path, tmp_path: Path
) -> None:
    authority = Authority(tmp_path)
    authority.issue()
    authority.write_root(tmp_path / "root.pem")
    seed = tmp_path / "seed"
    seed.write_text(SEED)
    seed.chmod(0o600)
    settings = (
        f'{LARGE_ENOUGH}tls {{ cert_file: "{authority.certificate}", '
        f'key_file: "{authority.key}" }}\n'
        f"authorization {{ users: [{{ nkey: {NatsKey(SEED).public} }}] }}\n"
    )
    servers = make_cluster(tmp_path, 3, settings)
    variables = {
        "GREENROOM_BUS_CA_FILE": str(tmp_path / "root.pem"),
        "GREENROOM_BUS_NKEY_FILE": str(seed),
    }
    url = postgres_server.create_database("machines_tls")
    try:
        for server in servers:
            server.start()
        bus = ",".join(server.url(scheme="tls") for server in servers)
        both = [Machine(data_dir / name, bus, url, 1, **variables) for name in ("one", "two")]
        with running(both) as machines:
            players = Players(machines[0])
            players.play(*machines)
            servers[0].stop()
            players.play(*machines)
            for machine in machines:
                assert SEED not in machine.log.read_text()
    finally:
        for server in servers:
            server.stop()
