"""Crowds of the torture whose calls are in doubt: what may come late, and what is a violation."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
import trio
from crowd_kit import Count, Crowd
from server_kit import CalledServer, ConnectionLost, Game
from torture_crowds import Connected, Member
from torture_rooms import Tally
from trio.testing import MockClock


def kept(count: Count, number: int) -> None:
    count.sent = number
    count.keep(number)


def test_a_number_in_doubt_may_replace_a_later_one_once() -> None:
    count = Count()
    kept(count, 1)
    count.doubt(2)
    count.check(1)
    kept(count, 3)
    count.check(2)
    kept(count, 4)
    with pytest.raises(AssertionError, match="found 2"):
        count.check(2)


@pytest.mark.parametrize("found", [0, 1, 4])
def test_a_number_that_was_replaced_or_never_sent_is_found(found: int) -> None:
    count = Count()
    kept(count, 1)
    kept(count, 2)
    count.doubt(3)
    with pytest.raises(AssertionError, match=f"found {found}"):
        count.check(found)


def test_a_count_in_doubt_may_come_late() -> None:
    tally = Tally()
    for found in (None, 1, 3):
        tally.begin()
        if found is not None:
            tally.check(found)


def test_a_count_that_comes_twice_is_found() -> None:
    tally = Tally()
    for found in (None, 2):
        tally.begin()
        if found is not None:
            tally.check(found)
    tally.begin()
    tally.drop()
    tally.begin()
    with pytest.raises(AssertionError, match="counted 4, not 3 to 3"):
        tally.check(4)


def test_a_count_that_is_lost_is_found() -> None:
    tally = Tally()
    tally.begin()
    tally.check(1)
    tally.begin()
    with pytest.raises(AssertionError, match="counted 1, not 2 to 2"):
        tally.check(1)


def check(heard: list[int], kept: set[int]) -> None:
    """Check what one member has heard of another, who has sent four numbers."""
    game = cast("Game", SimpleNamespace(key=""))
    crowd = Crowd(cast("CalledServer", SimpleNamespace(count_falls=lambda: 0)), game)
    speaker, listener = Member(crowd, "a speaker"), Member(crowd, "a listener")
    speaker.player_id, speaker.sent, speaker.kept = 1, 4, kept
    listener.heard[1] = heard
    listener.check(speaker)


@pytest.mark.parametrize("heard", [[1, 2, 3, 4], [1, 3, 4], [1, 3, 4, 2], [1, 3, 2, 4]])
def test_an_update_in_doubt_may_come_late_or_never(heard: list[int]) -> None:
    check(heard, {1, 3, 4})


@pytest.mark.parametrize(
    ("heard", "text"),
    [
        ([1, 4, 3], "out of order: .3"),
        ([2, 1, 3, 4], "out of order: .1"),
        ([1, 3], "lost: .4"),
        ([1, 2, 3, 4, 2], "told twice"),
        ([1, 3, 4, 5], "never sent"),
    ],
)
def test_an_update_out_of_order_lost_or_doubled_is_found(heard: list[int], text: str) -> None:
    with pytest.raises(AssertionError, match=text):
        check(heard, {1, 3, 4})


class LateLeave:
    """A server with one room. The first leave comes late: when its player asks for a token."""

    def __init__(self) -> None:
        self.players = 0
        self.late: str | None = None
        self._seated: set[str] = set()
        self._tokens: set[str] = set()

    async def call(self, _: str, path: str, body: bytes, player: str) -> tuple[int, Any]:
        await trio.lowlevel.checkpoint()
        match path.rsplit("/", 1)[-1]:
            case "register":
                self.players += 1
                return 200, {"player_id": self.players, "private_key": f"player {self.players}"}
            case "current":
                return 200, {"in_room": player in self._seated, "room": {"room_id": "1"}}
            case "leave" if self.late is None:
                self.late = player
                raise ConnectionLost
            case "leave":
                self._leave(player)
            case "token":
                if player == self.late:
                    self._leave(player)
                    return 403, {"error": "You are not in any room"}
                self._tokens.add(player)
            case _:
                self._seated.add(player)
        return 200, {"token": player}

    def _leave(self, player: str) -> None:
        self._seated.discard(player)
        self._tokens.discard(player)

    def lets_in(self, token: str) -> bool:
        return token in self._tokens

    async def close(self) -> None:
        pass


async def test_a_guest_whose_leave_is_in_doubt_makes_room_for_another(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock
) -> None:
    server = LateLeave()
    monkeypatch.setattr("torture_crowds.TrioClient", lambda *_: server)
    game = cast("Game", SimpleNamespace(key=""))
    crowd = Connected(cast("CalledServer", SimpleNamespace(count_falls=lambda: 0)), game)
    crowd.up.set()

    async def look(token: str) -> str | None:
        await trio.lowlevel.checkpoint()
        crowd.is_over = crowd.checked > 5
        return None if server.lets_in(token) else "no such token"

    monkeypatch.setattr(crowd, "_refusal", look)
    await crowd.work(2)
    assert crowd.checked > 5
    assert server.late == "player 2"
    assert server.players == 4
