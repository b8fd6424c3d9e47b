"""Operations and their results: plain values, the same with a server and without one.

An operation's arguments are a struct that names the operation and its result:
`CreateGame(Operation[GameKeys])`. `operations.py` carries them out. Times are texts in UTC,
documents JSON as stored.
"""

from __future__ import annotations

from typing import Any, ClassVar, Generic, Literal, TypeVar, get_args

import msgspec

from greenroom.actors.game.messages import KeyKind
from greenroom.actors.plans.plan import Plan
from greenroom.supervisors.tree import TreeNode

Result_co = TypeVar("Result_co", covariant=True)

PAGE_PLAYERS_MAX = 1000
"""The most players in one answer. They fit into `protocol.ANSWER_BYTES_MAX` many times over."""


class Operation(msgspec.Struct, Generic[Result_co], frozen=True, forbid_unknown_fields=True):
    """The base class of all operations."""

    name: ClassVar[str]


def result_type(operation: type[Operation[Any]]) -> Any:
    """Return the type that an operation answers with."""
    return get_args(operation.__orig_bases__[0])[0]  # type: ignore[attr-defined]


# Results.


class Owner(msgspec.Struct, frozen=True):
    """An owner of games, with a plan."""

    owner_id: int
    name: str
    plan: Plan
    created_at: str


class Owners(msgspec.Struct, frozen=True):
    """All owners, by id."""

    owners: list[Owner]


class Used(msgspec.Struct, frozen=True):
    """How much of one thing is used, and how much the plan allows; null is no limit."""

    used: int
    limit: int | None


class OwnerDetails(msgspec.Struct, frozen=True):
    """An owner, and how much all the owner's games together use of the plan."""

    owner_id: int
    name: str
    plan: Plan
    created_at: str
    games: Used
    players_online: Used
    calls_today: Used
    """Calls of this UTC day."""
    storage_bytes: Used
    rooms: Used
    """Active rooms and open lobbies of the running server."""
    rooms_bytes: Used
    """Bytes that rooms and lobbies hold in memory."""
    players_bytes: Used
    """Bytes that players hold in memory."""
    games_bytes: Used
    """Bytes that the documents of the owner's games hold."""
    written_bytes_today: Used
    """Bytes written this UTC day."""


class Game(msgspec.Struct, frozen=True):
    """A game without its document."""

    game_id: int
    name: str
    owner: str
    plan: Plan
    created_at: str
    updated_at: str


class Games(msgspec.Struct, frozen=True):
    """All games, by id."""

    games: list[Game]


class OldKey(msgspec.Struct, frozen=True):
    """A key that has been replaced and still opens its game."""

    kind: KeyKind
    replaced_at: str
    expires_at: str


class GameDetails(msgspec.Struct, frozen=True):
    """A game with its document."""

    game_id: int
    name: str
    owner: str
    plan: Plan
    created_at: str
    updated_at: str
    data: msgspec.Raw
    old_keys: list[OldKey] = []
    """The old keys that still open the game."""
    partitions: int = 1
    """The shards that it lives in: it can use as many nodes."""


class GameKeys(msgspec.Struct, frozen=True):
    """A game's new keys. They are shown only this once, because only their hashes are stored."""

    game_id: int
    name: str
    owner: str
    api_token: str
    api_private_token: str

    def __repr__(self) -> str:
        """Show no keys, because a repr may end up in a log."""
        return f"GameKeys(game_id={self.game_id})"


class RotatedKeys(msgspec.Struct, frozen=True):
    """A game's new keys, shown only this once. A key that has not been replaced is `None`."""

    game_id: int
    name: str
    owner: str
    api_token: str | None
    api_private_token: str | None
    old_keys_expire_at: str | None
    """The time until which the replaced keys open the game, too; `None` if they no longer do."""

    def __repr__(self) -> str:
        """Show no keys, because a repr may end up in a log."""
        return f"RotatedKeys(game_id={self.game_id})"


class RevokedKeys(msgspec.Struct, frozen=True):
    """The old keys of a game do not work any more."""

    game_id: int
    revoked: int
    """The number of keys."""


class GameSettings(msgspec.Struct, frozen=True):
    """A game's private settings, without its secret."""

    game_id: int
    steam_app_id: int | None
    steam_publisher_key: Literal["set", "not set"]
    clients_write_player_data: bool
    leaderboards: list[list[str]]
    register_player_id: Literal["string", "integer"]
    stats: dict[str, dict[str, str | int | float]] = {}


class GrownGame(msgspec.Struct, frozen=True):
    """A game has more partitions than before."""

    game_id: int
    partitions: int


class Deleted(msgspec.Struct, frozen=True):
    """A game has been deleted with all its players."""

    game_id: int
    players: int
    """The number of players deleted with it."""


class Player(msgspec.Struct, frozen=True):
    """A player without the document."""

    player_id: int
    game_id: int
    player_name: str
    player_tag: str
    is_online: bool
    last_login: str | None
    last_heartbeat: str | None
    last_logout: str | None
    created_at: str
    updated_at: str


class Players(msgspec.Struct, frozen=True):
    """A page of a game's players, by id."""

    players: list[Player]
    next_after_id: int | None
    """Give this as `after_id` for the next page; null on the last one."""


class PlayerBan(msgspec.Struct, frozen=True):
    """A ban in force."""

    ban_id: str
    ban_duration: str
    ban_reason: str | None
    banned_at: str
    banned_until: str | None


class PlayerDetails(msgspec.Struct, frozen=True):
    """A player with the document, and the ban if one is in force."""

    player_id: int
    game_id: int
    player_name: str
    player_tag: str
    is_online: bool
    last_login: str | None
    last_heartbeat: str | None
    last_logout: str | None
    created_at: str
    updated_at: str
    ban: PlayerBan | None
    player_data: msgspec.Raw
    stats: msgspec.Raw


class Migration(msgspec.Struct, frozen=True):
    """One step of the schema."""

    version: int
    name: str
    is_applied: bool


class Schema(msgspec.Struct, frozen=True):
    """The state of the schema."""

    migrations: list[Migration]
    applied_now: list[str] = []
    """The migrations that this command has applied."""


class SettingsInForce(msgspec.Struct, frozen=True):
    """The settings of a running server, secrets masked, and where each comes from."""

    pid: int
    settings: dict[str, Any]
    sources: dict[str, str]


class MissingRights(msgspec.Struct, frozen=True):
    """The rights that a server needs and its database's role lacks."""

    statements: list[str]
    """SQL for the tables' owner: each gives one of the rights."""


class DatabaseAddress(msgspec.Struct, frozen=True):
    """The address that psql needs to connect. It has the password if there is one."""

    url: str


# Operations.


class CreateOwner(Operation[Owner], frozen=True):
    """Add an owner."""

    name: ClassVar[str] = "owner.create"
    owner: str
    plan: Plan


class ListOwners(Operation[Owners], frozen=True):
    """List all owners."""

    name: ClassVar[str] = "owner.list"


class ShowOwner(Operation[OwnerDetails], frozen=True):
    """Show one owner, and how much of the plan is used."""

    name: ClassVar[str] = "owner.show"
    owner: str


class SetPlan(Operation[Owner], frozen=True):
    """Give an owner another plan, which applies to all the owner's games at once."""

    name: ClassVar[str] = "owner.set_plan"
    owner: str
    plan: Plan


class ApplyPlan(Operation[None], frozen=True):
    """Tell a node's active games their owner's plan; for `SetPlan`, from node to node."""

    name: ClassVar[str] = "owner.apply_plan"
    owner: str
    plan: Plan


class CreateGame(Operation[GameKeys], frozen=True):
    """Add a game."""

    name: ClassVar[str] = "game.create"
    game: str
    owner: str


class ListGames(Operation[Games], frozen=True):
    """List all games."""

    name: ClassVar[str] = "game.list"


class ShowGame(Operation[GameDetails], frozen=True):
    """Show one game."""

    name: ClassVar[str] = "game.show"
    game_id: int


class RotateKeys(Operation[RotatedKeys], frozen=True):
    """Give a game new keys of these kinds. The old ones stop working, at once or later."""

    name: ClassVar[str] = "game.rotate_keys"
    game_id: int
    kinds: tuple[KeyKind, ...] = ("project", "admin")
    keep_seconds: int = 0
    """For so long the replaced keys work, too."""


class RevokeKeys(Operation[RevokedKeys], frozen=True):
    """Revoke the old keys of these kinds."""

    name: ClassVar[str] = "game.revoke_keys"
    game_id: int
    kinds: tuple[KeyKind, ...] = ("project", "admin")


class ChangeGameSettings(Operation[GameSettings], frozen=True):
    """Change some private settings of a game, or none, and return them all."""

    name: ClassVar[str] = "game.settings"
    game_id: int
    assigned: dict[str, str] = {}
    removed: list[str] = []

    def __repr__(self) -> str:
        """Show no values, because one may be a secret and a repr may end up in a log."""
        return f"ChangeGameSettings(game_id={self.game_id})"


class GrowGame(Operation[GrownGame], frozen=True):
    """Give a game so many partitions, while no server runs."""

    name: ClassVar[str] = "game.grow"
    game_id: int
    partitions: int


class DeleteGame(Operation[Deleted], frozen=True):
    """Delete a game with everything in it."""

    name: ClassVar[str] = "game.delete"
    game_id: int


class ListPlayers(Operation[Players], frozen=True):
    """List a game's players, by id, from the first after `after_id`."""

    name: ClassVar[str] = "player.list"
    game_id: int | None
    """The game; `None` means the only one there is."""
    after_id: int
    limit: int
    """At most PAGE_PLAYERS_MAX."""


class ShowPlayer(Operation[PlayerDetails], frozen=True):
    """Show one player."""

    name: ClassVar[str] = "player.show"
    player_id: int


class ShowTree(Operation[TreeNode], frozen=True):
    """Draw the supervision tree of the running server."""

    name: ClassVar[str] = "tree"


class ShowSettings(Operation[SettingsInForce], frozen=True):
    """Return the settings that are in force in the running server."""

    name: ClassVar[str] = "config.show"


class ShowSchema(Operation[Schema], frozen=True):
    """Return which migrations are applied, and change nothing."""

    name: ClassVar[str] = "db.status"


class ShowMissingRights(Operation[MissingRights], frozen=True):
    """Return which rights the server's role lacks in its database, and change nothing."""

    name: ClassVar[str] = "db.rights"


class MigrateSchema(Operation[Schema], frozen=True):
    """Bring the schema up to date."""

    name: ClassVar[str] = "db.migrate"


class ShowDatabaseAddress(Operation[DatabaseAddress], frozen=True):
    """Return the database's address."""

    name: ClassVar[str] = "db.url"
