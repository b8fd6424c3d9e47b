"""Leaderboards: indexes built from the database when first asked for, kept in step by commits.

An index only ever holds what is durable: `Leaderboards.durable` is told of every transaction that
has been committed, in order, before the answers to its changes leave. What the database refuses
never gets here, and what becomes of an actor, a crash included, does not matter. While an index is
built, the pages read and the changes told overlap: a change always wins over a page, for a page
read later has the change, too.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence

import trio

from greenroom.actors.flows.ports import Accounts
from greenroom.actors.kernel.errors import ActorCrashed, StorageUnavailable
from greenroom.actors.kernel.message import Event
from greenroom.actors.leaderboard.boards import Boards
from greenroom.actors.leaderboard.index import Fields, Index, read_members
from greenroom.actors.leaderboard.profiles import Profiles
from greenroom.actors.leaderboard.tops import Tops
from greenroom.actors.player.messages import (
    PlayerDeleted,
    PlayerDocumentReplaced,
    PlayerRegistered,
    PlayerRenamed,
)

BUILD_WAIT_SECONDS_MAX = 8.0
"""How long a caller waits for an index; it is built on, and is there when he asks again."""
PAGES_AT_ONCE = 2
"""Pages being read or worked through, of all builds together, which so take turns: half of the
connections are left to others."""
PAGE_PLAYERS_FIRST, PAGE_PLAYERS_MAX = 16, 500
PAGE_BYTES_AIM = 1 << 20
"""Pages hold fewer players where documents are large."""
CHUNK_BYTES = 64 << 10
"""How much is worked through, about a third of a millisecond, before others have their turn."""
_ROW_BYTES = 1 << 10  # what a row's place costs, counted as bytes of its document
_RETRY_SECONDS = 0.5

_log = logging.getLogger(__name__)


class _Build:
    """An index being built, for those who wait for it."""

    __slots__ = ("ended", "has_failed")

    def __init__(self) -> None:
        """Begin."""
        self.ended = trio.Event()
        self.has_failed = False


class Leaderboards:
    """The indexes of all games, and those who build them: a service, empty whenever it starts."""

    def __init__(self, accounts: Accounts) -> None:
        """Prepare; nothing is built before `run`."""
        self._accounts = accounts
        self._boards = Boards()
        self.profiles = Profiles()
        self.tops = Tops()
        self._nursery: trio.Nursery | None = None
        self._builds: dict[Index, _Build] = {}
        self._pages = trio.CapacityLimiter(PAGES_AT_ONCE)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Build what is asked for, until cancelled. What is there then is forgotten."""
        try:
            async with trio.open_nursery() as nursery:
                self._nursery = nursery
                task_status.started()
                await trio.sleep_forever()
        finally:
            self._nursery = None
            self._clear()

    def durable(self, events: Iterable[Event]) -> None:
        """Take note of events that have become durable, in their order; never fails.

        Without indexes this costs nothing; with them, some microseconds for each change of a
        document in their games.
        """
        if not self._boards and self.profiles.is_empty:
            return
        try:
            for event in events:
                self._note(event)
        except Exception:  # noqa: BLE001 - the committer must not suffer for it
            _log.exception("leaderboards are out of step, and will be built again")
            self._clear()

    def _note(self, event: Event) -> None:
        if isinstance(event, PlayerDocumentReplaced | PlayerRegistered):
            self._boards.put(event.game_id, event.player_id, event.player_data)
        elif isinstance(event, PlayerDeleted):
            self._boards.remove(event.game_id, event.player_id)
        elif isinstance(event, PlayerRenamed):
            self.tops.note_rename()
        else:
            return
        self.profiles.forget(event.player_id)

    def forget_game(self, game_id: int) -> None:
        """Forget all of a game that has been deleted from the database."""
        self._boards.forget_game(game_id)
        self.profiles.clear()  # those of other games are read again
        self.tops.clear()

    def _clear(self) -> None:
        self._boards.clear()
        self.profiles.clear()
        self.tops.clear()

    async def index(self, game_id: int, fields: Fields) -> Index:
        """Return a game's complete index over these fields, building it if there is none.

        Raises:
            StorageUnavailable: it is not there yet; ask again.
            MailboxFull: too many others of the game are being built.
            ActorCrashed: it cannot be built.

        Cancellation just ends the wait.
        """
        index = self._boards.find(game_id, fields)
        if index is not None and index.is_complete:
            return index
        if self._nursery is None:
            raise StorageUnavailable("leaderboards are not being served")
        if index is None:
            index = self._boards.open(game_id, fields)
            self._builds[index] = _Build()
            self._nursery.start_soon(self._build, index, self._builds[index])
        build = self._builds[index]
        with trio.move_on_after(BUILD_WAIT_SECONDS_MAX):
            await build.ended.wait()
        if index.is_complete:
            return index
        if build.has_failed:
            raise ActorCrashed("the leaderboard cannot be built")
        raise StorageUnavailable("the leaderboard is being built")

    async def _build(self, index: Index, build: _Build) -> None:
        """Fill an index; whatever goes wrong is this index's alone."""
        try:
            await self._fill(index)
        except Exception:  # noqa: BLE001 - nor the builds of others
            _log.exception("a leaderboard of game %d cannot be built", index.game_id)
            build.has_failed = True
            self._boards.drop(index)
        else:
            if not index.is_dropped:
                index.complete()
                self._boards.shrink(keep=index)
        finally:
            del self._builds[index]
            build.ended.set()

    async def _fill(self, index: Index) -> None:
        """Read all players of the game, page by page; a database that is away is waited for."""
        after_id, wanted = 0, PAGE_PLAYERS_FIRST
        while not index.is_dropped:
            async with self._pages:
                page = await self._read(index.game_id, after_id, wanted)
                await _put_in(index, page or ())
            if page is None:
                await trio.sleep(_RETRY_SECONDS)
            elif len(page) < wanted:
                return
            else:
                after_id = page[-1][0]
                wanted = _next_page_players(page)

    async def _read(
        self, game_id: int, after_id: int, wanted: int
    ) -> list[tuple[int, bytes]] | None:
        """Return a page, or None while the database is away."""
        try:
            return await self._accounts.documents_page(game_id, after_id, wanted)
        except StorageUnavailable:
            return None


async def _put_in(index: Index, page: Sequence[tuple[int, bytes]]) -> None:
    """Put a page into an index, others having their turns in between."""
    done_bytes = 0
    for player_id, document in page:
        index.fill(player_id, read_members(document))
        done_bytes += _ROW_BYTES + len(document)
        if done_bytes > CHUNK_BYTES:
            done_bytes = 0
            await trio.lowlevel.checkpoint()


def _next_page_players(page: Sequence[tuple[int, bytes]]) -> int:
    """Return how many players to read next: more and more, as long as their documents are small."""
    page_bytes = sum(len(document) for _, document in page)
    fitting = PAGE_BYTES_AIM * len(page) // max(page_bytes, 1)
    return max(1, min(2 * len(page), fitting, PAGE_PLAYERS_MAX))
