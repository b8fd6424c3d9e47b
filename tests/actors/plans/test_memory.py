"""Memory that players hold, by owner, address and server: by tables and at random."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from greenroom.actors.plans.address_counts import share_key
from greenroom.actors.plans.ledger import Ledger
from greenroom.actors.plans.memory import LetGo, Memory, Objection, Piece
from greenroom.actors.plans.plan import UNLIMITED_PLANS, PlanLimits, ServerLimits
from greenroom.actors.plans.refusals import PlayersHoldTooMuch
from greenroom.actors.player.memory import LARGE_PART, SMALL_BYTES, part_for

HERE, THERE, HOME = "203.0.113.7", "203.0.113.8", "127.0.0.1"


class Players:
    """Game 1 of owner 7, whose plan has a limit, and game 2 of owner 8, whose has none."""

    def __init__(self, plan: float = 1e9, server: float = 1e9, let_go: LetGo | None = None) -> None:
        self.ledger = Ledger(
            {**UNLIMITED_PLANS, "free": PlanLimits(players_bytes_max=plan)},
            0.25,
            ServerLimits(players_bytes_max=server),
        )
        self.ledger.open_game(1, 7, "free")
        self.ledger.open_game(2, 8, "unlimited")
        self.memory = Memory("players", self.ledger, PlayersHoldTooMuch, let_go)

    def add(self, size: int = 10, address: str = HERE, game_id: int = 1, part: float = 1) -> Piece:
        piece = Piece(self.memory, self.ledger.get_game_usage(game_id), share_key(address))
        piece.admit(size, part)
        piece.resize(size)
        return piece

    def add_all(self, address: str = HERE, game_id: int = 1, part: float = 1) -> int:
        for added in range(1_000):
            try:
                self.add(10, address, game_id, part)
            except PlayersHoldTooMuch:
                return added
        raise AssertionError("there is no end")


@pytest.mark.parametrize(
    ("plan", "server", "by_address", "in_all", "reason"),
    [
        (400, 1e9, 10, 40, "player bytes by plan"),
        (1e9, 400, 10, 40, "player bytes by server"),
        (400, 800, 10, 40, "player bytes by plan"),
    ],
)
def test_players_hold_so_many_bytes_and_an_address_has_a_share_of_them(
    plan: float, server: float, by_address: int, in_all: int, reason: str
):
    players = Players(plan, server)

    assert [players.add_all(address) for address in (HERE, THERE)] == [by_address] * 2
    assert players.add_all(HOME) == in_all - 2 * by_address
    assert players.ledger.refused == {"player bytes by address": 2, reason: 1}


def test_large_documents_leave_a_part_to_small_ones():
    players = Players(server=400)
    large = part_for(SMALL_BYTES + 1)

    assert (large, part_for(SMALL_BYTES)) == (LARGE_PART, 1)
    assert players.add_all(HERE, part=large) == 7
    assert players.add_all(HERE) == 3
    assert players.add_all(HOME, part=large) == 20
    assert players.add_all(THERE) == 10


def test_what_shrinks_always_may():
    players = Players(server=40)
    piece = players.add(40, HOME)
    players.memory.check(piece.owner, "", -1)
    piece.admit(0)
    with pytest.raises(PlayersHoldTooMuch):
        piece.admit(1)


def test_a_piece_moves_to_an_address_with_space_alone():
    players = Players(server=400)
    piece, other = players.add(60, HERE), players.add(50, THERE)
    with pytest.raises(PlayersHoldTooMuch):
        piece.admit_move(other.share)
    held = players.ledger.get_owner_usage(7, "free").bytes_from["players"]
    assert (held.get_count(HERE), held.get_count(THERE), players.memory.size) == (60, 50, 110)
    other.resize(40)
    piece.admit_move(other.share)
    piece.move(other.share)
    assert (held.get_count(HERE), held.get_count(THERE), players.memory.size) == (0, 100, 100)


def test_space_is_made_among_those_who_help_before_anybody_is_refused():
    asked: list[Objection] = []

    def let_go(objection: Objection) -> bool:
        asked.append(objection)
        found = [piece for piece in idle if piece.size and objection.is_met_by(piece)]
        for piece in found:
            piece.resize(0)
        return bool(found)

    players = Players(plan=400, server=1e9, let_go=let_go)
    idle = [players.add(50, HERE), players.add(50, THERE), players.add(50, HERE, game_id=2)]
    players.add(100, HERE)
    assert [(one.limit, one.missing_bytes) for one in asked] == [("address", 50)]
    assert [piece.size for piece in idle] == [0, 50, 50]
    players.add(260, HOME)
    assert [piece.size for piece in idle] == [0, 0, 50]
    with pytest.raises(PlayersHoldTooMuch):
        players.add(50, HOME)
    assert idle[2].size == 50


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["add", "grow", "move", "release", "forget"]),
            st.integers(0, 5),
            st.integers(0, 60),
            st.sampled_from([HERE, THERE, HOME, "2001:db8::1", "2001:db8::2"]),
        ),
        max_size=60,
    )
)
def test_whatever_happens_it_adds_up(steps: list[tuple[str, int, int, str]]):
    players = Players(plan=200, server=300)
    pieces: list[Piece] = []
    is_forgotten = False
    for what, number, size, address in steps:
        try:
            if what == "add":
                game_id = 2 if is_forgotten else 1 + number % 2
                pieces.append(players.add(size, address, game_id))
            elif what == "forget" and size == 0:
                players.ledger.forget_game(1)
                is_forgotten = True
            elif pieces:
                piece = pieces[number % len(pieces)]
                if what == "grow":
                    piece.admit(size)
                    piece.resize(piece.size + size)
                elif what == "move":
                    piece.admit_move(share_key(address))
                    piece.move(share_key(address))
                elif what == "release":
                    piece.resize(0)
        except PlayersHoldTooMuch:
            pass
        total = sum(piece.size for piece in pieces)
        assert players.memory.size == total <= 300
        owned = sum(owner.bytes_held["players"] for owner in players.ledger.list_owners())
        assert owned == total or is_forgotten
        for owner in players.ledger.list_owners():
            for piece in pieces:
                same = [p.size for p in pieces if (p.owner, p.share) == (owner, piece.share)]
                if piece.share:
                    assert owner.bytes_from["players"].get_count(piece.share) == sum(same)
    for piece in pieces:
        piece.resize(0)
    for owner in players.ledger.list_owners():
        assert owner.bytes_held["players"] == len(owner.bytes_from["players"]) == 0
