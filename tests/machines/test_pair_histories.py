"""The checker of pairs of players: what it lets pass, and what it finds."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import AsyncIterator
from typing import Any

import pytest
import trio
from crowd_kit import Crowd
from history_clients import Book
from pair_kit import LOBBIES, PlayerPair, Someone
from pair_model import ACTIONS, Together, next_state
from server_kit import ConnectionLost, ServerProcess, TrioClient

from greenroom.control.admin.player_messages import DeletePlayer
from greenroom.control.client import call
from greenroom.control.errors import SocketError
from greenroom.control.protocol import socket_path


class Trick:
    """A client's connection, on which calls of some paths meet with an accident."""

    def __init__(self, real: TrioClient) -> None:
        self.real = real
        self.lost: str | None = None
        """The next call of a path with this at its end comes late, and its answer is lost."""
        self.lied: str | None = None
        """A call of a path with this at its end is answered, and never comes."""
        self.on_call: dict[str, list[tuple[Any, ...]]] = {}
        """Calls that arrive once others have been answered, by the end of their paths."""
        self.late: list[tuple[Any, ...]] = []

    async def call(self, *call: Any) -> tuple[int, Any]:
        path = call[1]
        if self.lost and path.endswith(self.lost):
            self.late.append(call)
            self.lost = None
            raise ConnectionLost
        if self.lied and path.endswith(self.lied):
            return 200, {"success": True}
        answer = await self.real.call(*call)
        for end, calls in self.on_call.items():
            if path.endswith(end):
                await self.arrive(calls)
        return answer

    async def arrive(self, calls: list[tuple[Any, ...]]) -> None:
        """Have calls reach the server that nobody waits for any more."""
        while calls:
            await self.real.call(*calls.pop(0))

    async def close(self) -> None:
        await self.real.close()


class Play:
    """A pair on a real server, whose calls may meet with accidents."""

    def __init__(self, server: ServerProcess) -> None:
        self.crowd = Crowd(server, server.new_game())
        self.pair = PlayerPair(self.crowd, "of two", random.Random(1), Book())
        self.host, self.guest = self._trick(self.pair.host), self._trick(self.pair.guest)

    def _trick(self, one: Someone) -> Trick:
        trick = Trick(vars(one)["_client"])
        vars(one)["_client"] = trick
        return trick

    async def register(self) -> None:
        await self.pair.host.register()
        await self.pair.guest.register()

    async def take(self, *actions: str) -> None:
        for action in actions:
            await self.pair.take(action)

    async def lose(self, action: str, end: str, by: Trick | None = None) -> None:
        """Do something whose answer is lost, and that comes late."""
        (by or self.host).lost = end
        with pytest.raises(ConnectionLost):
            await self.pair.take(action)

    async def close(self) -> None:
        await self.host.close()
        await self.guest.close()


@pytest.fixture
async def play(server: ServerProcess) -> AsyncIterator[Play]:
    playing = Play(server)
    await playing.register()
    yield playing
    await playing.close()


@pytest.mark.slow
async def test_the_model_is_what_the_server_does_in_each_state(server: ServerProcess) -> None:
    playing = Play(server)
    await playing.register()
    pair, state, told = playing.pair, Together(), 0
    open_ways = {(state, action) for state in _states() for action in ACTIONS}
    assert len(open_ways) > 500
    while open_ways:
        action = _way_to(open_ways, state)
        is_new = (state, action) in open_ways
        open_ways.discard((state, action))
        status, answer = await pair.ask(action)
        after = next_state(state, action)
        assert (status == 200) == (after is not None), (state, action, after, answer)
        is_approval_refused = action == "approve" and state.requests and after is None
        if is_approval_refused:  # which rejects
            after = state._replace(requests=False)
        if is_new and after is not None:
            assert await pair.see() == after, (state, action)
            told += 1
        state = after or state
    assert told > 100
    await playing.close()


def _states() -> set[Together]:
    """Return the states that the model can be in."""
    found, left = {Together()}, [Together()]
    while left:
        state = left.pop()
        new = {after for each in ACTIONS if (after := next_state(state, each))} - found
        found |= new
        left += new
    return found


def _way_to(open_ways: set[tuple[Together, str]], state: Together) -> str:
    """Return the next action on the shortest way to one that was not tried; refused ones first."""
    queue: deque[tuple[Together, str]] = deque([(state, "")])
    found = {state}
    while queue:
        at, first = queue.popleft()
        untried = [action for action in ACTIONS if (at, action) in open_ways]
        untried.sort(key=lambda action: next_state(at, action) is not None)
        if untried:
            return first or untried[0]
        for action in ACTIONS:
            after = next_state(at, action)
            if after is not None and after not in found:
                found.add(after)
                queue.append((after, first or action))
    raise AssertionError(f"there is no way from {state}")


# What may be.


async def test_a_call_in_doubt_may_come_after_it_was_looked_for(play: Play) -> None:
    await play.lose("ask", "/request")
    await play.pair.look()
    assert play.pair.state == Together()
    await play.take("open")
    await play.host.arrive(play.host.late)
    await play.pair.look()
    assert play.pair.state == Together("asked", "lobby")


async def test_a_call_in_doubt_may_come_while_it_is_looked_for(play: Play) -> None:
    await play.take("open", "request")
    await play.lose("start", "/start")
    play.host.on_call[f"{LOBBIES}/current"] = play.host.late  # the host's lobby, not yet the room
    await play.pair.look()
    assert play.pair.state == Together(host_in="room")


async def test_what_a_call_in_doubt_has_ended_may_be_refused(play: Play) -> None:
    await play.take("open")
    await play.lose("dissolve", "/remove")
    await play.pair.look()
    await play.host.arrive(play.host.late)
    await play.take("request")
    assert play.pair.must_look
    await play.pair.look()
    assert play.pair.state == Together()


async def test_a_call_in_doubt_may_never_happen(play: Play) -> None:
    await play.lose("ask", "/request")
    for _ in range(3):
        await play.pair.look()
        await play.take("open", "dissolve")
    play.pair.close_book()


async def test_a_pair_is_over_after_some_calls_in_doubt(play: Play) -> None:
    for action, end in (("ask", "/request"), ("open", "/create"), ("open", "/create")):
        assert not play.pair.is_over
        await play.lose(action, end)
        await play.pair.look()
    assert play.pair.is_over


# What may not be.


async def test_an_acknowledged_change_that_is_lost_is_found(play: Play) -> None:
    play.host.lied = "/create"
    await play.take("open")
    with pytest.raises(AssertionError, match="not linearizable"):
        await play.pair.look()


async def test_a_lost_change_is_found_though_another_is_in_doubt(play: Play) -> None:
    await play.lose("ask", "/request")
    await play.pair.look()
    play.host.lied = "/create"
    await play.take("open")
    with pytest.raises(AssertionError, match="not linearizable"):
        await play.pair.look()


async def test_a_change_that_was_never_sent_is_found(play: Play) -> None:
    await play.take("open")
    await play.lose("ask", "/request")
    await play.pair.look()
    await play.host.real.call("POST", f"{LOBBIES}/remove", b"", token_of(play.pair.host))
    with pytest.raises(AssertionError, match="not linearizable"):
        await play.pair.look()


async def test_a_call_in_doubt_that_happens_twice_is_found(play: Play) -> None:
    await play.lose("ask", "/request")
    twice = play.host.late * 2
    await play.host.arrive(twice[1:])
    await play.pair.look()
    assert play.pair.state == Together("asked")
    await play.take("decline")
    await play.host.arrive(play.host.late)
    with pytest.raises(AssertionError, match="not linearizable"):
        await play.pair.look()


async def test_a_call_that_happens_twice_is_found_though_another_is_in_doubt(play: Play) -> None:
    await play.lose("open", "/create")
    await play.pair.look()
    await play.lose("ask", "/request")
    twice = play.host.late[1:] * 2
    await play.host.arrive(twice[1:])
    await play.pair.look()
    await play.take("decline")
    await play.host.arrive(twice[:1])
    with pytest.raises(AssertionError, match="not linearizable"):
        await play.pair.look()


async def test_a_refusal_is_found_where_no_call_is_in_doubt(play: Play) -> None:
    await play.take("open")
    await play.host.real.call("POST", f"{LOBBIES}/remove", b"", token_of(play.pair.host))
    with pytest.raises(AssertionError, match="lobby not found"):
        await play.take("request")


async def test_a_call_in_doubt_that_was_seen_to_happen_excuses_no_refusal(play: Play) -> None:
    await play.lose("open", "/create")
    await play.host.arrive(play.host.late)
    await play.pair.look()
    await play.host.real.call("POST", f"{LOBBIES}/remove", b"", token_of(play.pair.host))
    with pytest.raises(AssertionError, match="lobby not found"):
        await play.take("request")


# Deletions.


async def test_a_pair_is_over_once_its_guest_is_deleted(play: Play) -> None:
    await play.take("ask", "accept", "open", "request", "approve")
    await play.pair.delete_guest()
    await play.pair.look()
    assert play.pair.is_over


@pytest.mark.parametrize("is_done", [False, True])
async def test_a_deletion_in_doubt_may_happen_or_not(
    play: Play, monkeypatch: pytest.MonkeyPatch, *, is_done: bool
) -> None:
    def lose(*arguments: Any) -> None:
        if is_done:
            call(*arguments)
        raise SocketError("no answer")

    monkeypatch.setattr("pair_kit.call", lose)
    await play.take("ask", "open")
    with pytest.raises(ConnectionLost):
        await play.pair.delete_guest()
    await play.pair.look()
    assert play.pair.is_over


async def test_a_deletion_that_deletes_nobody_is_found(
    play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pair_kit.call", lambda *_: None)
    await play.pair.delete_guest()
    with pytest.raises(AssertionError, match="a deleted player's token is good"):
        await play.pair.look()


async def test_a_token_that_is_lost_is_found(play: Play) -> None:
    path = socket_path(play.crowd.server.data_dir)
    await trio.to_thread.run_sync(call, path, DeletePlayer(player_id=play.pair.guest.player_id))
    with pytest.raises(AssertionError, match="a token was lost"):
        await play.pair.look()


def token_of(one: Someone) -> str:
    return str(vars(one)["_token"])
