"""Memory that rooms and lobbies hold, by owner, address and server; and bytes written in a day."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from greenroom.actors.plans.address_counts import AddressCounts, share_key
from greenroom.actors.plans.holdings import Holding, Holdings, Weight
from greenroom.actors.plans.ledger import CALL_BYTES, DAY_SECONDS, Ledger
from greenroom.actors.plans.plan import UNLIMITED_PLANS, UNLIMITED_SERVER, PlanLimits, ServerLimits
from greenroom.actors.plans.refusals import RoomsRefused, TooManyRooms

HERE, THERE, ELSEWHERE, HOME = "203.0.113.7", "203.0.113.8", "203.0.113.9", "127.0.0.1"
NOON = 20_000 * DAY_SECONDS + DAY_SECONDS // 2


ADA, BOB = 1, 2
"""Players."""


class Place:
    """A room that holds what it is told to."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.count = 1
        self.brought = Counter[int]()

    def weigh(self) -> Weight:
        return Weight(self.count, self.size + self.brought.total(), +self.brought)


def ledger_of(server: ServerLimits = UNLIMITED_SERVER, **limits: float) -> Ledger:
    """Game 1 of owner 7, whose plan has these limits, and game 2 of owner 8, whose has none."""
    ledger = Ledger({**UNLIMITED_PLANS, "free": PlanLimits(**limits)}, 0.25, server)
    ledger.open_game(1, 7, "free")
    ledger.open_game(2, 8, "unlimited")
    return ledger


class Rooms:
    """Makes rooms as flows and actors do."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.addresses: dict[int, str] = {}
        """Those of players in memory."""
        self.holdings = Holdings(ledger, lambda i: share_key(self.addresses.get(i, "")))
        self.made = 0

    def make(self, size: int = 10, address: str = HERE, game_id: int = 1) -> tuple[Place, Holding]:
        key, place = f"room {self.made}", Place(size)
        self.holdings.note_maker(key, address)
        self.holdings.check_new(game_id, key, size)
        self.made += 1
        return place, self.holdings.begin_counting(key, game_id, place.weigh)

    def make_all(self, **what: int | str) -> int:
        """Make as many as there may be."""
        made = 0
        while made < 1_000:
            try:
                self.make(**what)  # type: ignore[arg-type]
            except RoomsRefused:
                return made
            made += 1
        raise AssertionError("there is no end")


def test_a_plan_allows_so_many_rooms_and_an_address_a_share_of_them():
    rooms = Rooms(ledger_of(rooms_max=8))

    assert [rooms.make_all(address=address) for address in (HERE, THERE)] == [2, 2]
    assert rooms.make_all(address=HOME) == 4
    with pytest.raises(TooManyRooms):
        rooms.make(address="203.0.113.9")
    rooms.make(game_id=2)  # what one owner has used is nothing to another
    assert rooms.ledger.refused == {"rooms by plan and address": 2, "rooms by plan": 2}


def test_an_end_gives_its_place_back():
    rooms = Rooms(ledger_of(rooms_max=4))
    place, holding = rooms.make()
    with pytest.raises(TooManyRooms):
        rooms.make()
    place.count = 0
    holding.weigh()
    rooms.make()


@pytest.mark.parametrize(
    ("server", "plan", "by_address"),
    [(1_000, 1e9, 25), (1e9, 1_000, 25), (1_000, 400, 10)],
    ids=["of the server", "of the plan", "of the smaller of both"],
)
def test_rooms_hold_so_many_bytes_and_an_address_has_a_share_of_them(
    server: float, plan: float, by_address: int
):
    limits = ServerLimits(rooms_bytes_max=server)
    rooms = Rooms(ledger_of(limits, rooms_bytes_max=plan))

    assert rooms.make_all(address=HERE) == by_address
    assert rooms.make_all(address=THERE) == by_address
    assert rooms.make_all(address=HOME) == 2 * by_address


def test_the_server_refuses_whatever_the_plan():
    rooms = Rooms(ledger_of(ServerLimits(rooms_bytes_max=100)))
    rooms.make(size=100, address=HOME, game_id=2)

    with pytest.raises(RoomsRefused):
        rooms.make(size=1, address=HERE)
    assert rooms.ledger.refused == {"room bytes by server": 1}


def test_a_room_grows_within_the_same_bounds():
    rooms = Rooms(ledger_of(ServerLimits(rooms_bytes_max=400)))
    place, holding = rooms.make(size=60)
    holding.admit(40)
    with pytest.raises(RoomsRefused):
        holding.admit(41)
    place.size = 20
    holding.weigh()
    holding.admit(80)


def bring(place: Place, holding: Holding, player_id: int, size: int) -> None:
    """Let a player bring something, as an actor does."""
    holding.admit_from(player_id, size)
    place.brought[player_id] += size
    holding.grow({player_id: size})


def test_what_players_bring_counts_for_their_own_addresses():
    rooms = Rooms(ledger_of(rooms_bytes_max=400))
    rooms.addresses = {ADA: HERE, BOB: THERE}
    place, holding = rooms.make(size=10, address=HERE)
    bring(place, holding, BOB, 100)
    with pytest.raises(RoomsRefused):
        bring(place, holding, BOB, 1)
    with pytest.raises(RoomsRefused):
        rooms.make(size=1, address=THERE)
    bring(place, holding, ADA, 90)
    with pytest.raises(RoomsRefused):
        bring(place, holding, ADA, 1)
    place.brought[BOB] -= 60
    holding.grow({BOB: -60})
    rooms.make(size=60, address=THERE)
    assert rooms.holdings.rooms_bytes == 200


def test_who_is_not_known_counts_for_the_maker_until_they_are():
    rooms = Rooms(ledger_of(rooms_bytes_max=400))
    place, holding = rooms.make(size=10, address=HERE)
    bring(place, holding, BOB, 90)
    with pytest.raises(RoomsRefused):
        bring(place, holding, BOB, 1)
    rooms.addresses[BOB] = THERE
    bring(place, holding, BOB, 10)
    rooms.make(size=90, address=HERE)
    with pytest.raises(RoomsRefused):
        rooms.make(size=1, address=THERE)


def test_what_a_player_has_brought_stays_where_it_came_from_wherever_they_go():
    rooms = Rooms(ledger_of(rooms_bytes_max=400))
    rooms.addresses[BOB] = THERE
    place, holding = rooms.make(size=10, address=HERE)
    bring(place, holding, BOB, 100)
    rooms.addresses[BOB] = ELSEWHERE
    for _ in range(2):
        for more in (1, 100):
            with pytest.raises(RoomsRefused):
                bring(place, holding, BOB, more)
        with pytest.raises(RoomsRefused):
            rooms.make(size=1, address=THERE)
        holding.weigh()
        rooms.addresses.pop(BOB, "")
    rooms.make(size=100, address=ELSEWHERE)
    del place.brought[BOB]
    holding.weigh()
    rooms.make(size=100, address=THERE)


@pytest.mark.parametrize("maker", [HERE, THERE, HOME])
def test_who_goes_from_address_to_address_fills_no_more_than_their_shares(maker: str):
    """A player may call from one address, and go on from another; so may many."""
    rooms = Rooms(ledger_of(rooms_bytes_max=4_000))
    made = [rooms.make(size=0, address=maker) for _ in range(40)]
    for player_id, (place, holding) in enumerate(made, 1):
        for address in (HERE, THERE, HERE):
            rooms.addresses[player_id] = address
            holding.weigh()
            with suppress(RoomsRefused):
                bring(place, holding, player_id, 100)
    assert rooms.holdings.rooms_bytes == 2_000
    rooms.make(size=1_000, address=ELSEWHERE)


def test_a_room_counts_for_whom_its_lobby_was_made():
    rooms = Rooms(ledger_of(rooms_bytes_max=400))
    _, lobby = rooms.make(size=50)
    room = rooms.holdings.begin_counting("another", 1, Place(50).weigh, "room 0")
    with pytest.raises(RoomsRefused):
        rooms.make(size=1)
    lobby.release()
    room.release()
    rooms.make(size=100)


def test_what_is_restored_counts_for_its_owner_and_for_no_address():
    rooms = Rooms(ledger_of(rooms_bytes_max=400))
    rooms.holdings.begin_counting("restored", 1, Place(350).weigh)
    rooms.make(size=50)
    with pytest.raises(RoomsRefused):
        rooms.make(size=1, address=THERE)


def test_rooms_of_a_deleted_game_are_its_owners_no_more():
    rooms = Rooms(ledger_of(rooms_max=4, rooms_bytes_max=400))
    _, holding = rooms.make(size=100)
    rooms.ledger.forget_game(1)
    rooms.ledger.open_game(3, 7, "free")
    assert rooms.ledger.get_owner_usage(7, "free").bytes_held["rooms"] == 0
    holding.release()
    owner = rooms.ledger.get_owner_usage(7, "free")
    assert (owner.rooms, owner.bytes_held["rooms"], owner.bytes_from["rooms"].get_count(HERE)) == (
        0,
        0,
        0,
    )
    assert (rooms.holdings.rooms, rooms.holdings.rooms_bytes) == (0, 0)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["make", "bring", "drop", "move", "weigh", "end", "release"]),
            st.integers(0, 5),
            st.integers(0, 60),
            st.sampled_from([HERE, THERE, HOME, "", "2001:db8::1", "2001:db8::2"]),
        ),
        max_size=60,
    )
)
def test_whatever_happens_it_adds_up(steps: list[tuple[str, int, int, str]]):
    rooms = Rooms(ledger_of(ServerLimits(rooms_bytes_max=300), rooms_max=6, rooms_bytes_max=200))
    alive: list[tuple[Place, Holding]] = []
    for what, number, size, address in steps:
        if what == "make":
            try:
                alive.append(rooms.make(size, address, game_id=1 + number % 2))
            except RoomsRefused:
                continue
        elif what == "move":
            rooms.addresses[number % 3] = address
        elif alive:
            place, holding = alive[number % len(alive)]
            if what == "release":
                holding.release()
                alive.remove((place, holding))
                continue
            place.count = 0 if what == "end" else place.count
            player_id = size % 3
            if what == "bring":
                with suppress(RoomsRefused):
                    bring(place, holding, player_id, size)
            elif what == "drop":
                fewer = place.brought.pop(player_id, 0)
                holding.grow({player_id: -fewer})
            else:
                place.size = size
                holding.weigh()
        found = [place.weigh() for place, _ in alive]
        wanted = sum(weight.rooms for weight in found), sum(weight.size for weight in found)
        owners = rooms.ledger.list_owners()
        assert (rooms.holdings.rooms, rooms.holdings.rooms_bytes) == wanted
        assert (sum(o.rooms for o in owners), sum(o.bytes_held["rooms"] for o in owners)) == wanted
    for _, holding in alive:
        holding.release()
    for owner in rooms.ledger.list_owners():
        assert (owner.rooms, owner.bytes_held["rooms"]) == (0, 0)
        assert (len(owner.rooms_from), len(owner.bytes_from["rooms"])) == (0, 0)


def test_addresses_beyond_those_that_are_remembered_share_counts():
    counts = AddressCounts(addresses_max=1)
    counts.add(HERE, 5)
    counts.add(THERE, 7)
    assert (len(counts), counts.get_count(HERE), counts.get_count(THERE)) == (1, 5, 7)
    counts.subtract(THERE, 6)
    counts.subtract(HERE, 5)
    assert (len(counts), counts.get_count(HERE), counts.get_count(THERE)) == (0, 0, 1)


# What is written in a day.


def written(ledger: Ledger, address: str, size: int, game_id: int = 1, now: int = NOON) -> int:
    """Write as much as may be, so many bytes a call; return how many calls there were."""
    calls = 0
    while calls < 1_000 and not ledger.count_written(game_id, address, size, now):
        calls += 1
    return calls


def test_an_address_writes_its_share_of_a_day_and_others_write_on():
    ledger = ledger_of(written_bytes_per_day_max=40 * (1_000 + CALL_BYTES))

    assert [written(ledger, address, 1_000) for address in (HERE, THERE)] == [10, 10]
    assert written(ledger, HOME, 1_000) == 20
    assert written(ledger, "203.0.113.9", 1_000) == 0
    assert written(ledger, HERE, 1_000, game_id=2) == 1_000
    assert ledger.refused == {"written bytes by address": 2, "written bytes by plan": 2}


def test_the_server_writes_so_much_a_day_whatever_the_plans():
    ledger = ledger_of(ServerLimits(written_bytes_per_day_max=8 * (1_000 + CALL_BYTES)))

    assert written(ledger, HERE, 1_000, game_id=2) == 2
    assert written(ledger, HOME, 1_000, game_id=2) == 6
    assert written(ledger, HOME, 1_000) == 0


def test_the_next_day_begins_at_midnight_utc():
    ledger = ledger_of(written_bytes_per_day_max=1_000 + CALL_BYTES)

    assert ledger.count_written(1, HOME, 1_000, NOON) == 0
    assert ledger.count_written(1, HOME, 1, NOON) == DAY_SECONDS // 2
    assert ledger.count_written(1, HOME, 1_000, NOON + DAY_SECONDS // 2) == 0
