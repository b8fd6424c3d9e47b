"""Open invites by invited player. Rooms and lobbies keep it; it is derived, never the truth."""

from __future__ import annotations

from collections.abc import Mapping

from greenroom.actors.seating.invite_messages import InviteView


class InviteIndex:
    """The open invites to all rooms, or to all lobbies, in memory."""

    __slots__ = ("_by_key", "_by_player")

    def __init__(self) -> None:
        """Start empty."""
        self._by_player: dict[int, dict[str, InviteView]] = {}
        self._by_key: dict[str, Mapping[int, InviteView]] = {}

    def list_to(self, player_id: int) -> list[InviteView]:
        """Return a player's open invites, the oldest first as far as is known."""
        return list(self._by_player.get(player_id, {}).values())

    def find(self, player_id: int, invite_id: str) -> InviteView | None:
        """Return one of a player's open invites, None if there is none of this id."""
        return self._by_player.get(player_id, {}).get(invite_id)

    def show(self, key: str, invites: Mapping[int, InviteView]) -> None:
        """Take note of the open invites to a room or lobby, by player, as they are now."""
        before = self._by_key.get(key)
        if before is None and not invites:
            return
        for player_id, old in (before or {}).items():
            if player_id not in invites or invites[player_id].invite_id != old.invite_id:
                self._drop(player_id, old)
        for player_id, view in invites.items():
            self._by_player.setdefault(player_id, {})[view.invite_id] = view
        if invites:
            self._by_key[key] = invites
        else:
            del self._by_key[key]

    def _drop(self, player_id: int, view: InviteView) -> None:
        theirs = self._by_player[player_id]
        del theirs[view.invite_id]
        if not theirs:
            del self._by_player[player_id]
