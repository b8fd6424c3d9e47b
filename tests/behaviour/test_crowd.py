"""A crowd plays at random: a sound behaviour bears it, and each mistake is found, with its seed."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any, ClassVar

import msgspec
import pytest
from cards import Cards
from seeds import SEED
from tictactoe import Board, TicTacToe

from greenroom.behaviour import Member, Message, Refused, Room, RoomBehaviour, Verdict, action
from greenroom.behaviour.errors import HookCrashed
from greenroom.behaviour.verdicts import Forward
from greenroom.testing import CheckFailed, Move, RoomHarness, SimulatedCrowd


class Purse(msgspec.Struct):
    coins: float = 0.0
    more: Any = None


class Paying(RoomBehaviour[Purse]):
    """Sound: each of the classes below has one mistake more."""

    tick_hz = 5

    @action("pay")
    def pay(self, room: Room[Purse], by: Member) -> float:
        if room.random.random() < 0.3:
            raise Refused("No change")
        room.state.coins += 1.0
        return room.state.coins

    def on_message(self, room: Room[Purse], by: Member, message: Message) -> Verdict:
        if message.data:
            raise Refused("Hush")
        return Forward()


class RefusingTooLate(Paying):
    """Changes the state with a message, and then refuses it."""

    def on_message(self, room: Room[Purse], by: Member, message: Message) -> Verdict:
        room.state.coins += 1.0
        return super().on_message(room, by, message)


class Remembering(Paying):
    """Keeps something in itself."""

    def __init__(self) -> None:
        self.tried = 0

    @action("pay")
    def pay(self, room: Room[Purse], by: Member) -> float:
        self.tried += 1
        return super().pay(room, by)


class Sharing(Paying):
    """Keeps something in its class, for all rooms."""

    payers: ClassVar[list[int]] = []

    @action("pay")
    def pay(self, room: Room[Purse], by: Member) -> float:
        self.payers.append(by.player_id)
        return super().pay(room, by)


class Rounding(Paying):
    """Keeps an int where its type says float."""

    def on_tick(self, room: Room[Purse], dt: float) -> None:
        room.state.coins = int(room.state.coins)


class Tupling(Paying):
    """Keeps what its type does not tell, and what comes back as something else."""

    def on_leave(self, room: Room[Purse], member: Member, reason: str) -> None:
        room.state.more = (member.player_id, reason)


class Crashing(Paying):
    """Has not thought of somebody who drops."""

    def on_drop(self, room: Room[Purse], member: Member) -> None:
        room.state.more[member.player_id] = True


def pay(room: RoomHarness[Purse], player_id: int, chance: Random) -> None:
    room.act(player_id, "pay")


def say(room: RoomHarness[Purse], player_id: int, chance: Random) -> None:
    room.say(player_id, "hello", chance.choice([None, "you"]))


def place(room: RoomHarness[Board], player_id: int, chance: Random) -> None:
    room.act(player_id, "place", {"cell": chance.randrange(10)})


def acting(kind: str) -> Move[Any]:
    def move(room: RoomHarness[Any], player_id: int, chance: Random) -> None:
        room.act(player_id, kind)

    return move


MOVES: Mapping[str, Move[Purse]] = {"pay": pay, "say": say}


def test_a_sound_behaviour_bears_everything():
    crowd = SimulatedCrowd(Paying, MOVES, seed=1)
    crowd.run(400)
    done = " ".join(crowd.steps)
    for fault in ("crashes", "loses the connection", "connects", "silent", "heard of", "leaves"):
        assert fault in done
    assert "Hush" in done
    assert crowd.refused > 10
    assert crowd.rooms > 1


def test_the_same_seed_makes_the_same_run():
    crowds = [SimulatedCrowd(TicTacToe, {"place": place}, seed=seed) for seed in (5, 5, 6)]
    for crowd in crowds:
        crowd.run(150)
    one, same, other = crowds
    assert one.steps == same.steps != other.steps
    assert one.room.events == same.room.events


@pytest.mark.parametrize(
    ("behaviour", "error", "told"),
    [
        (RefusingTooLate, CheckFailed, "a refused SendMessage has changed the room"),
        (Remembering, CheckFailed, r"pay refused, and has changed self\.tried"),
        (Sharing, CheckFailed, r"pay refused, and has changed Sharing\.payers"),
        (Rounding, CheckFailed, "comes back different from a snapshot"),
        (Tupling, CheckFailed, "is another after a snapshot"),
        (Crashing, HookCrashed, "on_drop crashed"),
    ],
)
def test_a_mistake_is_found_and_its_seed_told(
    behaviour: type[Paying],
    error: type[Exception],
    told: str,
    capsys: pytest.CaptureFixture[str],
):
    crowd = SimulatedCrowd(behaviour, MOVES, seed=SEED)
    with pytest.raises(error, match=told) as caught:
        crowd.run(2_000)
    (note,) = caught.value.__notes__
    assert f"SimulatedCrowd(seed={crowd.seed}) does it again" in note
    assert note.endswith(f"{len(crowd.steps)}. {crowd.steps[-1]}")
    assert f"SimulatedCrowd(seed={crowd.seed})" in capsys.readouterr().out
    again = SimulatedCrowd(behaviour, MOVES, seed=crowd.seed)
    with pytest.raises(error, match=told):
        again.run(2_000)
    assert again.steps == crowd.steps


def test_what_a_studio_checks_is_checked_after_every_step():
    def check(room: RoomHarness[Purse]) -> None:
        assert room.state.coins < 3, "too rich"

    crowd = SimulatedCrowd(Paying, MOVES, seed=9, check=check)
    with pytest.raises(AssertionError, match="too rich"):
        crowd.run(1_000)


class Idling(RoomBehaviour[None]):
    """Goes on without anybody."""

    def on_create(self, room: Room[None]) -> None:
        room.every(2.0, "win")

    def on_timer(self, room: Room[None], name: str) -> None:
        for player_id in room.members:
            room.update_player(player_id, {"won_at": room.now})


def test_what_is_won_while_nobody_is_there_is_found():
    SimulatedCrowd(Idling, {}, fault_chance=1.0, seed=SEED).run(300)
    crowd = SimulatedCrowd(Idling, {}, fault_chance=1.0, seed=SEED, wins_need_players=True)
    with pytest.raises(CheckFailed, match="nobody is there"):
        crowd.run(300)


def test_the_examples_bear_a_crowd():
    moves: dict[str, Move[Any]] = {"place": place, "again": acting("again")}
    crowd = SimulatedCrowd(
        TicTacToe, moves, players_max=2, seed=SEED, seconds_max=10.0, wins_need_players=True
    )
    crowd.run(600)
    moves = {kind: acting(kind) for kind in ("deal", "look", "draw")}
    SimulatedCrowd(Cards, moves, seed=SEED).run(300)
