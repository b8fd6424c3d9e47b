"""Callers: what a handler is given after the checks of `auth.py` have passed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from greenroom.actors.kernel.shard_ownership import Tenure, TenureOfSeveral
from greenroom.actors.world.audit import AuditEntry

if TYPE_CHECKING:
    from greenroom.actors.game.messages import GameRole
    from greenroom.actors.kernel.ref import Ref
    from greenroom.actors.player.messages import PlayerRole
    from greenroom.actors.world.world import World
    from greenroom.http.request import Notes


class Caller(msgspec.Struct, gc=False):
    """Anybody: where the call came from, and the world it may act on."""

    world: World
    address: str
    """The client's address, `trusted_proxies` already taken into account."""
    host: str
    """The Host header: the name that the client knows the server by, maybe with a port."""


class GameCaller(Caller, gc=False):
    """A client of one game: it knows the project key."""

    game: Ref[GameRole]
    game_id: int

    @property
    def share_address(self) -> str:
        """Return the address whose share of the plan the call counts for; empty for none."""
        return self.address


class PlayerCaller(GameCaller, gc=False):
    """A player of the game, not banned; the call has been noted as a sign of life."""

    player: Ref[PlayerRole]
    player_id: int
    token_hash: bytes
    """The hash of the token of this call: rotation replaces just that one."""


class VouchedCaller(GameCaller, gc=False):
    """A client that another node has found to be a player, by other means than a token."""

    player_id: int


class TrustedCaller(PlayerCaller, gc=False):
    """A player, perhaps with the game's owner behind them."""

    is_admin: bool = False
    """True if the admin key was given too."""

    @property
    def share_address(self) -> str:
        """Return the player's address; empty if the owner is behind them."""
        return "" if self.is_admin else self.address


class AdminCaller(GameCaller, gc=False):
    """The game's owner, who knows the admin key."""

    key_mark: str
    """The beginning of the admin key's hash, which tells keys apart and opens nothing."""

    @property
    def share_address(self) -> str:
        """Return nothing: the owner's calls count for no address."""
        return ""

    def describe_act(
        self, action: str, player_id: int, details: Mapping[str, object] | None = None
    ) -> AuditEntry:
        """Return what the audit log says of an act of this caller's on a player."""
        return AuditEntry(
            actor=f"admin key {self.key_mark}",
            action=action,
            game_id=self.game_id,
            player_id=player_id,
            details=details or {},
        )


def find_tenure(
    caller: GameCaller, notes: Notes | None, vouched: int
) -> Tenure | TenureOfSeveral | None:
    """Return the time for which this node has what a call is about; see `World.find_tenure`.

    It holds for later calls with the same head, too, until it is over. Only of games in one shard:
    players of others may move from one to another.

    Args:
        caller: who calls.
        notes: those of the request.
        vouched: the caller, if another node has vouched for them; otherwise 0.

    Raises:
        Moved: this node does not have it.
    """
    world = caller.world
    if notes is not None and (known := notes.tenure) is not None:
        if not known.is_over and not world.player_index.ledger.spread:
            return known
        notes.tenure = None
    if isinstance(caller, PlayerCaller):
        found = world.find_tenure(caller.game_id, caller.player_id, lives_here=not vouched)
    else:
        found = world.find_tenure(caller.game_id)
    if notes is not None and isinstance(found, Tenure):
        notes.tenure = found
    return found
