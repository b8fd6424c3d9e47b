"""The demo's tic-tac-toe: two players, or one and a bot until somebody comes.

Rooms whose rules say {"type": "noughts"} play it. Clients send the action `place` with {"cell": 0
to 8}. Who thinks for longer than `TURN_SECONDS` has the bot move for them, so nobody waits for
ever; but nobody wins by that. (examples/tictactoe.py is the game for players alone.)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final

import msgspec

from greenroom.behaviour import Joining, Member, Refused, Room, RoomBehaviour, Stat, action

ROWS: Final = (
    (0, 1, 2),
    (3, 4, 5),
    (6, 7, 8),
    (0, 3, 6),
    (1, 4, 7),
    (2, 5, 8),
    (0, 4, 8),
    (2, 4, 6),
)
BOT: Final = -1
"""The bot, where players stand by their ids; 0 is nobody."""
BOT_NAME: Final = "Robot"
BOT_SECONDS: Final = 0.8
"""How long the bot pretends to think."""
SLIP: Final = 0.25
"""How often the bot moves without looking."""
TURN_SECONDS: Final = 30.0
PAUSE_SECONDS: Final = 3.0
"""Between two games."""
STATS = {"noughts_wins": Stat()}


class Grid(msgspec.Struct):
    """The state."""

    cells: list[int] = msgspec.field(default_factory=lambda: [0] * 9)
    """The owner of each cell."""
    players: list[int] = []
    """The two who play, the one who began first; none before there is a game."""
    turn: int = 0
    """The one who is to move; 0 between two games."""
    winner: int = 0
    """The winner of the last game; 0 for a draw."""
    wins: dict[int, int] = {}


class Mark(msgspec.Struct, frozen=True):
    """A move."""

    cell: Annotated[int, msgspec.Meta(ge=0, le=8)]


class Noughts(RoomBehaviour[Grid]):
    """Game after game, for as long as somebody is there."""

    strict = True
    stats = STATS

    def can_join(self, room: Room[Grid], joining: Joining) -> None:
        if len(room.members) >= 2:
            raise Refused("Two are playing already")

    def on_join(self, room: Room[Grid], member: Member) -> None:
        """Begin; a second player takes the bot's place."""
        self._start(room)

    def on_leave(self, room: Room[Grid], member: Member, reason: str) -> None:
        """Begin anew against the bot, if somebody is still here."""
        if room.members:
            self._start(room)

    def on_timer(self, room: Room[Grid], name: str) -> None:
        """Move for the bot, or for who thinks too long; begin the next game after the pause."""
        state = room.state
        if name == "next":
            self._start(room)
        elif state.turn:
            self._take(room, self._choose(room), is_own_move=state.turn == BOT)

    def shared(self, room: Room[Grid]) -> object:
        """Show everything: there are no secrets at this table."""
        state = room.state
        return {
            "cells": state.cells,
            "turn": state.turn,
            "winner": state.winner,
            "row": _row_of(state.cells, state.winner),
            "players": [
                {"id": i, "name": self._find_name(room, i), "wins": state.wins.get(i, 0)}
                for i in state.players
            ],
        }

    @action("place")
    def place(self, room: Room[Grid], by: Member, move: Mark) -> None:
        """Take a move."""
        state = room.state
        if by.player_id != state.turn:
            raise Refused("It is not your turn")
        if state.cells[move.cell]:
            raise Refused("That cell is taken")
        self._take(room, move.cell, is_own_move=True)

    def _start(self, room: Room[Grid]) -> None:
        state = room.state
        players = [*room.members, BOT][:2]
        room.random.shuffle(players)
        state.players, state.cells, state.winner = players, [0] * 9, 0
        room.cancel("next")
        self._pass_turn(room, players[0])

    def _pass_turn(self, room: Room[Grid], player_id: int) -> None:
        room.state.turn = player_id
        room.after(BOT_SECONDS if player_id == BOT else TURN_SECONDS, "turn")

    def _take(self, room: Room[Grid], cell: int, *, is_own_move: bool) -> None:
        """Make the move of the one whose turn it is, and see whether that ends the game.

        A game that the bot's move wins for somebody else is over, and counts for nobody: they may
        not even be there.
        """
        state = room.state
        mover = state.turn
        state.cells[cell] = mover
        has_won = bool(_row_of(state.cells, mover))
        if not has_won and not all(state.cells):
            self._pass_turn(room, _other(state.players, mover))
            return
        state.turn, state.winner = 0, mover if has_won else 0
        room.cancel("turn")
        room.after(PAUSE_SECONDS, "next")
        if has_won and is_own_move:
            state.wins[mover] = state.wins.get(mover, 0) + 1
            if mover != BOT:
                room.player(mover).increment("noughts_wins")

    @staticmethod
    def _choose(room: Room[Grid]) -> int:
        """Return the bot's move: win, else hinder, else the middle, else any; sometimes any."""
        state = room.state
        free = [cell for cell in range(9) if not state.cells[cell]]
        if room.random.random() >= SLIP:
            for player_id in (state.turn, _other(state.players, state.turn)):
                for cell in free:
                    tried = [*state.cells[:cell], player_id, *state.cells[cell + 1 :]]
                    if _row_of(tried, player_id):
                        return cell
            if 4 in free:
                return 4
        return room.random.choice(free)

    @staticmethod
    def _find_name(room: Room[Grid], player_id: int) -> str:
        member = room.members.get(player_id)
        return BOT_NAME if member is None else member.player_name


def _row_of(cells: Sequence[int], player_id: int) -> tuple[int, ...]:
    """Return a player's three in a row; none without, and none of nobody."""
    rows = (row for row in ROWS if player_id and all(cells[cell] == player_id for cell in row))
    return next(rows, ())


def _other(players: Sequence[int], player_id: int) -> int:
    return players[1] if players[0] == player_id else players[0]
