"""Durable effects of a behaviour, carried out or failed."""

from __future__ import annotations

import pytest
from room_kit import GUEST, HOST, NOW, THIRD, RoomKit

from greenroom.actors.room.rules.events import (
    ActionProcessed,
    BehaviourChanged,
    HostChanged,
    MemberLeft,
    OrderDone,
    RoomEnded,
    RoomEvent,
    UpdatesSent,
)
from greenroom.actors.studio_room import outbox as orders
from greenroom.behaviour.effects import (
    Deliver,
    FinishAction,
    Kick,
    RoomOrder,
    SetHost,
    Stop,
    UpdatePlayer,
)

SILENT, STRANGER = 4, 77


@pytest.fixture
def kit() -> RoomKit:
    """The host, two online, one offline."""
    kit = RoomKit()
    kit.join(GUEST, THIRD, SILENT)
    kit.silence(SILENT)
    return kit


def order(kit: RoomKit, *wanted: RoomOrder) -> None:
    kit.take([BehaviourChanged(None, wanted, NOW)])


def carry_out(kit: RoomKit) -> list[RoomEvent]:
    """Carry out the next order; return what came of it besides that it is done."""
    number = orders.next_here(kit.room)
    assert number is not None
    done, *events = kit.take(orders.decide(kit.room, number, kit.limits, kit.now))
    assert done == OrderDone(number, kit.now)
    assert number not in kit.room.orders
    return events


@pytest.mark.parametrize(
    ("wanted", "events"),
    [
        (Kick(GUEST), [MemberLeft(GUEST, "kicked", NOW)]),
        (SetHost(GUEST), [HostChanged(GUEST, NOW)]),
        (Stop(), [RoomEnded("stopped", NOW)]),
        (Kick(STRANGER), []),
        (SetHost(STRANGER), []),
        (SetHost(HOST), []),
        (FinishAction("0" * 32, True, None), []),
        (Deliver("news", b"1", (STRANGER, SILENT)), []),
    ],
)
def test_what_is_ordered_happens_and_what_has_gone_comes_to_nothing(
    kit: RoomKit, wanted: RoomOrder, events: list[RoomEvent]
):
    order(kit, wanted)
    assert carry_out(kit) == events


@pytest.mark.parametrize(("is_completed", "status"), [(True, "completed"), (False, "failed")])
def test_an_action_that_waits_is_settled(kit: RoomKit, is_completed: bool, status: str):
    (action_id,) = kit.act(GUEST).ids
    order(kit, FinishAction(action_id, is_completed, b"{}"))
    (event,) = carry_out(kit)
    assert isinstance(event, ActionProcessed)
    assert (event.action_id, event.status) == (action_id, status)


def test_a_message_is_stored_for_those_who_are_online_as_from_the_host(kit: RoomKit):
    order(kit, Deliver("news", b'{"a":1}', (GUEST, SILENT, STRANGER)))
    (event,) = carry_out(kit)
    assert isinstance(event, UpdatesSent)
    assert event.player_id == HOST
    assert [delivery.target_id for delivery in event.deliveries] == [GUEST]


def test_orders_are_carried_out_in_their_order_but_results_wait_for_others(kit: RoomKit):
    order(kit, UpdatePlayer(GUEST, {"won": b"1"}), SetHost(GUEST), Kick(HOST))
    assert [carry_out(kit), carry_out(kit)] == [
        [HostChanged(GUEST, NOW)],
        [MemberLeft(HOST, "kicked", NOW)],
    ]
    assert orders.next_here(kit.room) is None
    assert list(kit.room.orders.values()) == [UpdatePlayer(GUEST, {"won": b"1"})]


def test_orders_and_what_is_kept_come_together_or_alone(kit: RoomKit):
    kit.take([BehaviourChanged(b"1", (), NOW)])
    order(kit, Stop())
    assert kit.room.kept == b"1"
    assert orders.next_here(kit.room) == 1


def test_after_the_end_only_results_are_left(kit: RoomKit):
    order(kit, UpdatePlayer(GUEST, {"won": b"1"}), Stop(), Kick(GUEST))
    carry_out(kit)
    assert orders.next_here(kit.room) is None
    assert orders.decide(kit.room, 1, kit.limits, NOW) == (OrderDone(1, NOW),)
