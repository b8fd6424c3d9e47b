"""The database as flows see it: `persistence` implements it; tests may give their own."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Final, Protocol

from greenroom.actors.friendship.messages import Friend, Friendship, Pair, Tally
from greenroom.actors.game.messages import Game, Owner
from greenroom.actors.plans.plan import Plan
from greenroom.actors.player.messages import Ban, Player

ID_MAX: Final = 2**63 - 1
"""The largest id that a database can hold; a larger one is nobody's."""


class Accounts(Protocol):
    """Owners, games and players as they stand in the database.

    Every method raises `StorageUnavailable` when the database does not answer in bounded time, and
    may be cancelled. A write is then either done whole or not at all.
    """

    async def load_player(self, player_id: int) -> Player | None:
        """Return a player's whole record, with the ban that is in force."""
        ...

    async def load_player_outline(self, player_id: int) -> Player | None:
        """Return a player's record, with `{}` for the document."""
        ...

    async def find_player_by_token(self, token_hash: bytes) -> Player | None:
        """Return the player whose token has this hash."""
        ...

    async def load_game(self, game_id: int) -> Game | None:
        """Return a game's whole record."""
        ...

    async def find_games_with_old_keys(self) -> list[int]:
        """Return the ids of games that have old keys, expired ones included."""
        ...

    async def find_game_by_api_key(self, key_hash: bytes) -> Game | None:
        """Return the game whose project key has this hash."""
        ...

    async def take_player_id(self) -> int:
        """Return an id that no player had yet; one that is not used is lost, without harm."""
        ...

    async def take_game_id(self) -> int:
        """Return an id that no game had yet."""
        ...

    async def load_online_players(
        self, after_id: int, limit: int, shards: Collection[int] | None = None
    ) -> list[Player]:
        """Return players who are online, by id, from the first after `after_id`.

        Args:
            after_id: the last one of the page before.
            limit: how many at most; fewer if their documents come to `DOCUMENTS_BYTES_MAX`.
            shards: of the games of these; None for all.
        """
        ...

    async def load_online_players_by_id(
        self, after_id: int, limit: int, player_ids: Sequence[int]
    ) -> list[Player]:
        """Return those of some players who are online, in pages as `load_online_players` does."""
        ...

    async def read_moment(self) -> str:
        """Return the present moment, for `compare_online_players` and `Journals.list_stored`.

        Whatever is read after this call has all that was written before the moment.
        """
        ...

    async def compare_online_players(
        self, shards: Collection[int], moment: str, known: Collection[int]
    ) -> dict[int, bool]:
        """Return who is not known as they are: whether each is online in these shards.

        Args:
            shards: of which the online players are wanted.
            moment: since when nobody's record may have been written; see `moments`.
            known: the ids of players who were read since that moment.

        Returns:
            The online players of these shards who are not known, or may have been written since.
            Also those known who are not online there. All others are as they were read.
        """
        ...

    async def load_players_page(self, game_id: int, after_id: int, limit: int) -> list[Player]:
        """Return a game's players by id, from the first after `after_id`; documents as `{}`."""
        ...

    async def load_players_by_id(self, player_ids: Sequence[int]) -> list[Player]:
        """Return the players with these ids who exist, in any order; at most a hundred ids."""
        ...

    async def load_outlines_by_id(self, player_ids: Sequence[int]) -> list[Player]:
        """Return the players with these ids who exist, in any order, with `{}` as documents."""
        ...

    async def find_players_by_platform_ids(
        self, game_id: int, platform_ids: Sequence[str]
    ) -> list[Player]:
        """Return a game's players who are these users of a platform, in any order.

        Their documents are given as `{}`.

        Args:
            game_id: the game.
            platform_ids: a hundred at most, of any platform; without characters that the database
                cannot hold (NUL, lone surrogates).
        """
        ...

    async def load_bans(self, player_id: int) -> list[tuple[Ban, int | None]]:
        """Return all bans of a player, oldest first, each with when it was ended, if it was."""
        ...

    async def use_ticket(self, ticket_hash: bytes, now: int, expires_at: int) -> bool:
        """Remember a platform's ticket, durably; return False if it is remembered already.

        Args:
            ticket_hash: its SHA-256.
            now: Unix seconds; some of those that have expired are forgotten.
            expires_at: when this one may be forgotten.
        """
        ...

    async def load_documents_page(
        self, game_id: int, after_id: int, limit: int, shards: Collection[int] | None = None
    ) -> list[tuple[int, bytes, bytes]]:
        """Return ids, documents and stats of a game's players, from the first after `after_id`.

        They are those who live in `shards`, or all. There are fewer than `limit` if no more are
        left, or if their documents have come to `DOCUMENTS_BYTES_MAX`.
        """
        ...

    async def load_games(self) -> list[Game]:
        """Return all games, by id."""
        ...

    async def load_owners(self) -> list[Owner]:
        """Return all owners, by id."""
        ...

    async def find_owner_by_name(self, name: str) -> Owner | None:
        """Return the owner of this name."""
        ...

    async def create_owner(self, name: str, plan: Plan) -> Owner:
        """Add an owner; the write is refused when another server has taken over."""
        ...

    async def set_plan(self, owner_id: int, plan: Plan) -> None:
        """Give an owner another plan; the write is refused when another server has taken over."""
        ...

    async def delete_game(
        self, game_id: int, deleted: Callable[[Sequence[int]], None] | None = None
    ) -> None:
        """Delete a game and all that belongs to it, in batches.

        Args:
            game_id: the game.
            deleted: called with the ids of players when they have been deleted.
        """
        ...


class FriendshipRows(Protocol):
    """Friendships as they stand in the database. Methods raise as those of `Accounts` do."""

    async def load_friendship(self, pair: Pair) -> Friendship | None:
        """Return the friendship of two players."""
        ...

    async def load_friends(self, player_id: int) -> list[Friend]:
        """Return a player's friends, incoming and outgoing requests, the oldest first.

        Who is online is as was written last: at once for players of games in several partitions.
        """
        ...

    async def load_tallies(self, player_ids: Sequence[int]) -> dict[int, Tally]:
        """Return how much each player has; players who have nothing may be missing."""
        ...
