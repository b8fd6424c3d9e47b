"""Cards, played without a server."""

import pytest
from cards import DECK, HAND_CARDS, TURN_SECONDS, Cards, Table

from greenroom.behaviour import Refused
from greenroom.testing import Heard, RoomHarness


def begin(*names: str) -> RoomHarness[Table]:
    room = RoomHarness(Cards, seed=2)
    for name in names or ("Ann", "Bob"):
        room.join(name)
    assert room.act(1, "deal").status == "completed"
    return room


def test_each_player_sees_their_own_hand_and_only_the_size_of_the_others() -> None:
    room = begin()
    for player_id in (1, 2):
        view = room.view(player_id)
        assert view.private == room.state.hands[player_id]
        assert view.shared["hands"] == {"1": HAND_CARDS, "2": HAND_CARDS}
        other = room.state.hands[3 - player_id]
        assert not any(card in str((view.shared, view.private)) for card in other)


def test_wrong_moves_fail_and_change_nothing() -> None:
    room = begin()
    state = room.state
    waiting = 3 - state.turn
    top = state.pile[-1]
    assert room.act(waiting, "draw").response_data == {"error": "It is not your turn"}
    foreign = state.hands[waiting][0]
    outcome = room.act(state.turn, "play", {"card": foreign})
    assert outcome.response_data == {"error": "You do not hold that card"}
    wrong = next((c for c in state.hands[state.turn] if c[0] != top[0] and c[1] != top[1]), None)
    assert wrong is not None
    outcome = room.act(state.turn, "play", {"card": wrong})
    assert outcome.response_data == {"error": f"{wrong} does not follow {top}"}
    assert room.act(2, "deal").response_data == {"error": "The host deals"}
    assert room.act(1, "deal").response_data == {"error": "A game is on"}
    with pytest.raises(Refused, match="A game is on"):
        room.join("Eve")


def step(room: RoomHarness[Table]) -> None:
    """Play the first card that follows for the player whose turn it is, or draw."""
    state = room.state
    top, player_id = state.pile[-1], state.turn
    cards = [c for c in state.hands[player_id] if c[0] == top[0] or c[1] == top[1]]
    outcome = room.act(player_id, "play", {"card": cards[0]}) if cards else None
    outcome = outcome or room.act(player_id, "draw")
    assert outcome.status == "completed"


def test_a_game_is_played_to_its_end_and_no_card_is_lost() -> None:
    room = begin("Ann", "Bob", "Eve")
    for _ in range(500):
        state = room.state
        cards = [*state.deck, *state.pile, *(c for hand in state.hands.values() for c in hand)]
        assert sorted(cards) == sorted(DECK)
        if not state.turn:
            break
        step(room)
    winner = next(i for i, hand in room.state.hands.items() if not hand)
    assert Heard("over", {"winner": winner}) in room.heard(1)
    assert room.stats == {winner: {"cards_wins": 1}}


def test_a_slow_player_draws() -> None:
    room = begin()
    slow = room.state.turn
    room.advance(TURN_SECONDS)
    assert len(room.state.hands[slow]) == HAND_CARDS + 1
    assert room.state.turn == 3 - slow


def test_a_kick_ends_the_game_and_nobody_has_won() -> None:
    room = begin()
    room.kick(2)
    assert Heard("over", {"winner": None}) in room.heard(1)
    assert room.stats == {}


def test_a_player_who_leaves_gives_their_cards_back_and_the_last_one_wins() -> None:
    room = begin("Ann", "Bob", "Eve")
    room.leave(room.state.turn)
    assert len(room.state.hands) == 2
    stays = next(i for i in room.state.hands if i != room.state.turn)
    room.leave(room.state.turn)
    assert Heard("over", {"winner": stays}) in room.heard(stays)
    assert room.view(stays).shared["turn"] == 0


def test_a_player_who_was_away_sees_their_hand_again_and_one_who_polls_looks() -> None:
    room = begin()
    room.drop(2)
    assert room.view(2).private is None
    seen = room.act(2, "look").response_data
    assert seen["hand"] == room.state.hands[2]
    room.reconnect(2)
    assert (room.view(2).shared, room.view(2).private) == (seen["table"], seen["hand"])
