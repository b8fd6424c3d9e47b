"""The life of an action: asked, answered, told; and what becomes of it when somebody leaves."""

from __future__ import annotations

from unittest.mock import patch

import pytest
from room_kit import GUEST, HOST, NOW, THIRD, RoomKit

from greenroom.actors.room.messages import ActionResult, PendingAction, RequestAction, Sent
from greenroom.actors.room.rules import actions, refusals, views


@pytest.fixture
def kit() -> RoomKit:
    kit = RoomKit()
    kit.join(GUEST, THIRD)
    return kit


def test_a_target_sees_what_they_are_asked_and_by_whom(kit: RoomKit):
    sent = kit.act(GUEST, "host", request_data=b'{"x":1}')

    assert sent.target_ids == (HOST,)
    assert actions.list_pending(kit.room, HOST) == (
        PendingAction(
            action_id=sent.ids[0],
            player_id=GUEST,
            player_name="Player 2",
            is_host=False,
            target_id=HOST,
            action_type="place",
            request_data=b'{"x":1}',
            created_at=NOW,
        ),
    )
    assert actions.list_pending(kit.room, GUEST) == ()
    assert actions.list_results(kit.room, GUEST, NOW) == ()


def test_large_ones_are_shown_as_far_as_others_can_wait_and_the_first_always(kit: RoomKit):
    sent = [kit.act(GUEST, "host", request_data=b"x" * 400_000) for _ in range(3)]
    kit.tell(GUEST, "host", data=b"y" * 300_000)
    kit.tell(GUEST, "host", data=b"z")

    assert [a.action_id for a in actions.list_pending(kit.room, HOST)] == [
        s.ids[0] for s in sent[:2]
    ]
    status = views.view_status(kit.room, HOST)
    assert status is not None
    assert len(status.pending_actions) == 2
    assert status.pending_updates == (), "the first would be too much beside the actions"
    for each in sent:
        kit.complete(HOST, each.ids[0], "completed", b"r" * 600_000)
    assert [r.action_id for r in actions.list_results(kit.room, GUEST, NOW)] == [sent[2].ids[0]]
    status = views.view_status(kit.room, HOST)
    assert status is not None
    assert [update.data[:1] for update in status.pending_updates] == [b"y", b"z"]


def test_a_sender_sees_what_came_of_it_again_and_again(kit: RoomKit):
    sent = kit.act(GUEST, "host")
    kit.now += 5
    kit.complete(HOST, sent.ids[0], "failed", b'{"why":"no"}')

    expected = ActionResult(
        action_id=sent.ids[0],
        action_type="place",
        status="failed",
        response_data=b'{"why":"no"}',
        target_id=HOST,
        is_host=True,
        processed_at=NOW + 5,
    )
    assert actions.list_results(kit.room, GUEST, kit.now) == (expected,)
    assert actions.list_results(kit.room, GUEST, kit.now) == (expected,)
    assert actions.list_results(kit.room, HOST, kit.now) == ()
    assert actions.list_pending(kit.room, HOST) == ()


def test_each_target_has_an_action_of_their_own(kit: RoomKit):
    sent = kit.act(HOST, "all")

    assert sent.target_ids == (HOST, GUEST, THIRD)
    assert len({*sent.ids}) == 3
    assert all(len(i) == 32 and i == i.lower() for i in sent.ids)
    for player_id, action_id in zip(sent.target_ids, sent.ids, strict=True):
        assert [a.action_id for a in actions.list_pending(kit.room, player_id)] == [action_id]
        kit.complete(player_id, action_id)
    assert [r.target_id for r in actions.list_results(kit.room, HOST, NOW)] == [THIRD, GUEST, HOST]
    assert [r.is_host for r in actions.list_results(kit.room, HOST, NOW)] == [False, False, True]
    assert all(r.response_data is None for r in actions.list_results(kit.room, HOST, NOW))


def test_nobody_to_ask_is_a_success_with_none():
    kit = RoomKit()
    assert kit.act(HOST, "others") == Sent((), ())
    assert len(kit.entries) == 1


def test_who_asks_over_the_channel_is_told_that_nobody_is_there_to_ask(kit: RoomKit):
    kit.room.members[HOST].offline_since = NOW
    request = RequestAction(
        player_id=GUEST,
        request_id="a1",
        target_id=None,
        action_type="place",
        request_data=b"{}",
        seed=bytes(16),
    )
    command = actions.read_request(kit.room, request)
    with pytest.raises(refusals.NoValidTargets):
        actions.decide_send(kit.room, command, NOW)


def test_only_its_target_completes_an_action_and_only_once(kit: RoomKit):
    action_id = kit.act(GUEST, "host").ids[0]

    for player_id, wanted in ((GUEST, action_id), (THIRD, action_id), (HOST, "0" * 32)):
        with pytest.raises(refusals.ActionNotFound):
            kit.complete(player_id, wanted)
    kit.complete(HOST, action_id)
    with pytest.raises(refusals.ActionNotFound):
        kit.complete(HOST, action_id)


def test_at_most_fifty_are_shown_oldest_pending_and_newest_results_first(kit: RoomKit):
    ids = [kit.act(GUEST, "host").ids[0] for _ in range(60)]

    assert [a.action_id for a in actions.list_pending(kit.room, HOST)] == ids[:50]
    for action_id in ids:
        kit.complete(HOST, action_id)
    assert [r.action_id for r in actions.list_results(kit.room, GUEST, NOW)] == ids[:9:-1]
    assert len(kit.room.results) == 50


def test_results_of_one_sender_do_not_crowd_out_anothers(kit: RoomKit):
    kit.complete(HOST, kit.act(THIRD, "host").ids[0])
    for _ in range(60):
        kit.complete(HOST, kit.act(GUEST, "host").ids[0])
    assert len(actions.list_results(kit.room, THIRD, NOW)) == 1


def test_results_are_kept_for_an_hour(kit: RoomKit):
    kit.complete(HOST, kit.act(GUEST, "host").ids[0])

    assert actions.list_results(kit.room, GUEST, NOW + 3_599)
    assert not actions.list_results(kit.room, GUEST, NOW + 3_600)
    kit.now += 3_600
    kit.complete(HOST, kit.act(THIRD, "host").ids[0])
    assert [r.sender_id for r in kit.room.results] == [THIRD]


def test_large_results_crowd_out_the_oldest_but_never_the_newest(kit: RoomKit):
    with patch.object(actions, "RESULTS_BYTES_MAX", 100):
        for size in (60, 30, 20):
            kit.complete(HOST, kit.act(GUEST, "host").ids[0], response_data=b"x" * size)
        assert [len(r.response_data or b"") for r in kit.room.results] == [30, 20]
        kit.complete(HOST, kit.act(GUEST, "host").ids[0], response_data=b"x" * 101)
        assert [len(r.response_data or b"") for r in kit.room.results] == [101]


def test_the_type_of_a_result_counts_like_its_data(kit: RoomKit):
    with patch.object(actions, "RESULTS_BYTES_MAX", 100):
        for size in (60, 30, 20):
            kit.complete(HOST, kit.act(GUEST, "host", action_type="t" * size).ids[0])
        assert [len(r.action_type) for r in kit.room.results] == [30, 20]


def test_a_room_holds_only_so_many_unanswered_actions(kit: RoomKit):
    with patch.object(actions, "PENDING_MAX", 4):
        kit.act(HOST, "all")
        with pytest.raises(refusals.TooManyActions):
            kit.act(HOST, "others")
        kit.act(GUEST, "host")
    held = 4 * len("place{}")
    with patch.object(actions, "PENDING_BYTES_MAX", held + 20):
        kit.act(GUEST, "host", action_type="t" * 6, request_data=b"x" * 12)
        for action_type, request_data in (("tt", b"x"), ("t", b"xx")):
            with pytest.raises(refusals.TooManyActions):
                kit.act(GUEST, "host", action_type=action_type, request_data=request_data)


def test_what_a_leaver_was_asked_has_failed_and_what_they_asked_is_void(kit: RoomKit):
    from_host = kit.act(HOST, "others").ids
    kit.act(GUEST, "host")
    kit.complete(HOST, kit.act(GUEST, "host").ids[0])
    kit.now += 3
    kit.leave(GUEST)

    (result,) = actions.list_results(kit.room, HOST, kit.now)
    assert (result.action_id, result.status, result.response_data) == (from_host[0], "failed", None)
    assert (result.is_host, result.processed_at) == (False, NOW + 3)
    assert actions.list_pending(kit.room, HOST) == ()
    assert list(kit.room.actions) == [from_host[1]]
    assert [r.sender_id for r in kit.room.results] == [HOST]


def test_a_host_who_leaves_with_a_thousand_pending_actions_holds_nobody_up():
    kit = RoomKit(max_players=16, host_switch=True)
    kit.join(*range(2, 17))
    for number in range(990):
        kit.act(2 + number % 15, "host")
    with patch.object(actions, "_kept", wraps=actions._kept) as kept:
        kit.leave(HOST)
    assert kept.call_count == 1, "what is kept is found by looking through all"
    assert not kit.room.actions
    for player_id in range(2, 17):
        shown = actions.list_results(kit.room, player_id, NOW)
        assert [(r.status, r.target_id) for r in shown] == [("failed", HOST)] * 50
