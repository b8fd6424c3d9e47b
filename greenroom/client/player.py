"""A player who is signed in."""

from __future__ import annotations

import ssl
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Final

from greenroom.client.caller import Caller, JsonObject, as_optional_document
from greenroom.client.friends import Friends
from greenroom.client.lobby import Lobby
from greenroom.client.room import Room
from greenroom.contract.game_data import GET_PLAYER, SET_PLAYER, PlayerDocumentReply, StoredReply
from greenroom.contract.matchmaking import (
    ASK_TO_JOIN,
    CREATE_LOBBY,
    JOIN_LOBBY,
    JOIN_REQUEST,
    LobbyCreateBody,
    LobbyJoinBody,
    RequestBody,
    RequestView,
)
from greenroom.contract.matchmaking_seat import LOBBY_CURRENT
from greenroom.contract.players import (
    BEAT,
    LOG_IN,
    LOG_OUT,
    RENAME,
    ROTATE,
    HeartbeatReply,
    LogoutReply,
    PlayerRecord,
    RenameBody,
    RenameReply,
)
from greenroom.contract.realtime import MINT_TOKEN, TokenReply
from greenroom.contract.rooms import (
    CREATE_ROOM,
    JOIN_ROOM,
    ROOM_CURRENT,
    SIZE_DEFAULT,
    CreateBody,
    JoinBody,
)

if TYPE_CHECKING:
    from greenroom.client.channel import Channel

RECONNECT_SECONDS_MAX: Final = 60.0

_HEADER: Final = "X-Game-Player-Token"


class Player:
    """A player; `Game.register` and `Game.log_in` make one. Errors, cancellation: as for `Game`.

    Attributes:
        player_id: the player's id.
        player_name: the player's name, as far as it is known here.
        player_tag: the tag by which others find the player.
        token: the player's secret. It is good until it is rotated.
        friends: operations on friends and invites.
    """

    def __init__(
        self,
        caller: Caller,
        *,
        token: str,
        player_id: int,
        player_name: str,
        player_tag: str,
        tls: ssl.SSLContext | None,
    ) -> None:
        """Add a player's token to a game's calls."""
        self._game_caller = caller
        self._tls = tls
        self.caller = caller.copy_with_header(_HEADER, token)
        self.token = token
        self.player_id = player_id
        self.player_name = player_name
        self.player_tag = player_tag
        self.friends = Friends(self)

    # Account.

    @staticmethod
    async def read_record(caller: Caller, token: str) -> PlayerRecord:
        """Log in with a token; see `Game.log_in`."""
        logged_in = await caller.copy_with_header(_HEADER, token).call(LOG_IN)
        return logged_in.player

    async def log_in(self) -> PlayerRecord:
        """Log in again; the record has the `last_login` of the login before."""
        return await self.read_record(self._game_caller, self.token)

    async def heartbeat(self) -> HeartbeatReply:
        """Stay online; any other call of the player does, too."""
        return await self.caller.call(BEAT)

    async def log_out(self) -> LogoutReply:
        """Go offline. The server keeps the seat for a while (`stale_seconds`)."""
        return await self.caller.call(LOG_OUT)

    async def rename(self, new_name: str) -> RenameReply:
        """Change the player's name."""
        renamed = await self.caller.call(RENAME, RenameBody(new_name=new_name))
        self.player_name = renamed.new_name
        return renamed

    async def rotate(self) -> str:
        """Replace the token, and return the new one. The old one stops working at once.

        If the answer is lost (`ConnectionFailed` with `was_sent`), the new token may be lost, too.
        """
        rotated = await self.caller.call(ROTATE)
        self.token = rotated.private_key
        self.caller = self._game_caller.copy_with_header(_HEADER, self.token)
        return self.token

    async def document(self) -> PlayerDocumentReply:
        """Read the player's document."""
        return await self.caller.call(GET_PLAYER)

    async def set_document(self, document: JsonObject) -> StoredReply:
        """Replace the player's document, if the game lets clients do that."""
        return await self.caller.put(SET_PLAYER, document)

    # Rooms.

    async def create_room(
        self,
        room_name: str | None = None,
        *,
        password: str | None = None,
        max_players: int | None = None,
        host_switch: bool | None = None,
        realtime: bool | None = None,
        rules: JsonObject | None = None,
        player_data: JsonObject | None = None,
    ) -> Room:
        """Open a room, with the player as host.

        Args:
            room_name: at most 120 characters.
            password: needed by everybody without the join token or an invite.
            max_players: 2 to 16; 6 if left out.
            host_switch: True if the room goes on when its host leaves.
            realtime: True if members may connect (`realtime`).
            rules: an object that the game defines.
            player_data: an object of the player's that the other members see.
        """
        created = await self.caller.call(
            CREATE_ROOM,
            CreateBody(
                room_name=room_name,
                password=password,
                max_players=SIZE_DEFAULT if max_players is None else max_players,
                host_switch=bool(host_switch),
                realtime=bool(realtime),
                rules=as_optional_document(rules),
                player_data=as_optional_document(player_data),
            ),
        )
        return Room(self, created.room_id, created.join_token)

    async def join_room(
        self,
        room_id: str,
        *,
        password: str | None = None,
        join_token: str | None = None,
        player_data: JsonObject | None = None,
    ) -> Room:
        """Take a seat in a room; the join token, or an invite, replaces the password."""
        joined = await self.caller.call(
            JOIN_ROOM,
            JoinBody(
                password=password,
                join_token=join_token,
                player_data=as_optional_document(player_data),
            ),
            room_id=room_id,
        )
        return Room(self, joined.room_id, join_token)

    async def room(self) -> Room | None:
        """Return the room in which the player has a seat, such as after a restart, or None."""
        current = await self.caller.call(ROOM_CURRENT)
        if current.room is None:
            return None
        return Room(self, current.room.room_id, current.room.join_token)

    # Lobbies.

    async def create_lobby(
        self,
        max_players: int,
        *,
        matchmaking_name: str | None = None,
        strict_full: bool | None = None,
        join_by_requests: bool | None = None,
        host_switch: bool | None = None,
        can_leave_room: bool | None = None,
        realtime_room: bool | None = None,
        password: str | None = None,
        rules: JsonObject | None = None,
        player_data: JsonObject | None = None,
    ) -> Lobby:
        """Open a lobby, with the player as host.

        Args:
            max_players: 2 to 16.
            matchmaking_name: at most 120 characters.
            strict_full: True if it must be full before it starts.
            join_by_requests: True if the host approves everybody.
            host_switch: True if it goes on when its host leaves, also as a room.
            can_leave_room: True if members may leave the room that it becomes.
            realtime_room: True if members of that room may connect.
            password: needed by everybody without the join token or an invite.
            rules: an object that the game defines.
            player_data: an object of the player's that the other members see.
        """
        created = await self.caller.call(
            CREATE_LOBBY,
            LobbyCreateBody(
                max_players=max_players,
                matchmaking_name=matchmaking_name,
                strict_full=bool(strict_full),
                join_by_requests=bool(join_by_requests),
                host_switch=bool(host_switch),
                can_leave_room=bool(can_leave_room),
                realtime_room=bool(realtime_room),
                password=password,
                rules=as_optional_document(rules),
                player_data=as_optional_document(player_data),
            ),
        )
        return Lobby(self, created.matchmaking_id, created.join_token)

    async def join_lobby(
        self,
        matchmaking_id: str,
        *,
        password: str | None = None,
        join_token: str | None = None,
        player_data: JsonObject | None = None,
    ) -> Lobby:
        """Take a seat in a lobby; the join token, or an invite, replaces approval and password."""
        joined = await self.caller.call(
            JOIN_LOBBY,
            LobbyJoinBody(
                password=password,
                join_token=join_token,
                player_data=as_optional_document(player_data),
            ),
            matchmaking_id=matchmaking_id,
        )
        return Lobby(self, joined.matchmaking_id, join_token)

    async def ask_to_join(
        self, matchmaking_id: str, *, player_data: JsonObject | None = None
    ) -> str:
        """Ask a lobby's host for a seat; return the request's id."""
        asked = await self.caller.call(
            ASK_TO_JOIN,
            RequestBody(player_data=as_optional_document(player_data)),
            matchmaking_id=matchmaking_id,
        )
        return asked.request_id

    async def join_request(self, request_id: str) -> RequestView:
        """Return the state of a request; once approved, the player has the seat (`lobby`)."""
        found = await self.caller.call(JOIN_REQUEST, request_id=request_id)
        return found.request

    async def lobby(self) -> Lobby | None:
        """Return the lobby in which the player has a seat, or None."""
        current = await self.caller.call(LOBBY_CURRENT)
        if current.matchmaking is None:
            return None
        return Lobby(self, current.matchmaking.matchmaking_id, None)

    # Realtime.

    async def realtime_token(self) -> TokenReply:
        """Get a token for a realtime connection. `realtime` gets its own."""
        return await self.caller.call(MINT_TOKEN)

    def realtime(
        self, room: Room, *, reconnect_seconds_max: float = RECONNECT_SECONDS_MAX
    ) -> AbstractAsyncContextManager[Channel]:
        """Connect to a realtime room of the player's, for as long as the block lasts.

        Args:
            room: the room in which the player has a seat.
            reconnect_seconds_max: seconds for which a lost connection is tried again; 0 for none.

        Raises:
            ImportError: the extra `greenroom[client]` is not installed.
            ApiError: the room is not realtime, or the player has no seat.
            ConnectionFailed, ChannelClosed: the first connection could not be opened.
        """
        from greenroom.client.channel import open_channel

        return open_channel(
            self.realtime_token,
            room.room_id,
            tls=self._tls,
            chance=self.caller.chance,
            reconnect_seconds_max=reconnect_seconds_max,
        )
