"""The usage of games in memory, as the database would keep it: by game, by node, and in shares."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, TypeVar

import msgspec

from greenroom.actors.game.messages import Game
from greenroom.actors.plans.ledger import StoredUsage, player_bytes
from greenroom.actors.plans.shares import OF_A_DAY, Grant, Kind, ShareAsk, granted
from greenroom.actors.services.usage_parts import PartRow

if TYPE_CHECKING:
    from world_kit import Memory

T = TypeVar("T")


class MemoryUsage:
    """The tables."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self.rows: dict[int, StoredUsage] = {}
        self.parts: dict[tuple[int, int, int], PartRow] = {}
        """By game, node and stay."""
        self.left: set[tuple[int, int, int]] = set()
        self.shares: dict[tuple[int, Kind, int], tuple[int, int]] = {}
        """The day and the share, by owner, kind and node."""
        self.ended: set[int] = set()
        """Nodes that write no more."""
        self.has_ended: Callable[[int], bool] = lambda node_id: node_id in self.ended
        self.is_home: Callable[[int, int], bool] = lambda _game_id, _node_id: True
        """Returns whether a node has a game's home: by default each is believed that says so."""
        self._nodes = 0

    def join(self) -> NodeUsage:
        """Return the tables as a new node sees them."""
        self._nodes += 1
        return NodeUsage(self._memory, self, self._nodes)

    def total_of(self, game_id: int, day: int) -> tuple[int, int, int]:
        """Return the calls, the stored and the written bytes of a game, at all nodes together."""
        rows = [row for (game, _, _), row in self.parts.items() if game == game_id]
        today = [row for row in rows if row.day == day]
        stored = sum(row.storage_bytes for row in rows)
        return sum(row.calls for row in today), stored, sum(row.written_bytes for row in today)

    # What statements do, each in one step.

    def save_parts(self, node_id: int, rows: Sequence[PartRow]) -> None:
        for row in rows:
            if row.game_id in self._memory.all_games:
                self.parts[row.game_id, node_id, row.stay] = row

    def leave_parts(self, node_id: int, rows: Sequence[PartRow]) -> None:
        keys = {(row.game_id, node_id, row.stay) for row in rows}
        self.left |= keys & self.parts.keys()

    def adopt_parts(
        self, node_id: int, rows: Sequence[PartRow], sharers: Sequence[int], day: int
    ) -> list[PartRow]:
        for row, sharer in zip(rows, sharers, strict=True):
            if self.is_home(row.game_id, node_id):
                self._adopt((row.game_id, node_id, row.stay), sharer, day)
        keys = [(row.game_id, node_id, row.stay) for row in rows]
        return [self.parts[key] for key in keys if key in self.parts]

    def _adopt(self, home: tuple[int, int, int], sharer: int, day: int) -> None:
        game_id, node_id, stay = home
        found: list[PartRow | StoredUsage] = []
        for key in [key for key in self.parts if key[0] == game_id and self._is_left(key)]:
            found.append(self.parts.pop(key))
            self.left.discard(key)
        whole = self.rows.pop(game_id, None)
        found += [] if whole is None else [whole]
        if not found:
            return
        mine = self.parts.get(home, PartRow(game_id, stay, day, 0, 0, 0))
        today = [row for row in (*found, mine) if row.day == day]
        self.parts[home] = PartRow(
            game_id=game_id,
            stay=stay,
            day=day,
            calls=sum(row.calls for row in today),
            storage_bytes=mine.storage_bytes + sum(row.storage_bytes for row in found),
            written_bytes=sum(row.written_bytes for row in today),
        )
        if sharer:
            self._grow_shares(sharer, node_id, found, day)

    def _grow_shares(
        self, owner_id: int, node_id: int, adopted: Sequence[PartRow | StoredUsage], day: int
    ) -> None:
        """Have a node's shares hold what it has adopted, too."""
        today = [row for row in adopted if row.day == day]
        more: dict[Kind, int] = {
            "storage_bytes": sum(row.storage_bytes for row in adopted),
            "calls_per_day": sum(row.calls for row in today),
            "written_bytes_per_day": sum(row.written_bytes for row in today),
        }
        for kind, used in more.items():
            of_day, share = self.shares.get((owner_id, kind, node_id), (day, 0))
            held = share if of_day == day or kind not in OF_A_DAY else 0
            self.shares[owner_id, kind, node_id] = day, held + used

    def _is_left(self, key: tuple[int, int, int]) -> bool:
        return key in self.left or self.has_ended(key[1])

    def take(self, node_id: int, owner_id: int, day: int, asks: Sequence[ShareAsk]) -> list[Grant]:
        self.free_ended()
        adoptable = self._adoptable(owner_id, day)
        grants: list[Grant] = []
        for ask in asks:
            others = adoptable[ask.kind] + sum(
                share
                for (owner, kind, node), (of_day, share) in self.shares.items()
                if (owner, kind) == (owner_id, ask.kind)
                and node != node_id
                and (of_day >= day or kind not in OF_A_DAY)
            )
            share = granted(ask, others)
            self.shares[owner_id, ask.kind, node_id] = day, share
            nodes = {node for owner, _, node in self.shares if owner == owner_id}
            grants.append(Grant(ask.kind, share, len(nodes)))
        return grants

    def count_nodes(self, owner_ids: Sequence[int]) -> dict[int, int]:
        held = {(o, n) for o, _, n in self.shares if o in owner_ids and not self.has_ended(n)}
        return dict(Counter(owner_id for owner_id, _ in held))

    def free_ended(self) -> None:
        """Give back what nodes had that have ended."""
        self.shares = {key: held for key, held in self.shares.items() if not self.has_ended(key[2])}

    def _adoptable(self, owner_id: int, day: int) -> defaultdict[Kind, int]:
        """Return what is used of an owner's plan by nobody: nodes have left it, or ended."""
        sums: defaultdict[Kind, int] = defaultdict(int)
        games = self._memory.all_games
        of_owner = {game.game_id for game in games.values() if game.owner_id == owner_id}
        found: list[PartRow | StoredUsage] = [
            row for key, row in self.parts.items() if key[0] in of_owner and self._is_left(key)
        ]
        found += [row for i, row in self.rows.items() if i in of_owner and len(games[i].shards) > 1]
        for row in found:
            sums["storage_bytes"] += row.storage_bytes
            if row.day >= day:
                sums["calls_per_day"] += row.calls
                sums["written_bytes_per_day"] += row.written_bytes
        return sums

    def give_back(self, node_id: int, owner_id: int) -> None:
        self.shares = {
            key: held
            for key, held in self.shares.items()
            if (key[0], key[2]) != (owner_id, node_id)
        }


class UnsharedUsage:
    """The part of `UsageRecords` that games in one partition do not need."""

    async def save_parts(self, rows: Sequence[PartRow]) -> None:
        raise AssertionError("no game is in several partitions")

    async def leave_parts(self, rows: Sequence[PartRow]) -> None:
        raise AssertionError("no game is in several partitions")

    async def adopt_parts(
        self, rows: Sequence[PartRow], sharers: Sequence[int], day: int
    ) -> list[PartRow]:
        raise AssertionError("no game is in several partitions")

    async def load_stored_parts(self, game_id: int) -> list[tuple[int, int, int]]:
        raise AssertionError("no game is in several partitions")

    async def take(self, owner_id: int, day: int, asks: Sequence[ShareAsk]) -> list[Grant]:
        raise AssertionError("no plan is shared")

    async def count_nodes(self, owner_ids: Sequence[int]) -> dict[int, int]:
        raise AssertionError("no plan is shared")

    async def give_back(self, owner_id: int) -> None:
        raise AssertionError("no plan is shared")


class NodeUsage:
    """The tables as one node sees them; it implements `UsageRecords`."""

    def __init__(self, memory: Memory, tables: MemoryUsage, node_id: int) -> None:
        self.node_id = node_id
        self.tables = tables
        self._memory = memory
        self.taken = 0
        """How often shares were taken."""

    async def do(self, what: str, act: Callable[[], T]) -> T:
        """Have the database do something."""
        await self._memory.reach(what)
        return act()

    async def load(self, shards: Collection[int] | None = None) -> list[StoredUsage]:
        games = [
            game
            for game in self._memory.all_games.values()
            if shards is None or not set(shards).isdisjoint(game.shards)
        ]
        await self._memory.reach("load_usage")
        return [self._row(game) for game in games]

    def _row(self, game: Game) -> StoredUsage:
        plan = self._memory.all_owners[game.owner_id].plan
        new = StoredUsage(game.game_id, game.owner_id, plan, 0, 0, len(game.data))
        row = self.tables.rows.get(game.game_id, new)
        return msgspec.structs.replace(row, plan=plan, shards=game.shards)

    async def save(self, rows: Sequence[StoredUsage]) -> None:
        await self._memory.reach("save_usage")
        self.tables.rows.update({row.game_id: row for row in rows})

    async def read_game_bytes(self, game_id: int) -> int | None:
        await self._memory.reach("game_bytes")
        game = self._memory.all_games.get(game_id)
        return None if game is None else len(game.data)

    async def sum_player_bytes(
        self, game_id: int, after_id: int, limit: int
    ) -> tuple[int, int, int]:
        page = await self._memory.load_players_page(game_id, after_id, limit)
        whole = [self._memory.players[one.player_id] for one in page]
        size = sum(player_bytes(one.player_name, one.player_data) for one in whole)
        return len(page), page[-1].player_id if page else 0, size

    async def save_parts(self, rows: Sequence[PartRow]) -> None:
        await self.do("save_parts", lambda: self.tables.save_parts(self.node_id, rows))

    async def leave_parts(self, rows: Sequence[PartRow]) -> None:
        await self.do("leave_parts", lambda: self.tables.leave_parts(self.node_id, rows))

    async def adopt_parts(
        self, rows: Sequence[PartRow], sharers: Sequence[int], day: int
    ) -> list[PartRow]:
        return await self.do(
            "adopt_parts", lambda: self.tables.adopt_parts(self.node_id, rows, sharers, day)
        )

    async def load_stored_parts(self, game_id: int) -> list[tuple[int, int, int]]:
        await self._memory.reach("stored_parts")
        parts = self.tables.parts.items()
        found = [(node, stay, row.storage_bytes) for (g, node, stay), row in parts if g == game_id]
        whole = self.tables.rows.get(game_id)
        return sorted([*found, *([] if whole is None else [(0, 0, whole.storage_bytes)])])

    async def take(self, owner_id: int, day: int, asks: Sequence[ShareAsk]) -> list[Grant]:
        self.taken += 1
        return await self.do(
            "take_shares", lambda: self.tables.take(self.node_id, owner_id, day, asks)
        )

    async def count_nodes(self, owner_ids: Sequence[int]) -> dict[int, int]:
        return await self.do("count_nodes", lambda: self.tables.count_nodes(owner_ids))

    async def give_back(self, owner_id: int) -> None:
        await self.do("give_back", lambda: self.tables.give_back(self.node_id, owner_id))
