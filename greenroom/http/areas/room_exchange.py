"""The rooms area: what members ask and tell each other."""

from __future__ import annotations

import os
from typing import Annotated, Final

import msgspec

from greenroom.actors.plans.refusals import RoomsRefused
from greenroom.actors.room.messages import (
    CompleteAction,
    PollUpdates,
    ReadPending,
    ReadResults,
    SendActions,
    SendUpdates,
)
from greenroom.actors.room.rules.events import ActionStatus
from greenroom.actors.room.rules.groups import GROUP_WORDS, read_sources, read_targets
from greenroom.actors.room.rules.refusals import (
    ActionNotFound,
    InvalidSources,
    InvalidStatus,
    InvalidTargetIds,
    InvalidTargets,
    NotInAnyRoom,
    NoValidSources,
    NoValidTargets,
    OnlyHostTargetsOthers,
    PlayerNotInAnyRoom,
    TargetIdsMissing,
    TooManyActions,
)
from greenroom.http.areas.rooms import (
    AREA,
    TEXTS,
    ActionEntry,
    UpdateEntry,
    action_entry,
    update_entry,
)
from greenroom.http.caller import PlayerCaller
from greenroom.http.fields import (
    AnyValue,
    BadEntry,
    Body,
    Document,
    Missing,
    Reply,
    one_of,
    timestamp,
)
from greenroom.http.table import Auth, Endpoint

_EMPTY: Final = b"{}"
_STATUSES: Final[dict[str, ActionStatus]] = {"completed": "completed", "failed": "failed"}
_TARGET_REFUSALS: Final = (
    InvalidTargets,
    TargetIdsMissing,
    InvalidTargetIds,
    PlayerNotInAnyRoom,
    OnlyHostTargetsOthers,
    NoValidTargets,
)

_TargetWord = Annotated[str, Missing("Missing required field: target_players"), one_of(GROUP_WORDS)]
_TargetIds = Annotated[list[int] | None, BadEntry(InvalidTargetIds.text)]


# Actions.


class ActionsBody(Body, kw_only=True):
    """Who is asked to do what."""

    action_type: Annotated[str, Missing("Missing action_type")]
    target_players: _TargetWord
    target_players_ids: _TargetIds = None
    request_data: Document | None = None


class ActionsReply(Reply, kw_only=True):
    """One action for each target."""

    actions_sent: int
    action_ids: list[str]
    target_players_ids: list[int]


class ResultEntry(msgspec.Struct, kw_only=True):
    """What came of an action; `is_host` is about its target."""

    action_id: str
    action_type: str
    response_data: Annotated[Document | None, AnyValue]
    status: ActionStatus
    target_id: int
    is_host: bool
    processed_at: str | None


class ResultsReply(Reply, kw_only=True):
    """What came of the caller's actions within the last hour, newest first."""

    actions: list[ResultEntry]


class PendingReply(Reply, kw_only=True):
    """What the caller is asked to do, oldest first."""

    actions: list[ActionEntry]


class CompleteBody(Body, kw_only=True):
    """What came of it."""

    status: Annotated[
        str, Missing("Status is required"), one_of(_STATUSES, "`completed` or `failed`")
    ]
    response_data: Document | None = None


class CompleteReply(Reply, kw_only=True):
    """The sender can read it now."""

    message: str = "Action completed"


async def send_actions(caller: PlayerCaller, body: ActionsBody) -> ActionsReply:
    """Ask members to do something."""
    targets = read_targets(body.target_players, body.target_players_ids)
    room = caller.world.rooms.of(caller.player_id, PlayerNotInAnyRoom)
    sent = await room.ask(
        SendActions(
            player_id=caller.player_id,
            targets=targets,
            action_type=body.action_type,
            request_data=_EMPTY if body.request_data is None else bytes(body.request_data),
            seed=os.urandom(16),
        )
    )
    return ActionsReply(
        actions_sent=len(sent.ids),
        action_ids=list(sent.ids),
        target_players_ids=list(sent.target_ids),
    )


async def poll_actions(caller: PlayerCaller) -> ResultsReply:
    """Read what came of one's actions."""
    room = caller.world.rooms.of(caller.player_id, PlayerNotInAnyRoom)
    results = await room.ask(ReadResults(caller.player_id))
    return ResultsReply(
        actions=[
            ResultEntry(
                action_id=result.action_id,
                action_type=result.action_type,
                response_data=(
                    None if result.response_data is None else Document(result.response_data)
                ),
                status=result.status,
                target_id=result.target_id,
                is_host=result.is_host,
                processed_at=timestamp(result.processed_at),
            )
            for result in results
        ]
    )


async def pending_actions(caller: PlayerCaller) -> PendingReply:
    """Read what one is asked to do."""
    room = caller.world.rooms.of(caller.player_id, NotInAnyRoom)
    pending = await room.ask(ReadPending(caller.player_id))
    return PendingReply(actions=[action_entry(action) for action in pending])


async def complete_action(
    caller: PlayerCaller, action_id: str, body: CompleteBody
) -> CompleteReply:
    """Say what came of an action."""
    status = _STATUSES.get(body.status)
    if status is None:
        raise InvalidStatus
    room = caller.world.rooms.of(caller.player_id, PlayerNotInAnyRoom)
    response = None if body.response_data is None else bytes(body.response_data)
    await room.ask(CompleteAction(caller.player_id, action_id, status, response))
    return CompleteReply()


# Updates.


class UpdatesBody(Body, kw_only=True):
    """Who is told what."""

    target_players: _TargetWord
    type: Annotated[
        str,
        Missing("Missing required field: type"),
        msgspec.Meta(description="What it is about, in a word of the game's own"),
    ]
    target_players_ids: _TargetIds = None
    data: Annotated[Document | None, msgspec.Meta(description="What is told")] = None


class UpdatesReply(Reply, kw_only=True):
    """One update for each target."""

    updates_sent: int
    update_ids: list[str]
    target_players_ids: list[int]


class PollBody(Body, kw_only=True):
    """Whose updates, and from where on."""

    from_players: Annotated[str | None, one_of(GROUP_WORDS)] = None
    from_players_ids: list[int] | None = None
    last_update: Annotated[
        str | None, msgspec.Meta(description="What the last answer said; nothing at first")
    ] = None


class PollReply(Reply, kw_only=True):
    """Updates in the order sent, the cursor behind them, and how many fell off before them."""

    updates: list[UpdateEntry]
    last_update: str | None
    missed: int


async def send_updates(caller: PlayerCaller, body: UpdatesBody) -> UpdatesReply:
    """Tell members something."""
    targets = read_targets(body.target_players, body.target_players_ids)
    room = caller.world.rooms.of(caller.player_id, PlayerNotInAnyRoom)
    data = _EMPTY if body.data is None else bytes(body.data)
    sent = await room.ask(SendUpdates(caller.player_id, targets, body.type, data))
    return UpdatesReply(
        updates_sent=len(sent.ids),
        update_ids=list(sent.ids),
        target_players_ids=list(sent.target_ids),
    )


async def poll_updates(caller: PlayerCaller, body: PollBody) -> PollReply:
    """Read what one was told."""
    sources = read_sources(body.from_players, body.from_players_ids)
    room = caller.world.rooms.of(caller.player_id, PlayerNotInAnyRoom)
    page = await room.ask(PollUpdates(caller.player_id, sources, body.last_update))
    return PollReply(
        updates=[update_entry(update) for update in page.updates],
        last_update=page.last_update,
        missed=page.missed,
    )


# The join token.


ENDPOINTS: Final = (
    Endpoint(
        method="POST",
        path=f"{AREA}/actions",
        auth=Auth.PLAYER,
        texts=TEXTS,
        body=ActionsBody,
        reply=ActionsReply,
        handler=send_actions,
        summary="Ask members to do something",
        refusals=(*_TARGET_REFUSALS, TooManyActions, RoomsRefused),
    ),
    Endpoint(
        method="GET",
        path=f"{AREA}/actions/poll",
        auth=Auth.PLAYER,
        texts=TEXTS,
        reply=ResultsReply,
        handler=poll_actions,
        summary="Read what came of one's actions",
        refusals=(PlayerNotInAnyRoom,),
    ),
    Endpoint(
        method="GET",
        path=f"{AREA}/actions/pending",
        auth=Auth.PLAYER,
        texts=TEXTS,
        reply=PendingReply,
        handler=pending_actions,
        summary="Read what one is asked to do",
        refusals=(NotInAnyRoom,),
    ),
    Endpoint(
        method="POST",
        path=f"{AREA}/actions/{{action_id}}/complete",
        auth=Auth.PLAYER,
        texts=TEXTS,
        body=CompleteBody,
        reply=CompleteReply,
        handler=complete_action,
        summary="Say what came of an action",
        refusals=(InvalidStatus, PlayerNotInAnyRoom, ActionNotFound, RoomsRefused),
    ),
    Endpoint(
        method="POST",
        path=f"{AREA}/updates",
        auth=Auth.PLAYER,
        texts=TEXTS,
        body=UpdatesBody,
        reply=UpdatesReply,
        handler=send_updates,
        summary="Tell members something",
        refusals=(*_TARGET_REFUSALS, RoomsRefused),
    ),
    Endpoint(
        method="POST",
        path=f"{AREA}/updates/poll",
        auth=Auth.PLAYER,
        texts=TEXTS,
        body=PollBody,
        reply=PollReply,
        handler=poll_updates,
        summary="Read what one was told",
        refusals=(InvalidSources, PlayerNotInAnyRoom, NoValidSources),
        rate_class="read",
    ),
)
