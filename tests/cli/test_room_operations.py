"""Operators' operations on rooms, on a real database, in a server's stead."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from furnished_kit import furnish, history
from room_kit import ROOM_ID

from greenroom.app import open_admin_context
from greenroom.config import Settings
from greenroom.control.admin import messages, room_messages
from greenroom.control.admin.operations import run
from greenroom.control.errors import OperationRefused


async def test_rooms_are_listed_shown_stopped_and_their_history_is_told(
    data_dir: Path, database_url: str
) -> None:
    settings = Settings(data_dir=data_dir, database_url=database_url)
    async with open_admin_context(settings) as context:
        game_id, room_id = await furnish(context)
    async with open_admin_context(settings) as context:
        for wanted in (None, game_id):
            found = await run(context, room_messages.ListRooms(game_id=wanted, limit=10))
            assert [(r.room_id, r.room_name) for r in found.rooms] == [(room_id, "Den")]
            assert found.total == 1
        nothing = await run(context, room_messages.ListRooms(game_id=game_id + 1, limit=10))
        assert nothing.total == 0
        told = await history(context, room_id, at=2)
        assert [e.event for e in told.events] == ["room_created", "member_joined", "member_left"]
        assert told.events[2].details["reason"] == "kicked"
        assert told.next_after is None
        assert told.state is not None
        assert [m.player_name for m in told.state.members] == ["Ada", "Bob"]
        assert (told.state.sequence, told.state.has_password) == (2, True)
        text = msgspec.json.encode(told).decode()
        assert "join_token" not in text
        assert "hash" not in text
        assert (await history(context, room_id, limit=2)).next_after == 2
        with pytest.raises(OperationRefused, match="after entry 9 is not kept"):
            await history(context, room_id, at=9)

        stopped = await run(context, room_messages.StopRoom(room_id=room_id))
        assert (stopped.is_active, stopped.members) == (False, [])
    async with open_admin_context(settings) as context:
        with pytest.raises(OperationRefused, match="has ended already"):
            await run(context, room_messages.StopRoom(room_id=room_id))
        assert (await run(context, room_messages.ShowRoom(room_id=room_id))).ended_at
        last = (await history(context, room_id, after=3)).events[0]
        assert (last.event, last.details) == ("room_ended", {"reason": "stopped"})


async def test_of_a_room_that_never_was_nothing_is_kept(data_dir: Path, database_url: str) -> None:
    async with open_admin_context(
        Settings(data_dir=data_dir, database_url=database_url)
    ) as context:
        for ask in (
            room_messages.ShowRoom(room_id=ROOM_ID),
            room_messages.StopRoom(room_id="nonsense"),
            room_messages.ShowRoomHistory(room_id=ROOM_ID, after=0, limit=1, at=None),
        ):
            with pytest.raises(OperationRefused, match="Nothing is kept of a room"):
                await run(context, ask)


async def test_a_game_deleted_without_a_server_ends_its_rooms(
    data_dir: Path, database_url: str
) -> None:
    settings = Settings(data_dir=data_dir, database_url=database_url)
    async with open_admin_context(settings) as context:
        game_id, room_id = await furnish(context)
    async with open_admin_context(settings) as context:
        await run(context, messages.DeleteGame(game_id=game_id))
        shown = await run(context, room_messages.ShowRoom(room_id=room_id))
        assert not shown.is_active
