"""Bluff, played without a server."""

from random import Random
from typing import Any

import msgspec
import pytest
from bluff import CLOSE_SECONDS, DECK, HAND_CARDS, RANKS, TURN_SECONDS, Bluff, Table

from greenroom.behaviour import Refused
from greenroom.testing import Heard, RoomHarness, SimulatedCrowd


def begin(*names: str, seed: int = 2) -> RoomHarness[Table]:
    names = names or ("Ann", "Bob")
    room = RoomHarness(Bluff, rules={"seats": len(names)}, seed=seed)
    for name in names:
        room.join(name)
    return room


def due(room: RoomHarness[Table]) -> str:
    return RANKS[room.state.move % len(RANKS)]


def lay(room: RoomHarness[Table], cards: list[str]) -> Any:
    state = room.state
    return room.act(state.turn, "lay", {"move": state.move, "cards": cards}).response_data


def doubt(room: RoomHarness[Table]) -> Any:
    state = room.state
    return room.act(state.turn, "doubt", {"move": state.move}).response_data


def lay_a_lie(room: RoomHarness[Table]) -> str:
    """Lay a card of the wrong rank for the player whose turn it is."""
    card = next(card for card in room.state.hands[room.state.turn] if card[0] != due(room))
    lay(room, [card])
    return card


def test_each_is_told_their_own_hand_alone() -> None:
    room = begin("Ann", "Bob", "Eve")
    watches = room.join("Wes")
    lie = lay_a_lie(room)
    told = {i: str((room.view(i), room.heard(i), look(room, i))) for i in (1, 2, 3, watches)}
    for player_id, text in told.items():
        hand = room.state.hands.get(player_id, [])
        shown = {card for card in DECK if f"'{card}'" in text}
        assert shown - {lie} == set(hand), "the one who lied was shown the card before"
    assert room.view(watches).private is None
    assert lie not in told[watches]


def look(room: RoomHarness[Table], player_id: int) -> Any:
    return room.act(player_id, "look").response_data


def test_a_liar_takes_the_pile_and_so_does_who_doubts_wrongly() -> None:
    room = begin()
    liar, doubter = room.state.turn, 3 - room.state.turn
    lie = lay_a_lie(room)
    doubt(room)
    assert Heard(
        "doubted", {"by": doubter, "claim_by": liar, "cards": [lie], "lied": True}
    ) in room.heard(liar)
    assert (len(room.state.hands[liar]), room.state.turn) == (HAND_CARDS, doubter)
    room.state.hands[doubter][0] = f"{due(room)}H"
    lay(room, [f"{due(room)}H"])
    doubt(room)
    assert len(room.state.hands[liar]) == HAND_CARDS + 1


def test_who_gets_rid_of_all_cards_wins_once_and_the_room_closes() -> None:
    room = begin()
    first, second = room.state.turn, 3 - room.state.turn
    room.state.hands[first] = [f"{due(room)}H"]
    lay(room, [f"{due(room)}H"])
    assert room.state.turn == second, "the last cards may still be doubted"
    doubt(room)
    assert room.heard(second)[-1] == Heard("over", {"winner": first})
    assert room.stats == {first: {"bluff_games": 1, "bluff_wins": 1}, second: {"bluff_games": 1}}
    assert doubt_error(room, first) == "The game is over"
    room.advance(CLOSE_SECONDS)
    assert not room.is_open


def test_the_last_cards_count_once_the_next_player_lets_them_pass() -> None:
    room = begin()
    first = room.state.turn
    room.state.hands[first] = ["AC"]
    lay(room, ["AC"])
    lay_a_lie(room)
    assert (room.state.winner, room.state.is_over) == (first, True)


def test_who_is_caught_with_the_last_card_has_not_won() -> None:
    room = begin()
    room.state.hands[room.state.turn] = ["AC" if due(room) != "A" else "2C"]
    lay_a_lie(room)
    doubt(room)
    assert not room.state.is_over


def doubt_error(room: RoomHarness[Table], player_id: int, move: int = -1) -> Any:
    return room.act(player_id, "doubt", {"move": move}).response_data["error"]


def test_foreign_cards_old_moves_and_turns_of_others_fail() -> None:
    room = begin()
    state = room.state
    first, second = state.turn, 3 - state.turn
    before = msgspec.json.encode(state)
    for cards in ([state.hands[second][0]], [state.hands[first][0]] * 2, ["1X"]):
        assert lay(room, cards) == {"error": "You do not hold these cards"}
    assert doubt_error(room, second) == "It is not your turn"
    assert doubt_error(room, first) == f"That is move -1, and move {state.move} is due"
    assert doubt(room) == {"error": "There is nothing to doubt"}
    wrongs: tuple[dict[str, Any], ...] = (
        {"cards": []},
        {"cards": ["AC"] * 5},
        {"cards": "AC"},
        {"cards": [1]},
    )
    for wrong in wrongs:
        with pytest.raises(Refused, match="Invalid data for lay"):
            room.act(first, "lay", {"move": state.move, **wrong})
    assert msgspec.json.encode(room.state) == before


@pytest.mark.parametrize("rules", [{"seats": 9}, {"seats": 1}, {"seats": "two"}])
def test_other_rules_make_no_room(rules: dict[str, Any]) -> None:
    with pytest.raises(Refused, match=r"Bluff takes other rules: .* - at `\$\.seats`"):
        RoomHarness(Bluff, rules=rules).join("Ann")


def test_a_player_who_is_slow_or_leaves_is_out_and_the_last_one_wins() -> None:
    room = begin("Ann", "Bob", "Eve")
    room.advance(TURN_SECONDS)
    assert len(room.state.hands) == 2
    room.leave(room.state.turn)
    (winner,) = room.state.hands
    assert room.state.winner == winner
    assert sorted(stats["bluff_games"] for stats in room.stats.values()) == [1, 1, 1]


def test_a_kick_ends_the_game_and_nobody_has_won() -> None:
    room = begin()
    room.kick(2)
    assert (room.state.is_over, room.state.winner) == (True, 0)
    assert room.stats == {1: {"bluff_games": 1}, 2: {"bluff_games": 1}}


def play(room: RoomHarness[Table], player_id: int, chance: Random) -> None:
    hand = room.state.hands.get(player_id) or ["AC"]
    cards = chance.sample(hand, min(len(hand), chance.randint(1, 4)))
    move = room.state.move - (chance.random() < 0.1)
    room.act(player_id, "lay", {"move": move, "cards": cards})


def call(room: RoomHarness[Table], player_id: int, _: Random) -> None:
    room.act(player_id, "doubt", {"move": room.state.move})


def check_cards(room: RoomHarness[Table]) -> None:
    """Check that no card is lost or doubled."""
    if room.is_open:
        state = room.state
        cards = [*state.pile, *(card for hand in state.hands.values() for card in hand)]
        assert len(set(cards)) == len(cards)
        assert len(cards) in {0, state.seats * HAND_CARDS}


def test_a_crowd_loses_no_card_and_wins_nothing_while_nobody_is_there() -> None:
    crowd = SimulatedCrowd(
        Bluff,
        {"play": play, "call": call, "look": lambda room, i, _: look(room, i)},
        rules={"seats": 3},
        seed=1,
        seconds_max=10.0,
        check=check_cards,
        wins_need_players=True,
    )
    crowd.run(1_000)
    assert crowd.rooms > 3
