"""The checks of a node before it joins those that are there."""

from __future__ import annotations

import logging
from typing import Any, cast

import msgspec
import pytest
import trio
import trio.testing

from greenroom.bus.bus import NobodyThere, TooSlow
from greenroom.cluster.messenger import Messenger
from greenroom.cluster.probes import Probe
from greenroom.join_check import (
    SILENT_SECONDS_MAX,
    STARTING_SECONDS_MAX,
    Neighbours,
    StrangersThere,
)
from greenroom.persistence.errors import StorageFenced
from greenroom.persistence.nodes.identity import NodeIdentity
from greenroom.persistence.nodes.records import NodeRow

Clock = trio.testing.MockClock

ME = NodeIdentity(
    name="me",
    host="here",
    pid=1,
    version="1.0",
    protocol=5,
    addresses={"bus": "nats", "parent": "mine", "host": "10.0.0.1"},
)
OTHER = NodeRow(
    node_id=3,
    name="other",
    host="there",
    pid=2,
    version="1.0",
    protocol=5,
    is_alone=False,
    addresses={"bus": "nats", "parent": "theirs", "host": "10.0.0.2"},
    behaviours="",
    state="up",
    load=0.0,
    is_on_bus=True,
    lease_seconds=2.0,
    has_ended=False,
    has_lock=True,
    started_at=0,
)


def changed(row: NodeRow, **fields: Any) -> NodeRow:
    """Return a neighbour that differs; addresses are added to those it has."""
    addresses: dict[str, str] = row.addresses | fields.pop("addresses", {})
    return msgspec.structs.replace(row, addresses=addresses, **fields)


class Board:
    """The way to the neighbours: each ask fails as told, or is answered."""

    def __init__(self, fails: type[Exception] | None = None) -> None:
        self.fails = fails
        self.asked: list[int] = []

    async def ask(self, node_id: int, message: object, *, seconds_max: float) -> object:
        self.asked.append(node_id)
        assert isinstance(message, Probe)
        assert seconds_max > 0
        if self.fails is not None:
            raise self.fails
        return None


async def join(
    *rows: NodeRow,
    me: NodeIdentity = ME,
    board: Board | None = None,
    lease_seconds_max: float = 1.0,
) -> list[int]:
    """Join beside these nodes as the seventh; return who was asked.

    The lease is found to have run out when it was not renewed for `lease_seconds_max`.
    """
    board = board or Board()
    renewed_at = trio.current_time()

    async def read() -> tuple[NodeRow, ...]:
        return rows

    async def renew() -> bool:
        nonlocal renewed_at
        is_good = trio.current_time() - renewed_at <= lease_seconds_max
        renewed_at = trio.current_time()
        return is_good

    await Neighbours(7, me, read, renew, cast("Messenger", board)).run()
    return board.asked


async def test_all_that_came_before_are_asked_once() -> None:
    later = changed(OTHER, node_id=9)
    assert await join(OTHER, changed(OTHER, node_id=4), later) == [3, 4]


@pytest.mark.parametrize(
    "gone", [{"has_ended": True}, {"has_lock": False}, {"lease_seconds": -0.1}]
)
async def test_who_is_gone_is_not_asked(gone: dict[str, Any]) -> None:
    assert await join(changed(OTHER, **gone)) == []


async def test_workers_of_one_machine_are_not_asked() -> None:
    me = NodeIdentity(name="me", host="here", pid=1, protocol=5, addresses={"parent": "mine"})
    sibling = msgspec.structs.replace(OTHER, addresses={"parent": "mine"})
    assert await join(sibling, me=me) == []


@pytest.mark.parametrize(
    ("differs", "says"),
    [
        ({"addresses": {"bus": "unix"}}, "on no bus with other machines"),
        ({"protocol": 6, "version": "2.0"}, "of version 2.0, which does not understand"),
        ({"addresses": {"host": "127.0.0.1"}}, "reach node other .* at 127.0.0.1"),
        ({"addresses": {"host": "::1"}}, "reach node other .* at ::1"),
    ],
)
async def test_who_cannot_be_a_neighbour_is_refused(differs: dict[str, Any], says: str) -> None:
    with pytest.raises(StrangersThere, match=says):
        await join(changed(OTHER, **differs))


async def test_an_address_that_leads_to_itself_does_no_harm_on_the_same_machine() -> None:
    assert await join(changed(OTHER, host="here", addresses={"host": "127.0.0.1"})) == [3]


@pytest.mark.parametrize(
    ("bus", "says"), [("nats", "a cluster of machines"), ("unix", "the workers of another server")]
)
async def test_a_server_without_a_bus_joins_nobody(bus: str, says: str) -> None:
    me = NodeIdentity(name="me", host="here", pid=1, protocol=5, addresses={"bus": "unix"})
    with pytest.raises(StrangersThere, match=says):
        await join(changed(OTHER, addresses={"bus": bus}), me=me)


async def test_who_is_on_another_bus_is_refused_after_a_while(autojump_clock: Clock) -> None:
    with pytest.raises(StrangersThere, match="is on another bus"):
        await join(OTHER, board=Board(NobodyThere))
    assert SILENT_SECONDS_MAX <= trio.current_time() < STARTING_SECONDS_MAX


async def test_who_was_taken_over_meanwhile_does_not_join(autojump_clock: Clock) -> None:
    with pytest.raises(StorageFenced):
        await join(OTHER, board=Board(NobodyThere), lease_seconds_max=0.1)


async def test_a_neighbour_that_is_slow_is_not_taken_for_one_on_another_bus(
    autojump_clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    class Slow(Board):
        async def ask(self, node_id: int, message: object, *, seconds_max: float) -> object:
            # It is heard of again before it has been silent for too long, over and over.
            self.fails = TooSlow if trio.current_time() % 4.0 >= 3.0 else NobodyThere
            return await super().ask(node_id, message, seconds_max=seconds_max)

    await join(OTHER, board=Slow())
    assert trio.current_time() >= STARTING_SECONDS_MAX
    assert "joining without an answer of node other on host there (pid 2)" in caplog.text


async def test_what_differs_is_told_once(
    autojump_clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    differs = changed(OTHER, behaviours="x", addresses={"certificate": "y"}, is_on_bus=False)
    with caplog.at_level(logging.WARNING):
        await join(differs, board=Board(NobodyThere))
    assert caplog.text.count("has other behaviours than this node") == 1
    assert caplog.text.count("shows another TLS certificate") == 1
