"""The examples played by real clients against a real server, connected and polling."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trio
from http_kit import until
from server_kit import ServerProcess

from greenroom.client import Game, Player, Receive, Room, Sent
from greenroom.client.channel import Channel

EXAMPLES = Path(__file__).parents[2] / "examples"
SECONDS_MAX = 60.0


@pytest.fixture
def studio(data_dir: Path) -> Iterator[ServerProcess]:
    entries = "*/arena=arena:Arena,*/cards=cards:Cards"
    arguments = ("--behaviours-dir", str(EXAMPLES), "--behaviours", entries)
    server = ServerProcess(data_dir, *arguments, GREENROOM_RATE_LIMIT_FACTOR="1000").start()
    yield server
    server.stop()


async def open_room(game: Game, kind: str) -> tuple[Player, Room, Player, Room]:
    """Two players in one room: the host with his seat, the guest with his."""
    ann, bob = await game.register("Ann"), await game.register("Bob")
    room = await ann.create_room(realtime=True, rules={"type": kind})
    return ann, room, bob, await bob.join_room(room.room_id)


class Racer:
    """Runs for the coin until it is told that somebody has it."""

    def __init__(self, player: Player, channel: Channel) -> None:
        self.key = str(player.player_id)
        self.channel = channel
        self.was_fast = False

    async def run(self) -> None:
        async for message in self.channel:
            assert not isinstance(message, Sent), "what may be lost is not acknowledged"
            state = self.channel.state
            if not (isinstance(message, Receive) and message.command == "places") or not state:
                continue
            self.was_fast |= message.is_fast and message.sender_id == 0
            if any(state["coins"].values()):
                return
            x, y = message.data[self.key]
            x, y = state["coin"][0] - x, state["coin"][1] - y
            length = max(1.0, math.hypot(x, y))
            steer = {"x": x / length, "y": y / length}
            await self.channel.send_fast("steer", steer, stream=1)


async def test_two_race_for_a_coin_over_udp_and_both_see_who_has_it(studio: ServerProcess):
    with trio.fail_after(SECONDS_MAX):
        async with Game.connect(studio.ready["http"], studio.new_game().key) as game:
            ann, room, bob, seat = await open_room(game, "arena")
            async with ann.realtime(room) as first, bob.realtime(seat) as second:
                assert await first.open_udp()
                assert await second.open_udp()
                racers = [Racer(ann, first), Racer(bob, second)]
                async with trio.open_nursery() as nursery:
                    for racer in racers:
                        nursery.start_soon(racer.run)
                assert all(racer.was_fast for racer in racers)
                await until(lambda: first.state == second.state)
                assert sum(first.state["coins"].values()) >= 1


class Seat:
    """A player at the table, who looks at it by polling, or by his channel if he has one."""

    def __init__(self, player: Player, room: Room, channel: Channel | None = None) -> None:
        self.player = player
        self.room = room
        self._channel = channel

    async def look(self) -> tuple[Any, Any]:
        """See the table and his own hand."""
        if self._channel is not None:
            return self._channel.state, self._channel.private_state
        seen = await act(self.room, "look")
        return seen["table"], seen["hand"]


async def act(room: Room, kind: str, data: dict[str, Any] | None = None) -> Any:
    """Do something; return what came of it."""
    sent = await room.ask(kind, data)
    (result,) = [r for r in await room.results() if r.action_id == sent.action_ids[0]]
    assert result.status == "completed", result
    return result.response_data


async def move(room: Room, table: Any, hand: list[str]) -> None:
    top = table["top"]
    fitting = [card for card in hand if card[0] == top[0] or card[1] == top[1]]
    if fitting:
        await act(room, "play", {"card": fitting[0]})
    else:
        await act(room, "draw")


async def wait_for_result(player: Player) -> None:
    """Wait until the room has written something to a player's document."""
    for _ in range(500):
        if (await player.document()).data:
            return
        await trio.sleep(0.01)
    raise AssertionError("no result was written")


async def test_one_who_polls_and_one_who_is_connected_play_cards_to_the_end(
    studio: ServerProcess,
):
    with trio.fail_after(SECONDS_MAX):
        async with Game.connect(studio.ready["http"], studio.new_game().key) as game:
            ann, room, bob, seat = await open_room(game, "cards")
            async with ann.realtime(room) as channel:
                polls = Seat(bob, seat)
                seats = {ann.player_id: Seat(ann, room, channel), bob.player_id: polls}
                await act(room, "deal")
                table, _hand = await polls.look()
                while table["turn"]:
                    await until(lambda: channel.state == table)  # noqa: B023
                    mover = seats[table["turn"]]
                    seen, hand = await mover.look()
                    assert seen == table
                    await move(mover.room, seen, hand)
                    table, _hand = await polls.look()
                winner = next(int(i) for i, count in table["hands"].items() if not count)
                await until(lambda: channel.state == table)
                await wait_for_result(seats[winner].player)
