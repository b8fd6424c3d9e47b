"""How many may connect to a port, in all and from one address."""

from __future__ import annotations

from greenroom.network.connection_counts import Occupancy
from greenroom.network.proxies import TrustedProxies


def occupancy(connections_max: int, per_address_max: int | None = None) -> Occupancy:
    return Occupancy(connections_max, per_address_max, TrustedProxies(["10.0.0.0/8"]))


def test_one_address_has_half_of_all_unless_told_otherwise():
    port = occupancy(5)
    for _ in range(3):
        assert port.has_room("203.0.113.1")
        port.enter("203.0.113.1")
    assert not port.has_room("203.0.113.1")
    assert port.has_room("203.0.113.2")


def test_an_ipv6_home_counts_as_one_address():
    port = occupancy(10, 1)
    port.enter("2001:db8::1")
    assert not port.has_room("2001:db8::2")
    assert port.has_room("2001:db8:0:1::1")


def test_a_proxy_has_all_places_but_no_more():
    port = occupancy(2, 1)
    port.enter("10.0.0.1")
    assert port.has_room("10.0.0.1")
    port.enter("10.0.0.1")
    assert not port.has_room("10.0.0.1")


def test_a_large_connection_counts_for_several_of_its_address_alone():
    port = occupancy(10, 5)
    for _ in range(2):
        port.enter("203.0.113.1")
    assert port.grow("203.0.113.1", 3)
    assert not port.has_room("203.0.113.1")
    assert not port.grow("203.0.113.1", 1)
    port.shrink("203.0.113.1", 3)
    assert port.has_room("203.0.113.1")
    assert port.connections == 2


def test_the_only_connection_of_an_address_and_a_proxys_may_be_large():
    port = occupancy(10, 2)
    for peer in ("203.0.113.1", "10.0.0.1", "10.0.0.1"):
        port.enter(peer)
    assert port.grow("203.0.113.1", 3)
    assert port.grow("10.0.0.1", 3)
    assert not port.has_room("203.0.113.1")


def test_whoever_leaves_makes_room():
    port = occupancy(1)
    port.enter("203.0.113.1")
    assert not port.has_room("203.0.113.2")
    port.leave("203.0.113.1")
    assert port.has_room("203.0.113.2")
    assert port.connections == 0


def test_a_relayed_connection_counts_for_its_client():
    port = occupancy(10, 1)
    port.enter("10.0.0.9")
    assert port.move("10.0.0.9", "203.0.113.1")
    assert port.has_room("10.0.0.9")
    assert not port.has_room("203.0.113.1")
    port.enter("10.0.0.9")
    assert not port.move("10.0.0.9", "203.0.113.1")
    port.leave("10.0.0.9")
    port.leave("203.0.113.1")
    assert port.connections == 0
    assert port.has_room("203.0.113.1")
