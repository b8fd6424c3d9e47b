"""Two players as an actor: what is between them, written by nobody else, the same for both."""

from __future__ import annotations

from collections.abc import Callable

from greenroom.actors.friendship import rules
from greenroom.actors.friendship.messages import (
    AcceptFriendship,
    DeclineFriendship,
    EndFriendship,
    FriendLimits,
    Friendship,
    FriendshipAccepted,
    FriendshipRole,
    Pair,
    ReadRelationship,
    RequestFriendship,
)
from greenroom.actors.friendship.refusals import NoSuchPlayer
from greenroom.actors.kernel.actor import Actor, handles
from greenroom.actors.kernel.clock import Clock
from greenroom.actors.kernel.message import Changed, Event
from greenroom.contract.allowed_values import FriendRequestStatus, Relationship


class FriendshipActor(Actor[FriendshipRole]):
    """One pair of players. It is in memory only while it is used, and a little longer."""

    kind = "friendship"

    def __init__(
        self,
        pair: Pair,
        friendship: Friendship | None,
        *,
        clock: Clock,
        limits: FriendLimits,
        is_gone: Callable[[int], bool],
        shard: int | None = None,
    ) -> None:
        """Take the friendship of two players; None for nothing.

        Args:
            pair: the two.
            friendship: as the database has it.
            clock: what times are read from.
            limits: how many friends and requests either may have.
            is_gone: whether a player is being deleted, or has just been: nobody can ask them.
            shard: the game's; None if the game is not here.
        """
        assert pair.low_id < pair.high_id, "a pair has its lower id first"
        self._pair = pair
        self._friendship = friendship
        self._clock = clock
        self._limits = limits
        self._is_gone = is_gone
        self._shard = shard

    @property
    def shard(self) -> int | None:
        """Return the game's shard."""
        return self._shard

    def apply(self, event: Event) -> None:
        """Change what is between them by one event."""
        self._friendship = rules.apply_event(self._friendship, event)

    @handles(ReadRelationship)
    def read(self, command: ReadRelationship) -> Relationship | None:
        """Show what the other is to one of them."""
        return rules.relationship_to(self._friendship, command.player_id)

    @handles(RequestFriendship)
    def request(self, command: RequestFriendship) -> Changed[FriendRequestStatus]:
        """Take a request; of two that cross each other, the second accepts."""
        if self._is_gone(self._pair.low_id) or self._is_gone(self._pair.high_id):
            raise NoSuchPlayer
        event = rules.decide_request(
            self._pair, self._friendship, command, self._limits, self._clock.now()
        )
        return Changed("accepted" if isinstance(event, FriendshipAccepted) else "pending", event)

    @handles(AcceptFriendship)
    def accept(self, command: AcceptFriendship) -> Changed[None]:
        """Accept a request."""
        event = rules.decide_accept(
            self._pair, self._friendship, command, self._limits, self._clock.now()
        )
        return Changed(None, event)

    @handles(DeclineFriendship)
    def decline(self, command: DeclineFriendship) -> Changed[None]:
        """Decline a request."""
        event = rules.decide_decline(self._pair, self._friendship, command.player_id)
        return Changed(None, event)

    @handles(EndFriendship)
    def end(self, command: EndFriendship) -> Changed[None]:
        """End the friendship."""
        return Changed(None, rules.decide_end(self._pair, self._friendship, command.player_id))
