"""A guessing game: the server thinks of a number, and the first to find it wins the round."""

from __future__ import annotations

from typing import Annotated

import msgspec

from greenroom.behaviour import Member, Refused, Room, RoomBehaviour, action


class Round(msgspec.Struct):
    """The room's state. Its fields may have any type that msgspec can encode."""

    number: int = 0
    guesses: int = 0
    wins: dict[int, int] = {}


class Guess(msgspec.Struct, frozen=True):
    """The payload of the action `guess`; other payloads never reach the handler."""

    number: Annotated[int, msgspec.Meta(ge=1, le=100)]


class Game(RoomBehaviour[Round]):
    """The behaviour of every room, as `greenroom.toml` says."""

    strict = True
    """Refuse what no handler is for, so that no client can speak for the game."""

    def on_create(self, room: Room[Round]) -> None:
        """Think of a number."""
        room.state.number = room.random.randint(1, 100)

    @action("guess")
    def guess(self, room: Room[Round], by: Member, guess: Guess) -> dict[str, str]:
        """Say whether the number is higher or lower, and store the winner's result."""
        if len(room.members) < 2:
            raise Refused("Wait for somebody to play with")
        state = room.state
        state.guesses += 1
        if guess.number != state.number:
            return {"it_is": "higher" if guess.number < state.number else "lower"}
        state.wins[by.player_id] = state.wins.get(by.player_id, 0) + 1
        room.update_player(by.player_id, {"guessing_wins": state.wins[by.player_id]})
        room.broadcast("won", {"by": by.player_id, "number": state.number})
        state.number = room.random.randint(1, 100)
        return {"it_is": "right"}
