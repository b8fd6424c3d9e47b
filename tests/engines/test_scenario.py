"""One scenario, played by all SDKs together in the same room; also with troubles on the way."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio
from line_kit import Line
from player_kit import Refused, SdkPlayer, open_player
from program_kit import commands
from server_kit import ServerProcess, serving, serving_modules
from waiting import until

from greenroom.contract.refusals import HINTS, REALTIME_HINTS

BEHAVIOUR = '''
"""A tally that all members add to."""

import msgspec

from greenroom.behaviour import Refused, RoomBehaviour, action


class Tally(msgspec.Struct):
    total: int = 0
    added: dict[int, list[int]] = {}


class Add(msgspec.Struct, frozen=True):
    amount: int


class Tallying(RoomBehaviour[Tally]):
    def initial_state(self, rules):
        return Tally()

    def shared(self, room):
        return room.state

    @action("add")
    def add(self, room, by, add: Add):
        if add.amount < 0:
            raise Refused("A tally only grows")
        room.state.total += add.amount
        room.state.added.setdefault(by.player_id, []).append(add.amount)
        return {"total": room.state.total}
'''
RULES = {"type": "tally"}
GREETING = {"text": "grüß dich ✓", "numbers": [1, 2.5, -3], "nested": {"yes": True, "no": None}}
NOWHERE = "0" * 32
AMOUNTS = (1, 10, 100)
FAST = ("csharp", "godot", "python")
"""The SDKs that have the fast lane over UDP."""
DELAY_SECONDS = 0.02
BYTES_MAX = 1_500
CUTS_MIN = 6

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """The players' programs by their SDKs' names, of all SDKs whose tools are installed."""
    return commands(tmp_path_factory.mktemp("sdks"))


def realtime_address(server: ServerProcess) -> tuple[str, int]:
    """Return host and port of a server's realtime channel."""
    host, _, port = server.ready["realtime"].rpartition("//")[2].strip("/").rpartition(":")
    return host, int(port)


class Stage:
    """A server behind lines that can be cut, and one player of every SDK."""

    def __init__(self, server: ServerProcess, http: Line, realtime: Line) -> None:
        self.server = server
        self.http = http
        self.realtime = realtime
        self.players: list[SdkPlayer] = []
        self.total = 0
        self._connections: dict[str, trio.CancelScope] = {}

    def follow(self) -> None:
        """Lead the lines to where the server is now."""
        self.http.target = self.server.address
        self.realtime.target = realtime_address(self.server)

    async def connect(self, player: SdkPlayer, room_id: str) -> None:
        """Connect a player, and note which connection that is."""
        before = self.realtime.connections
        await player.do("connect", room_id=room_id)
        (self._connections[player.name],) = self.realtime.connections - before

    def cut(self, player: SdkPlayer) -> None:
        """Cut a player's first connection."""
        self._connections[player.name].cancel()

    async def all_do(self, verb: str, **order: Any) -> list[Any]:
        """Have every player do the same at the same time; return what it came to."""
        found: dict[int, Any] = {}

        async def one(number: int, player: SdkPlayer) -> None:
            found[number] = await player.do(verb, **order)

        async with trio.open_nursery() as nursery:
            for number, player in enumerate(self.players):
                nursery.start_soon(one, number, player)
        return [found[number] for number in range(len(self.players))]


@asynccontextmanager
async def open_stage(
    programs: dict[str, list[str]], database_url: str, directory: Path
) -> AsyncGenerator[Stage]:
    """A stage with everybody registered."""
    async with trio.open_nursery() as nursery, AsyncExitStack() as stack:
        http, realtime = Line(), Line()
        await nursery.start(http.listen)
        await nursery.start(realtime.listen)
        serving = serving_modules(
            {"tallying": BEHAVIOUR},
            *("--database-url", database_url, "--behaviours", "*/tally=tallying:Tallying"),
            GREENROOM_RATE_LIMIT_FACTOR="1000",
            GREENROOM_PUBLIC_HOST="127.0.0.1",
            GREENROOM_PUBLIC_REALTIME_PORT=str(realtime.port),
        )
        with serving as server:
            stage = Stage(server, http, realtime)
            stage.follow()
            for name, command in programs.items():
                opening = open_player(name, command, directory)
                stage.players.append(await stack.enter_async_context(opening))
            async with stack:
                yield stage
            nursery.cancel_scope.cancel()


# The scenario.


async def meet(stage: Stage) -> str:
    """Everybody registers, and comes by a lobby into the same room, which is returned."""
    key = stage.server.new_game().key
    url = f"http://127.0.0.1:{stage.http.port}"
    for player in stage.players:
        order = {"url": url, "api_token": key, "name": f"Ada of {player.name}"}
        player.player_id = int((await player.do("register", **order))["player_id"])
        with pytest.raises(Refused) as refused:
            await player.do("join_room", room_id=NOWHERE)
        assert refused.value.about["kind"] == "NotFound"
        assert refused.value.about["hint"] == HINTS["Room not found"]
    host, *others = stage.players
    seats = max(2, len(stage.players))
    lobby_id = (await host.do("create_lobby", max_players=seats, rules=RULES))["lobby_id"]
    for player in others:
        await player.do("join_lobby", lobby_id=lobby_id)
    room_id: str = (await host.do("start_lobby"))["room_id"]
    assert await stage.all_do("current") == [{"room_id": room_id}] * len(stage.players)
    return room_id


async def refuse(stage: Stage) -> None:
    """Refusals of all kinds reach everybody as errors with the server's words."""
    for player in stage.players:
        with pytest.raises(Refused) as refused:
            await player.do("join_room", room_id=NOWHERE)
        text = "You are already in a game room. Leave current room first."
        assert refused.value.about["kind"] == "ApiError"
        assert (refused.value.about["status"], refused.value.about["text"]) == (400, text)
        with pytest.raises(Refused) as refused:
            await player.do("action", action_type="add", request_data={"amount": -1})
        assert refused.value.about["kind"] in ("ActionRefused", "ActionFailed"), refused.value


async def hear(stage: Stage, player: SdkPlayer, command: str, count: int) -> list[Any]:
    """Wait until a player has got so many messages of a kind, and return all of that kind."""
    found: list[Any] = []

    async def has_come() -> bool:
        messages = (await player.do("messages"))["messages"]
        found.extend(message for message in messages if message["command"] == command)
        return len(found) >= count

    await until(has_come)
    return found


async def greet(stage: Stage, command: str) -> None:
    """Everybody says something, and everybody else hears it once, as it was said."""
    await stage.all_do("send", command=command, data=GREETING, target="others")
    everybody = {player.player_id for player in stage.players}
    for player in stage.players:
        heard = await hear(stage, player, command, len(everybody) - 1)
        assert {message["sender_id"] for message in heard} == everybody - {player.player_id}
        assert len(heard) == len(everybody) - 1
        assert [message["data"] for message in heard] == [GREETING] * len(heard)
        assert not any(message["is_server"] for message in heard)


async def add(stage: Stage, meanwhile: Callable[[], Awaitable[None]] | None = None) -> None:
    """Everybody adds to the tally, whatever happens meanwhile; each amount counts once."""
    before, totals = stage.total, []

    async def add_all(player: SdkPlayer) -> None:
        for amount in AMOUNTS:
            order = {"action_type": "add", "request_data": {"amount": amount}}
            totals.append((await player.do("action", **order))["response_data"]["total"])

    async with trio.open_nursery() as nursery:
        for player in stage.players:
            nursery.start_soon(add_all, player)
        if meanwhile is not None:
            await meanwhile()
    stage.total = before + len(stage.players) * sum(AMOUNTS)
    assert max(totals) == stage.total
    assert len(set(totals)) == len(totals)
    await agree(stage)


async def agree(stage: Stage) -> None:
    """Everybody comes to see the same state, which is right."""

    async def is_same() -> bool:
        states = [found["shared"] for found in await stage.all_do("state")]
        return all(state is not None and state["total"] == stage.total for state in states)

    await until(is_same)
    states = [found["shared"] for found in await stage.all_do("state")]
    assert states == [states[0]] * len(states)
    times = stage.total // (len(stage.players) * sum(AMOUNTS))
    everybody = {str(player.player_id) for player in stage.players}
    assert states[0]["added"] == dict.fromkeys(everybody, [*AMOUNTS] * times)


async def drop(stage: Stage) -> list[int]:
    """Each player's connection is lost in turn; they come back by themselves and miss nothing.

    Returns how many connections each has counted. One may have missed its first.
    """
    seen = [found["count"] for found in await stage.all_do("connections")]
    for number, player in enumerate(stage.players):
        friend = stage.players[number - 1]
        stage.realtime.is_open = False
        stage.cut(player)
        await friend.do("send", command="while_away", data=number, target="others")
        stage.realtime.is_open = True
        for listener in stage.players:
            if listener is not friend:
                heard = await hear(stage, listener, "while_away", 1)
                assert [message["data"] for message in heard] == [number]
    counts = [found["count"] for found in await stage.all_do("connections")]
    assert counts == [count + 1 for count in seen]
    await agree(stage)
    return counts


async def race(stage: Stage) -> None:
    """Those that have the fast lane open it, and hear each other over UDP."""
    fast = [player for player in stage.players if player.name in FAST]
    for player in fast:
        await player.do("open_fast")
    await lanes_are_up(stage)
    for number, player in enumerate(fast):
        if len(fast) > 1:
            await hear_fast(player, fast[number - 1])


async def hear_fast(sender: SdkPlayer, listener: SdkPlayer) -> None:
    """Send over UDP, again and again because a packet may be lost, until the other hears it."""
    heard: list[Any] = []

    async def is_heard() -> bool:
        sent = await sender.do("send_fast", command="at", data=GREETING)
        messages = (await listener.do("messages"))["messages"]
        by_udp = [message for message in messages if message["is_fast"]]
        heard.extend(each for each in by_udp if each["sender_id"] == sender.player_id)
        return bool(heard) and sent["over_udp"] is True

    await until(is_heard)
    assert (heard[0]["command"], heard[0]["data"]) == ("at", GREETING)


async def lanes_are_up(stage: Stage) -> None:
    """Wait until all fast lanes are up, by themselves."""

    async def are_up() -> bool:
        fast = [player for player in stage.players if player.name in FAST]
        return all([(await player.do("fast_up"))["up"] for player in fast])

    await until(are_up)


async def rank(stage: Stage) -> None:
    """The leaderboard shows everybody by what they have saved."""
    for score, player in enumerate(stage.players):
        await player.do("save", document={"score": score, "name": "Zoë"})
    wanted = [player.player_id for player in reversed(stage.players)]
    for found in await stage.all_do("leaderboard", sort_by=["score"]):
        assert [entry["player_id"] for entry in found["entries"]] == wanted
        assert [entry["rank"] for entry in found["entries"]] == list(range(1, len(wanted) + 1))


async def play(stage: Stage, trouble: Callable[[Stage], Awaitable[None]]) -> list[int]:
    """The whole scenario. Returns how many connections each had counted before the trouble.

    Args:
        stage: where.
        trouble: happens while everybody adds to the tally for the second time.
    """
    room_id = await meet(stage)
    for player in stage.players:
        await stage.connect(player, room_id)
    await greet(stage, "hello")
    await refuse(stage)
    await race(stage)
    await add(stage)
    counts = await drop(stage)
    await add(stage, partial(trouble, stage))
    await greet(stage, "still_there")
    await lanes_are_up(stage)
    await rank(stage)
    return counts


@pytest.fixture
async def stage(
    programs: dict[str, list[str]], database_url: str, tmp_path: Path
) -> AsyncGenerator[Stage]:
    """A server behind lines, and a player of every SDK."""
    async with open_stage(programs, database_url, tmp_path) as stage:
        yield stage


async def test_all_sdks_play_together(stage: Stage):
    async def nothing(_stage: Stage) -> None:
        """Nothing goes wrong."""

    await play(stage, nothing)


async def test_all_sdks_tell_what_to_do_about_a_token_that_lets_nobody_in(
    stage: Stage, new_database: Callable[[], str]
):
    room_id = await meet(stage)
    with serving("--database-url", new_database()) as other:
        stage.realtime.target = realtime_address(other)
        for player in stage.players:
            with pytest.raises(Refused) as refused:
                await player.do("connect", room_id=room_id)
            assert refused.value.about["kind"] == "TokenRefused"
            assert refused.value.about["hint"] == REALTIME_HINTS["unknown"]


async def test_all_sdks_go_on_when_the_server_is_killed_and_started_again(stage: Stage):
    async def restart(stage: Stage) -> None:
        stage.server.kill()
        stage.http.cut()
        stage.realtime.cut()
        await trio.to_thread.run_sync(stage.server.start)
        stage.follow()

    seen = await play(stage, restart)
    counts = [found["count"] for found in await stage.all_do("connections")]
    assert counts == [count + 1 for count in seen]


async def test_all_sdks_get_through_a_bad_line(stage: Stage):
    stage.http.delay_seconds = stage.realtime.delay_seconds = DELAY_SECONDS

    async def get_worse(stage: Stage) -> None:
        stage.realtime.bytes_max = BYTES_MAX
        stage.realtime.cut()
        await until(lambda: stage.realtime.cuts >= CUTS_MIN)
        stage.realtime.bytes_max = 0
        stage.realtime.cut()

    await play(stage, get_worse)
