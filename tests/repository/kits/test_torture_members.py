"""Members of the torture's crowds: the answers that they take, and those that are violations."""

from __future__ import annotations

from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any, cast

import pytest
import trio
from crowd_kit import Crowd
from server_kit import CalledServer, ConnectionLost, Game
from torture_crowds import OUTCOME_UNKNOWN, Member
from trio.testing import MockClock

from greenroom.actors.room.rules.refusals import AlreadyInRoom

Answer = tuple[int, Any]
NOWHERE: Answer = (200, {"in_room": False})
SEATED: Answer = (200, {"in_room": True, "room": {"room_id": "a room"}})
REFUSED: Answer = (400, {"error": AlreadyInRoom.text})
BUSY: Answer = (429, {})
UNKNOWN: Answer = (OUTCOME_UNKNOWN, {})
LOST = None


class Answers:
    """A client that gets these answers, one after the other."""

    def __init__(self, answers: Iterable[Answer | None]) -> None:
        self._answers = iter(answers)

    async def call(self, *_: object) -> Answer:
        await trio.lowlevel.checkpoint()
        answer = next(self._answers)
        if answer is None:
            raise ConnectionLost
        return answer


async def settle_in(*answers: Answer | None) -> str:
    game = cast("Game", SimpleNamespace(key=""))
    crowd = Crowd(cast("CalledServer", SimpleNamespace(count_falls=lambda: 0)), game)
    crowd.up.set()
    member = Member(crowd, "a member")
    vars(member)["_client"] = Answers(answers)
    return await member.settle_in("/join")


@pytest.mark.parametrize("first", [LOST, UNKNOWN])
async def test_a_member_whose_first_try_may_be_under_way_may_be_refused(
    first: Answer | None, autojump_clock: MockClock
) -> None:
    assert await settle_in(NOWHERE, first, NOWHERE, REFUSED, LOST, NOWHERE, REFUSED, SEATED)


@pytest.mark.parametrize("before", [[], [NOWHERE, BUSY], [LOST]])
async def test_a_member_who_has_no_try_under_way_may_not_be_refused(
    before: list[Answer | None], autojump_clock: MockClock
) -> None:
    with pytest.raises(AssertionError, match="You are already in a game room"):
        await settle_in(*before, NOWHERE, REFUSED)
