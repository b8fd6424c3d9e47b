"""A player of the scenario with the Python SDK: a program of its own, as of `player_kit`."""

from __future__ import annotations

import json
import sys
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from typing import Any

import trio

from greenroom.client import ApiError, Event, Game, GreenroomError, Player, Receive
from greenroom.client.channel import Channel
from greenroom.client.messages import Message

Answer = dict[str, Any]


class ScenarioPlayer:
    """Carries out the driver's orders, one method each."""

    def __init__(self, stack: AsyncExitStack, nursery: trio.Nursery) -> None:
        self._stack = stack
        self._nursery = nursery
        self._messages: list[Answer] = []
        self._events: list[str] = []
        self._game: Game
        self._player: Player
        self._channel: Channel
        self._end = ""

    async def answer(self, order: Answer) -> Answer:
        """Carry out an order; return the line that answers it."""
        verb: Callable[[Answer], Awaitable[Answer]] = getattr(self, f"do_{order['do']}")
        try:
            return {"ok": await verb(order)}
        except GreenroomError as error:
            about: Answer = {"kind": type(error).__name__, "status": 0, "text": str(error)}
            if isinstance(error, ApiError):
                about |= {"status": error.status, "text": error.text}
            more = {name: getattr(error, name, None) for name in ("retry_after", "hint")}
            return {"error": about | more}

    async def do_register(self, order: Answer) -> Answer:
        connecting = Game.connect(order["url"], order["api_token"])
        self._game = await self._stack.enter_async_context(connecting)
        self._player = await self._game.register(order["name"])
        return {"player_id": self._player.player_id}

    async def do_create_lobby(self, order: Answer) -> Answer:
        lobby = await self._player.create_lobby(
            order["max_players"], realtime_room=True, rules=order["rules"]
        )
        return {"lobby_id": lobby.matchmaking_id}

    async def do_join_lobby(self, order: Answer) -> Answer:
        await self._player.join_lobby(order["lobby_id"])
        return {}

    async def do_start_lobby(self, _order: Answer) -> Answer:
        lobby = await self._player.lobby()
        assert lobby is not None
        return {"room_id": (await lobby.start()).room_id}

    async def do_current(self, _order: Answer) -> Answer:
        room = await self._player.room()
        assert room is not None
        return {"room_id": room.room_id}

    async def do_join_room(self, order: Answer) -> Answer:
        await self._player.join_room(order["room_id"])
        return {}

    async def do_connect(self, _order: Answer) -> Answer:
        room = await self._player.room()
        assert room is not None
        channel = self._player.realtime(room)
        self._channel = await self._stack.enter_async_context(channel)
        self._nursery.start_soon(self._listen)
        return {}

    async def _listen(self) -> None:
        try:
            async for message in self._channel:
                self._note(message)
        except GreenroomError as error:
            self._end = type(error).__name__

    def _note(self, message: Message) -> None:
        if isinstance(message, Event):
            self._events.append(message.event)
        elif isinstance(message, Receive):
            self._messages.append(
                {
                    "command": message.command,
                    "data": message.data,
                    "sender_id": message.sender_id,
                    "is_server": message.sender_is_server,
                    "is_fast": message.is_fast,
                }
            )

    async def do_closed(self, _order: Answer) -> Answer:
        return {"kind": self._end}

    async def do_send(self, order: Answer) -> Answer:
        await self._channel.send(order["command"], order["data"], target=order["target"])
        return {}

    async def do_messages(self, _order: Answer) -> Answer:
        found, self._messages = self._messages, []
        return {"messages": found}

    async def do_events(self, _order: Answer) -> Answer:
        found, self._events = self._events, []
        return {"events": found}

    async def do_connections(self, _order: Answer) -> Answer:
        return {"count": self._channel.statistics.connections}

    async def do_action(self, order: Answer) -> Answer:
        result = await self._channel.action(order["action_type"], order["request_data"])
        return {"response_data": result.response_data}

    async def do_flood(self, order: Answer) -> Answer:
        for _ in range(order["count"]):
            self._nursery.start_soon(self._act_alone, "x" * order["bytes"])
        return {}

    async def _act_alone(self, text: str) -> None:
        with suppress(GreenroomError):
            await self._channel.action("flood", {"text": text})

    async def do_state(self, _order: Answer) -> Answer:
        return {"shared": self._channel.state}

    async def do_save(self, order: Answer) -> Answer:
        await self._player.set_document(order["document"])
        return {}

    async def do_leaderboard(self, order: Answer) -> Answer:
        found = await self._game.leaderboard(order["sort_by"])
        entries = [{"player_id": each.player_id, "rank": each.rank} for each in found.leaderboard]
        return {"entries": entries}

    async def do_open_fast(self, _order: Answer) -> Answer:
        await self._channel.open_udp()
        return {}

    async def do_fast_up(self, _order: Answer) -> Answer:
        return {"up": self._channel.is_udp_up}

    async def do_send_fast(self, order: Answer) -> Answer:
        is_over_udp = await self._channel.send_fast(order["command"], order["data"], stream=1)
        return {"over_udp": is_over_udp}

    async def do_quit(self, _order: Answer) -> Answer:
        return {}


async def main(driver: str) -> None:
    """Connect to the driver, and do what it says until it says `quit`."""
    host, _, port = driver.partition(":")
    stream = await trio.open_tcp_stream(host, int(port))
    buffer, verb = b"", ""
    async with stream, trio.open_nursery() as nursery, AsyncExitStack() as stack:
        player = ScenarioPlayer(stack, nursery)
        await stream.send_all(b'{"sdk":"python"}\n')
        while verb != "quit":
            while b"\n" not in buffer:
                buffer += await stream.receive_some(65_536)
            line, _, buffer = buffer.partition(b"\n")
            order = json.loads(line)
            verb = order["do"]
            await stream.send_all(json.dumps(await player.answer(order)).encode() + b"\n")


if __name__ == "__main__":
    trio.run(main, sys.argv[1])
