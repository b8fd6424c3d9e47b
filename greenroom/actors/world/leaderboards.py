"""Leaderboards: indexes built from the database when first asked for, kept in step by commits.

An index only ever holds what is durable. `Leaderboards.note_durable` is told of every committed
transaction, in order, before the answers to its changes leave. What the database refuses never gets
here, and what becomes of an actor, a crash included, does not matter. While an index is built, the
pages read and the changes told overlap: a change always wins over a page, for a page read later has
the change, too.

What one commit may have read at once is bounded. Further documents wait (`unread.py`) and are read
in the passes that follow. Whoever asks for a leaderboard waits until those of its game that were
there before are read.

A game's indexes are built one at a time. The addresses that asked take turns, each in its order.
Reading is charged to the address that asked and to the game (`charges.py`).
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence

import trio

from greenroom.actors.game.messages import GameSettingsReplaced
from greenroom.actors.kernel.errors import ActorCrashed, StorageRefused, StorageUnavailable
from greenroom.actors.kernel.message import Event
from greenroom.actors.kernel.portion import DOCUMENTS_BYTES_MAX
from greenroom.actors.kernel.shard_ownership import Ownership
from greenroom.actors.leaderboard.boards import NO_READERS, Boards
from greenroom.actors.leaderboard.build_queue import Build, BuildQueue
from greenroom.actors.leaderboard.charges import Charges
from greenroom.actors.leaderboard.index import Fields, Index, Keys, Readers
from greenroom.actors.leaderboard.merging import TopFound
from greenroom.actors.leaderboard.movers import MOVERS_MAX, Movers
from greenroom.actors.leaderboard.parts import Parts
from greenroom.actors.leaderboard.profiles import Profiles
from greenroom.actors.leaderboard.reading_turn import ReadingTurn
from greenroom.actors.leaderboard.refusals import TooManyBuilds
from greenroom.actors.leaderboard.top_entries import TopEntries
from greenroom.actors.leaderboard.unread import Change, Unread
from greenroom.actors.plans.ledger import Ledger
from greenroom.actors.player.messages import (
    Player,
    PlayerDeleted,
    PlayerDocumentReplaced,
    PlayerMoved,
    PlayerRegistered,
    PlayerRenamed,
    PlayerStatsChanged,
)
from greenroom.actors.world.ports import Accounts

BUILD_WAIT_SECONDS_MAX = 8.0
"""How many seconds a caller waits for an index.

Building goes on, and it is there for the next call.
"""
PAGES_AT_ONCE = 2
"""Pages being read or worked through, of all builds together, which so take turns: half of the
connections are left to others."""
PAGE_PLAYERS_FIRST, PAGE_PLAYERS_MAX = 16, 500
"""Pages hold fewer players where documents are large: these come to `DOCUMENTS_BYTES_MAX`."""
CHUNK_BYTES = 64 << 10
"""How much is worked through before others have their turn, about a third of a millisecond where
documents are as bad as can be."""
CHUNK_SECONDS_MAX = 0.001
"""How long is worked at most, likewise: keys of many fields take longer."""
FREED_AT_ONCE = 1_000
"""Places of dropped indexes that are freed before others have their turn, in about a
millisecond. All places of a large index would hold up everybody."""
MOVERS_SECONDS = 10.0
"""How often players are forgotten who moved between nodes some seconds ago, and whose leaderboards
nobody asks for."""
UNREAD_BYTES_MAX = 32 << 20
"""Documents of all games that wait to be read. Beyond, the game with most loses its indexes."""
_ROW_BYTES = 1 << 10  # what a row's place costs, counted as bytes of its document
_QUERY_BYTES = 64 << 10  # what a page costs besides its rows, likewise
_RETRY_SECONDS = 0.5

Row = tuple[int, bytes, bytes]
"""A player's id, document and stats."""

_log = logging.getLogger(__name__)


def _all_of_it(_game_id: int) -> None:
    """Return that a game's players are all ranked here."""


class Leaderboards:
    """The indexes of all games, and those who build them: a service, empty whenever it starts."""

    def __init__(
        self,
        accounts: Accounts,
        charges: Charges | None = None,
        partitions: Callable[[int], Collection[int] | None] = _all_of_it,
    ) -> None:
        """Prepare; nothing is built before `run`.

        Args:
            accounts: where documents are read.
            charges: what builds may read; as much as they like if not given.
            partitions: returns the shards of a game whose players are ranked here; None for all.
        """
        self._partitions = partitions
        self._accounts = accounts
        self._charges = charges
        self._boards = Boards(when_dropped=self._free_soon)
        self._is_freeing = False
        self._unread = Unread()
        self._movers = Movers()
        self._reader = trio.lowlevel.ParkingLot()
        """The task that reads documents, while none wait."""
        self._askers = trio.lowlevel.ParkingLot()
        """Those who wait for documents to be read."""
        self.profiles = Profiles()
        self.tops = TopEntries()
        self.parts = Parts()
        self._nursery: trio.Nursery | None = None
        self._queues: dict[int, BuildQueue] = {}
        self._pages = trio.CapacityLimiter(PAGES_AT_ONCE)
        self.refused: Counter[str] = Counter()
        """How often each bound of builds has refused."""

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Build what is asked for, until cancelled. What is there then is forgotten."""
        try:
            async with trio.open_nursery() as nursery:
                self._nursery = nursery
                nursery.start_soon(self._forget_movers)
                task_status.started()
                await self._read_unread()
        finally:
            self._nursery = None
            self._is_freeing = False
            self._clear()

    def note_durable(self, events: Iterable[Event]) -> None:
        """Take note of events that have become durable, in their order; never fails.

        Without indexes this costs nothing; with them, some microseconds for each change of a
        document in their games. Documents beyond `CHUNK_BYTES` are read later.
        """
        if not self._boards and self.profiles.is_empty:
            return
        left_bytes = CHUNK_BYTES
        try:
            for event in events:
                left_bytes -= self._note(event, left_bytes)
            while self._unread.size_bytes > UNREAD_BYTES_MAX:
                self._give_up_following(self._unread.find_fullest())
        except Exception:  # noqa: BLE001 - the committer must not suffer for it
            self._begin_anew()
        if self._unread.size_bytes:
            self._reader.unpark_all()

    def _note(self, event: Event, left_bytes: int) -> int:
        """Take note of an event; return how many bytes were read, of those that are left."""
        read_bytes = 0
        if isinstance(event, PlayerDocumentReplaced | PlayerStatsChanged):
            change = Change(event.game_id, event.player_id, event.player_data, event.stats)
            read_bytes = self._put(change, left_bytes)
        elif isinstance(event, PlayerRegistered):
            change = Change(event.game_id, event.player_id, event.player_data)
            read_bytes = self._put(change, left_bytes)
        elif isinstance(event, PlayerDeleted):
            self._movers.forget(event.game_id, event.player_id)
            self._remove(event.game_id, event.player_id)
        elif isinstance(event, PlayerMoved):
            if event.shard not in (self._partitions(event.game_id) or ()):
                self._note_left(event.game_id, event.player_id)
        elif isinstance(event, PlayerRenamed):
            self.tops.note_rename()
        else:
            if isinstance(event, GameSettingsReplaced) and event.settings.leaderboards:
                self._boards.keep_only(event.game_id, event.settings.leaderboards)
                self._give_up_waiting(event.game_id)
            return 0
        self.profiles.forget(event.player_id)
        return read_bytes

    def _note_left(self, game_id: int, player_id: int) -> None:
        """Take note of a player who lives on another node, and keeps their place for a while."""
        if self._boards.has_any(game_id) and not self._movers.leave(game_id, player_id):
            self._remove(game_id, player_id)

    def _remove(self, game_id: int, player_id: int) -> None:
        self._unread.forget(game_id, player_id)
        self._boards.remove(game_id, player_id)

    def note_received(self, game_id: int, player_ids: Iterable[int]) -> None:
        """Take note that another node has players who have left, or is not waited for any more."""
        now = trio.current_time()
        for player_id in player_ids:
            self._movers.note_received(game_id, player_id, now)

    def note_came(self, game_id: int, player_id: int) -> None:
        """Take note that another node has told of a player who left it, and is loaded here."""
        self._movers.come(game_id, player_id, trio.current_time())

    def note_loaded(self, player: Player) -> None:
        """Take note of a player of a game in several shards, who may come from another node."""
        game_id, player_id = player.game_id, player.player_id
        has_left = self._movers.has_left(game_id, player_id)
        if has_left or self._boards.lacks(game_id, player_id):
            self.note_came(game_id, player_id)
        self._put(Change(game_id, player_id, player.player_data, player.stats), CHUNK_BYTES)
        self.profiles.forget(player_id)  # they may have changed at the node that they come from
        if self._unread.size_bytes:
            self._reader.unpark_all()

    def _put(self, change: Change, left_bytes: int) -> int:
        """Read a document if it fits into what is left, or let it wait; return what was read."""
        readers = self._boards.get_readers(change.game_id)
        if readers is NO_READERS:
            return 0  # the game has no indexes
        size = (_ROW_BYTES + len(change.document)) * len(readers.choose(change.document))
        if size > left_bytes:
            self._unread.put(change)
            return 0
        self._unread.forget(change.game_id, change.player_id)
        self._boards.put(*change)
        return size

    async def _read_unread(self) -> None:
        """Read what waits, piece by piece, others having their turns in between."""
        turn = ReadingTurn()
        while True:
            self._askers.unpark_all()
            change = self._unread.find_first()
            if change is None:
                await self._reader.park()
                turn.begin()
                continue
            try:
                await self._read_waiting(change, turn)
            except Exception:  # noqa: BLE001 - the leaderboards go on, built again
                self._begin_anew()
                await trio.lowlevel.checkpoint()

    def _free_soon(self) -> None:
        """Have what dropped indexes held freed, unless that is under way."""
        if self._nursery is not None and not self._is_freeing:
            self._is_freeing = True
            self._nursery.start_soon(self._free_dropped)

    async def _free_dropped(self) -> None:
        """Free what indexes held that were dropped, piece by piece."""
        while not self._boards.free_dropped(FREED_AT_ONCE):
            await trio.lowlevel.checkpoint()
        self._is_freeing = False

    async def _read_waiting(self, change: Change, turn: ReadingTurn) -> None:
        """Read a document that waits, others having their turns in between.

        It goes on waiting if its game's indexes ask for something else meanwhile.
        """
        game_id, player_id, document, stats = change
        readers = self._boards.get_readers(game_id)
        keys: Keys = {}
        for read in readers.choose(document):
            keys.update(read(document, stats))
            await turn.end_if_long(len(document))
        if self._unread.has(change) and self._boards.get_readers(game_id) is readers:
            self._unread.forget(game_id, player_id)
            self._boards.put_keys(game_id, player_id, keys)
        self._unread.end_turn(game_id)
        await turn.end_if_long(_ROW_BYTES)

    def _give_up_following(self, game_id: int) -> None:
        """Forget a game's indexes, because its documents come faster than they are read."""
        _log.warning("the leaderboards of game %d cannot follow, and are built again", game_id)
        self._unread.forget_game(game_id)
        self._boards.forget_game(game_id)

    def _begin_anew(self) -> None:
        """Forget everything, because of the exception that is being handled."""
        _log.exception("leaderboards are out of step, and will be built again")
        self._clear()

    def find_first(self, index: Index, limit: int) -> TopFound:
        """Return the first players of an index, and who of them is on the move between nodes."""
        game_id, now = index.game_id, trio.current_time()
        self._drop_movers(game_id, MOVERS_MAX)
        left = set(filter(index.has, self._movers.list_departed(game_id)))
        came = {
            i: age for i, age in self._movers.list_arrived(game_id, now).items() if index.has(i)
        }
        return TopFound(index.list_top_keys(limit, left), len(index), left=left, came=came)

    async def _forget_movers(self) -> None:
        """Forget who has moved, also where nobody asks, others having their turns in between."""
        while True:
            await trio.sleep(MOVERS_SECONDS)
            for game_id in self._movers.list_games():
                while self._drop_movers(game_id, FREED_AT_ONCE) == FREED_AT_ONCE:
                    await trio.lowlevel.checkpoint()
                await trio.lowlevel.checkpoint()

    def _drop_movers(self, game_id: int, limit: int) -> int:
        """Drop players who left long enough ago, so many at most; return how many there were."""
        past = self._movers.take_past(game_id, trio.current_time(), limit)
        for player_id in past:
            self._remove(game_id, player_id)
        return len(past)

    def forget_game(self, game_id: int) -> None:
        """Forget all of a game that has been deleted, or that is another node's now."""
        self._movers.forget_game(game_id)
        self.forget_ranks(game_id)

    def forget_ranks(self, game_id: int) -> None:
        """Forget the indexes of a game: they must be built of other players from now on.

        Who has just left or come is still told, for other nodes may rank them as well.
        """
        self._unread.forget_game(game_id)
        self._boards.forget_game(game_id)
        self._give_up_waiting(game_id)
        self.profiles.clear()  # those of other games are read again
        self.tops.clear()
        self.parts.clear()

    def _clear(self) -> None:
        self._movers.clear()
        self._unread.clear()
        self._askers.unpark_all()
        self._boards.clear()
        self.profiles.clear()
        self.tops.clear()
        self.parts.clear()

    def _give_up_waiting(self, game_id: int) -> None:
        """Drop the builds that wait: whoever still wants one asks again."""
        queue = self._queues.get(game_id)
        for build in () if queue is None else queue.builds.values():
            if build.index is None:
                build.failure = StorageUnavailable("leaderboards have changed")

    def find(self, game_id: int, fields: Fields, address: str = "") -> Index | None:
        """Return a game's index, which counts as asked for from an address.

        It is None if there is none that is complete, or if documents of the game wait to be read.
        """
        if self._unread.find_newest(game_id):
            return None
        return self._find_complete(game_id, fields, address)

    def _find_complete(self, game_id: int, fields: Fields, address: str) -> Index | None:
        index = self._boards.find(game_id, fields, trio.current_time(), address)
        return index if index is not None and index.is_complete else None

    async def _catch_up(self, game_id: int) -> None:
        """Wait until a game's documents are read that wait now.

        Raises:
            StorageUnavailable: that took too long.
        """
        newest = self._unread.find_newest(game_id)
        with trio.move_on_after(BUILD_WAIT_SECONDS_MAX):
            while not self._unread.is_read_to(game_id, newest):
                await self._askers.park()
            return
        raise StorageUnavailable("the leaderboard is behind the changes of documents")

    async def find_or_build(
        self, game_id: int, fields: Fields, address: str = "", *, is_declared: bool = False
    ) -> Index:
        """Return a game's complete index over these fields, building it if there is none.

        Args:
            game_id: whose.
            fields: over what, the most important first.
            address: where it is asked for, to be charged; empty if that is not known.
            is_declared: whether the game's settings name it; then it is charged to nobody.

        Raises:
            StorageUnavailable: it is not there yet; ask again.
            StorageRefused: the database does not let the players be read.
            TooManyBuilds: it is not built, because there is no space, or too much has been built.
            ActorCrashed: it cannot be built.

        Cancellation just ends the wait.
        """
        await self._catch_up(game_id)
        index = self._find_complete(game_id, fields, address)
        if index is not None:
            return index
        queue = self._queues.get(game_id)
        build = None if queue is None else queue.builds.get(fields)
        if build is None:
            try:
                build = self._begin(Build(game_id, fields, address, is_declared=is_declared))
            except TooManyBuilds as refusal:
                self.refused[refusal.reason] += 1
                raise
        with trio.move_on_after(BUILD_WAIT_SECONDS_MAX):
            await build.ended.wait()
        if isinstance(build.failure, TooManyBuilds):
            self.refused[build.failure.reason] += 1
            raise TooManyBuilds(build.failure.reason, build.failure.retry_seconds)
        if build.failure is not None:
            raise build.failure.copy()
        if build.index is None or not build.index.is_complete:
            raise StorageUnavailable("the leaderboard is being built")
        return build.index

    def _begin(self, build: Build) -> Build:
        """Put a build behind the others of its game."""
        if self._nursery is None:
            raise StorageUnavailable("leaderboards are not being served")
        self._check_charges(build)
        queue = self._queues.get(build.game_id) or BuildQueue()
        if not build.is_declared:
            queue.check(build.address)
        self._queues[build.game_id] = queue
        queue.enter(build)
        self._nursery.start_soon(self._build, build, queue)
        return build

    def _check_charges(self, build: Build) -> None:
        if self._charges is not None and not build.is_declared:
            self._charges.check(build.game_id, build.address, trio.current_time())

    async def _build(self, build: Build, queue: BuildQueue) -> None:
        """Fill an index when its turn has come; whatever goes wrong is this index's alone."""
        try:
            await build.may_begin.wait()
            if build.failure is None:
                await self._fill(build)
        except (TooManyBuilds, StorageRefused) as refusal:
            build.failure = refusal
        except Exception:  # noqa: BLE001 - nor the builds of others
            _log.exception("a leaderboard of game %d cannot be built", build.game_id)
            build.failure = ActorCrashed("the leaderboard cannot be built")
        finally:
            if build.failure is not None and build.index is not None:
                self._boards.drop(build.index)
            queue.leave(build)
            if not queue.builds:
                del self._queues[build.game_id]
            build.ended.set()

    async def _fill(self, build: Build) -> None:
        """Read all players of the game, page by page; a database that is away is waited for."""
        self._check_charges(build)  # again, for what was built meanwhile
        now = trio.current_time()
        index = self._boards.open(
            build.game_id, build.fields, now, build.address, is_declared=build.is_declared
        )
        build.index = index
        after_id, wanted = 0, PAGE_PLAYERS_FIRST
        while not index.is_dropped:
            async with self._pages:
                page = await self._read(index.game_id, after_id, wanted)
                await self._put_in(build, index, page or ())
            if page is None:
                await trio.sleep(_RETRY_SECONDS)
            elif len(page) < wanted and _bytes(page) < DOCUMENTS_BYTES_MAX:
                break
            else:
                after_id = page[-1][0]
                wanted = _next_page_players(page)
        if not index.is_dropped:
            index.complete()

    async def _put_in(self, build: Build, index: Index, page: Sequence[Row]) -> None:
        """Put a page into an index, others having their turns in between, and charge it."""
        done_bytes, page_bytes, began = 0, _QUERY_BYTES, time.perf_counter()
        for player_id, document, stats in page:
            keys = await _read_in_turns(index.readers, document, stats)
            self._boards.fill(index, player_id, keys)
            done_bytes += _ROW_BYTES + len(document)
            if done_bytes > CHUNK_BYTES or time.perf_counter() - began > CHUNK_SECONDS_MAX:
                page_bytes += done_bytes
                done_bytes = 0
                await trio.lowlevel.checkpoint()
                began = time.perf_counter()
        now = trio.current_time()
        if self._charges is not None and not build.is_declared:
            self._charges.pay(index.game_id, build.address, now, page_bytes + done_bytes)
        if not index.is_dropped:
            self._boards.make_room(index, now)

    async def _read(self, game_id: int, after_id: int, wanted: int) -> list[Row] | None:
        """Return a page, or None while the database is away. One that refuses is not waited for."""
        try:
            load, shards = self._accounts.load_documents_page, self._partitions(game_id)
            if shards is None:
                return await load(game_id, after_id, wanted)
            return await load(game_id, after_id, wanted, shards)
        except StorageRefused:
            raise
        except StorageUnavailable:
            return None


def own_partitions(
    ledger: Ledger, ownership: Ownership | None
) -> Callable[[int], Collection[int] | None]:
    """Return what tells the shards of a game whose players this node ranks; None for all."""

    def find(game_id: int) -> Collection[int] | None:
        shards = ledger.spread.get(game_id)
        return None if shards is None or ownership is None else [*filter(ownership.owns, shards)]

    return find


async def _read_in_turns(readers: Readers, document: bytes, stats: bytes) -> Keys:
    """Read the keys of a document and its stats; if it is large, others have turns in between."""
    keys: Keys = {}
    for read in readers.choose(document):
        keys.update(read(document, stats))
        if len(document) > CHUNK_BYTES:
            await trio.lowlevel.checkpoint()
    return keys


def _next_page_players(page: Sequence[Row]) -> int:
    """Return how many players to read next: more and more, as long as their documents are small."""
    fitting = DOCUMENTS_BYTES_MAX * len(page) // max(_bytes(page), 1)
    return max(1, min(2 * len(page), fitting, PAGE_PLAYERS_MAX))


def _bytes(page: Sequence[Row]) -> int:
    """Return how many bytes the documents of a page have."""
    return sum(len(document) for _, document, _ in page)
