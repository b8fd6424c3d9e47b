"""A game as an actor: keys, document, and the rules for texts that stand in the document."""

from __future__ import annotations

import logging

from greenroom.actors.game import rules, tags
from greenroom.actors.game.index import GameIndex
from greenroom.actors.game.messages import (
    AuthenticateAdmin,
    AuthenticateKey,
    CensorText,
    ChangeGameSettings,
    CheckPlayerName,
    CheckTitle,
    CloseGame,
    CreateGame,
    DescribeGame,
    Game,
    GameCreated,
    GameDocument,
    GameDocumentReplaced,
    GameKeysRotated,
    GameRole,
    GameView,
    MakePlayerTag,
    Owner,
    ReadGameDocument,
    ReadGameSettings,
    ReadPlayerTag,
    ReplaceGameDocument,
    RevokeOldKeys,
    RotateGameKeys,
    SetPlan,
)
from greenroom.actors.game.refusals import GameNotFound
from greenroom.actors.game.settings import GameSettings
from greenroom.actors.kernel.actor import Actor, handles
from greenroom.actors.kernel.clock import Clock
from greenroom.actors.kernel.errors import ReadOnlyCopy
from greenroom.actors.kernel.message import Changed, Event
from greenroom.actors.text.moderation import Censored, Moderator, moderator, read_languages
from greenroom.actors.text.names import (
    FREE,
    NameRules,
    check_player_name,
    check_title,
    read_name_rules,
)

_log = logging.getLogger(__name__)


class GameActor(Actor[GameRole]):
    """One game. It comes to memory with the first call that has its key.

    A game in several partitions has a copy on each node that has some of them, but not its home. A
    copy takes no changes. It is dropped when the game changes, before that is answered.
    """

    kind = "game"

    def __init__(
        self, game: Game | None, index: GameIndex, clock: Clock, copy_in: int | None = None
    ) -> None:
        """Hold a record, or none yet: then the first command must be `CreateGame`.

        Args:
            game: the record.
            index: of all games.
            clock: what times are read from.
            copy_in: for a copy, the partition of this node with which it comes and goes.
        """
        self._record = game
        self._copy_in = copy_in
        self._owner: Owner | None = None
        self._index = index
        self._clock = clock
        self._closed = False
        self._name_rules: NameRules = FREE
        self._moderator: Moderator = moderator()
        self._title_rules: NameRules = FREE

    @property
    def is_created(self) -> bool:
        """Return whether there is a record."""
        return self._record is not None

    @property
    def shard(self) -> int | None:
        """Return the game's first shard, its home; of a copy, the one that it is kept with."""
        if self._copy_in is not None or self._record is None:
            return self._copy_in
        return self._record.shards[0]

    @property
    def _game(self) -> Game:
        """Return the record.

        Raises:
            GameNotFound: there is none yet, or none any more.
        """
        if self._record is None or self._closed:
            raise GameNotFound
        return self._record

    @property
    def _original(self) -> Game:
        """Return the record, to be changed.

        Raises:
            GameNotFound: there is none yet, or none any more.
            ReadOnlyCopy: the game itself is at its home.
        """
        game = self._game
        if self._copy_in is not None:
            raise ReadOnlyCopy(f"game {game.game_id} is changed at its home", shard=game.shards[0])
        return game

    def on_start(self) -> None:
        """Enter the index, and read the rules for texts."""
        if self._record is not None:
            self._enter(self._record)

    def on_stop(self) -> None:
        """Leave the index."""
        if self._record is not None:
            self._leave(self._record)

    def apply(self, event: Event) -> None:
        """Change the record by one event, and what is derived from it."""
        if isinstance(event, GameCreated):
            assert self._owner is not None
            self._record = rules.new_game(event, self._owner.name, self._owner.plan)
            self._index.ledger.get_game_usage(event.game_id).count_stored(len(self._record.data))
            self._enter(self._record)
            return
        game, document_bytes = self._game, len(self._game.data)
        if isinstance(event, GameKeysRotated):
            self._leave(game)
        rules.apply(game, event)
        if isinstance(event, GameKeysRotated):
            self._enter_keys(game)
        if isinstance(event, GameDocumentReplaced):
            ledger = self._index.ledger
            ledger.get_game_usage(game.game_id).count_stored(len(game.data) - document_bytes)
            ledger.hold_document(game.game_id, len(game.data))
            self._read_rules(game)

    def _enter(self, game: Game) -> None:
        self._index.ledger.hold_document(game.game_id, len(game.data))
        self._enter_keys(game)
        self._read_rules(game)

    def _enter_keys(self, game: Game) -> None:
        self._index.add_key(game.api_key_hash, game.game_id)
        for key in game.old_keys:
            if key.kind == "project":
                self._index.add_old_key(bytes.fromhex(key.key_hash), game.game_id, key.expires_at)

    def _leave(self, game: Game) -> None:
        self._index.remove_key(game.api_key_hash)
        for key in game.old_keys:
            self._index.remove_key(bytes.fromhex(key.key_hash))

    def _read_rules(self, game: Game) -> None:
        """Cache the document's rules. Malformed ones are ignored, and the owner can read why."""
        own, too_large = rules.own_rules(game.data)
        self._name_rules, problems = read_name_rules(own, "name_rules")
        self._title_rules, title_problems = read_name_rules(own, "room_title_rules")
        languages, language_problems = read_languages(own)
        self._moderator = moderator(languages)
        for problem in [*too_large, *problems, *title_problems, *language_problems]:
            _log.warning("game %d: %s; ignored", game.game_id, problem)

    @handles(CreateGame)
    def create(self, command: CreateGame) -> Changed[None]:
        """Create the game."""
        if self._record is not None:
            raise RuntimeError(f"game {command.game_id} exists already")
        event = rules.decide_create(command, self._clock.now())
        self._owner = command.owner
        return Changed(None, event)

    @handles(AuthenticateKey)
    def authenticate_key(self, command: AuthenticateKey) -> None:
        """Check a project key."""
        rules.check_project_key(self._game, command.api_key_hash, self._clock.now())

    @handles(AuthenticateAdmin)
    def authenticate_admin(self, command: AuthenticateAdmin) -> None:
        """Check an admin key."""
        rules.check_admin_key(self._game, command.private_key_hash, self._clock.now())

    @handles(ReadGameDocument)
    def read_document(self, command: ReadGameDocument) -> GameDocument:
        """Return the document."""
        game = self._game
        return GameDocument(game.game_id, game.data)

    @handles(ReplaceGameDocument)
    def replace_document(self, command: ReplaceGameDocument) -> Changed[int]:
        """Store another document."""
        game, now = self._original, self._clock.now()
        ledger = self._index.ledger
        ledger.get_game_usage(game.game_id).check_storage(len(command.data) - len(game.data))
        ledger.check_document(game.game_id, len(command.data))
        return Changed(now, GameDocumentReplaced(game.game_id, command.data, now))

    @handles(ReadGameSettings)
    def read_settings(self, command: ReadGameSettings) -> GameSettings:
        """Return the private settings."""
        return self._game.settings

    @handles(ChangeGameSettings)
    def change_settings(self, command: ChangeGameSettings) -> Changed[GameSettings]:
        """Change private settings."""
        game = self._original
        events = rules.decide_change_settings(game, command, self._clock.now())
        return Changed(events[0].settings if events else game.settings, *events)

    @handles(CheckPlayerName)
    def check_player_name(self, command: CheckPlayerName) -> str:
        """Check a player's name against the rules."""
        _ = self._game  # refuses when there is none
        return check_player_name(command.player_name, self._name_rules, self._moderator)

    @handles(CensorText)
    def censor_text(self, command: CensorText) -> Censored:
        """Check a text for offensive words."""
        _ = self._game  # refuses when there is none
        return self._moderator.censor(command.text)

    @handles(CheckTitle)
    def check_title(self, command: CheckTitle) -> str:
        """Check a title against the rules."""
        _ = self._game  # refuses when there is none
        return check_title(command.field, command.title, self._title_rules, self._moderator)

    @handles(MakePlayerTag)
    def make_player_tag(self, command: MakePlayerTag) -> str:
        """Return a player's public tag."""
        return tags.make_tag(self._game.tag_key, command.player_id)

    @handles(ReadPlayerTag)
    def read_player_tag(self, command: ReadPlayerTag) -> int | None:
        """Return the id behind a player's public tag."""
        return tags.read_tag(self._game.tag_key, command.player_tag)

    @handles(RotateGameKeys)
    def rotate_keys(self, command: RotateGameKeys) -> Changed[None]:
        """Replace keys of the game."""
        return Changed(None, rules.decide_rotate_keys(self._original, command, self._clock.now()))

    @handles(RevokeOldKeys)
    def revoke_old_keys(self, command: RevokeOldKeys) -> Changed[int]:
        """Revoke old keys of the game."""
        revoked, events = rules.decide_revoke_old_keys(self._original, command, self._clock.now())
        return Changed(revoked, *events)

    @handles(SetPlan)
    def set_plan(self, command: SetPlan) -> None:
        """Take over the owner's plan, which the owner's row holds."""
        if self._game.owner_id == command.owner_id:
            self._game.plan = command.plan

    @handles(CloseGame)
    def close(self, command: CloseGame) -> None:
        """Refuse everything from now on."""
        self._leave(self._game)
        self._closed = True

    @handles(DescribeGame)
    def describe(self, command: DescribeGame) -> GameView:
        """Return what the record shows."""
        return rules.view_game(self._game, self._clock.now())
