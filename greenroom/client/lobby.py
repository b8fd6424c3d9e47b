"""The lobby that a player has a seat in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import trio

from greenroom.client.room import Room
from greenroom.contract.fields import MessageReply
from greenroom.contract.matchmaking_host import (
    ANSWER_REQUEST,
    LOBBY_JOIN_TOKEN,
    LOBBY_KICK,
    LOBBY_PASSWORD,
    REMOVE_LOBBY,
    START_LOBBY,
    STOP_LOBBY,
    AnswerBody,
    AnswerReply,
    LobbyStartReply,
)
from greenroom.contract.matchmaking_seat import (
    LEAVE_LOBBY,
    LOBBY_BEAT,
    LOBBY_CURRENT,
    LOBBY_PLAYERS,
    LobbyCurrentReply,
    LobbyPlayersReply,
)
from greenroom.contract.room_host import JoinTokenReply, KickBody, PasswordBody, RoomKickReply
from greenroom.contract.rooms import SeatKeptReply

if TYPE_CHECKING:
    from greenroom.client.player import Player

POLL_SECONDS: Final = 0.5


class Lobby:
    """A player's seat in a lobby; `Player` makes one. Errors and cancellation as for `Game`.

    Attributes:
        player: the player who has the seat.
        matchmaking_id: the lobby's id when the seat was taken.
        join_token: lets others in without password or approval; None if it is not known.
    """

    def __init__(self, player: Player, matchmaking_id: str, join_token: str | None) -> None:
        """Use the calls of a player who has a seat."""
        self.player = player
        self.matchmaking_id = matchmaking_id
        self.join_token = join_token

    async def current(self) -> LobbyCurrentReply:
        """Return the lobby, its start and, for its host, the join requests."""
        return await self.player.caller.call(LOBBY_CURRENT)

    async def players(self) -> LobbyPlayersReply:
        """Return the members."""
        return await self.player.caller.call(LOBBY_PLAYERS)

    async def heartbeat(self) -> SeatKeptReply:
        """Keep the seat; any other call of the player does, too."""
        return await self.player.caller.call(LOBBY_BEAT)

    async def leave(self) -> MessageReply:
        """Give up the seat."""
        return await self.player.caller.call(LEAVE_LOBBY)

    async def wait_started(self, *, poll_seconds: float = POLL_SECONDS) -> Room | None:
        """Wait for the start; return the room, or None if the seat is lost before.

        Cancellation: nothing has changed.
        """
        while True:
            lobby = (await self.current()).matchmaking
            if lobby is None:
                return None
            if lobby.room_id is not None:
                return Room(self.player, lobby.room_id, None)
            await trio.sleep(poll_seconds)

    # The host's.

    async def start(self) -> LobbyStartReply:
        """Turn the lobby into a room, with the members who are online; hosts only."""
        return await self.player.caller.call(START_LOBBY)

    async def stop(self) -> MessageReply:
        """End the lobby before its start; hosts only."""
        return await self.player.caller.call(STOP_LOBBY)

    async def remove(self) -> MessageReply:
        """End the lobby, with the room that it may have become; hosts only."""
        return await self.player.caller.call(REMOVE_LOBBY)

    async def kick(self, player_id: int) -> RoomKickReply:
        """Kick a member, before the start; hosts only."""
        return await self.player.caller.call(LOBBY_KICK, KickBody(player_id=player_id))

    async def set_password(self, password: str) -> MessageReply:
        """Replace the password before the start; `""` removes it; hosts only."""
        return await self.player.caller.call(LOBBY_PASSWORD, PasswordBody(password=password))

    async def renew_join_token(self) -> JoinTokenReply:
        """Replace the join token; hosts only."""
        renewed = await self.player.caller.call(LOBBY_JOIN_TOKEN)
        self.join_token = renewed.join_token
        return renewed

    async def approve(self, request_id: str) -> AnswerReply:
        """Approve a join request; hosts only."""
        return await self._answer(request_id, "approve")

    async def reject(self, request_id: str) -> AnswerReply:
        """Reject a join request; hosts only."""
        return await self._answer(request_id, "reject")

    async def _answer(self, request_id: str, action: str) -> AnswerReply:
        return await self.player.caller.call(
            ANSWER_REQUEST, AnswerBody(action=action), request_id=request_id
        )
