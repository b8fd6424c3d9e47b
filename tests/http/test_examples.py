"""The examples played by real clients against a real server, connected and polling."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import trio
from server_kit import ServerProcess, serving
from waiting import until
from workers_kit import ingress

from greenroom.client import Game, Player, Receive, Room, Sent
from greenroom.client.channel import Channel

EXAMPLES = Path(__file__).parents[2] / "examples"
SECONDS_MAX = 60.0


@pytest.fixture(scope="module", params=[serving, ingress], ids=["here", "elsewhere"])
def studio(
    request: pytest.FixtureRequest, new_database: Callable[[], str]
) -> Iterator[ServerProcess]:
    kinds = {
        "arena": "Arena",
        "cards": "Cards",
        "race": "Racing",
        "relay": "Relay",
        "tictactoe": "TicTacToe",
    }
    entries = ",".join(f"*/{kind}={kind}:{name}" for kind, name in kinds.items())
    arguments = ("--behaviours-dir", str(EXAMPLES), "--behaviours", entries)
    with request.param(
        "--database-url", new_database(), *arguments, GREENROOM_RATE_LIMIT_FACTOR="1000"
    ) as server:
        yield server


async def open_room(game: Game, kind: str) -> tuple[Player, Room, Player, Room]:
    """Open a room of two players; return the host's seat and the guest's."""
    ann, bob = await game.register("Ann"), await game.register("Bob")
    room = await ann.create_room(realtime=True, rules={"type": kind})
    return ann, room, bob, await bob.join_room(room.room_id)


async def act(room: Room, kind: str, data: dict[str, Any] | None = None) -> Any:
    """Do something; return what came of it."""
    sent = await room.ask(kind, data)
    (result,) = [r for r in await room.results() if r.action_id == sent.action_ids[0]]
    assert result.status == "completed", result
    return result.response_data


async def hear(channel: Channel, command: str) -> Any:
    """Return the data of the next message of this command that comes over a connection."""
    async for message in channel:
        if isinstance(message, Receive) and message.command == command:
            return message.data
    raise AssertionError(f"the channel ended before {command} came")


async def read(updates: AsyncIterator[Any], command: str) -> Any:
    """Return the data of the next update of this type that is polled."""
    async for update in updates:
        if update.type == command:
            return update.data
    raise AssertionError(f"the updates ended before {command} came")


async def test_a_relay_passes_on_between_one_who_polls_and_one_who_is_connected(
    studio: ServerProcess,
):
    with trio.fail_after(SECONDS_MAX):
        async with Game.connect(studio.ready["http"], studio.new_game().key) as game:
            ann, room, _bob, seat = await open_room(game, "relay")
            async with ann.realtime(room) as channel:
                sent = await seat.ask("open", {"door": 3})
                (asked,) = await room.pending()
                assert (asked.action_id, asked.request_data) == (sent.action_ids[0], {"door": 3})
                await room.complete(asked.action_id, {"open": True})
                (result,) = await seat.results()
                assert result.response_data == {"open": True}
                await channel.send("wave", [1, 2], target="others")
                assert await read(seat.updates(), "wave") == [1, 2]
                await seat.tell("thanks", {"to": "Ann"})
                assert await hear(channel, "thanks") == {"to": "Ann"}


async def test_a_race_is_won_by_one_who_polls_before_the_eyes_of_one_who_is_connected(
    studio: ServerProcess,
):
    with trio.fail_after(SECONDS_MAX):
        async with Game.connect(studio.ready["http"], studio.new_game().key) as game:
            ann, room, bob, seat = await open_room(game, "race")
            async with ann.realtime(room) as channel:
                cheat = await seat.ask("lap", {"number": 10})
                (failed,) = await seat.results()
                assert failed.action_id == cheat.action_ids[0]
                assert failed.response_data == {"error": "No short cuts"}
                for number in range(1, 11):
                    await act(seat, "lap", {"number": number})
                    heard = await hear(channel, "lap")
                    assert heard == {"by": bob.player_id, "number": number}
            await wait_for_result(bob)
            board = await game.leaderboard(["races_won"])
            assert [row.player_id for row in board.leaderboard][:1] == [bob.player_id]


async def test_tic_tac_toe_between_one_who_polls_and_one_who_is_connected(studio: ServerProcess):
    with trio.fail_after(SECONDS_MAX):
        async with Game.connect(studio.ready["http"], studio.new_game().key) as game:
            ann, room, bob, seat = await open_room(game, "tictactoe")
            updates = seat.updates()
            turn = (await read(updates, "start"))["turn"]
            async with ann.realtime(room) as channel:
                seats = {ann.player_id: room, bob.player_id: seat}
                first, second = turn, next(i for i in seats if i != turn)
                for mover, cell in ((first, 0), (second, 3), (first, 1), (second, 4), (first, 2)):
                    await act(seats[mover], "place", {"cell": cell})
                    placed = await hear(channel, "placed")
                    assert (placed["by"], placed["cell"]) == (mover, cell)
                    assert await read(updates, "placed") == placed
                assert await hear(channel, "over") == {"winner": first}
                assert await read(updates, "over") == {"winner": first}
            winner = ann if first == ann.player_id else bob
            await wait_for_result(winner)
            assert (await winner.document()).stats == {"tictactoe_wins": 1}


def towards(there: Sequence[float], here: Sequence[float]) -> dict[str, float]:
    """Return how to steer."""
    x, y = there[0] - here[0], there[1] - here[1]
    length = max(1.0, math.hypot(x, y))
    return {"x": x / length, "y": y / length}


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
            steer = towards(state["coin"], message.data[self.key])
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


async def test_one_who_polls_takes_a_coin_before_the_eyes_of_one_who_is_connected(
    studio: ServerProcess,
):
    with trio.fail_after(SECONDS_MAX):
        async with Game.connect(studio.ready["http"], studio.new_game().key) as game:
            ann, room, bob, seat = await open_room(game, "arena")
            key, steer, coins = str(bob.player_id), {"x": 0.0, "y": 0.0}, 0
            async with ann.realtime(room) as channel:
                while not coins:
                    seen = await act(seat, "steer", steer)
                    steer = towards(seen["field"]["coin"], seen["places"][key])
                    coins = seen["field"]["coins"][key]
                await until(lambda: channel.state and channel.state["coins"][key] >= coins)


class Seat:
    """A player at the table, who looks at it by polling, or by a channel if they have one."""

    def __init__(self, player: Player, room: Room, channel: Channel | None = None) -> None:
        self.player = player
        self.room = room
        self._channel = channel

    async def look(self) -> tuple[Any, Any]:
        """Return the table and the player's own hand."""
        if self._channel is not None:
            return self._channel.state, self._channel.private_state
        seen = await act(self.room, "look")
        return seen["table"], seen["hand"]


async def move(room: Room, table: Any, hand: list[str]) -> None:
    top = table["top"]
    fitting = [card for card in hand if card[0] == top[0] or card[1] == top[1]]
    if fitting:
        await act(room, "play", {"card": fitting[0]})
    else:
        await act(room, "draw")


async def wait_for_result(player: Player) -> None:
    """Wait until the room has written something for a player."""

    async def is_written() -> bool:
        found = await player.document()
        return bool(found.data or found.stats)

    await until(is_written)


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
