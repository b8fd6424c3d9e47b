"""A guessing game: the server thinks of a number, and the first to find it wins the round."""

from __future__ import annotations

from typing import Annotated

import msgspec

from greenroom.behaviour import Member, Refused, Room, RoomBehaviour, Stat, action


class Round(msgspec.Struct):
    """The room's state. Its fields may have any type that msgspec can encode."""

    number: int = 0
    guesses: int = 0


class Guess(msgspec.Struct, frozen=True):
    """The payload of the action `guess`; other payloads never reach the handler."""

    number: Annotated[int, msgspec.Meta(ge=1, le=100)]


STATS = {"guessing_wins": Stat()}
"""Players' numbers that only the server writes; leaderboards sort by them."""


class Game(RoomBehaviour[Round]):
    """The behaviour of every room, as `greenroom.toml` says."""

    strict = True
    """Refuse whatever has no handler, so that no client can speak for the game."""
    stats = STATS

    def on_create(self, room: Room[Round]) -> None:
        """Think of a number."""
        room.state.number = room.random.randint(1, 100)

    @action("guess")
    def guess(self, room: Room[Round], by: Member, guess: Guess) -> dict[str, str]:
        """Say whether the number is higher or lower, and count the winner's round."""
        if len(room.members) < 2:
            raise Refused("Wait for somebody to play with")
        state = room.state
        state.guesses += 1
        if guess.number != state.number:
            return {"it_is": "higher" if guess.number < state.number else "lower"}
        room.player(by.player_id).increment("guessing_wins")
        room.broadcast("won", {"by": by.player_id, "number": state.number})
        state.number = room.random.randint(1, 100)
        return {"it_is": "right"}
