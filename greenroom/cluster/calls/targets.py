"""Finds the shard whose owner is to be asked first to answer a call.

A call of a player begins at the node of their partition. Any other begins at a node with a
partition of the game, this one if it has some, or at the game's home.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from greenroom.actors.player.tokens import checksum_ok, hash_token
from greenroom.actors.world.world import World
from greenroom.cluster.calls.locator import Locator, Shards
from greenroom.cluster.calls.messages import TOKEN_HEADERS
from greenroom.cluster.calls.waiting import WaitingRoom
from greenroom.cluster.shard_map import ShardMap
from greenroom.http.ports import SentOn
from greenroom.http.request import Request
from greenroom.network.addresses import address_key

_KEY, _TOKEN, _ = TOKEN_HEADERS
_UNSEEN: Final[tuple[Request | None, int]] = None, 0


class Destination(msgspec.Struct, frozen=True, gc=False):
    """The shard whose owner a call is sent to."""

    shard: int
    vouched: int = 0
    """The player whose tokens are not looked at again there; 0 for nobody."""


class Targets:
    """The way from the tokens of a call to a shard."""

    def __init__(
        self, world: World, locator: Locator, shards: ShardMap[Any], waiting: WaitingRoom
    ) -> None:
        """Find them.

        Args:
            world: the games and players in memory here.
            locator: knows others.
            shards: what this node serves.
            waiting: the calls that wait for the database.
        """
        self._world = world
        self._games = world.game_index
        self._spread: Final = world.ledger.spread
        self._locator = locator
        self._shards = shards
        self._waiting = waiting
        self._hashed = "", hash_token("")
        """The project key that was hashed last: that of the call which is being looked at."""
        self._seen = _UNSEEN
        """The call of which `is_here` has said no last, and where it begins."""

    def is_here(self, request: Request, *, is_players: bool) -> bool:
        """Return whether this node answers a request, or none does; see `Elsewhere`."""
        key = request.headers.get(_KEY)
        if not key:
            return True
        key_hash = self._hash(key)
        game_id = self._games.find(key_hash)
        if game_id is not None:
            shards = self._spread.get(game_id) if self._spread else None
            if shards is None:
                return True
        else:
            shards = self._locator.recall_game(key_hash)
            if shards is None:
                return not checksum_ok(key)
        shard = self._choose(shards, request, is_players=is_players)
        if shard is None:
            return False
        if self._shards.is_mine(shard):
            return True
        self._seen = request, shard
        return False

    def _choose(self, shards: Shards, request: Request, *, is_players: bool) -> int | None:
        """Return where a call of a game begins; None if that must be looked up.

        What is remembered of a token has been found by it, so it has a good checksum.
        """
        if len(shards) == 1:
            return shards[0]
        token = request.headers.get(_TOKEN) if is_players else None
        if token:
            token_hash = hash_token(token)
            player_id = self._world.player_index.find(token_hash)
            if player_id is not None:
                return self._world.players.find_shard(player_id)
            shard = self._locator.recall_player(token_hash)
            if shard in shards:
                return shard
            if checksum_ok(token) and shard is None:
                return None
        return next(filter(self._shards.is_mine, shards), shards[0])

    def _hash(self, key: str) -> bytes:
        """Return the hash of a project key, which `find` needs right after `is_here`."""
        if key is not self._hashed[0]:
            self._hashed = key, hash_token(key)
        return self._hashed[1]

    def recall(self, request: Request) -> Destination | None:
        """Return where a call begins of which `is_here` has just said no, if that found it out."""
        seen, self._seen = self._seen, _UNSEEN
        return Destination(seen[1]) if seen[0] is request else None

    async def find(self, request: Request, *, is_players: bool) -> Destination | None:
        """Return where a call begins, None if its key opens no game.

        Raises:
            ActorUnavailable, TooManyWait: it could not be found out.

        Cancellation changes nothing.
        """
        key_hash = self._hash(request.headers.get(_KEY, ""))
        shards = self._locator.recall_game(key_hash)
        if shards is None:
            with self._waiting.hold_place(address_key(request.address), len(request.body)):
                shards = await self._locator.find(key_hash)
        if shards is None or len(shards) == 1:
            return None if shards is None else Destination(shards[0])
        token = request.headers.get(_TOKEN) if is_players else None
        if token and checksum_ok(token):
            token_hash = hash_token(token)
            shard = self._locator.recall_player(token_hash)
            if shard is None:
                with self._waiting.hold_place(address_key(request.address), len(request.body)):
                    shard = await self._locator.find_player(token_hash)
            if shard in shards:
                return Destination(shard)
        return Destination(next(filter(self._shards.is_mine, shards), shards[0]))

    def follow(
        self, target: Destination, sent_on: SentOn, request: Request, *, is_players: bool
    ) -> Destination:
        """Return where a call is sent that was not carried out where it was sent.

        Args:
            target: where that was.
            sent_on: what was said there.
            request: the call.
            is_players: see `SentCall`.
        """
        if sent_on.shard is None:
            return target
        token = request.headers.get(_TOKEN)
        if is_players and token and not sent_on.vouched:
            self._locator.note_player(hash_token(token), sent_on.shard)
        return Destination(sent_on.shard, sent_on.vouched)
