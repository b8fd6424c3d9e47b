"""Rooms: actions that members ask for, and updates that they tell."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Final, get_args

import msgspec

from greenroom.contract.allowed_values import GROUP_WORDS, ActionStatus
from greenroom.contract.fields import (
    AnyValue,
    BadEntry,
    Body,
    MessageReply,
    Missing,
    Omitted,
    RawDocument,
    Reply,
    one_of,
)
from greenroom.contract.operation import Operation
from greenroom.contract.rooms import ActionEntry, ServerSender, UpdateEntry

ACTION_TYPE_TEXT: Final = "Missing action_type"
TARGET_IDS_TEXT: Final = "Invalid target players ids"
_TargetWord = Annotated[str, Missing("Missing required field: target_players"), one_of(GROUP_WORDS)]


_TargetIds = Annotated[list[int] | None, BadEntry(TARGET_IDS_TEXT)]


class ActionsBody(Body, kw_only=True):
    """An action, and the members who are to do it."""

    action_type: Annotated[str, Missing(ACTION_TYPE_TEXT)]
    target_players: _TargetWord
    target_players_ids: _TargetIds = None
    request_data: RawDocument | None = None


class ResultEntry(msgspec.Struct, kw_only=True):
    """The result of an action; `is_host` is about its target.

    `sender` is left out if a member has answered, and not the room's behaviour.
    """

    action_id: str
    action_type: str
    response_data: Annotated[Any, AnyValue]
    status: ActionStatus
    target_id: int
    is_host: bool
    processed_at: datetime | None
    sender: Annotated[ServerSender | None, Omitted] = None

    @property
    def is_server(self) -> bool:
        """Return whether the room's behaviour has answered, and no member."""
        return bool(self.sender)


class ActionsReply(Reply, kw_only=True):
    """One action for each target; `results` are those of actions that the room settled at once."""

    actions_sent: int
    action_ids: list[str]
    target_players_ids: list[int]
    results: Annotated[list[ResultEntry] | None, Omitted] = None


class ResultsReply(Reply, kw_only=True):
    """The results of the caller's actions within the last hour, newest first, at most 50."""

    actions: list[ResultEntry]


class PendingReply(Reply, kw_only=True):
    """The actions that the caller is asked to do, oldest first."""

    actions: list[ActionEntry]


class CompleteBody(Body, kw_only=True):
    """The result of an action."""

    status: Annotated[
        str,
        Missing("Status is required"),
        one_of(get_args(ActionStatus), "`completed` or `failed`"),
    ]
    response_data: RawDocument | None = None


class CompleteReply(MessageReply, kw_only=True):
    """The sender of the action can read its result now."""

    message: str = "Action completed"


class UpdatesBody(Body, kw_only=True):
    """An update, and the members to tell."""

    target_players: _TargetWord
    type: Annotated[
        str,
        Missing("Missing required field: type"),
        msgspec.Meta(description="What it is about, in a word of the game's own"),
    ]
    target_players_ids: _TargetIds = None
    data: Annotated[RawDocument | None, msgspec.Meta(description="What is told")] = None


class UpdatesReply(Reply, kw_only=True):
    """One update for each target."""

    updates_sent: int
    update_ids: list[str]
    target_players_ids: list[int]


class PollBody(Body, kw_only=True):
    """The senders whose updates are wanted, and the cursor to begin behind."""

    from_players: Annotated[str | None, one_of(GROUP_WORDS)] = None
    from_players_ids: list[int] | None = None
    last_update: Annotated[
        str | None, msgspec.Meta(description="What the last answer said; nothing at first")
    ] = None


class PollReply(Reply, kw_only=True):
    """At most 50 updates in the order sent; `last_update` goes on behind them.

    `missed` counts the updates that were dropped before they were read.
    """

    updates: list[UpdateEntry]
    last_update: str | None
    missed: int = 0


SEND_ACTIONS: Final = Operation(
    "POST",
    "/api/game_room.php/actions",
    reply=ActionsReply,
    body=ActionsBody,
    summary="Ask members to do something",
)
ACTION_RESULTS: Final = Operation(
    "GET",
    "/api/game_room.php/actions/poll",
    reply=ResultsReply,
    summary="Read what came of one's actions",
    repeatable=True,
)
PENDING_ACTIONS: Final = Operation(
    "GET",
    "/api/game_room.php/actions/pending",
    reply=PendingReply,
    summary="Read what one is asked to do",
    repeatable=True,
)
COMPLETE_ACTION: Final = Operation(
    "POST",
    "/api/game_room.php/actions/{action_id}/complete",
    reply=CompleteReply,
    body=CompleteBody,
    summary="Say what came of an action",
)
SEND_UPDATES: Final = Operation(
    "POST",
    "/api/game_room.php/updates",
    reply=UpdatesReply,
    body=UpdatesBody,
    summary="Tell members something",
)
POLL_UPDATES: Final = Operation(
    "POST",
    "/api/game_room.php/updates/poll",
    reply=PollReply,
    body=PollBody,
    summary="Read what one was told",
    repeatable=True,
)
