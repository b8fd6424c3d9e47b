"""The builds of one game: its indexes are built one at a time, and addresses take turns."""

from __future__ import annotations

from collections import Counter

import trio

from greenroom.actors.kernel.errors import ActorCrashed, StorageUnavailable
from greenroom.actors.leaderboard.index import Fields, Index
from greenroom.actors.leaderboard.refusals import TooManyBuilds

BUILDS_PER_GAME_MAX = 8
"""Builds under way, of which one is running and the others wait; more are refused."""
BUILDS_PER_GAME_ADDRESS_MAX = 4
"""Builds of one game that one address may have asked for."""
BUILDS_RETRY_SECONDS = 1


class Build:
    """An index to be built, for those who wait for it."""

    __slots__ = (
        *("address", "ended", "failure", "fields", "game_id", "index", "is_declared"),
        "may_begin",
    )

    def __init__(self, game_id: int, fields: Fields, address: str, *, is_declared: bool) -> None:
        """Begin to wait for the game's turn."""
        self.game_id = game_id
        self.fields = fields
        self.address = address
        self.is_declared = is_declared
        self.may_begin = trio.Event()
        self.ended = trio.Event()
        self.index: Index | None = None
        self.failure: ActorCrashed | TooManyBuilds | StorageUnavailable | None = None


class BuildQueue:
    """The builds of one game that are under way, of which one may be running."""

    __slots__ = ("_present", "builds")

    def __init__(self) -> None:
        """Begin with none."""
        self.builds: dict[Fields, Build] = {}
        self._present: Build | None = None

    def enter(self, build: Build) -> None:
        """Add a build, which may begin at once if there is no other."""
        self.builds[build.fields] = build
        if self._present is None:
            self._begin(build)

    def leave(self, build: Build) -> None:
        """Take a build out, and let the next begin: one of another address, if there is any."""
        del self.builds[build.fields]
        if self._present is not build:
            return
        self._present = None
        before = Counter({build.address: 1})

        def turns_before(waiting: Build) -> int:
            before[waiting.address] += 1
            return before[waiting.address]

        if self.builds:
            self._begin(min(self.builds.values(), key=turns_before))

    def _begin(self, build: Build) -> None:
        self._present = build
        build.may_begin.set()

    def check(self, address: str) -> None:
        """Let one more wait.

        Raises:
            TooManyBuilds: too many wait, or too many for this address.
        """
        builds = self.builds.values()
        if len(builds) >= BUILDS_PER_GAME_MAX:
            raise TooManyBuilds("leaderboard builds waiting", BUILDS_RETRY_SECONDS)
        if sum(build.address == address for build in builds) >= BUILDS_PER_GAME_ADDRESS_MAX:
            raise TooManyBuilds("leaderboard builds waiting by address", BUILDS_RETRY_SECONDS)
