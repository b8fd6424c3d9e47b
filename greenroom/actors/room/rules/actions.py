"""Actions: a member asks, a target answers. Pure.

    pending ── CompleteAction by its target ──► completed | failed, kept for its sender
    pending ── its target leaves ─────────────► failed
    any     ── its sender leaves ─────────────► gone

A result is kept for an hour, and no more than `RESULTS_MAX` of one sender.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

from greenroom.actors.kernel.portion import portion
from greenroom.actors.room.messages import (
    ActionResult,
    CompleteAction,
    Group,
    PendingAction,
    RequestAction,
    SendActions,
    Sent,
)
from greenroom.actors.room.ports import Settled
from greenroom.actors.room.rules.events import (
    ActionProcessed,
    ActionsSent,
    MemberLeft,
    RoomEvent,
)
from greenroom.actors.room.rules.groups import find_targets
from greenroom.actors.room.rules.refusals import (
    ActionNotFound,
    NoValidTargets,
    RequestIdInUse,
    TooManyActions,
    TooManyRequests,
)
from greenroom.actors.room.rules.state import Action, Result, Room
from greenroom.actors.room.rules.transitions import ACTION, ActionState, ActionStep
from greenroom.contract.allowed_values import RequestId

PENDING_MAX: Final = 1_000
PENDING_BYTES_MAX: Final = 4 * 1024 * 1024
"""Unanswered actions of one room, and the bytes of what they carry; beyond: `TooManyActions`."""

REQUESTS_MAX: Final = 16
"""Unsettled actions over the channel of one sender; beyond: `TooManyRequests`."""

SHOWN_MAX: Final = 50
RESULTS_MAX: Final = 50
"""Results of one sender; beyond, the oldest are dropped."""
RESULTS_BYTES_MAX: Final = 4 * 1024 * 1024
"""Bytes of all results of a room, likewise; the newest is kept whatever its size."""
RESULT_SECONDS_MAX: Final = 3_600


def decide_send(room: Room, command: SendActions, now: int) -> tuple[tuple[ActionsSent, ...], Sent]:
    """Ask each of the targets; nobody there to ask is a success with none, but over the channel.

    Raises:
        OnlyHostTargetsOthers, NoValidTargets: see `find_targets`.
        TooManyActions: too many wait already.
    """
    target_ids = find_targets(room, command.player_id, command.targets)
    if not target_ids:
        if command.request_id is not None:
            raise NoValidTargets
        return (), Sent((), ())
    request_bytes = (len(command.action_type) + len(command.request_data)) * len(target_ids)
    if (
        len(room.actions) + len(target_ids) > PENDING_MAX
        or _pending_bytes(room) + request_bytes > PENDING_BYTES_MAX
    ):
        raise TooManyActions
    ids = tuple(action_id(command.seed, index) for index in range(len(target_ids)))
    event = ActionsSent(
        command.player_id,
        command.action_type,
        command.request_data,
        tuple(zip(ids, target_ids, strict=True)),
        now,
        command.request_id,
    )
    return (event,), Sent(ids, target_ids)


def is_in_flight(room: Room, request: RequestAction) -> bool:
    """Return whether an unsettled action of the sender has the request's id."""
    return request.request_id in _in_flight(room, request.player_id)


def _in_flight(room: Room, sender_id: int) -> list[RequestId]:
    own = (action for action in room.actions.values() if action.sender_id == sender_id)
    return [action.request_id for action in own if action.request_id is not None]


def find_settled(room: Room, request: RequestAction) -> tuple[ActionsSent, Settled] | None:
    """Return the kept result of a request that was taken before, None if there is none.

    The event changes nothing, but becomes durable behind the result.
    """
    sender_id, request_id = asked = (request.player_id, request.request_id)
    kept = [each for each in room.results if (each.sender_id, each.request_id) == asked]
    if kept:
        result = kept[-1]
        behind = ActionsSent(sender_id, result.action_type, b"{}", (), result.processed_at)
        return behind, Settled(request_id, sender_id, _view(room, result))
    return None


def read_request(room: Room, request: RequestAction) -> SendActions:
    """Return the command that carries out a request over the channel.

    Raises:
        RequestIdInUse: an unsettled action of the sender has this id.
        TooManyRequests: the sender has too many unsettled ones.
    """
    in_flight = _in_flight(room, request.player_id)
    if request.request_id in in_flight:
        raise RequestIdInUse
    if len(in_flight) >= REQUESTS_MAX:
        raise TooManyRequests
    target_id = request.target_id
    targets = Group("host") if target_id is None else Group("specific", frozenset({target_id}))
    return SendActions(
        player_id=request.player_id,
        targets=targets,
        action_type=request.action_type,
        request_data=request.request_data,
        seed=request.seed,
        request_id=request.request_id,
    )


def list_settled(room: Room, events: Iterable[RoomEvent]) -> list[Settled]:
    """Return what events tell those who asked over the channel. Call it before `apply`."""
    settled: list[Settled] = []
    sent: dict[str, Action] = {}
    for event in events:
        if isinstance(event, ActionsSent):
            sent.update((action.action_id, action) for action in _actions(event))
        elif isinstance(event, ActionProcessed):
            action = sent.get(event.action_id) or room.actions[event.action_id]
            settled += _settled(room, action, event)
        elif isinstance(event, MemberLeft):
            left = event.player_id
            failing = [
                action
                for action in room.actions.values()
                if _state_without(left, action) is ActionState.FAILED
            ]
            for action in failing:
                settled += _settled(room, action, _failed(action, event.at))
    return settled


def _settled(room: Room, action: Action, event: ActionProcessed) -> tuple[Settled, ...]:
    """Return what a result tells who asked, if they asked over the channel."""
    if action.request_id is None:
        return ()
    return (Settled(action.request_id, action.sender_id, _view(room, _result(action, event))),)


def decide_complete(room: Room, command: CompleteAction, now: int) -> ActionProcessed:
    """Store the target's answer.

    Raises:
        ActionNotFound: no such action waits for this member.
    """
    action = room.actions.get(command.action_id)
    if action is None or action.target_id != command.player_id:
        raise ActionNotFound
    return ActionProcessed(command.action_id, command.status, command.response_data, now)


def list_pending(room: Room, player_id: int) -> tuple[PendingAction, ...]:
    """Return what a member is asked to do, oldest first, as much as one answer holds."""
    waiting = (a for a in room.actions.values() if a.target_id == player_id)
    return tuple(
        PendingAction(
            action_id=action.action_id,
            player_id=action.sender_id,
            player_name=room.members[action.sender_id].player_name,
            is_host=action.sender_id == room.host_id,
            target_id=action.target_id,
            action_type=action.action_type,
            request_data=action.request_data,
            created_at=action.created_at,
        )
        for action in portion(islice(waiting, SHOWN_MAX), _size_of_request)
    )


def list_results(room: Room, player_id: int, now: int) -> tuple[ActionResult, ...]:
    """Return what came of a member's actions within the last hour, newest first, likewise."""
    own = (
        result
        for result in reversed(room.results)
        if result.sender_id == player_id and now - result.processed_at < RESULT_SECONDS_MAX
    )
    return tuple(_view(room, result) for result in portion(own, _size))


def _view(room: Room, result: Result) -> ActionResult:
    return ActionResult(
        action_id=result.action_id,
        action_type=result.action_type,
        status=result.status,
        response_data=result.response_data,
        target_id=result.target_id,
        is_host=result.target_id == room.host_id,
        processed_at=result.processed_at,
        is_server=result.is_server,
    )


def add(room: Room, event: ActionsSent) -> None:
    """Let new actions wait for their targets."""
    room.actions.update((action.action_id, action) for action in _actions(event))


def _actions(event: ActionsSent) -> Iterator[Action]:
    for action_id, target_id in event.actions:
        yield Action(
            action_id,
            event.player_id,
            target_id,
            event.action_type,
            event.request_data,
            event.at,
            event.request_id,
        )


def apply_processed(room: Room, event: ActionProcessed) -> None:
    """Turn an action into its result."""
    _add_results(room, (_result(room.actions.pop(event.action_id), event),), event.at)


def forget_member(room: Room, player_id: int, now: int) -> None:
    """Void what somebody who left has asked for; fail what they were asked."""
    waiting, failed = dict[str, Action](), list[Result]()
    for action in room.actions.values():
        after = _state_without(player_id, action)
        if after is ActionState.PENDING:
            waiting[action.action_id] = action
        elif after is ActionState.FAILED:
            failed.append(_result(action, _failed(action, now)))
    room.actions = waiting
    room.results = [result for result in room.results if result.sender_id != player_id]
    _add_results(room, failed, now)


def _failed(action: Action, now: int) -> ActionProcessed:
    """Return what becomes of an action whose target leaves."""
    return ActionProcessed(action.action_id, "failed", None, now)


def _state_without(player_id: int, action: Action) -> ActionState:
    """Return what a waiting action becomes when somebody leaves."""
    if player_id not in {action.sender_id, action.target_id}:
        return ActionState.PENDING
    is_sender = action.sender_id == player_id
    return ACTION[ActionState.PENDING][
        ActionStep.SENDER_LEFT if is_sender else ActionStep.TARGET_LEFT
    ]


def _result(action: Action, event: ActionProcessed) -> Result:
    return Result(
        action.action_id,
        action.sender_id,
        action.target_id,
        action.action_type,
        event.status,
        event.response_data,
        event.at,
        event.is_server,
        action.request_id,
    )


def _add_results(room: Room, results: Iterable[Result], now: int) -> None:
    """Add what came last; all of it at once, for what is kept is found by looking through all."""
    room.results += results
    room.results = list(_kept(room.results, now))[::-1]


def _kept(results: list[Result], now: int) -> Iterator[Result]:
    """Yield the results that are kept, newest first."""
    counts: dict[int, int] = {}
    size = 0
    for result in reversed(results):
        count = counts[result.sender_id] = counts.get(result.sender_id, 0) + 1
        if count > RESULTS_MAX or now - result.processed_at >= RESULT_SECONDS_MAX:
            continue
        size += _size(result)
        if size > RESULTS_BYTES_MAX and result is not results[-1]:
            return
        yield result


def _size(result: Result) -> int:
    return len(result.action_type) + len(result.response_data or b"")


def _pending_bytes(room: Room) -> int:
    return sum(map(_size_of_request, room.actions.values()))


def _size_of_request(action: Action) -> int:
    return len(action.action_type) + len(action.request_data)


def action_id(seed: bytes, index: int) -> str:
    """Return the id of one of the actions that are sent together."""
    return hashlib.blake2b(seed + bytes((index,)), digest_size=16).hexdigest()
