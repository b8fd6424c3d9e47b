"""What a behaviour makes of what members send: forwarded, changed, or settled by the room itself.

What no handler is written for, and no `on_action`, `on_update` or `on_message` overridden, passes
without any of this.
"""

from __future__ import annotations

from typing import Any, Final

from greenroom.actors.room.messages import SendActions, Sent
from greenroom.actors.room.rules.actions import action_id
from greenroom.actors.room.rules.channel import SendMessage
from greenroom.actors.room.rules.events import (
    ActionProcessed,
    ActionsSent,
    ActionStatus,
    RoomEvent,
)
from greenroom.actors.studio_room.host import (
    BehaviourFailed,
    Director,
    RefusedByBehaviour,
    RefusedByHandler,
)
from greenroom.behaviour import (
    Action,
    Complete,
    Drop,
    Fail,
    Forward,
    Message,
    Replace,
    Update,
)
from greenroom.behaviour.behaviour import is_overridden
from greenroom.behaviour.errors import BadBehaviour, shown
from greenroom.behaviour.handlers import Kind, TypedHandler
from greenroom.behaviour.plain_values import plain

_HOOKS: Final[dict[Kind, str]] = {
    "action": "on_action",
    "update": "on_update",
    "message": "on_message",
}
_SENT: Final = {"action": Action, "update": Update, "message": Message}

TOO_DEEP: Final = "The data nests too deep"


def judges(director: Director, kind: Kind, name: str) -> bool:
    """Return whether a behaviour has a say in what is sent under this name."""
    behaviour = director.runner.behaviour
    return (kind, name) in behaviour.handlers or is_overridden(behaviour, _HOOKS[kind])


def is_typed(director: Director, kind: Kind, name: str) -> bool:
    """Return whether a typed handler takes what is sent under this name, whoever its targets."""
    return (kind, name) in director.runner.behaviour.handlers


def judge(
    director: Director,
    kind: Kind,
    name: str,
    data: bytes,
    *,
    sender_id: int,
    target_ids: tuple[int, ...],
) -> Any:
    """Return the verdict on what a member sends, or the reply of a typed action handler.

    Args:
        director: in a turn that has begun.
        kind: of what is sent.
        name: its type or command.
        data: JSON.
        sender_id: a member.
        target_ids: whom he means.

    Raises:
        RefusedByBehaviour: data of another shape than a handler asks for, or the rules say no.
        BehaviourFailed: the behaviour has failed.
    """
    by = director.runner.room.members[sender_id]
    handler = director.runner.behaviour.handlers.get((kind, name))
    if handler is None:
        sent = _SENT[kind](name, _read(data), target_ids)
        return director.ask(_HOOKS[kind], by, sent, payload=sent)
    arguments = director.read(handler, data)
    verdict = director.ask(
        handler.method, by, *arguments, payload=arguments, refusal=RefusedByHandler
    )
    return Drop() if verdict is None and kind != "action" else verdict


def hear(director: Director, handler: TypedHandler, message: SendMessage) -> None:
    """Let a handler that answers nothing have a message; raises as `judge`."""
    by = director.runner.room.members[message.player_id]
    verdict = director.handle(handler, by, message.data)
    if verdict is not None:
        text = f"{handler.method} is annotated -> None, and answers {shown(verdict):.80}"
        director.failed(BadBehaviour(text), message.data)
        raise BehaviourFailed
    director.collect()


def _read(data: bytes) -> Any:
    """Return what was sent as plain values; raises RefusedByBehaviour where that cannot be."""
    try:
        return plain(data)
    except RecursionError:
        raise RefusedByBehaviour(TOO_DEEP) from None


def settle(
    director: Director, command: SendActions, target_ids: tuple[int, ...], now: int
) -> tuple[tuple[RoomEvent, ...], Sent] | None:
    """Return what comes of an action that the room settles; None for one to be forwarded.

    The room stands in for the host: he is the target that the sender sees. A typed handler's
    refusal is the action's failure, with its text as `error`.

    Raises:
        RefusedByBehaviour, BehaviourFailed: see `judge`.
    """
    name, data = command.action_type, command.request_data
    try:
        verdict = judge(
            director, "action", name, data, sender_id=command.player_id, target_ids=target_ids
        )
    except RefusedByHandler as refused:
        verdict = Fail(str(refused))
    if isinstance(verdict, Forward):
        return None
    status: ActionStatus = "failed" if isinstance(verdict, Fail) else "completed"
    response = _response(director, verdict)
    identity, host_id = action_id(command.seed, 0), director.room.host_id
    sent = ActionsSent(command.player_id, name, data, ((identity, host_id),), now)
    events = (sent, ActionProcessed(identity, status, response, now))
    return events, Sent((identity,), (host_id,))


def _response(director: Director, verdict: object) -> bytes | None:
    """Return the `response_data` of a verdict, or of a typed handler's reply.

    Raises:
        BehaviourFailed: it cannot be written.
    """
    if isinstance(verdict, Fail):
        return director.write("action", {"error": verdict.reason})
    reply = verdict.data if isinstance(verdict, Complete) else verdict
    return None if reply is None else director.write("action", reply)


def passed(director: Director, kind: Kind, verdict: object, data: bytes) -> bytes | None:
    """Return what goes on to the targets of an update or message; None for nothing.

    Raises:
        BehaviourFailed: it cannot be written.
    """
    match verdict:
        case Replace(other):
            return director.write(kind, other)
        case Drop():
            return None
        case _:
            return data
