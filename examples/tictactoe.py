"""Tic-tac-toe: the server deals the turns, refuses wrong moves, and writes the winner's result.

    greenroom serve --behaviours-dir examples --behaviours */tictactoe=tictactoe:TicTacToe

Rooms whose rules say {"type": "tictactoe"} play it. Clients send the action `place` with
{"cell": 0 to 8}; everybody hears `start`, `placed` and `over`. A client: tictactoe.html.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from greenroom.behaviour import Joining, Member, Refused, Room, RoomBehaviour, action

LINES = ((0, 1, 2), (3, 4, 5), (6, 7, 8), (0, 3, 6), (1, 4, 7), (2, 5, 8), (0, 4, 8), (2, 4, 6))
TURN_SECONDS = 20.0


class Board(msgspec.Struct):
    """The game so far: whose each cell is (0 for nobody's), and who is to move."""

    cells: list[int] = msgspec.field(default_factory=lambda: [0] * 9)
    turn: int = 0
    players: list[int] = []
    wins: dict[int, int] = {}

    def line_of(self, player_id: int) -> bool:
        """Return whether a player has three in a row."""
        return any(all(self.cells[cell] == player_id for cell in line) for line in LINES)


class Place(msgspec.Struct, frozen=True):
    """A move."""

    cell: Annotated[int, msgspec.Meta(ge=0, le=8)]


class Placed(msgspec.Struct, frozen=True):
    """What the mover is told."""

    won: bool
    is_over: bool


class TicTacToe(RoomBehaviour[Board]):
    """Two play, one after the other; who dallies loses his turn's game."""

    def can_join(self, room: Room[Board], joining: Joining) -> None:
        """Let two play, and nobody look on."""
        if len(room.members) >= 2:
            raise Refused("Two are playing already")

    def on_join(self, room: Room[Board], member: Member) -> None:
        """Begin as soon as there are two."""
        if len(room.members) == 2:
            self._start(room)

    def on_leave(self, room: Room[Board], member: Member, reason: str) -> None:
        """Let the one who stays win."""
        if room.state.turn:
            self._end(room, next(iter(room.members), 0))

    def on_timer(self, room: Room[Board], name: str) -> None:
        """End the game of who does not move in time."""
        self._end(room, self._other(room.state))

    @action("place")
    def place(self, room: Room[Board], by: Member, move: Place) -> Placed:
        """Take a move."""
        state = room.state
        if by.player_id != state.turn:
            raise Refused("It is not your turn")
        if state.cells[move.cell]:
            raise Refused("That cell is taken")
        state.cells[move.cell] = by.player_id
        won = state.line_of(by.player_id)
        is_over = won or all(state.cells)
        state.turn = self._other(state)
        room.broadcast("placed", {"by": by.player_id, "cell": move.cell, "turn": state.turn})
        if is_over:
            self._end(room, by.player_id if won else 0)
        else:
            room.after(TURN_SECONDS, "turn")
        return Placed(won, is_over)

    def _start(self, room: Room[Board]) -> None:
        state = room.state
        state.cells = [0] * 9
        state.players = sorted(room.members)
        state.turn = room.random.choice(state.players)
        room.broadcast("start", {"turn": state.turn, "players": state.players})
        room.after(TURN_SECONDS, "turn")

    def _end(self, room: Room[Board], winner_id: int) -> None:
        state = room.state
        state.turn = 0
        room.cancel("turn")
        room.broadcast("over", {"winner": winner_id or None})
        if winner_id:
            state.wins[winner_id] = state.wins.get(winner_id, 0) + 1
            room.update_player(winner_id, {"tictactoe_wins": state.wins[winner_id]})
        if len(room.members) == 2:
            self._start(room)

    @staticmethod
    def _other(state: Board) -> int:
        """Return who moves next."""
        return next(i for i in state.players if i != state.turn)
