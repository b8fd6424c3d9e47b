"""Machines with networks of their own; one loses everything at once, and nobody is told."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from machines_kit import Machine, running, wait_together
from namespace_kit import OpenNats, OpenPostgres, RemoteMachine, namespaces
from nats_kit import free_ports
from server_kit import Api
from waiting import block_until

from greenroom.control.admin.cluster_messages import BalanceShards
from greenroom.control.client import call
from greenroom.control.protocol import socket_path

pytestmark = [pytest.mark.slow, pytest.mark.long, pytest.mark.timeout(300)]

GAP_SECONDS_MAX = 10.0
"""A lease of 3 s, and what a busy machine of two cores takes."""


class Player:
    """A player of a game, who writes until that is acknowledged, and reads it back."""

    def __init__(self, maker: Machine, name: str) -> None:
        self._game = maker.new_game(name)
        _, self._token = Api(maker.address, self._game).register()
        self._written = 0

    def play(self, machine: Machine) -> float:
        """Play at a machine; return the seconds until it was served."""
        began, api = time.monotonic(), Api(machine.address, self._game)
        self._written += 1
        body = {"number": self._written}

        def is_written() -> bool:
            reply = api.call("PUT", "/api/game_data.php/player/update", body, player=self._token)
            assert reply.status in {200, 429, 500}, reply
            return reply.status == 200

        block_until(is_written, explain=machine.log.read_text)
        reply = api.call("GET", "/api/game_data.php/player/get", player=self._token)
        assert reply.json["data"] == body, reply
        return time.monotonic() - began


def test_a_machine_whose_cable_is_pulled_is_taken_over_and_comes_again(
    data_dir: Path, tmp_path: Path
) -> None:
    with namespaces(2) as nets:
        postgres = OpenPostgres.make()
        assert isinstance(postgres, OpenPostgres)
        (port,) = free_ports(1)
        nats = OpenNats(tmp_path)
        try:
            postgres.open(port)
            postgres.create_database("machines")
            nats.start()
            urls = [f"postgresql://greenroom@{net.here}:{port}/machines" for net in nets]
            machines = [
                RemoteMachine(data_dir / net.name, net, nats.port, url, 2)
                for net, url in zip(nets, urls, strict=True)
            ]
            with running(machines) as (first, second):
                players = [Player(first, f"game {number}") for number in range(6)]
                for player in players:
                    player.play(first)
                    player.play(second)
                lost = {node.node for node in second.nodes() if node.pid in second.pids()}
                nets[1].pull()
                assert sum(player.play(first) for player in players) < GAP_SECONDS_MAX
                block_until(lambda: not lost & {node.node for node in first.nodes()})
                nets[1].plug_in()
                wait_together(machines)
                assert not lost & {node.node for node in second.nodes()}, "they begin anew"
                call(socket_path(first.data_dir), BalanceShards())
                for player in players:
                    player.play(second)
                    player.play(first)
        finally:
            nats.stop()
            postgres.remove()
