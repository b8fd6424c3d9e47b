"""Lobbies driven at random against a simple model, with crashes and restarts thrown in."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from lobby_kit import TOKEN, LobbyKit

from greenroom.actors.kernel.errors import Refused
from greenroom.actors.kernel.journal import Snapshot
from greenroom.actors.lobby import codec

PLAYERS = st.integers(1, 6)


class LobbyMachine(RuleBasedStateMachine):
    """Players come, ask, go, fall silent; the host does what hosts do; the server crashes."""

    kit: LobbyKit
    saved: Snapshot | None = None

    @initialize(
        host_switch=st.booleans(),
        by_requests=st.booleans(),
        strict=st.booleans(),
        size=st.integers(2, 4),
    )
    def open(self, host_switch: bool, by_requests: bool, strict: bool, size: int) -> None:
        self.kit = LobbyKit(
            host_switch=host_switch,
            join_by_requests=by_requests,
            strict_full=strict,
            max_players=size,
        )
        self.requests: dict[str, int] = {}

    def attempt(self, act: Callable[[], object]) -> bool:
        """Do something; what is refused must change nothing. Returns whether it was done."""
        before, entries = codec.snapshot(self.kit.lobby), len(self.kit.entries)
        try:
            act()
        except Refused:
            assert codec.snapshot(self.kit.lobby) == before
            assert len(self.kit.entries) == entries
            return False
        return True

    @rule(player_id=PLAYERS, has_token=st.booleans())
    def join(self, player_id: int, has_token: bool) -> None:
        lobby = self.kit.lobby
        may = (
            lobby.is_open
            and player_id not in lobby.members
            and len(lobby.members) < lobby.max_players
            and (has_token or not lobby.join_by_requests)
        )
        token = TOKEN if has_token else None
        assert self.attempt(lambda: self.kit.join(player_id, join_token=token)) == may

    @rule(player_id=PLAYERS)
    def ask(self, player_id: int) -> None:
        lobby = self.kit.lobby
        may = (
            lobby.is_open
            and lobby.join_by_requests
            and player_id not in lobby.members
            and len(lobby.members) < lobby.max_players
            and all(request.player_id != player_id for request in lobby.pending.values())
        )

        def act() -> None:
            self.requests[self.kit.request(player_id)] = player_id

        assert self.attempt(act) == may

    @precondition(lambda self: self.requests)
    @rule(player_id=PLAYERS, data=st.data(), is_approved=st.booleans())
    def answer(self, player_id: int, data: st.DataObject, is_approved: bool) -> None:
        """Answer; as flows do, approve nobody who has a seat."""
        request_id = data.draw(st.sampled_from(sorted(self.requests)))
        lobby = self.kit.lobby
        may = request_id in lobby.pending and player_id == lobby.host_id
        if is_approved:
            if self.requests[request_id] in lobby.members:
                return
            may = may and len(lobby.members) < lobby.max_players
            assert self.attempt(lambda: self.kit.approve(player_id, request_id)) == may
        else:
            assert self.attempt(lambda: self.kit.reject(player_id, request_id)) == may

    @rule(player_id=PLAYERS)
    def leave(self, player_id: int) -> None:
        may = self.kit.lobby.is_open and player_id in self.kit.lobby.members
        assert self.attempt(lambda: self.kit.leave(player_id)) == may

    @rule(player_id=PLAYERS)
    def put_out(self, player_id: int) -> None:
        assert self.attempt(lambda: self.kit.put_out(player_id))

    @rule(player_id=PLAYERS, target_id=PLAYERS)
    def kick(self, player_id: int, target_id: int) -> None:
        lobby = self.kit.lobby
        may = lobby.is_open and player_id == lobby.host_id and target_id in lobby.members
        assert self.attempt(lambda: self.kit.kick(player_id, target_id)) == (
            may and target_id != player_id
        )

    @rule(player_id=PLAYERS)
    def change_presence(self, player_id: int) -> None:
        self.kit.offline ^= {player_id}

    @rule(player_id=PLAYERS, really=st.integers(0, 3))
    def start(self, player_id: int, really: int) -> None:
        lobby = self.kit.lobby
        there = {*self.kit.online, player_id} & lobby.members.keys()
        may = lobby.is_open and player_id == lobby.host_id
        may = may and (not lobby.strict_full or len(there) == lobby.max_players)
        if not may:
            assert not self.attempt(lambda: self.kit.start(player_id))
            return
        if really:  # one start in four, or few lobbies would live for long
            return
        room = self.kit.start(player_id)
        assert {m.player_id for m in room.members} == there == lobby.members.keys()

    @rule()
    def save(self) -> None:
        self.saved = codec.snapshot(self.kit.lobby)

    @rule()
    def crash(self) -> None:
        """Come back from the last snapshot and the journal."""
        before = codec.snapshot(self.kit.lobby)
        self.kit.lobby = self.kit.restored(self.saved)
        assert codec.snapshot(self.kit.lobby) == before

    @invariant()
    def lobby_is_sound(self) -> None:
        lobby = self.kit.lobby
        assert len(lobby.members) <= lobby.max_players
        assert lobby.is_active == (lobby.host_id in lobby.members) == bool(lobby.members)
        assert not lobby.pending or lobby.is_open
        assert not lobby.pending.keys() & lobby.answered.keys()
        pending = [request.player_id for request in lobby.pending.values()]
        assert len(pending) == len(set(pending))
        assert all(request.status != "pending" for request in lobby.answered.values())

    def teardown(self) -> None:
        assert codec.snapshot(self.kit.restored()) == codec.snapshot(self.kit.lobby)


TestLobbyMachine = LobbyMachine.TestCase
TestLobbyMachine.settings = settings(max_examples=60, stateful_step_count=40)
