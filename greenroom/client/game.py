"""A game on a server, the entry point of the library."""

from __future__ import annotations

import ssl
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from random import Random
from typing import Final

import httpx2

from greenroom.client.admin import Admin
from greenroom.client.caller import Caller, JsonObject, as_optional_document
from greenroom.client.player import Player
from greenroom.client.retries import Retries
from greenroom.contract.censor import CENSOR, CensorBody, CensorReply
from greenroom.contract.game_data import GET_GAME, GameDocumentReply
from greenroom.contract.leaderboard import LEADERBOARD, LeaderboardBody, LeaderboardReply
from greenroom.contract.matchmaking import LIST_LOBBIES, LobbyListReply
from greenroom.contract.players import REGISTER, RegisterBody
from greenroom.contract.rooms import LIST_ROOMS, ListBody, RoomListReply
from greenroom.contract.time import TIME, TimeQuery, TimeReply

ANSWER_SECONDS_MAX: Final = 30.0
CONNECTIONS_MAX: Final = 100
"""Connections at a time. Further calls wait for a free one, as long as for an answer."""


class Game:
    """A game; `Game.connect` makes one from a project key.

    Every call raises the errors of `errors.py`. A call that is cancelled may have happened.
    """

    def __init__(self, caller: Caller, tls: ssl.SSLContext | None) -> None:
        """Use a caller that knows the key."""
        self._caller = caller
        self._tls = tls

    @classmethod
    @asynccontextmanager
    async def connect(
        cls,
        url: str,
        api_token: str,
        *,
        answer_seconds_max: float = ANSWER_SECONDS_MAX,
        retries: Retries | None = None,
        chance: Random | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> AsyncGenerator[Game]:
        """Open a game. Nothing is sent before the first call; connections are kept between calls.

        Args:
            url: the server's address, `https://play.example.com` or `http://127.0.0.1:8080`.
            api_token: the project key.
            answer_seconds_max: seconds that one attempt of a call may take.
            retries: how often a failed call is repeated, where that is safe.
            chance: spreads repeated calls; a seeded one makes runs repeatable.
            tls: the authorities to trust; the system's if left out.

        Raises:
            ValueError: the address has neither of these beginnings.
        """
        if not url.lower().startswith(("http://", "https://")):
            raise ValueError(f"A server's address begins with http:// or https://, unlike {url!r}.")
        limits = httpx2.Limits(max_connections=CONNECTIONS_MAX)
        verify: ssl.SSLContext | bool = True if tls is None else tls
        async with httpx2.AsyncClient(
            base_url=url, limits=limits, timeout=answer_seconds_max, trust_env=False, verify=verify
        ) as http:
            caller = Caller(
                http,
                {"X-Api-Token": api_token, "Content-Type": "application/json"},
                answer_seconds_max=answer_seconds_max,
                retries=retries or Retries(),
                chance=chance or Random(),  # noqa: S311 (spreads calls, protects nothing)
            )
            yield cls(caller, tls)

    async def register(
        self,
        player_name: str | None = None,
        *,
        player_data: JsonObject | None = None,
        platform_ticket: str | None = None,
        platform_identity: str | None = None,
    ) -> Player:
        """Open an account for a guest by name, or sign in with a platform's ticket.

        Keep `Player.token`. It is told only this once, and is the only way back to a guest's
        account.
        """
        account = await self._caller.call(
            REGISTER,
            RegisterBody(
                player_name=player_name,
                player_data=as_optional_document(player_data),
                platform_ticket=platform_ticket,
                platform_identity=platform_identity,
            ),
        )
        return Player(
            self._caller,
            token=account.private_key,
            player_id=account.player_id,
            player_name=account.player_name,
            player_tag=account.player_tag,
            tls=self._tls,
        )

    async def log_in(self, token: str) -> Player:
        """Log in as the player who has this token."""
        record = await Player.read_record(self._caller, token)
        return Player(
            self._caller,
            token=token,
            player_id=record.id,
            player_name=record.player_name,
            player_tag=record.player_tag,
            tls=self._tls,
        )

    def admin(self, private_token: str) -> Admin:
        """Return the operations that need the admin key. Do not use it in game clients."""
        return Admin(self._caller, private_token)

    async def document(self) -> GameDocumentReply:
        """Read the game's document."""
        return await self._caller.call(GET_GAME)

    async def rooms(self, search: str | None = None, *, limit: int | None = None) -> RoomListReply:
        """Find rooms with a free seat, by a part of the name; 20 of them unless limited."""
        return await self._caller.call(LIST_ROOMS, ListBody(search=search, limit=limit))

    async def lobbies(
        self, search: str | None = None, *, limit: int | None = None
    ) -> LobbyListReply:
        """Find open lobbies with a free seat, by a part of the name; 20 unless limited."""
        return await self._caller.call(LIST_LOBBIES, ListBody(search=search, limit=limit))

    async def leaderboard(
        self, sort_by: Sequence[str], *, limit: int | None = None
    ) -> LeaderboardReply:
        """Rank players by stats or numbers of documents; return the first 10 unless limited."""
        return await self._caller.call(
            LEADERBOARD, LeaderboardBody(sort_by=list(sort_by), limit=limit)
        )

    async def censor(self, text: str) -> CensorReply:
        """Check a text of at most 1,000 characters for offensive words."""
        return await self._caller.call(CENSOR, CensorBody(text=text))

    async def time(self, *, offset_hours: int | None = None) -> TimeReply:
        """Return the server's time, shifted by whole hours (-14 to 14)."""
        utc = None if offset_hours is None else str(offset_hours)
        return await self._caller.call(TIME, TimeQuery(utc=utc))
