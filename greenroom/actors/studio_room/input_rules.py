"""Input of members, judged by the behaviour: forwarded, changed, or settled by the room itself.

Input passes without any of this where there is no handler for it and the hook for it (`on_action`,
`on_update`, `on_message`) is not overridden.
"""

from __future__ import annotations

from typing import Any, Final

from greenroom.actors.room.messages import (
    ActionResult,
    CompleteAction,
    SendActions,
    SendUpdates,
    Sent,
)
from greenroom.actors.room.rules.actions import action_id
from greenroom.actors.room.rules.channel import SendMessage
from greenroom.actors.room.rules.events import (
    ActionProcessed,
    ActionsSent,
    RoomEvent,
)
from greenroom.actors.room.rules.relay import find_receivers
from greenroom.actors.studio_room.host import BehaviourHost
from greenroom.actors.studio_room.refusals import (
    BehaviourFailed,
    RefusedByBehaviour,
    RefusedByHandler,
)
from greenroom.actors.studio_room.turn import Turn
from greenroom.behaviour import (
    Action,
    Complete,
    Drop,
    Fail,
    Forward,
    Message,
    Refused,
    Replace,
    Update,
)
from greenroom.behaviour.behaviour import is_overridden
from greenroom.behaviour.errors import BadBehaviour, shown
from greenroom.behaviour.handlers import Kind, TypedHandler, describe_undeclared
from greenroom.behaviour.plain_values import plain_sent
from greenroom.contract.allowed_values import ActionStatus

_HOOKS: Final[dict[Kind, str]] = {
    "action": "on_action",
    "update": "on_update",
    "message": "on_message",
}
_SENT: Final = {"action": Action, "update": Update, "message": Message}

TOO_DEEP: Final = "The data nests too deep"


def has_say(host: BehaviourHost, kind: Kind, name: str) -> bool:
    """Return whether a behaviour has a say in what is sent under this name.

    Raises:
        RefusedByBehaviour: it is strict, and has no handler for it.
    """
    behaviour = host.runner.behaviour
    if (kind, name) in behaviour.handlers or is_overridden(behaviour, _HOOKS[kind]):
        return True
    if behaviour.strict:
        raise RefusedByBehaviour(describe_undeclared(behaviour.handlers, kind, name))
    return False


def check_answer(host: BehaviourHost | None, command: CompleteAction) -> None:
    """Check that a member may answer an action that waits for them.

    It may have been sent before the behaviour became strict.

    Raises:
        RefusedByBehaviour: the behaviour is strict, and has no handler for such actions.
    """
    action = None if host is None else host.room.actions.get(command.action_id)
    if host is not None and action is not None and action.target_id == command.player_id:
        has_say(host, "action", action.action_type)


def is_typed(host: BehaviourHost, kind: Kind, name: str) -> bool:
    """Return whether a typed handler takes what is sent under this name, whoever its targets."""
    return (kind, name) in host.runner.behaviour.handlers


def judge(
    turn: Turn,
    kind: Kind,
    name: str,
    data: bytes,
    *,
    sender_id: int,
    target_ids: tuple[int, ...],
) -> Any:
    """Return the verdict on what a member sends, or the reply of a typed action handler.

    Args:
        turn: has begun.
        kind: of what is sent.
        name: its type or command.
        data: JSON.
        sender_id: a member.
        target_ids: the members whom it is for.

    Raises:
        RefusedByBehaviour: data of another shape than a handler asks for, or too much of it, or the
            rules say no.
        BehaviourFailed: the behaviour has failed.
    """
    runner = turn.host.runner
    _check_size(turn, data)
    by = runner.room.members[sender_id]
    handler = runner.behaviour.handlers.get((kind, name))
    if handler is None:
        sent = _SENT[kind](name, decode(data), target_ids)
        return turn.ask(_HOOKS[kind], by, sent, payload=sent)
    arguments = turn.read(handler, data)
    verdict = turn.ask(handler.method, by, *arguments, payload=arguments, refusal=RefusedByHandler)
    return Drop() if verdict is None and kind != "action" else verdict


def handle(turn: Turn, handler: TypedHandler, message: SendMessage) -> None:
    """Let a handler that lets nothing pass have a message; raises as `judge`."""
    _check_size(turn, message.data)
    by = turn.host.runner.room.members[message.player_id]
    verdict = turn.handle(handler, by, message.data)
    if verdict is not None:
        text = f"{handler.method} is annotated -> None, and answers {shown(verdict):.80}"
        turn.fail(BadBehaviour(text), message.data)
        raise BehaviourFailed
    turn.keep()


def _check_size(turn: Turn, data: bytes) -> None:
    """Refuse what takes long to decode; raises RefusedByBehaviour."""
    bytes_max = turn.host.runner.behaviour.data_bytes_max
    if len(data) > bytes_max:
        raise RefusedByBehaviour(f"The data must be at most {bytes_max} bytes in this room")


def decode(data: bytes) -> Any:
    """Return what was sent as plain values; raises RefusedByBehaviour where that cannot be."""
    try:
        return plain_sent(data)
    except Refused as refused:
        raise RefusedByBehaviour(str(refused)) from None
    except RecursionError:
        raise RefusedByBehaviour(TOO_DEEP) from None


def settle_action(
    turn: Turn, command: SendActions, target_ids: tuple[int, ...], now: int
) -> tuple[tuple[RoomEvent, ...], Sent] | None:
    """Return what comes of an action that the room settles; None for one to be forwarded.

    The room stands in for the host, who is the target that the sender sees. A typed handler's
    refusal is the action's failure, with its text as `error`.

    Raises:
        RefusedByBehaviour, BehaviourFailed: see `judge`.
    """
    name, data = command.action_type, command.request_data
    try:
        verdict = judge(
            turn, "action", name, data, sender_id=command.player_id, target_ids=target_ids
        )
    except RefusedByHandler as refused:
        verdict = Fail(str(refused))
    if isinstance(verdict, Forward):
        return None
    status: ActionStatus = "failed" if isinstance(verdict, Fail) else "completed"
    response = _encode_response(turn, name, verdict)
    identity, host_id = action_id(command.seed, 0), turn.host.room.host_id
    asked, about = ((identity, host_id),), command.request_id
    sent = ActionsSent(command.player_id, name, data, asked, now, about)
    result = ActionResult(
        action_id=identity,
        action_type=name,
        status=status,
        response_data=response,
        target_id=host_id,
        is_host=True,
        processed_at=now,
        is_server=True,
    )
    events = (sent, ActionProcessed(identity, status, response, now, is_server=True))
    return events, Sent((identity,), (host_id,), (result,))


def _hook_of(turn: Turn, kind: Kind, name: str) -> str:
    """Return the method that judges what is sent under a name, as the studio has called it."""
    handler = turn.host.runner.behaviour.handlers.get((kind, name))
    return _HOOKS[kind] if handler is None else handler.method


def _encode_response(turn: Turn, name: str, verdict: object) -> bytes | None:
    """Return the `response_data` of a verdict, or of a typed handler's reply.

    Raises:
        BehaviourFailed: it cannot be encoded.
    """
    if isinstance(verdict, Fail):
        return turn.write(_hook_of(turn, "action", name), {"error": verdict.reason})
    reply = verdict.data if isinstance(verdict, Complete) else verdict
    return None if reply is None else turn.write(_hook_of(turn, "action", name), reply)


def forward_update(turn: Turn, command: SendUpdates, target_ids: tuple[int, ...]) -> bytes | None:
    """Return what goes on to the targets of an update; None for nothing.

    Raises:
        RefusedByBehaviour, BehaviourFailed: see `judge`.
    """
    name, data, sender_id = command.update_type, command.data, command.player_id
    verdict = judge(turn, "update", name, data, sender_id=sender_id, target_ids=target_ids)
    return _data_to_forward(turn, "update", name, verdict, data)


def forward_message(turn: Turn, message: SendMessage) -> bytes | None:
    """Return what goes on to the receivers of a message; None for nothing. Raises as above."""
    name, data, host = message.name, message.data, turn.host
    receivers = () if is_typed(host, "message", name) else tuple(find_receivers(host.room, message))
    verdict = judge(turn, "message", name, data, sender_id=message.player_id, target_ids=receivers)
    return _data_to_forward(turn, "message", name, verdict, data)


def _data_to_forward(
    turn: Turn, kind: Kind, name: str, verdict: object, data: bytes
) -> bytes | None:
    """Return what a verdict lets pass of data.

    Raises:
        BehaviourFailed: JSON has no such value.
    """
    match verdict:
        case Replace(other):
            return turn.write(_hook_of(turn, kind, name), other)
        case Drop():
            return None
        case _:
            return data
