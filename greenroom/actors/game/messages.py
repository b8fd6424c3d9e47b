"""What games are asked, what they answer, what happens to them, and how they refuse."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from greenroom.actors.game.settings import GameSettings
from greenroom.actors.kernel.errors import NotFound, Refused
from greenroom.actors.kernel.message import Command, Event
from greenroom.actors.plans.plan import Plan
from greenroom.actors.text.moderation import Censored


class GameRole:
    """Marks commands that games take."""


class Owner(msgspec.Struct, frozen=True, kw_only=True):
    """Who pays for games; `created_at` in Unix seconds."""

    owner_id: int
    name: str
    plan: Plan
    created_at: int


class Game(msgspec.Struct, kw_only=True):
    """A game's whole record; `data` is the game document, a JSON object's bytes."""

    game_id: int
    owner_id: int
    owner_name: str
    plan: Plan
    name: str
    api_key_hash: bytes
    private_key_hash: bytes
    tag_key: bytes
    """Secret of 16 bytes that turns player ids into player tags."""
    data: bytes
    created_at: int
    updated_at: int
    settings: GameSettings = GameSettings()
    """Its operator's alone: they hold a secret."""


# Events. Fields are the new values of the columns they change.


class GameCreated(Event, frozen=True):
    """A new game; its document is empty."""

    game_id: int
    owner_id: int
    name: str
    api_key_hash: bytes
    private_key_hash: bytes
    tag_key: bytes
    created_at: int


class GameDocumentReplaced(Event, frozen=True):
    """Its document is now this JSON object, verbatim."""

    game_id: int
    data: bytes
    updated_at: int


class GameKeysRotated(Event, frozen=True):
    """Only the new keys open the game."""

    game_id: int
    api_key_hash: bytes
    private_key_hash: bytes
    updated_at: int


class GameSettingsReplaced(Event, frozen=True):
    """Its private settings are these now."""

    game_id: int
    settings: GameSettings
    updated_at: int


# Replies.


class GameDocument(msgspec.Struct, frozen=True):
    """The game document, a JSON object's bytes."""

    game_id: int
    data: bytes


class GameView(msgspec.Struct, frozen=True, kw_only=True):
    """What operators see of a game: no key, not even hashed. Times in Unix seconds."""

    game_id: int
    owner_id: int
    owner_name: str
    plan: Plan
    name: str
    data: bytes
    created_at: int
    updated_at: int


# Commands.


class CreateGame(Command[GameRole, None], frozen=True):
    """Come into being. Only ever the first command to an actor without a record."""

    game_id: int
    owner: Owner
    name: str
    api_key_hash: bytes
    private_key_hash: bytes
    tag_key: bytes


class AuthenticateKey(Command[GameRole, None], frozen=True):
    """Check a project key. Refused: InvalidProjectKey."""

    api_key_hash: bytes


class AuthenticateAdmin(Command[GameRole, None], frozen=True):
    """Check an admin key. Refused: InvalidAdminKey."""

    private_key_hash: bytes


class ReadGameDocument(Command[GameRole, GameDocument], frozen=True):
    """Read the game document."""


class ReplaceGameDocument(Command[GameRole, int], frozen=True):
    """Store a JSON object, verbatim; answers `updated_at` (Unix seconds).

    Refused: StorageLimitReached, GamesHoldTooMuch.
    """

    data: bytes


class ReadGameSettings(Command[GameRole, GameSettings], frozen=True):
    """Read the private settings, the secret one included: for the server itself."""


class ChangeGameSettings(Command[GameRole, GameSettings], frozen=True):
    """Assign some settings, give others their defaults back; answers all as they are then.

    Refused: GameSettingRefused.
    """

    assigned: Mapping[str, str]
    removed: tuple[str, ...]

    def __repr__(self) -> str:
        """Show no values, for one may be a secret, and a repr ends up in logs."""
        return f"ChangeGameSettings({[*self.assigned, *self.removed]})"


class CheckPlayerName(Command[GameRole, str], frozen=True):
    """Hold a name against the game's rules; answers it trimmed. Refused: NameRefused."""

    player_name: str


class CensorText(Command[GameRole, Censored], frozen=True):
    """Check a text in the game's languages; answers its filtered form."""

    text: str


class CheckTitle(Command[GameRole, str], frozen=True):
    """Hold a room's or lobby's title against the game's rules; answers it trimmed.

    `field` is the name that a refusal calls it by. Refused: NameRefused.
    """

    field: str
    title: str


class MakePlayerTag(Command[GameRole, str], frozen=True):
    """Answer the public tag of a player of this game, without its `#`."""

    player_id: int


class ReadPlayerTag(Command[GameRole, int | None], frozen=True):
    """Answer the id behind a tag of this game, given with or without `#`; None for junk.

    Every well-formed tag stands for some id: whether there is such a player is another question.
    """

    player_tag: str


class RotateGameKeys(Command[GameRole, None], frozen=True):
    """Let only new keys open the game."""

    api_key_hash: bytes
    private_key_hash: bytes


class SetPlan(Command[GameRole, None], frozen=True):
    """Take note of the plan that the owner has now; games of other owners do nothing."""

    owner_id: int
    plan: Plan


class CloseGame(Command[GameRole, None], frozen=True):
    """Refuse every further command, for the game is being deleted (which is the caller's part)."""


class DescribeGame(Command[GameRole, GameView], frozen=True):
    """Read the record."""


# Refusals. The texts are matched whole by clients.


class GameNotFound(NotFound):
    """No such game, or it is being deleted."""

    text = "Game not found"


class InvalidProjectKey(Refused):
    """Nobody's project key, or one that was rotated away; the text is the edge's."""


class InvalidAdminKey(Refused):
    """Not this game's admin key; the text is each endpoint's own."""


class GameNameRefused(Refused):
    """A name that no game may have."""

    text = "Game name must be 1 to 100 characters, without control characters"
