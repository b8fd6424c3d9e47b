"""Tic-tac-toe: the server deals the turns, refuses wrong moves, and writes the winner's result.

    greenroom serve --behaviours-dir examples --behaviours */tictactoe=tictactoe:TicTacToe

Rooms whose rules say {"type": "tictactoe"} play it. Clients send the action `place` with
{"cell": 0 to 8}. Connected ones are shown the table (`shared`); everybody hears `start`, `placed`
and `over`. A client: tictactoe.html.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from greenroom.behaviour import Joining, Member, Refused, Room, RoomBehaviour, action

LINES = ((0, 1, 2), (3, 4, 5), (6, 7, 8), (0, 3, 6), (1, 4, 7), (2, 5, 8), (0, 4, 8), (2, 4, 6))
TURN_SECONDS = 20.0
PAUSE_SECONDS = 3.0
"""Between two games, so that everybody sees how the last one ended."""


class Board(msgspec.Struct):
    """The game so far. Players are ids; 0 is nobody."""

    cells: list[int] = msgspec.field(default_factory=lambda: [0] * 9)
    """The owner of each cell."""
    turn: int = 0
    """The player who is to move; 0 between two games."""
    first: int = 0
    """The player who began."""
    winner: int = 0
    """The winner of the last game, until the next one begins."""
    move_ends: float = 0.0
    """The Unix time at which the player who is to move loses."""
    players: list[int] = []
    wins: dict[int, int] = {}
    away: list[int] = []
    """The players whose connection is lost."""

    def line_of(self, player_id: int) -> tuple[int, ...]:
        """Return the cells of a player's three in a row; none without."""
        lines = (line for line in LINES if all(self.cells[cell] == player_id for cell in line))
        return next(lines, ())


class Place(msgspec.Struct, frozen=True):
    """A move."""

    cell: Annotated[int, msgspec.Meta(ge=0, le=8)]


class Placed(msgspec.Struct, frozen=True):
    """The answer to a mover."""

    won: bool
    is_over: bool


class TicTacToe(RoomBehaviour[Board]):
    """Two play, one after the other; a player who does not move in time loses."""

    def can_join(self, room: Room[Board], joining: Joining) -> None:
        """Let two play, and nobody look on."""
        if len(room.members) >= 2:
            raise Refused("Two are playing already")

    def on_join(self, room: Room[Board], member: Member) -> None:
        """Begin as soon as there are two."""
        if len(room.members) == 2:
            self._start(room)

    def on_leave(self, room: Room[Board], member: Member, reason: str) -> None:
        """Let the player who stays win."""
        self._come_back(room, member.player_id)
        if room.state.turn:
            self._end(room, next(iter(room.members), 0))

    def on_drop(self, room: Room[Board], member: Member) -> None:
        """Show that a player is away; the clock goes on."""
        room.state.away.append(member.player_id)

    def on_reconnect(self, room: Room[Board], member: Member) -> None:
        """Show that a player is back."""
        self._come_back(room, member.player_id)

    def on_timer(self, room: Room[Board], name: str) -> None:
        """End a game whose player does not move in time; begin the next after the pause."""
        if name == "turn":
            self._end(room, self._other(room.state))
        elif len(room.members) == 2:
            self._start(room)

    def shared(self, room: Room[Board]) -> object:
        """Show everything: there are no secrets at this table."""
        state = room.state
        return {
            "cells": state.cells,
            "turn": state.turn,
            "first": state.first,
            "winner": state.winner,
            "line": state.line_of(state.winner) if state.winner else (),
            "move_ends": state.move_ends,
            "move_seconds": TURN_SECONDS,
            "players": [self._player(room, member) for member in room.members.values()],
        }

    @action("place")
    def place(self, room: Room[Board], by: Member, move: Place) -> Placed:
        """Take a move."""
        state = room.state
        if by.player_id != state.turn:
            raise Refused("It is not your turn")
        if state.cells[move.cell]:
            raise Refused("That cell is taken")
        state.cells[move.cell] = by.player_id
        won = bool(state.line_of(by.player_id))
        is_over = won or all(state.cells)
        state.turn = self._other(state)
        room.broadcast("placed", {"by": by.player_id, "cell": move.cell, "turn": state.turn})
        if is_over:
            self._end(room, by.player_id if won else 0)
        else:
            self._wait_for_move(room)
        return Placed(won, is_over)

    def _start(self, room: Room[Board]) -> None:
        state = room.state
        state.cells = [0] * 9
        state.players = sorted(room.members)
        state.turn = state.first = room.random.choice(state.players)
        state.winner = 0
        room.cancel("next")
        room.broadcast("start", {"turn": state.turn, "players": state.players})
        self._wait_for_move(room)

    def _end(self, room: Room[Board], winner_id: int) -> None:
        state = room.state
        state.turn = 0
        state.winner = winner_id
        room.cancel("turn")
        room.broadcast("over", {"winner": winner_id or None})
        if winner_id:
            state.wins[winner_id] = state.wins.get(winner_id, 0) + 1
            room.update_player(winner_id, {"tictactoe_wins": state.wins[winner_id]})
        room.after(PAUSE_SECONDS, "next")

    @staticmethod
    def _come_back(room: Room[Board], player_id: int) -> None:
        room.state.away = [i for i in room.state.away if i != player_id]

    @staticmethod
    def _wait_for_move(room: Room[Board]) -> None:
        room.state.move_ends = room.now + TURN_SECONDS
        room.after(TURN_SECONDS, "turn")

    @staticmethod
    def _player(room: Room[Board], member: Member) -> dict[str, object]:
        """Return what everybody may see of a player."""
        return {
            "id": member.player_id,
            "name": member.player_name,
            "wins": room.state.wins.get(member.player_id, 0),
            "is_away": member.player_id in room.state.away,
        }

    @staticmethod
    def _other(state: Board) -> int:
        """Return who moves next."""
        return next(i for i in state.players if i != state.turn)
