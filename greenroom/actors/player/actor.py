"""A player as an actor: the record, changed by `rules`, and the player's place in the index."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial
from typing import Any, Final

from greenroom.actors.kernel.actor import Actor, handles
from greenroom.actors.kernel.clock import Clock
from greenroom.actors.kernel.message import Changed, Event
from greenroom.actors.plans.address_counts import share_key
from greenroom.actors.plans.ledger import GameUsage, player_bytes
from greenroom.actors.plans.memory import Piece
from greenroom.actors.player import results, rules
from greenroom.actors.player.bans import ban_in_force
from greenroom.actors.player.index import PlayerIndex
from greenroom.actors.player.memory import held_bytes, new_bytes, part_for, stats_bytes
from greenroom.actors.player.messages import (
    Authenticate,
    Ban,
    BanPlayer,
    ClosePlayer,
    DeletePlayer,
    DescribePlayer,
    Heartbeat,
    LeaveIfStale,
    LogIn,
    LogOut,
    MovePlayer,
    Player,
    PlayerCameOnline,
    PlayerDeleted,
    PlayerDocument,
    PlayerDocumentReplaced,
    PlayerLoggedIn,
    PlayerLoggedOut,
    PlayerMoved,
    PlayerPresenceSaved,
    PlayerRegistered,
    PlayerRenamed,
    PlayerRole,
    PlayerStatsChanged,
    PlayerTokenRotated,
    PlayerView,
    ReadBan,
    ReadPlayerDocument,
    RegisterPlayer,
    Rename,
    ReplacePlayerDocument,
    ResultsMarked,
    RotateToken,
    SavePresence,
    SignIn,
    StatsWritten,
    UnbanPlayer,
    WriteResult,
    WriteStats,
)
from greenroom.actors.player.refusals import PlayerNotFound


class _Entering:
    """Online players of a game who enter the index together."""

    def __init__(self, index: PlayerIndex, clock: Clock, usage: GameUsage) -> None:
        """Begin with none."""
        self.players: list[Player] = []
        self.actors: list[Callable[[Piece, GameUsage], None]] = []
        """Each notes what the player holds, and that they are counted in a game."""
        self._index = index
        self._clock = clock
        self._usage = usage

    def enter(self) -> None:
        """Enter them, and count them as online."""
        index, clock, usage = self._index, self._clock, self._usage
        pieces = index.enter_together(self.players, usage, clock.monotonic(), clock.now())
        for note_entered, piece in zip(self.actors, pieces, strict=True):
            note_entered(piece, usage)
        usage.count_all_online(len(pieces))


class PlayerActor(Actor[PlayerRole]):
    """One player.

    Presence (online, last heartbeat) is soft: it changes without events, and is written in the
    background. Everything else changes by events alone. The use of the game's plan is checked and
    counted in the same turn.
    """

    kind = "player"

    def __init__(
        self, player: Player | None, index: PlayerIndex, clock: Clock, address: str = ""
    ) -> None:
        """Hold a record, or none yet: then the first command must be `RegisterPlayer`.

        Args:
            player: the record.
            index: of all players.
            clock: what times are read from.
            address: the address of the client whose call brought the player to memory; empty if
                unknown.
        """
        self._record = player
        self._index = index
        self._clock = clock
        self._online_in: GameUsage | None = None
        self._address = address
        """The address that the player came online from, as far as a call has told it."""
        self._piece: Piece | None = None
        self._closed = False

    @property
    def is_created(self) -> bool:
        """Return whether there is a record."""
        return self._record is not None

    @property
    def shard(self) -> int | None:
        """Return the partition of the game that the player lives in."""
        record = self._record
        if record is None or record.shard is not None:
            return None if record is None else record.shard
        return self._index.ledger.find_shard(record.game_id)

    @property
    def _player(self) -> Player:
        """Return the record.

        Raises:
            PlayerNotFound: there is none yet, or none any more.
        """
        if self._record is None or self._closed:
            raise PlayerNotFound
        return self._record

    def on_start(self) -> None:
        """Enter the index. For an online player, the time until they are stale begins anew."""
        if self._record is not None:
            self._enter(self._record)
            self._index.note_loaded(self._record)

    @classmethod
    def start_together(cls, actors: Collection[Any]) -> None:
        """Do what `on_start` does, in fewer steps for online players of a game."""
        games: dict[int, _Entering] = {}
        for actor in actors:
            actor.start_among(games)
        for entering in games.values():
            entering.enter()

    def start_among(self, games: dict[int, _Entering]) -> None:
        """Start at once, or add the player to those of their game who enter the index together."""
        player = self._record
        if player is None or not player.is_online or self._address:
            self.on_start()
            return
        entering = games.get(player.game_id)
        if entering is None:
            usage = self._find_usage(player.game_id)
            entering = games[player.game_id] = _Entering(self._index, self._clock, usage)
        entering.players.append(player)
        entering.actors.append(self._note_entered)

    def _note_entered(self, piece: Piece, usage: GameUsage) -> None:
        self._piece, self._online_in = piece, usage

    def on_stop(self) -> None:
        """Leave the index."""
        if self._record is not None:
            self._index.remove_token(self._record.token_hash)
            self._index.forget(self._record.player_id)
            self._index.stop_counting(self._record.player_id)
            self._uncount()

    def apply(self, event: Event) -> None:
        """Change the record by one event, and the index with it."""
        if isinstance(event, PlayerRegistered):
            self._record = rules.new_player(event)
            self._find_usage(event.game_id).count_stored(_bytes(self._record), event.player_id)
            self._enter(self._record)
            return
        if isinstance(event, PlayerDeleted):
            self._close()
            if self._record is not None:
                record = self._record
                self._find_usage(event.game_id).count_stored(-_bytes(record), record.player_id)
            return
        player = self._player
        assert getattr(event, "player_id", None) == player.player_id, "an event of another player"
        if isinstance(event, PlayerDocumentReplaced):
            more_bytes = len(event.player_data) - len(player.player_data)
            rules.apply(player, event)
            if more_bytes:
                self._grow(player, more_bytes)
            return
        if isinstance(event, _RESIZING):
            before = held_bytes(player)
            rules.apply(player, event)
            self._grow(player, held_bytes(player) - before)
            if isinstance(event, PlayerStatsChanged):
                self._index.note_stats(player)
            return
        if isinstance(event, PlayerTokenRotated):
            self._index.remove_token(player.token_hash)
            self._index.add_token(event.token_hash, player.player_id)
        rules.apply(player, event)
        if isinstance(event, PlayerLoggedOut):
            self._index.mark_offline(player.player_id)
            self._uncount()

    def _enter(self, player: Player) -> None:
        usage = self._find_usage(player.game_id)
        self._piece = self._index.begin_counting(player.player_id, usage, self._address)
        self._piece.resize(held_bytes(player))
        self._index.add_token(player.token_hash, player.player_id)
        self._index.note_stats(player)
        if player.is_online:
            now = self._clock.now() if player.last_heartbeat is None else player.last_heartbeat
            self._index.mark_online(player.player_id, self._clock.monotonic(), now)
            self._count(usage)
        else:
            self._index.mark_offline(player.player_id)

    def _close(self) -> None:
        """Remove the tokens from the index, and keep the player as offline, to be passivated."""
        if self._record is not None:
            self._index.remove_token(self._record.token_hash)
            self._index.mark_offline(self._record.player_id)
            self._index.mark_closed(self._record.player_id)
        self._uncount()
        self._closed = True

    def _note_sign_of_life(
        self, player: Player, now: int, address: str = "", *, is_kept: bool = True
    ) -> bool:
        """Take a sign of life; see `Heartbeat`.

        Returns:
            Whether other nodes must be able to see that the player is online now.

        Raises:
            PlayerIsBanned: they were banned since the call was let in.
            PlayersRefused: they were offline, and their game's plan allows no more.
        """
        if player.ban is not None:
            rules.check_not_banned(player, now)
        must_be_seen = False
        if self._online_in is None:
            self._come_online(player, address or self._address)
            must_be_seen = player.game_id in self._index.ledger.spread
        rules.apply_sign_of_life(player, now)
        self._index.note_sign_of_life(
            player.player_id, self._clock.monotonic(), now, is_kept=is_kept
        )
        return must_be_seen

    def _come_online(self, player: Player, address: str) -> None:
        """Count the player among those online, for the address that the call comes from.

        Raises:
            PlayersRefused: there is no space, or not for this address.
        """
        usage = self._find_usage(player.game_id)
        usage.check_player(address)
        assert self._piece is not None
        share = share_key(address)
        self._piece.admit_move(share, part_for(len(player.player_data)))
        self._piece.move(share)
        self._address = address
        self._count(usage)

    def _learn(self, address: str) -> None:
        """Count an online player for the address of this call: a restart forgets addresses."""
        if self._online_in is not None and self._piece is not None:
            self._online_in.uncount_online()
            self._online_in.count_online(address)
            self._piece.move(share_key(address))
            self._address = address

    def _grow(self, player: Player, more_bytes: int) -> None:
        """Count what the record has grown by as stored and as held in memory."""
        piece = self._piece
        assert piece is not None
        self._find_usage(player.game_id).count_stored(more_bytes, player.player_id)
        piece.resize(piece.size + more_bytes)

    def _check_space(self, more_bytes: int, document_bytes: int) -> None:
        """Check that there is space for more bytes.

        Args:
            more_bytes: how many more the player is to hold.
            document_bytes: the size of the document afterwards.

        Raises:
            PlayersHoldTooMuch: there is no space.
        """
        if more_bytes > 0 and self._piece is not None:
            self._piece.admit(more_bytes, part_for(document_bytes))

    def _find_usage(self, game_id: int) -> GameUsage:
        """Return what the player's game uses of its owner's plan."""
        return self._index.ledger.get_game_usage(game_id)

    def _count(self, usage: GameUsage) -> None:
        """Count the player among those online."""
        self._online_in = usage
        usage.count_online(self._address)

    def _uncount(self) -> None:
        """Count the player no longer, if they were counted."""
        if self._online_in is not None:
            self._online_in.uncount_online(self._address)
            self._online_in = None

    @handles(RegisterPlayer)
    def register(self, command: RegisterPlayer) -> Changed[None]:
        """Register the account."""
        if self._record is not None:
            raise RuntimeError(f"player {command.player_id} exists already")
        self._address = command.address
        usage = self._find_usage(command.game_id)
        usage.check_player(command.address)
        now, size = self._clock.now(), player_bytes(command.player_name, command.player_data)
        usage.check_storage(size, command.address, now)
        held = new_bytes(command.player_name, command.player_data)
        document_bytes = len(command.player_data)
        self._index.admit_new(usage.owner, held, document_bytes, command.address)
        usage.count_stored_from(command.address, size)
        return Changed(None, rules.decide_register(command, now))

    @handles(Authenticate)
    def authenticate(self, command: Authenticate) -> Changed[None] | None:
        """Check a token. A good one is a sign of life."""
        player, now = self._player, self._clock.now()
        rules.check_token(player, command.game_id, command.token_hash, now)
        if command.address and not self._address and self._online_in is not None:
            self._learn(command.address)
        if self._note_sign_of_life(player, now, command.address):
            return Changed(None, PlayerCameOnline(player.player_id, now))
        return None

    @handles(LogIn)
    def log_in(self, command: LogIn) -> Changed[PlayerView]:
        """Log in; the reply shows the login before this one."""
        player, now = self._player, self._clock.now()
        self._note_sign_of_life(player, now)
        return Changed(rules.view_player(player), PlayerLoggedIn(player.player_id, now))

    @handles(SignIn)
    def sign_in(self, command: SignIn) -> Changed[PlayerView]:
        """Log in under a new token."""
        player, now = self._player, self._clock.now()
        events = rules.decide_sign_in(player, command.new_hash, now)
        self._note_sign_of_life(player, now, command.address)
        return Changed(rules.view_player(player), *events)

    @handles(Heartbeat)
    def heartbeat(self, command: Heartbeat) -> Changed[int] | int:
        """Take a sign of life."""
        player, now = self._player, self._clock.now()
        if self._note_sign_of_life(player, now, is_kept=command.is_kept):
            return Changed(now, PlayerCameOnline(player.player_id, now))
        return now

    @handles(LogOut)
    def log_out(self, command: LogOut) -> Changed[int]:
        """Mark the player offline."""
        now = self._clock.now()
        return Changed(now, *rules.decide_log_out(self._player, now))

    @handles(LeaveIfStale)
    def leave_if_stale(self, command: LeaveIfStale) -> Changed[bool]:
        """Mark the player offline if nothing was heard of them for too long."""
        player = self._player
        silent_seconds = self._index.measure_silent_seconds(
            player.player_id, self._clock.monotonic()
        )
        now = self._clock.now()
        events = rules.decide_leave_if_stale(player, silent_seconds, command.stale_seconds, now)
        return Changed(bool(events), *events)

    @handles(SavePresence)
    def save_presence(self, command: SavePresence) -> Changed[None]:
        """Queue the last sign of life for the database."""
        player = self._player
        saved = PlayerPresenceSaved(player.player_id, player.is_online, player.last_heartbeat)
        return Changed(None, saved)

    @handles(Rename)
    def rename(self, command: Rename) -> Changed[None]:
        """Change the name."""
        player = self._player
        more_bytes = len(command.player_name.encode()) - len(player.player_name.encode())
        self._find_usage(player.game_id).check_storage(more_bytes)
        self._check_space(more_bytes, len(player.player_data))
        event = PlayerRenamed(player.player_id, command.player_name, self._clock.now())
        return Changed(None, event)

    @handles(RotateToken)
    def rotate_token(self, command: RotateToken) -> Changed[None]:
        """Replace the token of the account."""
        now = self._clock.now()
        event = rules.decide_rotate(self._player, command.old_hash, command.new_hash, now)
        return Changed(None, event)

    @handles(ReadPlayerDocument)
    def read_document(self, command: ReadPlayerDocument) -> PlayerDocument:
        """Return the document."""
        player = self._player
        return PlayerDocument(player.player_name, player.player_data, player.stats)

    @handles(ReplacePlayerDocument)
    def replace_document(self, command: ReplacePlayerDocument) -> Changed[int]:
        """Store another document."""
        player, now = self._player, self._clock.now()
        more_bytes = len(command.player_data) - len(player.player_data)
        usage = self._find_usage(player.game_id)
        if more_bytes > 0:
            usage.check_storage(more_bytes, command.address, now)
            self._check_space(more_bytes, len(command.player_data))
        usage.count_stored_from(command.address, more_bytes)
        return Changed(now, _replaced(player, command.player_data, now))

    @handles(WriteResult)
    def write_result(self, command: WriteResult) -> Changed[None]:
        """Set some fields of the document, if that has not been done."""
        player, room_id, number = self._player, command.room_id, command.number
        if results.is_written(player.results, room_id, number):
            return Changed(None)
        merged = rules.merge_documents(player.player_data, command.fields)
        marks = results.mark(player.results, room_id, number)
        return Changed(
            None,
            _replaced(player, merged, self._clock.now()),
            ResultsMarked(player.player_id, marks),
        )

    @handles(WriteStats)
    def write_stats(self, command: WriteStats) -> Changed[StatsWritten]:
        """Change stats, if that has not been done, or read them."""
        player = self._player
        reply, events = rules.decide_write_stats(player, command)
        tell = partial(self._index.stats_changed, player.player_id, command.source)
        return Changed(reply, *events, once_durable=tell if events else None)

    @handles(MovePlayer)
    def move(self, command: MovePlayer) -> Changed[None]:
        """Live in another partition."""
        player = self._player
        moved = PlayerMoved(
            player.player_id,
            player.game_id,
            command.shard,
            player.is_online,
            player.last_heartbeat,
        )
        return Changed(None, moved)

    @handles(DescribePlayer)
    def describe(self, command: DescribePlayer) -> PlayerView:
        """Return what the record shows."""
        return rules.view_player(self._player)

    @handles(ReadBan)
    def read_ban(self, command: ReadBan) -> Ban | None:
        """Return the ban that is in force, or None."""
        ban = self._player.ban
        return None if ban is None else ban_in_force(ban, self._clock.now())

    @handles(ClosePlayer)
    def close(self, command: ClosePlayer) -> int:
        """Refuse every later command but `DeletePlayer`."""
        player = self._player
        self._close()
        return player.game_id

    @handles(DeletePlayer)
    def delete(self, command: DeletePlayer) -> Changed[None]:
        """Mark the account deleted; all earlier changes must be durable (see `ClosePlayer`)."""
        if self._record is None:
            raise PlayerNotFound
        return Changed(None, PlayerDeleted(self._record.player_id, self._record.game_id))

    @handles(BanPlayer)
    def ban(self, command: BanPlayer) -> Changed[Ban]:
        """Ban the player, and mark them offline."""
        events = rules.decide_ban(self._player, command, self._clock.now())
        return Changed(rules.ban_of(events[0]), *events)

    @handles(UnbanPlayer)
    def unban(self, command: UnbanPlayer) -> Changed[int]:
        """End the player's ban."""
        events = rules.decide_unban(self._player, command.game_id, self._clock.now())
        return Changed(len(events), *events)


_RESIZING: Final = (PlayerRenamed, PlayerStatsChanged)
"""Events after which a record may be larger or smaller; `PlayerDocumentReplaced` is one more."""


def _bytes(player: Player) -> int:
    """Return how many bytes a record takes in storage."""
    return player_bytes(player.player_name, player.player_data) + stats_bytes(player.stats)


def _replaced(player: Player, document: bytes, now: int) -> PlayerDocumentReplaced:
    return PlayerDocumentReplaced(player.player_id, player.game_id, document, now, player.stats)
