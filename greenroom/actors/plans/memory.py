"""Memory that things of one kind hold: by owner, by the address they came from, and in all.

Checked and counted in the actors' turns, in bytes. Overload: things that can leave memory without
loss do (`LetGo`). If that is not enough, the request is refused before anything has changed. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from greenroom.actors.kernel.errors import Refused
from greenroom.actors.plans.address_counts import add_count
from greenroom.actors.plans.ledger import GameUsage, Ledger
from greenroom.actors.plans.owner_usage import Held, OwnerUsage
from greenroom.actors.plans.shares import Kind


class Objection(msgspec.Struct, frozen=True):
    """The limit that would be exceeded, and by how much."""

    limit: str
    """`plan`, `address` or `server`."""
    owner: OwnerUsage
    share: str
    missing_bytes: float

    def is_met_by(self, piece: Piece) -> bool:
        """Return whether it helps if this is let go."""
        if self.limit == "server":
            return True
        return piece.owner is self.owner and (self.limit == "plan" or piece.share == self.share)


LetGo = Callable[[Objection], bool]
"""Lets go of what is not needed; returns whether there is space now."""


_SHARED: Final[dict[Held, Kind]] = {"rooms": "rooms_bytes", "players": "players_bytes"}
"""The limits that nodes share; see `shares.py`."""


class Memory:
    """The memory that all things of one kind hold together.

    Attributes:
        size: in bytes.
    """

    def __init__(
        self, kind: Held, ledger: Ledger, refusal: type[Refused], let_go: LetGo | None = None
    ) -> None:
        """Begin with nothing.

        Args:
            kind: of things; plans and server have a limit `<kind>_bytes_max`.
            ledger: knows plans and the server's limits.
            refusal: raised where there is no space.
            let_go: makes space; None where nothing can.
        """
        self.kind: Final[Held] = kind
        self.ledger: Final = ledger
        self.size = 0
        self._refusal = refusal
        self._let_go = let_go
        self._limit = f"{kind}_bytes_max"
        self._kind_shared: Final[Kind | None] = _SHARED.get(kind)
        self._reason = f"{kind.removesuffix('s')} bytes by"

    @property
    def size_max(self) -> float:
        """Return what the server lets them hold, in bytes."""
        size_max: float = getattr(self.ledger.server, self._limit)
        return size_max

    def check(self, owner: OwnerUsage, share: str, more_bytes: int, part: float = 1.0) -> None:
        """Admit so many more bytes; fewer always pass.

        Args:
            owner: whose.
            share: of the address that they count for; empty for none.
            more_bytes: how many.
            part: of each limit which such bytes may fill.

        Raises:
            Refused: the plan, the address's share, or the server allows no more. Or this node has
                no more of the plan, and may get it from others: nothing is let go for that.
        """
        if more_bytes <= 0:
            return
        while (objection := self._find_objection(owner, share, more_bytes, part)) is not None:
            if objection.limit == "plan" and self._may_get(owner, more_bytes, part):
                raise self._refusal
            if self._let_go is None or not self._let_go(objection):
                self.ledger.refused[f"{self._reason} {objection.limit}"] += 1
                raise self._refusal

    def _may_get(self, owner: OwnerUsage, more: int, part: float) -> bool:
        """Return whether this node may get the space for so many bytes from other nodes."""
        kind = self._kind_shared
        if kind is None or owner.shares is None:
            return False
        held = owner.bytes_held[self.kind]
        return owner.lacks(kind, (held + more) / part - held)

    def _find_objection(
        self, owner: OwnerUsage, share: str, more: int, part: float
    ) -> Objection | None:
        """Return the first limit that so many bytes more would exceed, None for none."""
        plan_max: float = getattr(owner.limits, self._limit)
        server_max = self.size_max
        plan_here: float = getattr(owner.allowed, self._limit)
        missing = owner.bytes_held[self.kind] + more - plan_here * part
        if missing > 0:
            return Objection("plan", owner, share, missing)
        if share:
            share_max = owner.compute_address_share(min(plan_max, server_max))
            missing = owner.bytes_from[self.kind].get_count(share) + more - share_max * part
            if missing > 0:
                return Objection("address", owner, share, missing)
        missing = self.size + more - server_max * part
        return Objection("server", owner, share, missing) if missing > 0 else None

    def begin_pieces(self, game: GameUsage, sizes: Sequence[int]) -> list[Piece]:
        """Begin to count several things of a game that come from no known address."""
        more = sum(sizes)
        self.size += more
        game.count_held(self.kind, more)
        pieces = [Piece(self, game, "") for _ in sizes]
        for piece, size in zip(pieces, sizes, strict=True):
            piece.size = size
        return pieces


class Piece:
    """The memory that one thing holds.

    Attributes:
        owner: the owner it counts for.
        share: the address it counts for; empty for none.
        size: in bytes.
    """

    __slots__ = ("_game", "_memory", "owner", "share", "size")

    def __init__(self, memory: Memory, game: GameUsage, share: str) -> None:
        """Begin with nothing."""
        self._memory = memory
        self._game = game
        self.owner = game.owner
        self.share = share
        self.size = 0

    def admit(self, more_bytes: int, part: float = 1.0) -> None:
        """Let it grow by so much; see `Memory.check`.

        Raises:
            Refused: there is no space.
        """
        self._memory.check(self.owner, self.share, more_bytes, part)

    def resize(self, size: int) -> None:
        """Count that it holds so many bytes now."""
        more = size - self.size
        if more:
            self.size = size
            self._memory.size += more
            assert size >= 0 <= self._memory.size, "more was given back than held"
            self._game.count_held(self._memory.kind, more)
            if self.share:
                add_count(self.owner.bytes_from[self._memory.kind], self.share, more)

    def admit_move(self, share: str, part: float = 1.0) -> None:
        """Let it count for another address.

        Raises:
            Refused: that has no space in its share.
        """
        if share and share != self.share:
            size = self.size
            self.resize(0)
            try:
                self._memory.check(self.owner, share, size, part)
            finally:
                self.resize(size)

    def move(self, share: str) -> None:
        """Count it for another address from now on."""
        if share == self.share:
            return
        size = self.size
        self.resize(0)
        self.share = share
        self.resize(size)
