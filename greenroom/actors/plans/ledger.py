"""The usage of owners: calls and bytes of the day, bytes stored, players online, games.

Actors and flows write it in the turn in which they check it. So of many callers who race for what
is left, no more get it than there is. It is kept in memory and derived. `services.usage` restores
what must survive, and writes it every second.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from greenroom.actors.kernel.shards import home_shard, partition_named
from greenroom.actors.plans.address_counts import share_key
from greenroom.actors.plans.owner_usage import WHOLE_PLAN, Held, OwnerUsage
from greenroom.actors.plans.plan import (
    UNLIMITED,
    UNLIMITED_PLANS,
    UNLIMITED_SERVER,
    Plan,
    PlanLimits,
    ServerLimits,
)
from greenroom.actors.plans.recount import DOCUMENT, StoredRecount
from greenroom.actors.plans.refusals import (
    CallShareUsed,
    GamesHoldTooMuch,
    StorageLimitReached,
    StorageShareUsed,
    TooManyGames,
    TooManyPlayersFromAddress,
    TooManyPlayersOnline,
)
from greenroom.actors.plans.shares import OwnerShares, PlanNeeds

DAY_SECONDS: Final = 86_400
CALL_BYTES: Final = 256
"""Bytes that a call, or a stored message, is taken to write besides what it brings."""
GAME_HELD_BYTES: Final = 4_096
"""Bytes that a game takes in memory besides its document."""
PLAYER_BYTES: Final = 256
"""Bytes that a player is taken to weigh besides name and document: the row, with its indexes."""
_WRITTEN_BY_PLAN: Final = "written bytes by plan"


class GameUsage:
    """The usage of one game; changed together with its owner's sums."""

    __slots__ = (
        *("_online_from", "_refused", "bytes_held", "calls", "game_id", "owner"),
        *("players_online", "recount", "rooms", "shards", "storage_bytes", "written_bytes"),
    )

    def __init__(
        self, game_id: int, owner: OwnerUsage, refused: Counter[str], shards: tuple[int, ...] = (0,)
    ) -> None:
        """Start with nothing used."""
        self.game_id = game_id
        self.shards = shards
        """The shards that it lives in; the first is its home."""
        self.owner = owner
        self._online_from = owner.online_from
        self._refused = refused
        self.calls = 0
        self.players_online = 0
        self.rooms = 0
        self.bytes_held: dict[Held, int] = {"rooms": 0, "players": 0, "games": 0}
        self.storage_bytes = 0
        self.recount: StoredRecount | None = None
        """While the stored bytes are counted anew."""
        self.written_bytes = 0
        """Bytes written today."""

    def check_player(self, address: str = "") -> None:
        """Let one more player come online.

        Args:
            address: where they call from; empty if that is not known.

        Raises:
            TooManyPlayersOnline: the plan allows no more.
            TooManyPlayersFromAddress: it allows no more from there.
        """
        owner = self.owner
        if owner.players_online >= owner.allowed.players_online_max:
            if not owner.lacks("players_online", 1):
                self._refused["players by plan"] += 1
            raise TooManyPlayersOnline
        key, online_max = share_key(address), owner.limits.players_online_max
        if key and owner.online_from.get_count(key) + 1 > owner.compute_address_share(online_max):
            self._refused["players by plan and address"] += 1
            raise TooManyPlayersFromAddress

    def count_online(self, address: str = "") -> None:
        """Count one more player online."""
        self.players_online += 1
        self.owner.players_online += 1
        if key := share_key(address):
            self._online_from.add(key)

    def count_all_online(self, players: int) -> None:
        """Count so many more players online, whose addresses are not known."""
        self.players_online += players
        self.owner.players_online += players

    def uncount_online(self, address: str = "") -> None:
        """Stop counting a player; `address` is what they were counted with."""
        self.players_online -= 1
        self.owner.players_online -= 1
        if key := share_key(address):
            self._online_from.subtract(key)

    def check_storage(self, more_bytes: int, address: str = "", now: int = 0) -> None:
        """Admit so many more stored bytes; none or fewer always pass.

        Args:
            more_bytes: how many.
            address: where they come from; empty if they count for no address.
            now: Unix seconds.

        Raises:
            StorageLimitReached: the plan allows no more.
            StorageShareUsed: it allows no more from there today.
        """
        owner = self.owner
        if more_bytes > 0 and owner.storage_bytes + more_bytes > owner.allowed.storage_bytes_max:
            if not owner.lacks("storage_bytes", more_bytes):
                self._refused["storage by plan"] += 1
            raise StorageLimitReached
        if more_bytes > 0 and not owner.may_store_from(share_key(address), more_bytes):
            self._refused["storage by plan and address"] += 1
            raise StorageShareUsed(DAY_SECONDS - now % DAY_SECONDS)

    def count_stored(self, more_bytes: int, player_id: int = DOCUMENT) -> None:
        """Count what is stored now.

        Args:
            more_bytes: by how much it grew; less is negative.
            player_id: whose record it is; by default it is the game's document.
        """
        self.storage_bytes += more_bytes
        self.owner.storage_bytes += more_bytes
        if self.recount is not None:
            self.recount.note_change(player_id, more_bytes)

    def count_stored_from(self, address: str, more_bytes: int) -> None:
        """Count so many bytes more, or less, as stored from an address; empty for none."""
        self.owner.count_stored_from(share_key(address), more_bytes)

    def end_recount(self, recount: StoredRecount) -> None:
        """Put the stored bytes right, as they were counted anew."""
        recount.end()
        self.recount = None
        self.count_stored(recount.stored_bytes - self.storage_bytes)

    def count_open_rooms(self, more_rooms: int) -> None:
        """Count the rooms and lobbies there are now; fewer is negative."""
        self.rooms += more_rooms
        self.owner.rooms += more_rooms

    def count_held(self, kind: Held, more_bytes: int) -> None:
        """Count what is held in memory now; less is negative."""
        self.bytes_held[kind] += more_bytes
        self.owner.bytes_held[kind] += more_bytes


class StoredUsage(msgspec.Struct, frozen=True):
    """A game's usage as it is kept in the database, with whom it belongs to."""

    game_id: int
    owner_id: int
    plan: Plan
    day: int
    """The day of the calls and the bytes written: whole days since the Unix epoch."""
    calls: int
    storage_bytes: int
    written_bytes: int = 0
    document_bytes: int = 0
    """Size of the game's document; read, and never written with the rest."""
    shards: tuple[int, ...] = ()
    """The shards that the game lives in, likewise; empty for the one that its hash says."""


class Ledger:
    """The usage of all owners and games."""

    def __init__(
        self,
        plans: Mapping[Plan, PlanLimits] = UNLIMITED_PLANS,
        share_per_address: float = WHOLE_PLAN,
        server: ServerLimits = UNLIMITED_SERVER,
    ) -> None:
        """Start without owners. Without arguments, all is counted and nothing refused.

        Args:
            plans: what each plan allows.
            share_per_address: the part of a plan, between 0 and 1, that one address may use. For
                written bytes and for memory of rooms, also the part of the server's limit.
            server: what all may use together.
        """
        self._plans = plans
        self._share_per_address = share_per_address
        self.server = server
        self.written_bytes = 0
        """Bytes written today, by all."""
        self.games_bytes = 0
        """Bytes that the documents of all games hold, or would if all were called."""
        self._owners: dict[int, OwnerUsage] = {}
        self._games: dict[int, GameUsage] = {}
        self.spread: dict[int, tuple[int, ...]] = {}
        """The shards of open games that live in several, each with its home first."""
        self.rooms_in = Counter[int]()
        """Rooms and lobbies by shard, those of all games."""
        self.has_others = False
        """True if other nodes count, too: games in several partitions live on several nodes."""
        self.needs = PlanNeeds()
        self._day_ends_at = 0
        self.refused: Counter[str] = Counter()
        """How often each kind of limit has refused."""

    def restore(self, rows: Iterable[StoredUsage], now: int) -> None:
        """Begin with what the database holds; `now` in Unix seconds."""
        self.start_day_at(now)
        for row in rows:
            game = self.open_game(row.game_id, row.owner_id, row.plan, row.shards)
            self.hold_document(row.game_id, row.document_bytes)
            if len(game.shards) < 2:  # what others are counted by is brought back by itself
                game.count_stored(row.storage_bytes - game.storage_bytes)
                self.add_day(game, row.day, row.calls, row.written_bytes)

    def add_day(self, game: GameUsage, day: int, calls: int, written_bytes: int) -> None:
        """Count what was counted of a game before, or elsewhere, if that was today."""
        if day == self.day:
            game.calls += calls
            game.owner.calls += calls
            self._count_written(game, written_bytes)

    @property
    def day(self) -> int:
        """Return the day that calls are being counted of, since the Unix epoch."""
        return self._day_ends_at // DAY_SECONDS - 1

    def get_game_usage(self, game_id: int) -> GameUsage:
        """Return a game's usage; one that was never opened is nobody's, and without limits."""
        return self._games.get(game_id) or self._make_unknown(game_id)

    def get_owner_usage(self, owner_id: int, plan: Plan) -> OwnerUsage:
        """Return an owner's usage; `plan` counts only if the owner is not known yet."""
        owner = self._owners.get(owner_id)
        if owner is None:
            owner = OwnerUsage(owner_id, self._plans[plan], self._share_per_address)
            self._owners[owner_id] = owner
        return owner

    def find_owner(self, owner_id: int) -> OwnerUsage | None:
        """Return what an owner uses, None if they are not known."""
        return self._owners.get(owner_id)

    def find_game(self, game_id: int) -> GameUsage | None:
        """Return what an open game uses, None if it is not here."""
        return self._games.get(game_id)

    def list_owners(self) -> list[OwnerUsage]:
        """Return what all owners use who are known."""
        return list(self._owners.values())

    def list_games(self) -> list[GameUsage]:
        """Return what all open games use."""
        return list(self._games.values())

    def check_game(self, owner_id: int, plan: Plan) -> None:
        """Check that an owner may have one more game.

        Raises:
            TooManyGames: the owner's plan allows no more.
        """
        owner = self.get_owner_usage(owner_id, plan)
        if owner.games >= owner.limits.games_max:
            raise TooManyGames

    def check_document(self, game_id: int, document_bytes: int) -> None:
        """Admit a game's document of this size; one that is no larger than before always passes.

        Raises:
            GamesHoldTooMuch: the documents of all games would hold more than they may.
        """
        more = GAME_HELD_BYTES + document_bytes - self.get_game_usage(game_id).bytes_held["games"]
        if more > 0 and self.games_bytes + more > self.server.games_bytes_max:
            self.refused["game bytes by server"] += 1
            raise GamesHoldTooMuch

    def hold_document(self, game_id: int, document_bytes: int) -> None:
        """Count that a game's document is so large now; a game that is not open counts nothing."""
        game = self._games.get(game_id)
        if game is not None:
            more = GAME_HELD_BYTES + document_bytes - game.bytes_held["games"]
            game.count_held("games", more)
            self.games_bytes += more

    def open_game(
        self, game_id: int, owner_id: int, plan: Plan, shards: tuple[int, ...] = ()
    ) -> GameUsage:
        """Note a game; return what it uses. Noting it again changes nothing.

        Args:
            game_id: which.
            owner_id: whose.
            plan: the owner's.
            shards: where it lives, its home first; empty for where its hash says.
        """
        game = self._games.get(game_id)
        if game is None:
            owner = self.get_owner_usage(owner_id, plan)
            owner.games += 1
            shards = shards or (home_shard(game_id),)
            game = self._games[game_id] = GameUsage(game_id, owner, self.refused, shards)
            if len(shards) > 1:
                self.spread[game_id] = shards
                owner.spread_games += 1
                self._share(owner)
        return game

    def _share(self, owner: OwnerUsage) -> None:
        """Begin to share the plan of an owner with other nodes, or end it, as is right now."""
        is_shared = self.has_others and owner.spread_games > 0 and owner.limits != UNLIMITED
        if not is_shared:
            owner.shares = None
        elif owner.shares is None:
            owner.shares = OwnerShares(owner.owner_id, self.needs, owner.count_used())

    def find_shards(self, game_id: int) -> tuple[int, ...]:
        """Return the shards that a game lives in, its home first; none for one that is not here."""
        game = self._games.get(game_id)
        return () if game is None else game.shards

    def find_shard(self, game_id: int, key: str = "") -> int | None:
        """Return the shard of what a game has, None if the game is not here.

        Args:
            game_id: which game.
            key: the id of one of its rooms or lobbies; empty for the game's home.
        """
        game = self._games.get(game_id)
        if game is None:
            return None
        return partition_named(game.shards, key) if key else game.shards[0]

    def get_shard(self, game_id: int, key: str = "") -> int:
        """Return what `find_shard` does; for a game that is not here, what its hash says."""
        shard = self.find_shard(game_id, key)
        return home_shard(game_id) if shard is None else shard

    def forget_game(self, game_id: int) -> None:
        """Forget a game that is deleted; the calls it had today stay its owner's."""
        game = self._games.pop(game_id, None)
        self.spread.pop(game_id, None)
        if game is not None:
            owner = game.owner
            owner.games -= 1
            owner.storage_bytes -= game.storage_bytes
            owner.players_online -= game.players_online
            owner.rooms -= game.rooms
            if len(game.shards) > 1:
                owner.spread_games -= 1
                self._share(owner)
            self.games_bytes -= game.bytes_held["games"]
            for kind, size in game.bytes_held.items():
                owner.bytes_held[kind] -= size
            game.owner = OwnerUsage(0, UNLIMITED)  # for players of it who have yet to leave

    def list_games_of(self, shard: int) -> list[int]:
        """Return the ids of the games that live in a shard, some of them in others too."""
        return [game.game_id for game in self._games.values() if shard in game.shards]

    def let_go(self, game_id: int) -> None:
        """Forget a game that another node counts from now on, with the calls that it had today."""
        game = self._games[game_id]
        owner = game.owner
        owner.calls -= game.calls
        self._count_written(game, -game.written_bytes)
        self.forget_game(game_id)
        if not owner.games:
            self._owners.pop(owner.owner_id, None)

    def set_plan(self, owner_id: int, plan: Plan) -> None:
        """Let another plan count for an owner from now on."""
        owner = self.get_owner_usage(owner_id, plan)
        owner.change_limits(self._plans[plan])
        self._share(owner)

    def count_call(self, game_id: int, now: int, address: str = "") -> int:
        """Count a call of a game; return 0, or in how many seconds its owner's next day begins.

        Args:
            game_id: whose.
            now: Unix seconds.
            address: where it comes from; empty for a call that counts for no address.

        Raises:
            CallShareUsed: the address has used its share of the day.
        """
        if now >= self._day_ends_at:
            self.start_day_at(now)
        game = self._games.get(game_id) or self._make_unknown(game_id)
        owner = game.owner
        calls_max = owner.limits.calls_per_day_max
        if owner.calls >= owner.allowed.calls_per_day_max:
            if not owner.lacks("calls_per_day", 1):
                self.refused["calls by plan"] += 1
            return self._day_ends_at - now
        if calls_max != math.inf and (key := share_key(address)):
            if owner.calls_from.get_count(key) + 1 > owner.compute_address_share(calls_max):
                self.refused["calls by plan and address"] += 1
                raise CallShareUsed(self._day_ends_at - now)
            owner.calls_from.add(key)
        owner.calls += 1
        game.calls += 1
        return 0

    def give_back_call(self, game_id: int, address: str = "") -> None:
        """Take back the count of a call with `address`, because it was refused afterwards.

        One that was counted before midnight is no part of today's, and stays.
        """
        game = self.get_game_usage(game_id)
        if game.calls:
            game.calls -= 1
            game.owner.calls -= 1
            if key := share_key(address):
                game.owner.calls_from.subtract(key)

    def count_written(self, game_id: int, address: str, size: int, now: int) -> int:
        """Count what a call, or a message that is stored, brings to be written down.

        Args:
            game_id: whose.
            address: the client's.
            size: in bytes.
            now: Unix seconds.

        Returns:
            0 if it was counted, else in how many seconds the next day begins: the plan, the server,
            or the address's share of them, allows no more today.
        """
        if now >= self._day_ends_at:
            self.start_day_at(now)
        game, key, more = self.get_game_usage(game_id), share_key(address), size + CALL_BYTES
        owner = game.owner
        reason = self._find_exceeded(owner, key, more)
        if reason is not None:
            if reason != _WRITTEN_BY_PLAN or not owner.lacks("written_bytes_per_day", more):
                self.refused[reason] += 1
            return self._day_ends_at - now
        self._count_written(game, more)
        if key:
            owner.written_from.add(key, more)
        return 0

    def _count_written(self, game: GameUsage, more: int) -> None:
        game.written_bytes += more
        game.owner.written_bytes += more
        self.written_bytes += more

    def _find_exceeded(self, owner: OwnerUsage, key: str, more: int) -> str | None:
        """Return which limit so many bytes more would exceed today, None for none."""
        plan_max = owner.limits.written_bytes_per_day_max
        server_max = self.server.written_bytes_per_day_max
        if owner.written_bytes + more > owner.allowed.written_bytes_per_day_max:
            return _WRITTEN_BY_PLAN
        if key and owner.written_from.get_count(key) + more > owner.compute_address_share(
            min(plan_max, server_max)
        ):
            return "written bytes by address"
        return "written bytes by server" if self.written_bytes + more > server_max else None

    def start_day_at(self, now: int) -> None:
        """Begin to count the day anew if another has begun by `now` (Unix seconds).

        A clock set back does not give yesterday's calls again.
        """
        if now < self._day_ends_at:
            return
        self._day_ends_at = (now // DAY_SECONDS + 1) * DAY_SECONDS
        self.written_bytes = 0
        for owner in self._owners.values():
            owner.calls = owner.written_bytes = 0
            owner.calls_from.clear()
            owner.written_from.clear()
            owner.stored_from.clear()
            if owner.shares is not None:
                owner.shares.begin_day()
                owner.settle()
        for game in self._games.values():
            game.calls = game.written_bytes = 0

    def _make_unknown(self, game_id: int) -> GameUsage:
        return GameUsage(game_id, OwnerUsage(0, UNLIMITED), self.refused)


def player_bytes(player_name: str, player_data: bytes) -> int:
    """Return what a player is taken to weigh in storage."""
    return PLAYER_BYTES + len(player_name.encode()) + len(player_data)
