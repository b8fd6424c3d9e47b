"""Protocols that the realtime port needs others to implement; `fronts.py` connects them."""

from __future__ import annotations

from typing import Protocol


class AddressLimits(Protocol):
    """How often an address may do what costs something before anybody knows who it is."""

    def admit_realtime(self, address: str, now: float) -> int:
        """Charge a new connection; return 0, or after how many whole seconds to try again.

        Args:
            address: the client's.
            now: seconds of `time.monotonic`.
        """
        ...

    def admit_stored(self, address: str, player_id: int, size: int, now: float) -> int:
        """Charge a message that is to be stored, as a call over HTTP that brings as much.

        Args:
            address: the client's.
            player_id: who sent it.
            size: in bytes.
            now: seconds of `time.monotonic`.

        Returns:
            0, or after how many whole seconds to try again.
        """
        ...

    def note_failed_token(self, address: str, now: float) -> None:
        """Charge a token that was nobody's."""
        ...


class NoLimits:
    """`AddressLimits` without limits, for a port that stands alone."""

    def admit_realtime(self, address: str, now: float) -> int:  # noqa: ARG002
        """Admit every connection."""
        return 0

    def admit_stored(
        self,
        address: str,  # noqa: ARG002
        player_id: int,  # noqa: ARG002
        size: int,  # noqa: ARG002
        now: float,  # noqa: ARG002
    ) -> int:
        """Admit every message."""
        return 0

    def note_failed_token(self, address: str, now: float) -> None:
        """Do nothing."""
