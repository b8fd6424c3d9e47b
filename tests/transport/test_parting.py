"""Connections of players whose leaving is not durable yet: none outlives the answer to `leave`."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from realtime_kit import Client, RealtimeKit, open_stage
from trio.testing import wait_all_tasks_blocked
from waiting import until

from greenroom.actors.flows import realtime
from greenroom.actors.kernel.errors import ActorCrashed
from greenroom.actors.player.messages import Authenticate, ReplacePlayerDocument
from greenroom.actors.room.messages import KickMember, LeaveRoom
from greenroom.actors.room.rules.channel import AdmitToken


async def leave(stage: RealtimeKit) -> None:
    await stage.room.ask(LeaveRoom(stage.player_id(1)))


async def kick(stage: RealtimeKit) -> None:
    await stage.room.ask(KickMember(stage.player_id(0), stage.player_id(1)))


def note_command(
    monkeypatch: pytest.MonkeyPatch, command: type[AdmitToken | Authenticate]
) -> trio.Event:
    """Return an event that is set when an admission asks with this command."""
    is_asked = trio.Event()

    def make(*arguments: Any) -> AdmitToken | Authenticate:
        is_asked.set()
        return command(*arguments)

    monkeypatch.setattr(realtime, command.__name__, make)
    return is_asked


async def check_that_it_waits(client: Client, is_asked: trio.Event) -> None:
    """Check that a client gets neither a message nor the end once the room has been asked."""
    told: list[object] = []

    async def take() -> None:
        told.append(await client.take())

    await is_asked.wait()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(take)
        await wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    assert not told, "whoever asks waits, too, until that is durable"


@pytest.mark.parametrize("go", [leave, kick])
async def test_a_token_lets_nobody_in_while_it_is_written_down_that_they_leave(
    monkeypatch: pytest.MonkeyPatch, go
):
    is_asked = note_command(monkeypatch, AdmitToken)
    async with open_stage() as stage:
        memory, token = stage.arena.memory, await stage.token(1)
        memory.automatic = False
        async with trio.open_nursery() as nursery:
            nursery.start_soon(go, stage)
            await until(lambda: bool(memory.pending))
            async with stage.dial(token) as client:
                await check_that_it_waits(client, is_asked)
                memory.automatic = True
                memory.commit()
                assert await client.closed() == (1008, "Token invalidated")


async def test_a_token_is_good_again_when_the_leaving_is_refused(monkeypatch: pytest.MonkeyPatch):
    is_asked = note_command(monkeypatch, AdmitToken)
    async with open_stage() as stage:
        memory, token = stage.arena.memory, await stage.token(1)
        memory.automatic = False
        async with trio.open_nursery() as nursery:
            nursery.start_soon(expect_crash, stage)
            await until(lambda: bool(memory.pending))
            async with stage.dial(token) as client:
                await check_that_it_waits(client, is_asked)
                memory.automatic = True
                memory.refuse_first()
                assert (await client.closed())[0] == 1013
        async with stage.dial(token) as client:
            await client.expect("connected")


async def expect_crash(stage: RealtimeKit) -> None:
    with pytest.raises(ActorCrashed):
        await leave(stage)


@pytest.mark.parametrize("go", [leave, kick])
async def test_who_was_let_in_before_they_left_is_put_out_when_that_is_durable(
    monkeypatch: pytest.MonkeyPatch, go
):
    is_asked = note_command(monkeypatch, Authenticate)  # the room has let the token in
    async with open_stage() as stage:
        memory, token = stage.arena.memory, await stage.token(1)
        player = stage.arena.world.players.get_ref(stage.player_id(1))
        memory.automatic = False
        async with trio.open_nursery() as nursery:
            nursery.start_soon(player.ask, ReplacePlayerDocument(b"{}"))
            await until(lambda: len(memory.pending) == 1)
            async with stage.dial(token) as client:
                await is_asked.wait()
                nursery.start_soon(go, stage)
                await until(lambda: len(memory.pending) == 2)
                leaving = memory.pending.pop()
                memory.commit()
                await client.expect("connected")
                memory.pending.append(leaving)
                memory.automatic = True
                memory.commit()
                assert await client.closed() == (1000, "Player disconnect")
        assert stage.player_id(1) not in stage.hub.get_connected(stage.room_id)
