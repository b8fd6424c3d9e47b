"""Bluff: cards face down, and hands that only their holders ever see.

    greenroom serve --behaviours-dir examples --behaviours '*/bluff=bluff:Bluff'

Rooms whose rules say {"type": "bluff", "seats": 2 to 4} play it, once. The server deals as soon as
the seats are taken. Whoever comes later looks on, and sees no hand. A rank is due with each move.
Lay one to four cards face down, as cards of that rank, or doubt the cards of the player before you.
Whoever is caught, or doubts wrongly, takes the pile. The first without cards wins, unless they are
caught with their last ones.

Clients send the actions `lay` with {"move": 3, "cards": ["7H"]} and `doubt` with {"move": 3}.
`move` is the number that the table shows, so that no move counts twice. Connected clients are shown
the table and their own hand; those that poll send `look`. Everybody hears `doubted` and `over`. The
leaderboard is sorted by the stat `bluff_wins`.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from greenroom.behaviour import JsonObject, Member, Refused, Room, RoomBehaviour, Stat, action

RANKS = "A23456789TJQK"
DECK = tuple(rank + suit for suit in "CDHS" for rank in RANKS)
HAND_CARDS = 6
"""Most of the deck stays out of the game, so that a hand does not tell the others'."""
TURN_SECONDS = 30.0
CLOSE_SECONDS = 30.0
"""How long a room stays after its game."""
STATS = {"bluff_games": Stat(), "bluff_wins": Stat()}


class Rules(msgspec.Struct, frozen=True):
    """The rules that a room's creator may choose."""

    seats: Annotated[int, msgspec.Meta(ge=2, le=4)] = 2


class Claim(msgspec.Struct):
    """The last cards that were laid: by whom, how many, and as what."""

    by: int
    count: int
    rank: str


class Table(msgspec.Struct):
    """The state. Nobody may see the hands of others, nor the pile."""

    seats: int = 2
    hands: dict[int, list[str]] = {}
    """The hands of those who play, in the order of their turns."""
    pile: list[str] = []
    """Face down; the last claim's cards are on top."""
    claim: Claim | None = None
    """The cards that may be doubted now."""
    turn: int = 0
    """The player whose turn it is; 0 while nobody plays."""
    move: int = 0
    """How many moves were made."""
    winner: int = 0
    is_over: bool = False


class Lay(msgspec.Struct, frozen=True):
    """Cards for the pile."""

    move: int
    cards: Annotated[list[str], msgspec.Meta(min_length=1, max_length=4)]


class Doubt(msgspec.Struct, frozen=True):
    """A doubt of the last claim."""

    move: int


class Bluff(RoomBehaviour[Table]):
    """One game: turns with a clock, secrets that stay with the server, an end that is final."""

    strict = True
    stats = STATS

    def initial_state(self, rules: JsonObject) -> Table:
        """Refuse rules that make no game; a lobby is told so, too."""
        try:
            return Table(seats=msgspec.convert(rules, Rules).seats)
        except msgspec.ValidationError as error:
            raise Refused(f"Bluff takes other rules: {error}") from None

    def on_join(self, room: Room[Table], member: Member) -> None:
        """Deal as soon as the seats are taken; whoever comes later looks on."""
        if len(room.members) == room.state.seats and not room.state.move:
            self._deal(room)

    def on_leave(self, room: Room[Table], member: Member, reason: str) -> None:
        """Put out who leaves. A kick is the host's client's: the game ends, and nobody has won."""
        state = room.state
        if reason == "kicked" and member.player_id in state.hands and not state.is_over:
            self._end(room, has_winner=False)
        else:
            self._put_out(room, member.player_id)

    def on_timer(self, room: Room[Table], name: str) -> None:
        """Put a player out who is too slow; close the room some time after the game."""
        if name == "turn":
            self._put_out(room, room.state.turn)
        else:
            room.stop()

    @action("lay")
    def lay(self, room: Room[Table], by: Member, lay: Lay) -> JsonObject:
        """Lay cards face down; nothing tells whether they are what is due."""
        state = room.state
        hand = self._hand_in_turn(state, by, lay.move)
        if len(set(lay.cards)) < len(lay.cards) or not set(lay.cards) <= set(hand):
            raise Refused("You do not hold these cards")
        if self._has_got_away(state):
            self._next_move(room)
            self._end(room)
            return self.look(room, by)
        state.hands[by.player_id] = [card for card in hand if card not in lay.cards]
        state.pile += lay.cards
        state.claim = Claim(by.player_id, len(lay.cards), self._rank_due(state))
        state.turn = self._after(state, by.player_id)
        self._next_move(room)
        return self.look(room, by)

    @action("doubt")
    def doubt(self, room: Room[Table], by: Member, doubt: Doubt) -> JsonObject:
        """Turn the last claim's cards over, and give the pile to who was wrong."""
        state = room.state
        self._hand_in_turn(state, by, doubt.move)
        claim = state.claim
        if claim is None:
            raise Refused("There is nothing to doubt")
        cards = state.pile[-claim.count :]
        lied = any(card[0] != claim.rank for card in cards)
        loser = claim.by if lied else by.player_id
        got_away = self._has_got_away(state) and not lied
        state.hands[loser] += state.pile
        state.pile, state.claim = [], None
        room.broadcast(
            "doubted", {"by": by.player_id, "claim_by": claim.by, "cards": cards, "lied": lied}
        )
        self._next_move(room)
        if got_away:
            self._end(room)
        return self.look(room, by)

    @action("look")
    def look(self, room: Room[Table], by: Member) -> JsonObject:
        """See what a connected client sees."""
        return {"table": self.shared(room), "hand": self.private(room, by)}

    def shared(self, room: Room[Table]) -> JsonObject:
        """Show how many cards there are, and never which."""
        state = room.state
        return {
            "turn": state.turn,
            "move": state.move,
            "due": self._rank_due(state),
            "claim": state.claim,
            "pile": len(state.pile),
            "hands": {player_id: len(hand) for player_id, hand in state.hands.items()},
            "winner": state.winner,
            "is_over": state.is_over,
        }

    def private(self, room: Room[Table], member: Member) -> list[str] | None:
        """Show a player their own hand; who looks on has none."""
        return room.state.hands.get(member.player_id)

    def _deal(self, room: Room[Table]) -> None:
        state = room.state
        deck = list(DECK)
        room.random.shuffle(deck)
        for player_id in room.members:
            state.hands[player_id] = sorted(deck.pop() for _ in range(HAND_CARDS))
            room.player(player_id).increment("bluff_games")
        state.turn = room.random.choice(list(state.hands))
        self._next_move(room)

    def _put_out(self, room: Room[Table], player_id: int) -> None:
        """End the game for a player; their cards go under the pile."""
        state = room.state
        if state.is_over or player_id not in state.hands:
            return
        if state.turn == player_id:
            state.turn = self._after(state, player_id)
            self._next_move(room)
        state.pile = state.hands.pop(player_id) + state.pile
        if state.claim is not None and state.claim.by == player_id:
            state.claim = None
        if len(state.hands) == 1:
            self._end(room)

    def _end(self, room: Room[Table], *, has_winner: bool = True) -> None:
        """End the game for good. The winner has no cards, or is the last one; and is there."""
        state = room.state
        winner = min(state.hands, key=lambda player_id: len(state.hands[player_id]))
        member = room.members.get(winner)
        if has_winner and member is not None and member.is_online:
            state.winner = winner
            room.player(winner).increment("bluff_wins")
        state.turn, state.is_over = 0, True
        room.cancel("turn")
        room.broadcast("over", {"winner": state.winner or None})
        room.after(CLOSE_SECONDS, "close")

    @staticmethod
    def _next_move(room: Room[Table]) -> None:
        room.state.move += 1
        room.after(TURN_SECONDS, "turn")

    @staticmethod
    def _hand_in_turn(state: Table, by: Member, move: int) -> list[str]:
        """Return the hand of the player who moves; refuse everybody else, and old moves."""
        if state.is_over:
            raise Refused("The game is over")
        if by.player_id != state.turn:
            raise Refused("It is not your turn")
        if move != state.move:
            raise Refused(f"That is move {move}, and move {state.move} is due")
        return state.hands[by.player_id]

    @staticmethod
    def _has_got_away(state: Table) -> bool:
        """Return whether the player before has no cards left."""
        return state.claim is not None and not state.hands[state.claim.by]

    @staticmethod
    def _rank_due(state: Table) -> str:
        return RANKS[state.move % len(RANKS)]

    @staticmethod
    def _after(state: Table, player_id: int) -> int:
        players = list(state.hands)
        return players[(players.index(player_id) + 1) % len(players)]
