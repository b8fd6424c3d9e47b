"""The ports of a server with workers: which they are, what collides, and the sockets."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest

from greenroom.config import ConfigError, Settings
from greenroom.network.sockets import ListenError, port_of
from greenroom.workers.ports import Ports, open_given, plan_ports


def settings(**changed: Any) -> Settings:
    return Settings(data_dir=Path("/nowhere"), **changed)


def test_each_worker_has_ports_of_its_own_for_realtime_and_udp():
    plan = plan_ports(settings(), 3)
    assert plan.http == 8080
    assert plan.realtime == (8081, 8082, 8083)
    assert plan.udp == (8082, 8083, 8084)  # UDP, so they are other ports than realtime's
    assert plan.shared_realtime is None


def test_behind_a_proxy_that_knows_one_port_all_share_one_and_have_their_own_behind_it():
    plan = plan_ports(settings(public_realtime_port=443), 2)
    assert plan.shared_realtime == 8081
    assert plan.realtime == (8082, 8083)


def test_one_process_alone_has_the_ports_of_the_settings():
    plan = plan_ports(settings(public_realtime_port=443), 1)
    assert (plan.realtime, plan.shared_realtime, plan.udp) == ((8081,), None, (8082,))


def test_port_0_takes_free_ones():
    plan = plan_ports(settings(port=0, realtime_port=0, udp_port=0, public_realtime_port=443), 2)
    assert (plan.http, plan.realtime, plan.shared_realtime, plan.udp) == (0, (0, 0), 0, (0, 0))


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"port": 8084}, "4 workers take the realtime ports 8081 to 8084, and port is 8084"),
        ({"port": 8083}, "4 workers take the realtime ports 8081 to 8084, and port is 8083"),
        (
            {"port": 8085, "public_realtime_port": 443},
            "4 workers take the realtime ports 8081 to 8085, and port is 8085",
        ),
        ({"realtime_port": 65533}, "realtime_port is 65533, and 4 workers need as many ports"),
        ({"udp_port": 65533}, "udp_port is 65533, and 4 workers need as many ports"),
        ({"public_udp_port": 65533}, "public_udp_port is 65533, and 4 workers need as many ports"),
    ],
)
def test_ports_that_collide_are_one_clear_sentence(changed: dict[str, Any], text: str):
    with pytest.raises(ConfigError, match=text):
        plan_ports(settings(**changed), 4)


FREE = {"port": 0, "realtime_port": 0, "udp_port": 0}


async def test_all_workers_share_the_api_port_and_have_one_for_this_machine():
    with Ports() as ports:
        await ports.open(settings(**FREE), 3)
        assert len({port_of(bound) for bound in ports.http.values()}) == 1
        assert len({port_of(bound[-1:]) for bound in ports.http.values()}) == 3  # on this machine
        assert {bound[-1].getsockname()[0] for bound in ports.http.values()} == {"127.0.0.1"}
        assert len({port_of(bound) for bound in ports.realtime.values()}) == 3
        assert len({port_of(bound) for bound in ports.udp.values()}) == 3
        assert ports.choose_realtime_port(settings(**FREE)) == port_of(ports.realtime[1])


async def test_a_shared_realtime_port_is_told_and_each_can_be_reached_alone():
    behind = settings(**FREE, public_realtime_port=443)
    with Ports() as ports:
        await ports.open(behind, 2)
        shared = ports.choose_realtime_port(behind)
        for bound in ports.realtime.values():
            assert [one.getsockname()[1] == shared for one in bound] == [False, True]


@pytest.mark.parametrize("taken", ["port", "realtime_port", "udp_port"])
@pytest.mark.parametrize("shared", [False, True])
async def test_a_taken_port_is_one_clear_sentence(taken: str, shared: bool):
    kind = socket.SOCK_DGRAM if taken == "udp_port" else socket.SOCK_STREAM
    with socket.socket(socket.AF_INET, kind) as other, Ports() as ports:
        if shared:  # another server with workers on the same port
            other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        other.bind(("127.0.0.1", 0))
        if kind == socket.SOCK_STREAM:
            other.listen()
        number = port_of([other])
        with pytest.raises(ListenError, match=f"port {number} of 127.0.0.1: another program"):
            await ports.open(settings(**FREE | {taken: number}), 2)


async def test_a_worker_uses_what_it_inherits_and_closes_its_copies_alone():
    with Ports() as ports:
        await ports.open(settings(**FREE), 2)
        given = ports.get_given_sockets(2)
        copies = type(given)(
            http={k: [socket.fromfd(d, 2, 1).detach() for d in v] for k, v in given.http.items()},
            realtime={
                k: [socket.fromfd(d, 2, 1).detach() for d in v] for k, v in given.realtime.items()
            },
            udp=[socket.fromfd(d, 2, 2).detach() for d in given.udp],
        )
        with open_given(copies, 2) as mine:
            assert await mine.http.open() == ports.http_port
            assert await mine.realtime.open() == port_of(ports.realtime[2])
            assert port_of(mine.udp) == port_of(ports.udp[2])
        with socket.create_connection(("127.0.0.1", ports.http_port)):
            pass
