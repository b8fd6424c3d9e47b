"""The room that a player has a seat in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from greenroom.client.caller import JsonObject, as_optional_document
from greenroom.client.updates import POLL_SECONDS, Updates
from greenroom.contract.allowed_values import GroupWord
from greenroom.contract.fields import MessageReply
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
    PollBody,
    PollReply,
    ResultEntry,
    UpdatesBody,
    UpdatesReply,
)
from greenroom.contract.room_host import (
    ROOM_JOIN_TOKEN,
    ROOM_KICK,
    ROOM_PASSWORD,
    STOP_ROOM,
    JoinTokenReply,
    KickBody,
    PasswordBody,
    RoomKickReply,
)
from greenroom.contract.rooms import (
    LEAVE_ROOM,
    ROOM_BEAT,
    ROOM_CURRENT,
    ROOM_PLAYERS,
    ActionEntry,
    RoomCurrentReply,
    RoomPlayersReply,
    SeatKeptReply,
)

if TYPE_CHECKING:
    from greenroom.client.player import Player


def _ids(player_ids: Sequence[int] | None) -> list[int] | None:
    return None if player_ids is None else list(player_ids)


class Room:
    """A player's seat in a room; `Player` makes one. Errors and cancellation as for `Game`.

    A player has one room at a time. The calls are about the present one, even if it is another by
    now.

    Attributes:
        player: the player who has the seat.
        room_id: the room's id when the seat was taken.
        join_token: lets others in without a password; None if it is not known.
    """

    def __init__(self, player: Player, room_id: str, join_token: str | None) -> None:
        """Use the calls of a player who has a seat."""
        self.player = player
        self.room_id = room_id
        self.join_token = join_token

    async def current(self) -> RoomCurrentReply:
        """Return the room, and what waits there for the player."""
        return await self.player.caller.call(ROOM_CURRENT)

    async def players(self) -> RoomPlayersReply:
        """Return the members."""
        return await self.player.caller.call(ROOM_PLAYERS)

    async def heartbeat(self) -> SeatKeptReply:
        """Keep the seat; any other call of the player does, too."""
        return await self.player.caller.call(ROOM_BEAT)

    async def leave(self) -> MessageReply:
        """Give up the seat."""
        return await self.player.caller.call(LEAVE_ROOM)

    # The host's.

    async def stop(self) -> MessageReply:
        """End the room for everybody; hosts only."""
        return await self.player.caller.call(STOP_ROOM)

    async def kick(self, player_id: int) -> RoomKickReply:
        """Kick a member; hosts only."""
        return await self.player.caller.call(ROOM_KICK, KickBody(player_id=player_id))

    async def set_password(self, password: str) -> MessageReply:
        """Replace the password; `""` removes it; hosts only."""
        return await self.player.caller.call(ROOM_PASSWORD, PasswordBody(password=password))

    async def renew_join_token(self) -> JoinTokenReply:
        """Replace the join token; hosts only."""
        renewed = await self.player.caller.call(ROOM_JOIN_TOKEN)
        self.join_token = renewed.join_token
        return renewed

    # Actions: members are asked, and answer.

    async def ask(
        self,
        action_type: str,
        request_data: JsonObject | None = None,
        *,
        target: GroupWord = "host",
        target_ids: Sequence[int] | None = None,
    ) -> ActionsReply:
        """Ask members to do something; `results` has their answers.

        Args:
            action_type: a word that the game defines.
            request_data: an object that the game defines.
            target: the members. A host may ask anybody, others only the host.
            target_ids: the ids of the members, for `specific`.
        """
        return await self.player.caller.call(
            SEND_ACTIONS,
            ActionsBody(
                action_type=action_type,
                request_data=as_optional_document(request_data),
                target_players=target,
                target_players_ids=_ids(target_ids),
            ),
        )

    async def results(self) -> list[ResultEntry]:
        """Return the results of actions sent within the last hour, newest first, at most 50."""
        return (await self.player.caller.call(ACTION_RESULTS)).actions

    async def pending(self) -> list[ActionEntry]:
        """Return the actions that wait for the player, oldest first."""
        return (await self.player.caller.call(PENDING_ACTIONS)).actions

    async def complete(
        self,
        action_id: str,
        response_data: JsonObject | None = None,
        *,
        status: Literal["completed", "failed"] = "completed",
    ) -> MessageReply:
        """Send the result of an action that the player was asked for."""
        return await self.player.caller.call(
            COMPLETE_ACTION,
            CompleteBody(status=status, response_data=as_optional_document(response_data)),
            action_id=action_id,
        )

    # Updates: members are told.

    async def tell(
        self,
        type: str,  # noqa: A002 (the API's word)
        data: JsonObject | None = None,
        *,
        target: GroupWord = "host",
        target_ids: Sequence[int] | None = None,
    ) -> UpdatesReply:
        """Tell members something.

        Args:
            type: a word that the game defines.
            data: an object that the game defines.
            target: the members. A host may tell anybody, others only the host.
            target_ids: the ids of the members, for `specific`.
        """
        return await self.player.caller.call(
            SEND_UPDATES,
            UpdatesBody(
                type=type,
                data=as_optional_document(data),
                target_players=target,
                target_players_ids=_ids(target_ids),
            ),
        )

    async def poll(
        self,
        last_update: str | None = None,
        *,
        sources: GroupWord = "all",
        source_ids: Sequence[int] | None = None,
    ) -> PollReply:
        """Read at most 50 updates behind a cursor. `updates` iterates by itself.

        Args:
            last_update: that of the page before; None begins with the oldest that is kept.
            sources: which senders.
            source_ids: the ids of the members, for `specific`.
        """
        return await self.player.caller.call(
            POLL_UPDATES,
            PollBody(
                last_update=last_update, from_players=sources, from_players_ids=_ids(source_ids)
            ),
        )

    def updates(
        self,
        cursor: str | None = None,
        *,
        sources: GroupWord = "all",
        source_ids: Sequence[int] | None = None,
        poll_seconds: float = POLL_SECONDS,
    ) -> Updates:
        """Return an endless iterator over the updates to the player.

        Args:
            cursor: `Updates.cursor` of an earlier run; None begins with the oldest kept.
            sources: which senders.
            source_ids: the ids of the members, for `specific`.
            poll_seconds: seconds between two polls, if the first found nothing more.
        """

        async def poll(last_update: str | None) -> PollReply:
            return await self.poll(last_update, sources=sources, source_ids=source_ids)

        return Updates(poll, cursor, poll_seconds)
