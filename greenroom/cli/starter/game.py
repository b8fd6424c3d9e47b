"""A game of guessing: the server thinks of a number, and who finds it first wins the round."""

from __future__ import annotations

from typing import Annotated

import msgspec

from greenroom.behaviour import Member, Refused, Room, RoomBehaviour, action


class Round(msgspec.Struct):
    """The room's state: any types that msgspec can write down."""

    number: int = 0
    guesses: int = 0
    wins: dict[int, int] = {}


class Guess(msgspec.Struct, frozen=True):
    """What the action `guess` carries; anything else is refused before it gets here."""

    number: Annotated[int, msgspec.Meta(ge=1, le=100)]


class Game(RoomBehaviour[Round]):
    """Every room plays it: `greenroom.toml` says so."""

    def on_create(self, room: Room[Round]) -> None:
        """Think of a number."""
        room.state.number = room.random.randint(1, 100)

    @action("guess")
    def guess(self, room: Room[Round], by: Member, guess: Guess) -> dict[str, str]:
        """Say whether it is higher or lower; the winner's result is written down for good."""
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
