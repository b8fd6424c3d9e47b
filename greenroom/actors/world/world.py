"""The world that flows act in: the directories of actors, what is known about all, the database."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Container, Generator
from contextlib import contextmanager, suppress
from typing import Literal

import msgspec

from greenroom.actors.game.index import GameIndex
from greenroom.actors.game.messages import GameRole
from greenroom.actors.kernel.clock import Clock
from greenroom.actors.kernel.directory import Directory
from greenroom.actors.kernel.errors import (
    ActorStopped,
    CommitUnsettled,
    Moved,
    Refused,
    StorageUnavailable,
)
from greenroom.actors.kernel.shard_ownership import Ownership, Tenure, TenureOfSeveral
from greenroom.actors.kernel.shards import partition_named
from greenroom.actors.lobby.messages import ReadLobbyStatus
from greenroom.actors.plans.ledger import Ledger
from greenroom.actors.player.index import PlayerIndex
from greenroom.actors.player.messages import PlayerRole
from greenroom.actors.room.messages import DescribeRoom
from greenroom.actors.seating.seats import SeatKind
from greenroom.actors.world.audit import Audit
from greenroom.actors.world.departures import Departures
from greenroom.actors.world.friendships import Friendships
from greenroom.actors.world.leaderboards import Leaderboards
from greenroom.actors.world.others import OtherNodes
from greenroom.actors.world.platform import Platforms
from greenroom.actors.world.ports import Accounts
from greenroom.actors.world.rooms_and_lobbies import Lobbies, Rooms
from greenroom.actors.world.seats import Seats
from greenroom.actors.world.shared_answers import SharedAnswers


async def nothing_to_take() -> bool:
    """Return that this node lacks nothing of any plan: it shares none with others."""
    return False


class WorldSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings that flows use."""

    stale_seconds: float
    """A player not heard of for so long goes offline."""
    sweep_seconds: float
    """How often stale players are looked for."""
    presence_seconds: float = 10.0
    """How often the times of the last signs of life are written."""
    snapshot_seconds: float
    """How often rooms that have changed are written whole."""
    journal_retention_seconds: int
    """How far the history of rooms reaches back, of those that have ended too."""
    room_document_bytes_max: int
    """Bytes of the `rules` of a room or lobby, and of the `player_data` of each seat in one."""
    partitions_per_game: int | Literal["auto"]
    """Shards that a new game lives in; `auto` is by the number of nodes."""


class RealtimeAddress(msgspec.Struct, frozen=True, kw_only=True):
    """The address of the realtime ports; with `host` None, clients use the name they know."""

    host: str | None
    port: int
    protocol: Literal["ws", "wss"]
    udp_port: int
    machine: str | None = None
    """The name of this machine, where the server runs on several."""
    machines: Container[str] = ()
    """The names of all of them. Who knows one can reach them all."""

    def choose_host(self, called: str) -> str:
        """Return the host that a client should use.

        Args:
            called: the one by which it has called us, or another machine, without a port.
        """
        if self.host is not None:
            return self.host
        if self.machine is None or called.strip("[]") not in self.machines:
            return called
        return f"[{self.machine}]" if ":" in self.machine else self.machine


class World(msgspec.Struct, kw_only=True):
    """Everything that flows, operations and HTTP handlers reach; built once, by `app`."""

    clock: Clock
    accounts: Accounts
    audit: Audit
    players: Directory[PlayerRole]
    games: Directory[GameRole]
    player_index: PlayerIndex
    game_index: GameIndex
    leaderboards: Leaderboards
    rooms: Rooms
    lobbies: Lobbies
    seats: Seats
    platforms: Platforms
    friendships: Friendships
    ownership: Ownership | None = None
    """The shards of this node; None if there are no other nodes."""
    others: OtherNodes | None = None
    """The other nodes, once this one has joined them; None if there are none."""
    gathered: SharedAnswers = msgspec.field(default_factory=SharedAnswers)
    """Shares what is gathered from other nodes among those who ask for the same at once."""
    departures: Departures | None = None
    """The players who move to other nodes; None if there are none."""
    realtime_address: Callable[[], RealtimeAddress] | None = None
    """None if there are no such ports."""
    wait_settled: Callable[[], Awaitable[None]] | None = None
    """Waits until all changes so far are durable; None where changes are durable at once."""
    settings: WorldSettings
    misplaced: Counter[tuple[str, str]] = msgspec.field(default_factory=Counter)
    """The players who were found where they do not live: where that was, and what came of it."""
    take_shares: Callable[[], Awaitable[bool]] = nothing_to_take
    """Gets more of the plans of which this node lacks something; returns whether it lacked any.
    Whoever was refused should then try again."""

    @contextmanager
    def claim_seat(
        self, player_id: int, kind: SeatKind, in_room: type[Refused], in_lobby: type[Refused]
    ) -> Generator[Callable[[], None]]:
        """Claim the seat of a player who lives here, as `Seats.claim` does.

        Returns:
            What `watch_shard` does. Call it right before the seat is taken.

        Raises:
            Moved: their shard is another node's, or is just being brought up.
            Refused: they have a seat, or are taking another.
        """
        check = self.watch_shard(self.players.find_shard(player_id))
        with self.seats.claim(player_id, kind, in_room, in_lobby):
            yield check

    def watch_shard(self, shard: int | None) -> Callable[[], None]:
        """Return a function to call right before what memory has decided happens.

        It raises `Moved` if this node has gained or lost a shard since: then memory was not whole
        for a while, and may say something else now.

        Args:
            shard: the one that memory is asked about; None if it is not here.

        Raises:
            Moved: it is another node's, or is just being brought up.
        """
        if self.ownership is not None and (shard is None or not self.serves(shard)):
            raise Moved("it is another node's, or just coming up")
        as_of = self.as_of

        def check() -> None:
            if self.as_of != as_of:
                raise Moved("shards have come or gone meanwhile")

        return check

    async def confirm(self, refusal: Refused, player_id: int) -> None:
        """Wait until a seat that a refusal tells of is durable. Cancellation just ends the wait.

        Actors wait for themselves. But nobody has asked the room or lobby of the seat. It may have
        crashed before the seat was stored, and then the player has none when it is back.

        Raises:
            StorageUnavailable: it is not known in time, or the player has no seat any more.
            ActorUnavailable: it could not be found out.
        """
        if refusal.tells_seat:
            await self.confirm_seat(player_id)

    async def confirm_seat(self, player_id: int) -> None:
        """Wait until it is durable where a player sits; see `confirm`.

        A seat that is just being taken counts as one. Whether they get it is waited for, too.

        Raises:
            StorageUnavailable: it is not known in time, or the player has no seat any more.
            ActorUnavailable: it could not be found out.

        Cancellation just ends the wait.
        """
        is_claimed = not self.seats.is_seated(player_id) and self.seats.is_claimed(player_id)
        if is_claimed:
            await self.seats.wait_unclaimed(player_id)
        await self.wait_durable()
        room_id, lobby_id = self.seats.find_room(player_id), self.seats.find_lobby(player_id)
        with suppress(ActorStopped):
            if room_id is not None:
                await self.rooms.directory.get_ref(room_id).ask(DescribeRoom())
            elif lobby_id is not None:
                await self.lobbies.directory.get_ref(lobby_id).ask(ReadLobbyStatus(player_id))
        had_seat = is_claimed or (room_id or lobby_id) is not None
        if had_seat and not self.seats.is_seated(player_id):
            raise StorageUnavailable(f"player {player_id} has no seat any more")

    async def wait_durable(self) -> None:
        """Wait until all changes so far are durable. Cancellation just ends the wait.

        Raises:
            StorageUnavailable: it is not known in time.
        """
        if self.wait_settled is not None:
            try:
                await self.wait_settled()
            except CommitUnsettled as error:
                raise StorageUnavailable(str(error)) from None

    def find_tenure(
        self, game_id: int, player_id: int = 0, *, lives_here: bool = False
    ) -> Tenure | TenureOfSeveral | None:
        """Return the time for which this node has a game's shard; None if there are no others.

        A shard that was lost and has come back counts once its rooms are in memory again. Of a game
        in several shards it is that of the player's, or of all that are here.

        Args:
            game_id: which game.
            player_id: a player of it; 0, or one who lives elsewhere, for none.
            lives_here: whether the player has just been found here.

        Raises:
            Moved: the game is none of this node's, or is just being brought up; or the player has
                left with their shard since they were found here.
        """
        ownership, others, ledger = self.ownership, self.others, self.player_index.ledger
        if ownership is None:
            return None
        if ledger.spread and (shards := ledger.spread.get(game_id)) is not None:
            shard = self.players.find_shard(player_id)
            if shard is None and not lives_here:
                return TenureOfSeveral(ownership, filter(self.serves, shards))
        else:
            shard = ledger.find_shard(game_id)
        if shard is not None and (others is None or others.serves(shard)):
            tenure = ownership.find_tenure(shard)
            if tenure is not None:
                return tenure
        raise Moved

    def join(self, others: OtherNodes) -> None:
        """Set the way to other nodes; before this, there is nobody to ask."""
        self.others = others
        if self.departures is not None:
            self.departures.others = others

    def require_home(self, game_id: int, vouched: int = 0) -> None:
        """Go on only at the home of a game.

        Args:
            game_id: which game.
            vouched: the player for whom that node is to go on, without looking at their token.

        Raises:
            Moved: another node, or a later moment, is the right one.
        """
        if self.ledger.spread:
            self.require_here(game_id, "", vouched)

    def require_here(self, game_id: int, key: str, vouched: int = 0) -> None:
        """Go on only where a room, lobby, join request or invite lives; see `require_home`."""
        shards = self.ledger.spread.get(game_id)
        if shards is not None:
            shard = partition_named(shards, key)
            if not self.serves(shard):
                raise Moved("another partition's", shard=shard, vouched=vouched)

    def serves(self, shard: int) -> bool:
        """Return whether a shard is this node's and has been brought up."""
        return self.owns(shard) if self.others is None else self.others.serves(shard)

    def owns(self, shard: int) -> bool:
        """Return whether a shard is this node's, as all are where there are no others."""
        return self.ownership is None or self.ownership.owns(shard)

    def is_here(self, game_id: int, place_id: str) -> bool:
        """Return whether a room or lobby is this node's, if there is one of this id."""
        return self.ownership is None or self.serves(self.ledger.get_shard(game_id, place_id))

    @property
    def as_of(self) -> int | None:
        """Return what `Directory.adopt` is told of the moment at which a row is read."""
        return None if self.ownership is None else self.ownership.version

    @property
    def ledger(self) -> Ledger:
        """Return what owners use of their plans."""
        return self.player_index.ledger
