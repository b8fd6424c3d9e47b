"""Cards with hidden hands: each player sees one hand, and only how many cards the others hold.

    greenroom serve --behaviours-dir examples --behaviours '*/cards=cards:Cards'

Rooms whose rules say {"type": "cards"} play it. Follow the suit or the rank of the card that lies
on top, or draw. The first to get rid of all their cards wins. Clients send the actions `deal` (the
host), `play` with {"card": "7H"} and `draw`. Those that poll also send `look`, which tells them
what connected ones see anyway: the table, and their own hand.
"""

from __future__ import annotations

import msgspec

from greenroom.behaviour import (
    Joining,
    JsonObject,
    Member,
    Refused,
    Room,
    RoomBehaviour,
    Stat,
    action,
)

DECK = tuple(rank + suit for suit in "CDHS" for rank in "23456789TJQKA")
HAND_CARDS = 5
TURN_SECONDS = 30.0
STATS = {"cards_wins": Stat()}


class Table(msgspec.Struct):
    """The state: what lies on the table, and what nobody may see."""

    deck: list[str] = []
    """Face down; the last is drawn next."""
    pile: list[str] = []
    """Face up; the last is on top."""
    hands: dict[int, list[str]] = {}
    """The hands of those who play, in the order of their turns."""
    turn: int = 0
    """The player whose turn it is; 0 while nobody plays."""


class Play(msgspec.Struct, frozen=True):
    """A card for the pile."""

    card: str


class Cards(RoomBehaviour[Table]):
    """Players take turns; a player who is too slow draws a card."""

    strict = True
    stats = STATS

    def can_join(self, room: Room[Table], joining: Joining) -> None:
        """Refuse players who come while a game is on."""
        if room.state.turn:
            raise Refused("A game is on: come back when it is over")

    @action("deal")
    def deal(self, room: Room[Table], by: Member) -> None:
        """Begin a game with all who are here."""
        if not by.is_host:
            raise Refused("The host deals")
        if room.state.turn:
            raise Refused("A game is on")
        if len(room.members) < 2:
            raise Refused("It takes two")
        deck = list(DECK)
        room.random.shuffle(deck)
        hands = {i: [deck.pop() for _ in range(HAND_CARDS)] for i in room.members}
        room.state = Table(deck=deck, pile=[deck.pop()], hands=hands)
        room.state.turn = room.random.choice(list(hands))
        room.broadcast("dealt", {"turn": room.state.turn})
        room.after(TURN_SECONDS, "turn")

    def shared(self, room: Room[Table]) -> JsonObject:
        """Show the top of the pile, and how many cards each holds."""
        state = room.state
        return {
            "turn": state.turn,
            "top": state.pile[-1] if state.pile else None,
            "deck": len(state.deck),
            "hands": {player_id: len(hand) for player_id, hand in state.hands.items()},
        }

    def private(self, room: Room[Table], member: Member) -> list[str] | None:
        """Show a player their own hand."""
        return room.state.hands.get(member.player_id)

    @action("look")
    def look(self, room: Room[Table], by: Member) -> JsonObject:
        """See what a connected client sees."""
        return {"table": self.shared(room), "hand": self.private(room, by)}

    @action("play")
    def play(self, room: Room[Table], by: Member, play: Play) -> JsonObject:
        """Lay a card on the pile."""
        hand = self._hand_in_turn(room, by)
        if play.card not in hand:
            raise Refused("You do not hold that card")
        top = room.state.pile[-1]
        if play.card[0] != top[0] and play.card[1] != top[1]:
            raise Refused(f"{play.card} does not follow {top}")
        hand.remove(play.card)
        room.state.pile.append(play.card)
        if hand:
            self._next(room)
        else:
            self._end(room, by.player_id)
        return self.look(room, by)

    @action("draw")
    def draw(self, room: Room[Table], by: Member) -> JsonObject:
        """Take a card, and pass."""
        self._hand_in_turn(room, by)
        self._draw(room, by.player_id)
        self._next(room)
        return self.look(room, by)

    @staticmethod
    def _hand_in_turn(room: Room[Table], by: Member) -> list[str]:
        if by.player_id != room.state.turn:
            raise Refused("It is not your turn")
        return room.state.hands[by.player_id]

    @staticmethod
    def _draw(room: Room[Table], player_id: int) -> None:
        """Give a player a card, from the pile turned over if need be."""
        state = room.state
        if not state.deck:
            state.deck, state.pile = state.pile[:-1], state.pile[-1:]
            room.random.shuffle(state.deck)
        if state.deck:
            state.hands[player_id].append(state.deck.pop())

    @staticmethod
    def _next(room: Room[Table]) -> None:
        players = list(room.state.hands)
        room.state.turn = players[(players.index(room.state.turn) + 1) % len(players)]
        room.after(TURN_SECONDS, "turn")

    @staticmethod
    def _end(room: Room[Table], winner_id: int | None) -> None:
        room.state.turn = 0
        room.cancel("turn")
        room.broadcast("over", {"winner": winner_id})
        if winner_id is not None:
            room.player(winner_id).increment("cards_wins")

    def on_timer(self, room: Room[Table], name: str) -> None:
        """Draw a card for the player who is too slow."""
        self._draw(room, room.state.turn)
        self._next(room)

    def on_leave(self, room: Room[Table], member: Member, reason: str) -> None:
        """Put a player's hand under the deck; the last one wins, unless a kick made them that."""
        state = room.state
        if member.player_id not in state.hands:
            return
        if state.turn == member.player_id:
            self._next(room)
        state.deck = state.hands.pop(member.player_id) + state.deck
        if state.turn and reason == "kicked":
            self._end(room, None)
        elif state.turn and len(state.hands) == 1:
            self._end(room, next(iter(state.hands)))
