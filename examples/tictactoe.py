"""Tic-tac-toe: the server deals the turns, refuses wrong moves, and counts the winner's game.

    greenroom serve --behaviours-dir examples --behaviours */tictactoe=tictactoe:TicTacToe

Rooms whose rules say {"type": "tictactoe"} play it. Clients send the action `place` with
{"cell": 0 to 8}, and `again` when they come back after a game. Connected ones are shown the table
(`shared`); everybody hears `start`, `placed` and `over`. A client: tictactoe.html.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from greenroom.behaviour import Joining, Member, Refused, Room, RoomBehaviour, Stat, action

LINES = ((0, 1, 2), (3, 4, 5), (6, 7, 8), (0, 3, 6), (1, 4, 7), (2, 5, 8), (0, 4, 8), (2, 4, 6))
TURN_SECONDS = 20.0
STATS = {"tictactoe_wins": Stat()}
"""Players' numbers that only the server writes; leaderboards sort by them."""
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
    polling: list[int] = []
    """The players without a connection who have moved in this game."""
    is_paused: bool = False
    """True while the pause lasts; then the next game begins, if both players are there."""

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
    """Two play, one after the other; a player who does not move in time loses.

    A player who is not there wins nothing, and no game begins without both. A player is there who
    is connected. One who polls is there for as long as they move.
    """

    strict = True
    stats = STATS

    def can_join(self, room: Room[Board], joining: Joining) -> None:
        """Let two play, and nobody look on."""
        if len(room.members) >= 2:
            raise Refused("Two are playing already")

    def on_join(self, room: Room[Board], member: Member) -> None:
        """Begin as soon as there are two."""
        if len(room.members) == 2:
            self._start(room)

    def on_leave(self, room: Room[Board], member: Member, reason: str) -> None:
        """Let the player who stays win, unless they have kicked the other."""
        self._come_back(room, member.player_id)
        if room.state.turn:
            self._end(room, 0 if reason == "kicked" else next(iter(room.members), 0))

    def on_drop(self, room: Room[Board], member: Member) -> None:
        """Show that a player is away; the clock goes on."""
        room.state.away.append(member.player_id)
        self._note_move(room, member)

    def on_reconnect(self, room: Room[Board], member: Member) -> None:
        """Show that a player is back."""
        self._come_back(room, member.player_id)
        self._start_if_ready(room)

    def on_timer(self, room: Room[Board], name: str) -> None:
        """End a game whose player does not move in time; begin the next after the pause."""
        if name == "turn":
            self._end(room, self._other(room.state))
        else:
            room.state.is_paused = False
            self._start_if_ready(room)

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
        self._note_move(room, by)
        won = bool(state.line_of(by.player_id))
        is_over = won or all(state.cells)
        state.turn = self._other(state)
        room.broadcast("placed", {"by": by.player_id, "cell": move.cell, "turn": state.turn})
        if is_over:
            self._end(room, by.player_id if won else 0)
        else:
            self._wait_for_move(room)
        return Placed(won, is_over)

    @action("again")
    def again(self, room: Room[Board], by: Member) -> None:
        """Begin the next game where it waits for players who were away."""
        if not room.state.turn:
            self._note_move(room, by)
        self._start_if_ready(room)

    def _start_if_ready(self, room: Room[Board]) -> None:
        """Begin a game if none goes on, the pause is over and both players are there."""
        there = [i for i in room.members if self._is_there(room, i)]
        if len(there) == 2 and not (room.state.turn or room.state.is_paused):
            self._start(room)

    def _start(self, room: Room[Board]) -> None:
        state = room.state
        state.polling = []
        state.is_paused = False
        state.cells = [0] * 9
        state.players = sorted(room.members)
        state.turn = state.first = room.random.choice(state.players)
        state.winner = 0
        room.cancel("next")
        room.broadcast("start", {"turn": state.turn, "players": state.players})
        self._wait_for_move(room)

    def _end(self, room: Room[Board], winner_id: int) -> None:
        state = room.state
        if not self._is_there(room, winner_id):
            winner_id = 0
        state.turn = 0
        state.is_paused = True
        state.winner = winner_id
        room.cancel("turn")
        room.broadcast("over", {"winner": winner_id or None})
        if winner_id:
            state.wins[winner_id] = state.wins.get(winner_id, 0) + 1
            room.player(winner_id).increment("tictactoe_wins")
        room.after(PAUSE_SECONDS, "next")

    @staticmethod
    def _is_there(room: Room[Board], player_id: int) -> bool:
        member = room.members.get(player_id)
        if member is None:
            return False
        return member.is_connected or (member.is_online and player_id in room.state.polling)

    @staticmethod
    def _note_move(room: Room[Board], member: Member) -> None:
        """Take note of a player who polls, or who had a connection until now."""
        state, player_id = room.state, member.player_id
        state.polling = [i for i in state.polling if i != player_id]
        if not (member.is_connected or player_id in state.away):
            state.polling.append(player_id)

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
