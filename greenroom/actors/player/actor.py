"""A player as an actor: his record, changed by `rules`, and the index of all players in step."""

from __future__ import annotations

from greenroom.actors.kernel.actor import Actor, handles
from greenroom.actors.kernel.clock import Clock
from greenroom.actors.kernel.message import Changed, Event
from greenroom.actors.plans.ledger import GameUsage, player_bytes
from greenroom.actors.plans.memory import Piece
from greenroom.actors.plans.shares import share_key
from greenroom.actors.player import results, rules
from greenroom.actors.player.bans import ban_in_force
from greenroom.actors.player.index import PlayerIndex
from greenroom.actors.player.memory import held_bytes, part_for
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
    Player,
    PlayerDeleted,
    PlayerDocument,
    PlayerDocumentReplaced,
    PlayerLoggedIn,
    PlayerLoggedOut,
    PlayerNotFound,
    PlayerPresenceSaved,
    PlayerRegistered,
    PlayerRenamed,
    PlayerRole,
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
    UnbanPlayer,
    WriteResult,
)


class PlayerActor(Actor[PlayerRole]):
    """One player.

    Presence (online, last heartbeat) is soft: it changes without events, and is written in the
    background. All else changes by events alone. What he uses of his game's plan is checked and
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
            address: where the call comes from that they are brought to memory for; empty if that
                is not known.
        """
        self._record = player
        self._index = index
        self._clock = clock
        self._online_in: GameUsage | None = None
        self._address = address
        """Where they came online from, the last time that this was told."""
        self._piece: Piece | None = None
        self._closed = False

    @property
    def is_created(self) -> bool:
        """Return whether there is a record."""
        return self._record is not None

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
        """Enter the index; if online, the time until he is stale begins anew."""
        if self._record is not None:
            self._enter(self._record)

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
            self._usage(event.game_id).count_stored(_bytes(self._record))
            self._enter(self._record)
            return
        if isinstance(event, PlayerDeleted):
            self._close()
            if self._record is not None:
                self._usage(event.game_id).count_stored(-_bytes(self._record))
            return
        player = self._player
        if isinstance(event, PlayerDocumentReplaced | PlayerRenamed):
            bytes_before = _bytes(player)
            rules.apply(player, event)
            self._grew(player, _bytes(player) - bytes_before)
            return
        if isinstance(event, PlayerTokenRotated):
            self._index.remove_token(player.token_hash)
            self._index.add_token(event.token_hash, player.player_id)
        rules.apply(player, event)
        if isinstance(event, PlayerLoggedOut):
            self._index.mark_offline(player.player_id)
            self._uncount()

    def _enter(self, player: Player) -> None:
        self._piece = self._index.begin_counting(player.player_id, player.game_id, self._address)
        self._piece.resize(held_bytes(player))
        self._index.add_token(player.token_hash, player.player_id)
        if player.is_online:
            now = self._clock.now() if player.last_heartbeat is None else player.last_heartbeat
            self._index.mark_online(player.player_id, self._clock.monotonic(), now)
            self._count(player.game_id)
        else:
            self._index.mark_offline(player.player_id)

    def _close(self) -> None:
        """Be found by nobody any more; the index keeps him as offline, so that he is passivated."""
        if self._record is not None:
            self._index.remove_token(self._record.token_hash)
            self._index.mark_offline(self._record.player_id)
            self._index.mark_closed(self._record.player_id)
        self._uncount()
        self._closed = True

    def _seen(self, player: Player, now: int, address: str = "", *, is_kept: bool = True) -> None:
        """Take a sign of life; see `Heartbeat`.

        Raises:
            PlayerIsBanned: they were banned since the call was let in.
            PlayersRefused: they were offline, and their game's plan allows no more.
        """
        if player.ban is not None:
            rules.check_not_banned(player, now)
        if self._online_in is None:
            self._come_online(player, address or self._address)
        rules.apply_sign_of_life(player, now)
        self._index.note_sign_of_life(
            player.player_id, self._clock.monotonic(), now, is_kept=is_kept
        )

    def _come_online(self, player: Player, address: str) -> None:
        """Be counted among the players online, for the address that they come from now.

        Raises:
            PlayersRefused: there is no space for them, or not from there.
        """
        self._usage(player.game_id).check_player(address)
        assert self._piece is not None
        share = share_key(address)
        self._piece.admit_move(share, part_for(len(player.player_data)))
        self._piece.move(share)
        self._address = address
        self._count(player.game_id)

    def _learn(self, address: str) -> None:
        """Count, being online, for the address that a call comes from: a restart forgot it."""
        if self._online_in is not None and self._piece is not None:
            self._online_in.uncount_online()
            self._online_in.count_online(address)
            self._piece.move(share_key(address))
            self._address = address

    def _grew(self, player: Player, more_bytes: int) -> None:
        """Count so much more that is stored, and held in memory."""
        if more_bytes:
            self._usage(player.game_id).count_stored(more_bytes)
            assert self._piece is not None
            self._piece.resize(self._piece.size + more_bytes)

    def _check_space(self, more_bytes: int, document_bytes: int) -> None:
        """Let them hold so much more, which leaves them with a document so large.

        Raises:
            PlayersHoldTooMuch: there is no space.
        """
        if more_bytes > 0 and self._piece is not None:
            self._piece.admit(more_bytes, part_for(document_bytes))

    def _usage(self, game_id: int) -> GameUsage:
        """Return what his game uses of its owner's plan."""
        return self._index.ledger.usage_of_game(game_id)

    def _count(self, game_id: int) -> None:
        """Count him among the players online."""
        self._online_in = self._usage(game_id)
        self._online_in.count_online(self._address)

    def _uncount(self) -> None:
        """Count him no more, if he was."""
        if self._online_in is not None:
            self._online_in.uncount_online(self._address)
            self._online_in = None

    @handles(RegisterPlayer)
    def register(self, command: RegisterPlayer) -> Changed[None]:
        """Come into being."""
        if self._record is not None:
            raise RuntimeError(f"player {command.player_id} exists already")
        self._address = command.address
        usage = self._usage(command.game_id)
        usage.check_player(command.address)
        usage.check_storage(player_bytes(command.player_name, command.player_data))
        event = rules.decide_register(command, self._clock.now())
        self._index.admit(rules.new_player(event), command.address)
        return Changed(None, event)

    @handles(Authenticate)
    def authenticate(self, command: Authenticate) -> None:
        """Check a token, and take a good one as a sign of life."""
        player, now = self._player, self._clock.now()
        rules.check_token(player, command.game_id, command.token_hash, now)
        if command.address and not self._address and self._online_in is not None:
            self._learn(command.address)
        self._seen(player, now, command.address)

    @handles(LogIn)
    def log_in(self, command: LogIn) -> Changed[PlayerView]:
        """Log in; the reply shows the login before."""
        player, now = self._player, self._clock.now()
        self._seen(player, now)
        return Changed(rules.view_player(player), PlayerLoggedIn(player.player_id, now))

    @handles(SignIn)
    def sign_in(self, command: SignIn) -> Changed[PlayerView]:
        """Log in under a new token."""
        player, now = self._player, self._clock.now()
        events = rules.decide_sign_in(player, command.new_hash, now)
        self._seen(player, now, command.address)
        return Changed(rules.view_player(player), *events)

    @handles(Heartbeat)
    def heartbeat(self, command: Heartbeat) -> int:
        """Take a sign of life."""
        player, now = self._player, self._clock.now()
        self._seen(player, now, is_kept=command.is_kept)
        return now

    @handles(LogOut)
    def log_out(self, command: LogOut) -> Changed[int]:
        """Go offline."""
        now = self._clock.now()
        return Changed(now, *rules.decide_log_out(self._player, now))

    @handles(LeaveIfStale)
    def leave_if_stale(self, command: LeaveIfStale) -> Changed[bool]:
        """Go offline if not heard of for too long."""
        player = self._player
        silent_seconds = self._index.silent_seconds(player.player_id, self._clock.monotonic())
        now = self._clock.now()
        events = rules.decide_leave_if_stale(player, silent_seconds, command.stale_seconds, now)
        return Changed(bool(events), *events)

    @handles(SavePresence)
    def save_presence(self, command: SavePresence) -> Changed[None]:
        """Have the last sign of life written."""
        player = self._player
        saved = PlayerPresenceSaved(player.player_id, player.is_online, player.last_heartbeat)
        return Changed(None, saved)

    @handles(Rename)
    def rename(self, command: Rename) -> Changed[None]:
        """Go by another name."""
        player = self._player
        more_bytes = player_bytes(command.player_name, player.player_data) - _bytes(player)
        self._usage(player.game_id).check_storage(more_bytes)
        self._check_space(more_bytes, len(player.player_data))
        event = PlayerRenamed(player.player_id, command.player_name, self._clock.now())
        return Changed(None, event)

    @handles(RotateToken)
    def rotate_token(self, command: RotateToken) -> Changed[None]:
        """Let only the new token open the account."""
        now = self._clock.now()
        event = rules.decide_rotate(self._player, command.old_hash, command.new_hash, now)
        return Changed(None, event)

    @handles(ReadPlayerDocument)
    def read_document(self, command: ReadPlayerDocument) -> PlayerDocument:
        """Show the document."""
        player = self._player
        return PlayerDocument(player.player_name, player.player_data)

    @handles(ReplacePlayerDocument)
    def replace_document(self, command: ReplacePlayerDocument) -> Changed[int]:
        """Store another document."""
        player, now = self._player, self._clock.now()
        more_bytes = len(command.player_data) - len(player.player_data)
        self._usage(player.game_id).check_storage(more_bytes)
        self._check_space(more_bytes, len(command.player_data))
        event = PlayerDocumentReplaced(player.player_id, player.game_id, command.player_data, now)
        return Changed(now, event)

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
            PlayerDocumentReplaced(player.player_id, player.game_id, merged, self._clock.now()),
            ResultsMarked(player.player_id, marks),
        )

    @handles(DescribePlayer)
    def describe(self, command: DescribePlayer) -> PlayerView:
        """Show the record."""
        return rules.view_player(self._player)

    @handles(ReadBan)
    def read_ban(self, command: ReadBan) -> Ban | None:
        """Show the ban."""
        ban = self._player.ban
        return None if ban is None else ban_in_force(ban, self._clock.now())

    @handles(ClosePlayer)
    def close(self, command: ClosePlayer) -> None:
        """Refuse everything from now on."""
        _ = self._player  # refuses when there is none
        self._close()

    @handles(DeletePlayer)
    def delete(self, command: DeletePlayer) -> Changed[None]:
        """Be no more."""
        if self._record is None:
            raise PlayerNotFound
        return Changed(None, PlayerDeleted(self._record.player_id, self._record.game_id))

    @handles(BanPlayer)
    def ban(self, command: BanPlayer) -> Changed[Ban]:
        """Ban the player, who is offline from now on."""
        events = rules.decide_ban(self._player, command, self._clock.now())
        return Changed(rules.ban_of(events[0]), *events)

    @handles(UnbanPlayer)
    def unban(self, command: UnbanPlayer) -> Changed[int]:
        """Be pardoned."""
        events = rules.decide_unban(self._player, command.game_id, self._clock.now())
        return Changed(len(events), *events)


def _bytes(player: Player) -> int:
    """Return what a record weighs in storage."""
    return player_bytes(player.player_name, player.player_data)
