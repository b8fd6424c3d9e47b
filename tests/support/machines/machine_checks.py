"""Invariants of a world at every moment, and when it has come to rest."""

from __future__ import annotations

from collections import Counter
from typing import Any

import trio
from machine_calls import check_page
from machine_ledger import Key, Place
from machine_world import CALL_SECONDS_MAX, MachineWorld
from room_kit import facts

from greenroom.actors.flows.friends import list_friends
from greenroom.actors.flows.invites import invites_to
from greenroom.actors.friendship.messages import Pair
from greenroom.actors.kernel.cell import Cell
from greenroom.actors.kernel.journal import Recovered
from greenroom.actors.lobby.state import Lobby
from greenroom.actors.lobby.state import weigh as lobby_weight
from greenroom.actors.player.memory import held_bytes
from greenroom.actors.player.messages import ReadPlayerDocument
from greenroom.actors.room.messages import PollUpdates, ReadPending, ReadResults, ReadRoster
from greenroom.actors.room.rules.groups import read_sources
from greenroom.actors.room.rules.state import Room, weigh_updates
from greenroom.actors.room.rules.state import weigh as room_weight
from greenroom.actors.world.rooms_and_lobbies import Journalled
from greenroom.behaviour.stats import read

RESULT_SECONDS_MAX = 3_600


class WorldChecks:
    """Compares a machine's world with its ledger."""

    def __init__(self, machine: MachineWorld) -> None:
        self.machine = machine
        self.ledger = machine.ledger

    # At every moment.

    def moment(self) -> None:
        """Check what holds whatever is under way."""
        world, machine = self.machine.world, self.machine
        now = machine.run(_now)
        late = [call.name for call in machine.calls if now - call.began > CALL_SECONDS_MAX]
        assert not late, f"not answered: {late}"
        if not machine.calls:
            assert not world.seats._claims, f"claims were left behind: {world.seats._claims}"
            assert not world.friendships._under_way, "tallies were left behind"
        seats: list[int] = []
        for place in (world.rooms, world.lobbies):
            for cell in machine.cells(place.loader.kind):
                state = _state(cell)
                if state is not None:
                    self._sound(place, cell, state)
                    seats += state.members if _is_seated(state) else []
        twice = [player_id for player_id, count in Counter(seats).items() if count > 1]
        assert not twice, f"players {twice} have two seats"
        self._index()
        self._pairs()
        self._held()

    def _held(self) -> None:
        """Check that what rooms, lobbies and players hold adds up."""
        world, machine = self.machine.world, self.machine
        states = [_state(c) for kind in ("room", "lobby") for c in machine.cells(kind)]
        found = [room_weight(s) if isinstance(s, Room) else lobby_weight(s) for s in states if s]
        wanted = sum(weight.rooms for weight in found), sum(weight.size for weight in found)
        for room in (state for state in states if isinstance(state, Room)):
            kept = Counter[int]()
            for sending in room.sendings:
                sender_id, size = weigh_updates(sending.event)
                kept[sender_id] += size
            assert room.kept_by_sender == kept, "kept updates are counted for others"
        holdings = world.rooms.index.holdings
        found_now = holdings.rooms, holdings.rooms_bytes
        assert found_now == wanted, f"rooms hold {wanted}, and {found_now} is counted"
        records = [vars(c.actor)["_record"] for c in machine.cells("player") if c.actor]
        held = sum(held_bytes(record) for record in records if record is not None)
        counted = world.player_index.memory.size
        assert counted == held, f"players hold {held}, and {counted} is counted"

    def _pairs(self) -> None:
        """Check that pairs in memory are what is durable, if nothing of theirs is under way."""
        for cell in self.machine.cells("friendship"):
            if cell.actor is not None and cell.in_flight is None:
                found = vars(cell.actor)["_friendship"]
                held = None if found is None else (found.status, found.requested_by)
                _same(cell.label, held, self.ledger.friendships.get(cell.key))

    def _sound(self, place: Journalled[Any, Any], cell: Cell[Any], state: Room | Lobby) -> None:
        assert len(state.members) <= state.max_players, f"{cell.label} holds more than it may"
        has_host = state.host_id in state.members
        assert has_host == state.is_active == bool(state.members), f"{cell.label} has no host"
        if cell.in_flight is not None:
            return
        model = self.ledger.places.get((place.loader.kind, cell.key))
        assert model is not None, f"{cell.label} is not durable"
        _same(cell.label, told(state), expected(model))

    def _index(self) -> None:
        """Check that the table of seats says what rosters say, where a roster is in memory.

        Whoever has left keeps the seat until that is durable.
        """
        world = self.machine.world
        rosters: dict[Key, Room | Lobby] = {}
        settled: set[Key] = set()
        for kind in ("room", "lobby"):
            for cell in self.machine.cells(kind):
                state = _state(cell)
                if state is not None:
                    rosters[kind, cell.key] = state
                    if cell.in_flight is None:
                        settled.add((kind, cell.key))
        for key, state in rosters.items():
            for player_id in state.members if _is_seated(state) else ():
                seat = world.rooms.index._table.find(player_id)
                assert seat == key, f"{player_id} is in {key}, the index says {seat}"
        for player_id in world.rooms.index._table._seats:
            seat = world.rooms.index._table.find(player_id)
            if seat in settled:
                state = rosters[seat]
                assert _is_seated(state), f"{player_id} has a seat in {seat}, which has none"
                assert player_id in state.members, f"{player_id} is not in {seat}"

    # At rest.

    def rest(self) -> None:
        """Let everything come to rest, and check that it stands as the ledger says."""
        self.machine.rest()
        ledger, world = self.ledger, self.machine.world
        ledger.check_seats()
        for place in ledger.places.values():
            if not place.is_over:
                self.machine.run(lambda place=place: self._place(place))  # type: ignore[misc]
        self.moment()
        seats = world.rooms.index._table._seats
        _same("the index of seats", seats, dict(ledger.seats()))
        self._invites_and_requests()
        self.machine.run(self._friends)
        self.machine.run(self._stats)

    async def _place(self, model: Place) -> None:
        """Check one room or lobby: memory, journal and snapshot are one, and members see it."""
        kind, key = model.key
        world = self.machine.world
        place: Journalled[Any, Any] = world.rooms if kind == "room" else world.lobbies
        cell = next((c for c in self.machine.cells(kind) if c.key == key), None)
        assert cell is not None, f"{model.key} is not in memory"
        state = _state(cell)
        assert state is not None, f"{cell.label} did not come back"
        recovered = await place.loader.journals.recover(kind, key)
        assert recovered is not None
        entries = self.machine.store.journals.entries[key]
        for source in (recovered, Recovered(None, entries)):
            again = place.loader.restore(source)
            assert again is not None
            _same(f"{cell.label}, replayed", durable_facts(again), durable_facts(state))
        if isinstance(state, Room):
            for player_id in model.members:
                await self._member(model, player_id)
                await self._read_on(model, player_id)

    async def _member(self, model: Place, player_id: int) -> None:
        room = self.machine.world.rooms.directory.get_ref(model.key[1])
        roster = await room.ask(ReadRoster(player_id))
        assert [entry.player_id for entry in roster if entry.is_host] == [model.host_id]
        assert {entry.player_id for entry in roster} == model.members.keys()
        pending = [a.action_id for a in await room.ask(ReadPending(player_id))]
        asked = [i for i, a in model.actions.items() if a.target_id == player_id]
        assert pending == asked[:50], "what waits for him is not what he was asked"
        now = self.machine.world.clock.now()
        done = [
            (action_id, asked.status)
            for action_id, asked in reversed(model.results.items())
            if asked.sender_id == player_id and now - asked.processed_at < RESULT_SECONDS_MAX
        ]
        results = [(a.action_id, a.status) for a in await room.ask(ReadResults(player_id))]
        assert results == done[:50], "what he sees is not what came of it"

    async def _read_on(self, model: Place, player_id: int) -> None:
        """Read all updates that a member has not read, as the member would."""
        room = self.machine.world.rooms.directory.get_ref(model.key[1])
        stay = model.members[player_id]
        while True:
            sources = read_sources("all", None)
            page = await room.ask(PollUpdates(player_id, sources, stay.cursor))
            position = check_page(stay.updates, stay.cursor, page)
            gone = sum(number < model.kept_from for number in stay.numbers[position:])
            assert page.missed == gone, f"{page.missed} are said to be missed, {gone} are"
            if not page.updates:
                kept = stay.updates[position + gone :]
                assert not kept, f"{player_id} was not given his last updates"
                return
            stay.cursor = page.last_update

    def _invites_and_requests(self) -> None:
        world, places = self.machine.world, self.ledger.places.values()
        open_invites = {
            (player_id, invite_id)
            for place in places
            for player_id, (invite_id, is_accepted) in place.invites.items()
            if not is_accepted
        }
        shown = {
            (player_id, view.invite_id)
            for player_id in self.machine.ids
            for view in invites_to(world, player_id)
        }
        assert shown == open_invites, "invites are not shown as they are"
        requests = {i for place in places for i in (*place.requests, *place.answers)}
        assert world.lobbies.index._requests.keys() == requests, "requests are not known"
        for player_id in self.machine.ids:
            waiting = [i for place in places for i in place.requests.values() if i == player_id]
            counted = world.lobbies.index.count_pending_requests(player_id)
            assert counted == len(waiting), "requests are not counted as they are"

    async def _friends(self) -> None:
        """Check that the lists of any two players say the same of each other, and the truth."""
        world, game_id = self.machine.world, self.machine.game.game_id
        mirrored = {"friend": "friend", "incoming": "outgoing", "outgoing": "incoming"}
        seen: dict[tuple[int, int], str | None] = {}
        for player_id in self.machine.ids:
            lists = await list_friends(world, player_id)
            for friend in (*lists.friends, *lists.incoming, *lists.outgoing):
                assert (player_id, friend.player_id) not in seen, "a friend is listed twice"
                seen[player_id, friend.player_id] = friend.relationship
        for (player_id, other_id), relationship in seen.items():
            there = seen.get((other_id, player_id))
            assert there == mirrored[str(relationship)], "two lists do not say the same"
            status, by = self.ledger.friendships[Pair.make(game_id, player_id, other_id)]
            asked = "outgoing" if by == player_id else "incoming"
            _same("a friendship", relationship, "friend" if status == "accepted" else asked)
        assert len(seen) == 2 * len(self.ledger.friendships), "a friendship is not listed"

    async def _stats(self) -> None:
        """Check that nothing is lost, and that memory, database and rooms have what adds up."""
        book, world = self.ledger.stats, self.machine.world
        lost = {key: left for key, left in book.waiting.items() if left}
        assert not lost, f"changes of stats were lost: {lost}"
        rows = self.machine.store.players
        undead = book.gone & rows.keys()
        assert not undead, f"players {undead} are deleted, and in the database"
        for player_id in rows:
            wanted = book.values.get(player_id, {})
            _same(f"stats of {player_id}, stored", read(rows[player_id].stats), wanted)
            if not world.player_index.is_closed(player_id):
                held = await world.players.get_ref(player_id).ask(ReadPlayerDocument())
                _same(f"stats of {player_id}, in memory", read(held.stats), wanted)
        for cell in self.machine.cells("room"):
            state = _state(cell)
            assert isinstance(state, Room)
            for player_id, known in state.stats.items():
                wanted = book.values.get(player_id, {})
                _same(f"stats of {player_id} as {cell.label} has them", read(known.stats), wanted)


def told(state: Room | Lobby) -> dict[str, Any]:
    """Return what a live room or lobby says of itself, in the words of the ledger."""
    found: dict[str, Any] = {
        "members": list(state.members),
        "host": state.host_id if state.is_active else None,
        "is over": not state.is_active,
        "version": state.version,
        "invites": {i: (v.invite_id, v.is_accepted) for i, v in state.invites.items()},
    }
    if isinstance(state, Lobby):
        found["room"] = state.room_id
        found["requests"] = {r.request_id: r.player_id for r in state.pending.values()}
        return found
    found["updates"] = state.last_number
    found["received"] = {m.player_id: m.received for m in state.members.values()}
    found["actions"] = {a.action_id: (a.sender_id, a.target_id) for a in state.actions.values()}
    return found


def expected(model: Place) -> dict[str, Any]:
    """The same of the ledger's."""
    found: dict[str, Any] = {
        "members": list(model.members),
        "host": None if model.is_over else model.host_id,
        "is over": model.is_over,
        "version": model.version,
        "invites": model.invites,
    }
    if model.key[0] == "lobby":
        return {**found, "room": model.room_id, "requests": model.requests}
    found["updates"] = model.last_number
    found["received"] = {i: len(stay.updates) for i, stay in model.members.items()}
    found["actions"] = {i: (a.sender_id, a.target_id) for i, a in model.actions.items()}
    return found


def durable_facts(state: Room | Lobby) -> Any:
    """A whole state as plain values, but for what is soft: it begins anew at a restart."""
    if isinstance(state, Lobby):
        return state
    known = facts(state)
    known["silent_since"] = known["silent_since"] is not None
    for member in known["members"].values():
        member["offline_since"] = member["offline_since"] is not None
    return known


def _same(what: str, found: Any, wanted: Any) -> None:
    assert found == wanted, f"{what} is\n{found}\nand should be\n{wanted}"


def _state(cell: Cell[Any]) -> Room | Lobby | None:
    """The state of a room or lobby that is in memory and has one."""
    state = None if cell.actor is None else vars(cell.actor)["_state"]
    assert state is None or isinstance(state, Room | Lobby)
    return state


def _is_seated(state: Room | Lobby) -> bool:
    return isinstance(state, Room) or state.is_open


async def _now() -> float:
    return trio.current_time()
