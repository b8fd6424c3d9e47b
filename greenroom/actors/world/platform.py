"""Game distribution platforms as flows see them: who a ticket's bearer is, and one turn a user.

`http.platforms` implements the providers; tests may give their own.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Final, Protocol

import msgspec
import trio

from greenroom.actors.game.settings import GameSettings
from greenroom.actors.world.refusals import PlatformUnavailable
from greenroom.network.addresses import address_key
from greenroom.network.shares import Shares

SIGN_INS_MAX: Final = 32
"""Tickets that platforms are asked about at once; whoever comes beyond is told to try again."""


class PlatformUser(msgspec.Struct, frozen=True):
    """A user of a platform."""

    platform: str
    platform_id: str


class Platform(Protocol):
    """A platform, asked on behalf of one game. Every call takes bounded time and memory."""

    async def authenticate(self, ticket: bytes, identity: str | None) -> PlatformUser:
        """Return whose ticket this is.

        Args:
            ticket: as the platform's client library gave it to the game.
            identity: what the game asked for the ticket with; the platform compares.

        Raises:
            InvalidPlatformTicket: the platform does not take it.
            BannedByPublisher: it does, but the game's publisher has banned the user there.
            PlatformUnavailable: no clear answer came.

        Cancellation: the platform may have been asked.
        """
        ...

    async def fetch_persona_name(self, user: PlatformUser) -> str | None:
        """Return the user's name on the platform, None if it cannot be found out now."""
        ...


class Provider(Protocol):
    """Tells which games use a platform."""

    def find_platform(self, settings: GameSettings) -> Platform | None:
        """Return the platform as a game with these settings asks it, None if it does not."""
        ...


class Platforms:
    """The platforms of a world, and the turns of those who sign in through them."""

    def __init__(self, providers: Sequence[Provider], address_share_max: float) -> None:
        """Know these.

        Args:
            providers: the first that a game uses is its platform.
            address_share_max: an address has so many times what is left of `SIGN_INS_MAX`.
        """
        self._providers = providers
        self._under_way = Shares(SIGN_INS_MAX, address_share_max)
        self._turns: dict[tuple[int, PlatformUser], trio.Lock] = {}

    def find(self, settings: GameSettings) -> Platform | None:
        """Return the platform that a game uses, None if it uses none."""
        found = (provider.find_platform(settings) for provider in self._providers)
        return next((platform for platform in found if platform is not None), None)

    @contextmanager
    def hold_place(self, address: str) -> Generator[None]:
        """Count a question to the platform as one of those under way.

        Args:
            address: where it comes from.

        Raises:
            PlatformUnavailable: there are too many, or too many from there.
        """
        key = address_key(address)
        if not self._under_way.take(key):
            raise PlatformUnavailable
        try:
            yield
        finally:
            self._under_way.give_back(key)

    def list_signing_in(self, game_id: int) -> set[PlatformUser]:
        """Return who is just signing in to a game: their tickets may be used up."""
        return {user for game, user in self._turns if game == game_id}

    @asynccontextmanager
    async def turn(self, game_id: int, user: PlatformUser) -> AsyncGenerator[None]:
        """Keep other sign-ins as this user of this game waiting, so that the user gets one account.

        Each that waits is a request in flight, whose number is bounded.
        """
        key = (game_id, user)
        lock = self._turns.setdefault(key, trio.Lock())
        try:
            async with lock:
                yield
        finally:
            if not lock.locked():  # a waiter would have it by now
                self._turns.pop(key, None)
