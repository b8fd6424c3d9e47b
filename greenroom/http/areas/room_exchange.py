"""The rooms area: actions that members ask for, and updates that they tell."""

from __future__ import annotations

import os
from typing import Final

from greenroom.actors.plans.refusals import RoomsRefused
from greenroom.actors.room.messages import (
    ActionResult,
    CompleteAction,
    PollUpdates,
    ReadPending,
    ReadResults,
    SendActions,
    SendUpdates,
)
from greenroom.actors.room.rules.groups import read_sources, read_targets
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
from greenroom.contract.allowed_values import ActionStatus
from greenroom.contract.fields import OMITTED, RawDocument, timestamp
from greenroom.contract.room_exchange import (
    ACTION_RESULTS,
    COMPLETE_ACTION,
    PENDING_ACTIONS,
    POLL_UPDATES,
    SEND_ACTIONS,
    SEND_UPDATES,
    ActionsBody,
    ActionsReply,
    CompleteBody,
    CompleteReply,
    PendingReply,
    PollBody,
    PollReply,
    ResultEntry,
    ResultsReply,
    UpdatesBody,
    UpdatesReply,
)
from greenroom.http.areas.rooms import (
    TEXTS,
    action_entry,
    sender_of,
    update_entry,
)
from greenroom.http.caller import PlayerCaller
from greenroom.http.table import Area, Auth

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


# Actions.


ENDPOINTS: Final = Area(Auth.PLAYER, TEXTS)


@ENDPOINTS.add(SEND_ACTIONS, refusals=(*_TARGET_REFUSALS, TooManyActions, RoomsRefused))
async def send_actions(caller: PlayerCaller, body: ActionsBody) -> ActionsReply:
    """Ask members to do something."""
    targets = read_targets(body.target_players, body.target_players_ids)
    room = caller.world.rooms.get_by_player(caller.player_id, PlayerNotInAnyRoom)
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
        results=[_result_entry(result) for result in sent.results] or OMITTED,
    )


def _result_entry(result: ActionResult) -> ResultEntry:
    response = result.response_data
    return ResultEntry(
        action_id=result.action_id,
        action_type=result.action_type,
        response_data=None if response is None else RawDocument(response),
        status=result.status,
        target_id=result.target_id,
        is_host=result.is_host,
        processed_at=timestamp(result.processed_at),
        sender=sender_of(result),
    )


@ENDPOINTS.add(ACTION_RESULTS, refusals=(PlayerNotInAnyRoom,))
async def poll_actions(caller: PlayerCaller) -> ResultsReply:
    """Read the results of the caller's actions."""
    room = caller.world.rooms.get_by_player(caller.player_id, PlayerNotInAnyRoom)
    results = await room.ask(ReadResults(caller.player_id))
    return ResultsReply(actions=[_result_entry(result) for result in results])


@ENDPOINTS.add(PENDING_ACTIONS, refusals=(NotInAnyRoom,))
async def pending_actions(caller: PlayerCaller) -> PendingReply:
    """Read the actions that the caller is asked to do."""
    room = caller.world.rooms.get_by_player(caller.player_id, NotInAnyRoom)
    pending = await room.ask(ReadPending(caller.player_id))
    return PendingReply(actions=[action_entry(action) for action in pending])


@ENDPOINTS.add(
    COMPLETE_ACTION, refusals=(InvalidStatus, PlayerNotInAnyRoom, ActionNotFound, RoomsRefused)
)
async def complete_action(
    caller: PlayerCaller, action_id: str, body: CompleteBody
) -> CompleteReply:
    """Give the result of an action."""
    status = _STATUSES.get(body.status)
    if status is None:
        raise InvalidStatus
    room = caller.world.rooms.get_by_player(caller.player_id, PlayerNotInAnyRoom)
    response = None if body.response_data is None else bytes(body.response_data)
    await room.ask(CompleteAction(caller.player_id, action_id, status, response))
    return CompleteReply()


# Updates.


@ENDPOINTS.add(SEND_UPDATES, refusals=(*_TARGET_REFUSALS, RoomsRefused))
async def send_updates(caller: PlayerCaller, body: UpdatesBody) -> UpdatesReply:
    """Tell members something."""
    targets = read_targets(body.target_players, body.target_players_ids)
    room = caller.world.rooms.get_by_player(caller.player_id, PlayerNotInAnyRoom)
    data = _EMPTY if body.data is None else bytes(body.data)
    sent = await room.ask(SendUpdates(caller.player_id, targets, body.type, data))
    return UpdatesReply(
        updates_sent=len(sent.ids),
        update_ids=list(sent.ids),
        target_players_ids=list(sent.target_ids),
    )


@ENDPOINTS.add(
    POLL_UPDATES, refusals=(InvalidSources, PlayerNotInAnyRoom, NoValidSources), rate_class="read"
)
async def poll_updates(caller: PlayerCaller, body: PollBody) -> PollReply:
    """Read the updates that the caller was told."""
    sources = read_sources(body.from_players, body.from_players_ids)
    room = caller.world.rooms.get_by_player(caller.player_id, PlayerNotInAnyRoom)
    page = await room.ask(PollUpdates(caller.player_id, sources, body.last_update))
    return PollReply(
        updates=[update_entry(update) for update in page.updates],
        last_update=page.last_update,
        missed=page.missed,
    )
