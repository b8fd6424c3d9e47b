"""Loaders: they bring passive actors of each kind to memory, from the database.

A directory of actors is built on a loader, so nothing here knows the directory of its own kind.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Generic, Protocol, TypeVar

from greenroom.actors.friendship.actor import FriendshipActor
from greenroom.actors.friendship.messages import FriendLimits, Pair
from greenroom.actors.game.actor import GameActor
from greenroom.actors.game.index import GameIndex
from greenroom.actors.kernel.actor import Actor
from greenroom.actors.kernel.clock import Clock
from greenroom.actors.kernel.directory import Directory
from greenroom.actors.kernel.errors import MailboxFull, StorageUnavailable
from greenroom.actors.kernel.journal import Recovered
from greenroom.actors.kernel.shard_ownership import Ownership
from greenroom.actors.lobby import codec as lobby_codec
from greenroom.actors.lobby.actor import LobbyActor
from greenroom.actors.lobby.index import LobbyIndex
from greenroom.actors.lobby.messages import LobbyRole
from greenroom.actors.lobby.state import Lobby, LobbyLimits
from greenroom.actors.plans.refusals import PlayersHoldTooMuch
from greenroom.actors.player.actor import PlayerActor
from greenroom.actors.player.index import PlayerIndex
from greenroom.actors.room.actor import RoomActor
from greenroom.actors.room.index import RoomIndex
from greenroom.actors.room.messages import RoomRole
from greenroom.actors.room.ports import Connections
from greenroom.actors.room.rules import codec as room_codec
from greenroom.actors.room.rules.state import Room, RoomLimits
from greenroom.actors.room.rules.tokens import TOKEN_SECONDS
from greenroom.actors.seating.seats import SeatIndex
from greenroom.actors.studio_room.actor import StudioRoomActor
from greenroom.actors.studio_room.opening import LobbyBehaviours
from greenroom.actors.studio_room.ports import Studio
from greenroom.actors.world.journals import Journals
from greenroom.actors.world.ports import ID_MAX, Accounts, FriendshipRows

Role = TypeVar("Role")


class Ending(Protocol):
    """The state of a room or lobby."""

    @property
    def is_active(self) -> bool:
        """Return whether the room or lobby has not ended."""
        ...

    @property
    def ended_at(self) -> int | None:
        """Return when the room or lobby ended (Unix seconds), None if it has not."""
        ...

    @property
    def created_at(self) -> int:
        """Return when the room or lobby was created (Unix seconds)."""
        ...


State = TypeVar("State", bound=Ending)


class JournalLoader(Generic[Role, State]):
    """Brings back actors of one kind that are stored as a journal."""

    kind: str
    linger_seconds = 0
    """The least seconds that an actor stays in memory after its end."""

    def __init__(self, journals: Journals, index: SeatIndex[Any]) -> None:
        """Prepare.

        Args:
            journals: where the actors are stored.
            index: of their seats; it forgets actors that have ended.
        """
        self.journals = journals
        self.seats = index

    def restore(self, recovered: Recovered) -> State | None:
        """Return the state that the snapshot and the journal result in, None if there is neither.

        Raises:
            UnreadableJournal: the snapshot or journal cannot be read, or an entry is missing.
        """
        raise NotImplementedError

    def make_actor(self, state: State | None) -> Actor[Role]:
        """Return an actor for a state, or for one that is still to be created."""
        raise NotImplementedError

    def note_durable(self, key: str, state: State | None) -> None:
        """Note the stored state of an actor before the actor is brought back."""

    async def load(self, key: str) -> Actor[Role] | None:
        """Bring an actor back from its journal; None if it has ended or never existed.

        Raises:
            StorageUnavailable: the database does not answer.
            UnreadableJournal: what is stored cannot be read.
        """
        recovered = await self.journals.recover(self.kind, key)
        state = None if recovered is None else self.restore(recovered)
        self.note_durable(key, state)
        if state is None or not state.is_active:
            self.seats.forget(key)
            return None
        return self.make_actor(state)


class RoomLoader(JournalLoader[RoomRole, Room]):
    """Brings back rooms, and makes the actors of new ones."""

    kind = room_codec.KIND
    linger_seconds = TOKEN_SECONDS

    def __init__(  # noqa: PLR0917 - the ports and bounds that all rooms are given
        self,
        journals: Journals,
        index: RoomIndex,
        clock: Clock,
        limits: RoomLimits,
        connections: Connections,
        studio: Studio,
    ) -> None:
        """Prepare."""
        super().__init__(journals, index)
        self.index = index
        self.studio = studio
        self._clock = clock
        self._limits = limits
        self._connections = connections

    def restore(self, recovered: Recovered) -> Room | None:
        """Return a room as it was stored."""
        return room_codec.restore(recovered)

    def make_actor(self, state: Room | None, behaviour: str | None = None) -> RoomActor:
        """Return an actor for a room, or for one that is still to be created.

        Args:
            state: the room, if there is one.
            behaviour: the name of the behaviour of a room that is to be created.
        """
        around = (self.index, self._clock, self._limits, self._connections)
        if (behaviour if state is None else state.behaviour) is None:
            return RoomActor(state, *around)
        return StudioRoomActor(state, *around, self.studio)

    async def load(self, key: str) -> RoomActor | None:
        """Bring a room back from its journal; None if it has ended or never existed.

        Raises:
            StorageUnavailable: the database does not answer, or the start of the lobby that
                becomes this room is not durable yet. Try again.
            UnreadableJournal: what is stored cannot be read.
        """
        recovered = await self.journals.recover(self.kind, key)
        if recovered is None and self.index.is_expected(key):
            raise StorageUnavailable(f"room {key} is not durable yet")
        room = None if recovered is None else self.restore(recovered)
        if room is None or not room.is_active:
            self.index.forget(key)
            return None
        return self.make_actor(room)


class LobbyLoader(JournalLoader[LobbyRole, Lobby]):
    """Brings back lobbies, and makes the actors of new ones."""

    kind = lobby_codec.KIND

    def __init__(
        self,
        rooms: RoomLoader,
        room_actors: Directory[RoomRole],
        index: LobbyIndex,
        *,
        clock: Clock,
        limits: LobbyLimits,
        is_online: Callable[[int], bool],
    ) -> None:
        """Prepare.

        Args:
            rooms: makes what lobbies become when they start.
            room_actors: the rooms in memory.
            index: of lobbies; it must share its table of seats with that of the rooms.
            clock: what time it is.
            limits: the bounds of what a lobby holds.
            is_online: returns whether a player is online now.
        """
        super().__init__(rooms.journals, index)
        self.index = index
        self.limits = limits
        self._rooms = rooms.index
        self._room_actors = room_actors
        self._behaviours = LobbyBehaviours(rooms.studio, clock)
        self._clock = clock
        self._is_online = is_online

    def restore(self, recovered: Recovered) -> Lobby | None:
        """Return a lobby as it was stored."""
        return lobby_codec.restore(recovered)

    def note_durable(self, key: str, state: Lobby | None) -> None:
        """Forget a room that the database has refused to make of a lobby.

        Its members sit in the lobby again, if the lobby still exists.
        """
        room_id = self._rooms.find_room_of_lobby(key)
        if room_id is not None and (state is None or state.room_id is None):
            self._room_actors.discard(room_id)
            self._rooms.forget(room_id)

    def make_actor(self, state: Lobby | None) -> LobbyActor:
        """Return an actor for a lobby, or for one that is still to be created."""
        return LobbyActor(
            state,
            index=self.index,
            rooms=self._rooms,
            is_online=self._is_online,
            behaviours=self._behaviours,
            clock=self._clock,
            limits=self.limits,
        )


def player_loader(
    accounts: Accounts, index: PlayerIndex, clock: Clock
) -> Callable[[int], Awaitable[PlayerActor | None]]:
    """Return the function that loads a passive player; it returns None if there is no such player.

    It raises `MailboxFull` if there is no space. A player who is online is always loaded: their
    actor has crashed, and their memory was admitted before.
    """

    async def load(player_id: int) -> PlayerActor | None:
        if not 1 <= player_id <= ID_MAX:
            return None
        player = await accounts.load_player(player_id)
        if player is None:
            return None
        if not player.is_online:
            try:
                index.admit(player)
            except PlayersHoldTooMuch as refusal:
                raise MailboxFull(str(refusal)) from None
        return PlayerActor(player, index, clock)

    return load


def game_loader(
    accounts: Accounts, index: GameIndex, clock: Clock, ownership: Ownership | None = None
) -> Callable[[int], Awaitable[GameActor | None]]:
    """Return the function that loads a passive game; it returns None if there is no such game.

    Where this node has partitions of the game, and not its home, it loads a copy.
    """

    async def load(game_id: int) -> GameActor | None:
        if not 1 <= game_id <= ID_MAX:
            return None
        game = await accounts.load_game(game_id)
        if game is None:
            return None
        copy_in = None
        if len(game.shards) > 1 and ownership is not None and not ownership.owns(game.shards[0]):
            copy_in = next(filter(ownership.owns, game.shards), None)
            if copy_in is not None:  # it may have been made elsewhere since this node has its shard
                index.ledger.open_game(game_id, game.owner_id, game.plan, game.shards)
        return GameActor(game, index, clock, copy_in)

    return load


def friendship_loader(
    rows: FriendshipRows, clock: Clock, limits: FriendLimits, index: PlayerIndex
) -> Callable[[Pair], Awaitable[FriendshipActor | None]]:
    """Return the function that loads a pair of players; it returns None for an impossible pair.

    Args:
        rows: the rows of the database.
        clock: tells the time.
        limits: how much each player may have.
        index: of the players in memory.
    """

    async def load(pair: Pair) -> FriendshipActor | None:
        if not 1 <= pair.low_id < pair.high_id:
            return None
        friendship = await rows.load_friendship(pair)
        return FriendshipActor(
            pair,
            friendship,
            clock=clock,
            limits=limits,
            is_gone=index.is_closed,
            shard=index.ledger.find_shard(pair.game_id),
        )

    return load
