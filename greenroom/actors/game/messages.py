"""Commands, replies and events of games."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

from greenroom.actors.game.settings import GameSettings
from greenroom.actors.kernel.message import Command, Event
from greenroom.actors.plans.plan import Plan
from greenroom.actors.text.moderation import Censored


class GameRole:
    """Marks commands that games take."""


KeyKind = Literal["project", "admin"]


class OldKey(msgspec.Struct, frozen=True, kw_only=True):
    """A key that has been replaced and still opens the game; times in Unix seconds."""

    kind: KeyKind
    key_hash: str
    """The hash in hexadecimal digits, because the record is JSON."""
    replaced_at: int
    expires_at: int


class Owner(msgspec.Struct, frozen=True, kw_only=True):
    """An owner of games; `created_at` in Unix seconds."""

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
    """A secret of 16 bytes that turns player ids into player tags."""
    data: bytes
    created_at: int
    updated_at: int
    settings: GameSettings = GameSettings()
    """Private settings, for the operator alone: they hold a secret."""
    old_keys: tuple[OldKey, ...] = ()
    shards: tuple[int, ...] = (0,)
    """The shards that its players, rooms and lobbies live in; the first is its home."""


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
    shards: tuple[int, ...] = (0,)


class GameDocumentReplaced(Event, frozen=True):
    """Its document is now this JSON object, verbatim."""

    game_id: int
    data: bytes
    updated_at: int


class GameKeysRotated(Event, frozen=True):
    """These keys open the game, and of the old ones only those that are listed."""

    game_id: int
    api_key_hash: bytes
    private_key_hash: bytes
    old_keys: tuple[OldKey, ...]
    updated_at: int


class GameSettingsReplaced(Event, frozen=True):
    """The private settings are these now."""

    game_id: int
    settings: GameSettings
    updated_at: int


# Replies.


class GameDocument(msgspec.Struct, frozen=True):
    """The game document, a JSON object's bytes."""

    game_id: int
    data: bytes


class GameView(msgspec.Struct, frozen=True, kw_only=True):
    """A game as operators see it: no key, not even hashed. Times in Unix seconds."""

    game_id: int
    owner_id: int
    owner_name: str
    plan: Plan
    name: str
    data: bytes
    created_at: int
    updated_at: int
    old_keys: tuple[OldKey, ...] = ()
    """The old keys that still open the game."""
    partitions: int = 1
    """The shards that its players, rooms and lobbies live in."""


# Commands.


class CreateGame(Command[GameRole, None], frozen=True):
    """Create the game. Only ever the first command to an actor without a record."""

    game_id: int
    owner: Owner
    name: str
    api_key_hash: bytes
    private_key_hash: bytes
    tag_key: bytes
    shards: tuple[int, ...] = (0,)


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
    """Assign some settings, and reset others to their defaults; the reply has all of them.

    Refused: GameSettingRefused.
    """

    assigned: Mapping[str, str]
    removed: tuple[str, ...]

    def __repr__(self) -> str:
        """Show no values: one may be a secret, and a repr ends up in logs."""
        return f"ChangeGameSettings({[*self.assigned, *self.removed]})"


class CheckPlayerName(Command[GameRole, str], frozen=True):
    """Check a name against the game's rules; the reply is the name, trimmed.

    Refused: NameRefused.
    """

    player_name: str


class CensorText(Command[GameRole, Censored], frozen=True):
    """Check a text in the game's languages; the reply is its filtered form."""

    text: str


class CheckTitle(Command[GameRole, str], frozen=True):
    """Check a room's or lobby's title against the game's rules; the reply is the title, trimmed.

    `field` is the field's name in refusals. Refused: NameRefused.
    """

    field: str
    title: str


class MakePlayerTag(Command[GameRole, str], frozen=True):
    """Return the public tag of a player of this game, without its `#`."""

    player_id: int


class ReadPlayerTag(Command[GameRole, int | None], frozen=True):
    """Return the id behind a tag of this game, given with or without `#`; None for junk.

    Every well-formed tag stands for some id; whether there is such a player is another question.
    """

    player_tag: str


class RotateGameKeys(Command[GameRole, None], frozen=True):
    """Replace the game's keys; where the new one is `None`, the key stays.

    Old keys of the same kind stop working, unless `keep_seconds` is above 0. Then the replaced
    key opens it for so long, and others for as long as they were to. Refused: TooManyOldKeys.
    """

    api_key_hash: bytes | None
    private_key_hash: bytes | None
    keep_seconds: int = 0


class RevokeOldKeys(Command[GameRole, int], frozen=True):
    """Revoke the old keys of these kinds; answers how many there were.

    What has expired is forgotten, whatever its kind.
    """

    kinds: tuple[KeyKind, ...]


class SetPlan(Command[GameRole, None], frozen=True):
    """Take over the plan that the owner has now. Nothing is done for another owner's plan."""

    owner_id: int
    plan: Plan


class CloseGame(Command[GameRole, None], frozen=True):
    """Refuse every further command, because the game is being deleted. The caller deletes it."""


class DescribeGame(Command[GameRole, GameView], frozen=True):
    """Read the record."""
