"""Shares of plans: what nodes may use without asking each other, in all orders of events."""

from collections.abc import Callable

import pytest
import seeds
from hypothesis import given
from hypothesis import strategies as st

from greenroom.actors.kernel.errors import Refused
from greenroom.actors.plans.holdings import Holdings
from greenroom.actors.plans.ledger import DAY_SECONDS, Ledger
from greenroom.actors.plans.memory import Memory, Piece
from greenroom.actors.plans.plan import UNLIMITED, UNLIMITED_PLANS, PlanLimits
from greenroom.actors.plans.refusals import PlayersHoldTooMuch, TooManyPlayersOnline
from greenroom.actors.plans.shares import RESERVE_PARTS, Grant, ShareAsk, granted, reserve

assert seeds.SEED is not None

NOW = 20_000 * DAY_SECONDS + 7
SPREAD = (1, 257, 513, 769)


def ledger_of(**limits: float) -> Ledger:
    """Return the ledger of a node that has a part of the game 1."""
    ledger = Ledger({**UNLIMITED_PLANS, "free": PlanLimits(**limits)})
    ledger.has_others = True
    ledger.start_day_at(NOW)
    ledger.open_game(1, 7, "free", SPREAD)
    return ledger


class Shares:
    """The table of one limit."""

    def __init__(self) -> None:
        self.held: dict[int, int] = {}

    def take(self, node: int, ask: ShareAsk) -> Grant:
        others = sum(share for other, share in self.held.items() if other != node)
        self.held[node] = granted(ask, others)
        return Grant(ask.kind, self.held[node], len(self.held))


def settle(ledger: Ledger, node: int, shares: Shares, *, is_lost: bool = False) -> None:
    """Ask for what a node needs; the answer may get lost."""
    owner = ledger.get_game_usage(1).owner
    assert owner.shares is not None
    asks = owner.shares.take_asks(owner.count_used(), owner.limits)
    owner.settle()
    grants = [shares.take(node, ask) for ask in asks]
    if not is_lost:
        owner.shares.take(asks, grants)
        owner.settle()


STEPS = st.lists(
    st.tuples(
        st.integers(0, 2), st.sampled_from(["use", "use", "use", "free", "ask", "lose", "round"])
    ),
    max_size=120,
)


@given(limit=st.integers(0, 40), steps=STEPS)
def test_nodes_never_use_more_than_there_is_together(limit: int, steps: list[tuple[int, str]]):
    ledgers, shares = [ledger_of(players_online_max=limit) for _ in range(3)], Shares()
    for node, step in steps:
        game = ledgers[node].get_game_usage(1)
        match step:
            case "use":
                try:
                    game.check_player()
                except TooManyPlayersOnline:
                    pass
                else:
                    game.count_online()
            case "free":
                if game.players_online:
                    game.uncount_online()
            case "round":
                assert game.owner.shares is not None
                game.owner.shares.expect_more()
                settle(ledgers[node], node, shares)
            case _:
                settle(ledgers[node], node, shares, is_lost=step == "lose")
        assert sum(ledger.get_game_usage(1).players_online for ledger in ledgers) <= limit
        assert sum(shares.held.values()) <= limit


@given(limit=st.integers(0, 10_000), nodes=st.integers(1, 9), used=st.data())
def test_all_nodes_together_hold_a_twentieth_in_reserve_at_most(
    limit: int, nodes: int, used: st.DataObject
):
    ledgers, shares = [ledger_of(calls_per_day_max=limit) for _ in range(nodes)], Shares()
    for _ in range(2):  # after the first round all know how many they are
        for node, ledger in enumerate(ledgers):
            settle(ledger, node, shares)
    for node, ledger in enumerate(ledgers):
        for _ in range(used.draw(st.integers(0, 3))):
            if ledger.count_call(1, NOW):
                settle(ledger, node, shares)
                ledger.count_call(1, NOW)
        settle(ledger, node, shares)
    spent = sum(ledger.get_game_usage(1).calls for ledger in ledgers)
    assert sum(shares.held.values()) - spent <= limit // RESERVE_PARTS
    assert nodes * reserve(limit, nodes) <= limit // RESERVE_PARTS


def test_one_node_may_use_all_that_the_others_do_not():
    ledgers, shares = [ledger_of(calls_per_day_max=100) for _ in range(2)], Shares()
    for node in (0, 1, 0, 1):
        settle(ledgers[node], node, shares)
    made = 0
    for _ in range(200):
        if ledgers[0].count_call(1, NOW):
            settle(ledgers[0], 0, shares)
        else:
            made += 1
    assert made == 100 - reserve(100, 2)
    assert ledgers[1].count_call(1, NOW) == 0


def test_what_there_is_no_more_of_is_not_asked_for_again_before_the_next_round():
    ledger, shares = ledger_of(calls_per_day_max=3), Shares()
    shares.held[9] = 3
    assert ledger.count_call(1, NOW) > 0
    assert ledger.needs.owner_ids == {7}
    assert ledger.refused["calls by plan"] == 0
    settle(ledger, 0, shares)
    assert ledger.count_call(1, NOW) > 0
    assert ledger.needs.owner_ids == set()
    assert ledger.refused["calls by plan"] == 1
    owner = ledger.get_game_usage(1).owner
    assert owner.shares is not None
    owner.shares.expect_more()
    assert ledger.count_call(1, NOW) > 0
    assert ledger.needs.owner_ids == {7}


def test_who_has_all_they_want_is_settled_until_something_changes():
    ledger, shares = ledger_of(calls_per_day_max=100, players_online_max=100), Shares()
    owner = ledger.get_game_usage(1).owner
    assert owner.shares is not None

    def is_settled() -> bool:
        assert owner.shares is not None
        return owner.shares.is_settled(owner.count_used(), owner.limits)

    assert not is_settled(), "nothing was granted yet"
    settle(ledger, 0, shares, is_lost=True)
    assert not is_settled(), "nobody knows what was granted"
    settle(ledger, 0, shares)
    assert is_settled()
    assert ledger.count_call(1, NOW) == 0
    assert not is_settled(), "more is used"
    settle(ledger, 0, shares)
    assert is_settled()
    assert owner.shares.lacks("players_online", 50, 0, 100)
    assert not is_settled(), "more is needed"
    settle(ledger, 0, shares)
    assert not is_settled(), "what was needed is given back"
    settle(ledger, 0, shares)
    assert is_settled()
    ledger.start_day_at(NOW + DAY_SECONDS)
    assert not is_settled(), "a new day has begun"


def test_who_got_less_than_they_want_asks_again():
    ledger, shares = ledger_of(calls_per_day_max=100), Shares()
    shares.held[9] = 100
    settle(ledger, 0, shares)
    owner = ledger.get_game_usage(1).owner
    assert owner.shares is not None
    assert not owner.shares.is_settled(owner.count_used(), owner.limits)


def test_a_new_day_begins_without_a_share():
    ledger, shares = ledger_of(calls_per_day_max=100, players_online_max=100), Shares()
    settle(ledger, 0, shares)
    owner = ledger.get_game_usage(1).owner
    assert owner.allowed.calls_per_day_max > 0
    ledger.start_day_at(NOW + DAY_SECONDS)
    assert owner.allowed.calls_per_day_max == 0
    assert owner.allowed.players_online_max > 0


def test_a_need_that_the_whole_plan_cannot_meet_is_none():
    ledger = ledger_of(storage_bytes_max=100)
    owner = ledger.get_game_usage(1).owner
    assert not owner.lacks("storage_bytes", 101)
    assert owner.lacks("storage_bytes", 100)


def write(ledger: Ledger) -> None:
    if ledger.count_written(1, "", 10, NOW):
        raise Refused


def hold(ledger: Ledger) -> None:
    memory = Memory("players", ledger, PlayersHoldTooMuch)
    Piece(memory, ledger.get_game_usage(1), "").admit(10)


@pytest.mark.parametrize(
    ("limit", "use"),
    [
        ("rooms_max", lambda ledger: Holdings(ledger).check_new(1, "room", 10)),
        ("rooms_bytes_max", lambda ledger: Holdings(ledger).check_new(1, "room", 10)),
        ("players_bytes_max", hold),
        ("storage_bytes_max", lambda ledger: ledger.get_game_usage(1).check_storage(10)),
        ("written_bytes_per_day_max", write),
    ],
)
def test_what_other_nodes_may_have_left_is_no_refusal_by_the_plan(
    limit: str, use: Callable[[Ledger], object]
):
    ledger = ledger_of(**{limit: 1_000_000})
    for _ in range(2):  # a call is tried again once it has been asked for
        with pytest.raises(Refused):
            use(ledger)
        assert not ledger.refused
        assert ledger.needs.owner_ids == {7}

    settle(ledger, 1, Shares())
    use(ledger)

    ledger = ledger_of(**{limit: 0})
    with pytest.raises(Refused):
        use(ledger)
    assert ledger.refused.total() == 1


def test_games_in_one_partition_take_no_part():
    ledger = Ledger({**UNLIMITED_PLANS, "free": PlanLimits(calls_per_day_max=1)})
    ledger.has_others = True
    owner = ledger.open_game(1, 7, "free", (5,)).owner
    assert owner.shares is None
    assert owner.allowed is owner.limits
    assert ledger.count_call(1, NOW) == 0
    assert ledger.count_call(1, NOW) > 0
    assert ledger.needs.owner_ids == set()


def test_an_owner_who_gets_limits_shares_them_from_then_on():
    ledger = Ledger({**UNLIMITED_PLANS, "free": PlanLimits(calls_per_day_max=10)})
    ledger.has_others = True
    ledger.start_day_at(NOW)
    owner = ledger.open_game(1, 7, "unlimited", SPREAD).owner
    for _ in range(4):
        assert ledger.count_call(1, NOW) == 0
    ledger.set_plan(7, "free")
    assert owner.allowed.calls_per_day_max == 4  # what is used, and no more before it is granted
    ledger.set_plan(7, "unlimited")
    assert ledger.get_game_usage(1).owner.allowed == UNLIMITED
    assert ledger.count_call(1, NOW) == 0


def test_a_server_alone_shares_nothing():
    ledger = Ledger({**UNLIMITED_PLANS, "free": PlanLimits(calls_per_day_max=1)})
    assert ledger.open_game(1, 7, "free", SPREAD).owner.shares is None


def test_what_is_adopted_is_in_the_share_at_once_and_asked_for_as_well():
    ledger, shares = ledger_of(calls_per_day_max=100), Shares()
    owner = ledger.get_game_usage(1).owner
    settle(ledger, 0, shares)
    assert owner.shares is not None
    before = owner.shares.compute_allowed(owner.limits).calls_per_day_max
    assert owner.shares.is_settled(owner.count_used(), owner.limits)
    owner.adopt_share({"calls_per_day": 10})
    assert owner.shares.compute_allowed(owner.limits).calls_per_day_max == before + 10
    assert not owner.shares.is_settled(owner.count_used(), owner.limits)
    owner.adopt_share({"calls_per_day": -10})
    assert owner.shares.compute_allowed(owner.limits).calls_per_day_max == before


def test_who_counts_all_of_a_plan_has_no_share_that_could_grow():
    ledger = Ledger({**UNLIMITED_PLANS, "free": PlanLimits(calls_per_day_max=3)})
    ledger.start_day_at(NOW)
    ledger.open_game(1, 7, "free")
    owner = ledger.get_game_usage(1).owner
    owner.adopt_share({"calls_per_day": 10})
    assert owner.shares is None
    assert [ledger.count_call(1, NOW) for _ in range(3)] == [0, 0, 0]
    assert ledger.count_call(1, NOW) > 0
