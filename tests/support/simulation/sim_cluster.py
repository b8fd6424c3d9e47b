"""A cluster of three nodes in one trio run, its clients, and their chance, drawn from one seed."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any, Final
from zlib import crc32

import msgspec
import trio
from history_clients import SERVICE, Book, share_document, share_friendship, share_stats
from history_lists import LEADERBOARD, Showcase
from history_room import Gathering
from history_switches import share_ban, share_presence, share_token
from machine_ledger import Ledger
from server_kit import ConnectionLost
from sim_chance import Trace
from sim_checks import (
    CommitChecks,
    DurableHomes,
    UncheckedStats,
    check_bring_ups,
    check_homes,
    check_ledger,
    check_one_actor,
    check_one_owner,
    check_one_seat,
    check_seats_are_durable,
    checker,
)
from sim_connection import SimServer
from sim_database import SimDatabase
from sim_lists import LISTS, check_list, check_ranked_once, expected_lists
from sim_network import SimNetwork
from sim_node import ProcessGone, SimNode
from sim_plays import (
    SimScene,
    share_game,
    share_lobby,
    share_quiet_room,
    share_two_rooms,
)
from sim_shares import LIMITED, SharedPlan
from waiting import until
from world_kit import LOCAL

from greenroom.actors.flows.games import GameKeys, create_game, make_game_keys
from greenroom.actors.game.messages import ChangeGameSettings
from greenroom.actors.kernel.message import Event
from greenroom.actors.leaderboard.movers import SHOWN_SECONDS
from greenroom.actors.world.world import World
from greenroom.http.request import Request

SLOTS: Final = 3
GAMES: Final = 4
PARTITIONS: Final = (1, 4)
CALL_SECONDS_MAX: Final = 62.0
"""A call waits at most so long for its answer, wherever it is answered."""
CLIENT_SECONDS: Final = 90.0
LOOK_SECONDS: Final = 0.05
RESTART_SECONDS: Final = (0.1, 0.5)
SERVED_SECONDS_MAX: Final = 12.0
"""Once the last fault is over, every node is there and every shard is served within so long."""
PLAYED_ON_SECONDS: Final = 3.0
"""For so long the clients play on then."""
RUN_SECONDS_MAX: Final = 200.0
"""No run takes longer, for every call is answered and every play ends."""
THINK_SECONDS: Final = (0.001, 0.3)
"""Before a call, a client thinks for so long."""
SPEND_SECONDS: Final = (0.01, 0.3)
"""Before each call of the plan that the nodes share."""
PLAYS: Final[dict[str, Callable[[SimScene, random.Random, str], Awaitable[None]]]] = {
    "documents": share_document,
    "stats": share_stats,
    "friendships": share_friendship,
    "lists": lambda scene, dice, name: Showcase(scene, dice, name).play(15),
    "rooms": lambda scene, dice, name: Gathering(scene, dice, name).play(20),
    "lobbies": share_lobby,
    "bans": lambda scene, dice, name: share_ban(scene, name),
    "tokens": lambda scene, dice, name: share_token(scene, name),
    "presence": lambda scene, dice, name: share_presence(scene, name),
    "sitters": share_quiet_room,
    "two rooms": share_two_rooms,
    "games": lambda scene, _, name: share_game(scene, name),
}
Trouble = Callable[[SimNode], None]


class SimCluster:
    """Three slots, in each of which a node is started again whenever one ends."""

    def __init__(
        self, seed: int, trouble: Trouble, trace: Trace, partitions: int | None = None
    ) -> None:
        self.dice = random.Random(seed)
        self.partitions = partitions or random.Random(seed + 3).choice(PARTITIONS)
        """The shards that each game lives in."""
        self.database = SimDatabase()
        self.server = SimServer(self.database, random.Random(seed + 1))
        self.network = SimNetwork(random.Random(seed + 2), trace)
        self.ledger = Ledger()
        self.ledger.stats = UncheckedStats()
        self.homes = DurableHomes(self.database, self.ledger)
        self.database.observers += [self.ledger.take, self.homes.take, self._note_durable]
        self.commits = CommitChecks(self.database)
        self.nodes: list[SimNode | None] = [None] * SLOTS
        self.keys: list[GameKeys] = []
        self.game_ids: list[int] = []
        self.trace = trace
        self.starts = 0
        self.shared = SharedPlan(is_shared=self.partitions > 1)
        self.database.rows.all_owners[LIMITED.owner_id] = LIMITED
        self.faults: Counter[str] = Counter()
        self.answers: Counter[int] = Counter()
        self.nursery: trio.Nursery
        self.over = trio.Event()
        """Set once the clients shall end their plays."""
        self._trouble = trouble
        self._tells_of_deaths = self.dice.random() < 0.5
        """True if all nodes have one parent, which reaps those that end."""

    def _note_durable(self, events: Any) -> None:
        for event in events:
            kind = event.kind if hasattr(event, "kind") else ""
            assert isinstance(event, Event)
            self.trace.note("durable", type(event).__name__, kind, getattr(event, "key", ""))

    # Nodes.

    async def keep(self, slot: int) -> None:
        """Start a node, and another one whenever it ends."""
        while True:
            name, partitions = f"slot {slot}", self.partitions
            node = SimNode(name, self.server, self.network, SLOTS, partitions)
            self.nodes[slot] = node
            self.starts += 1
            self.trace.note("start", slot)
            self.nursery.start_soon(node.run, self._prepare)
            await node.gone.wait()  # what a killed one still does reaches nobody
            self.trace.note("end", slot)
            self.shared.note_end(node)
            if self._tells_of_deaths and node.up.is_set():
                for other in self.running():
                    other.membership.note_dead(node.node_id)
            await trio.sleep(self.dice.uniform(*RESTART_SECONDS))

    def _prepare(self, node: SimNode) -> None:
        self.shared.watch(node)
        self._trouble(node)

    def running(self) -> list[SimNode]:
        """Return the nodes that are up, be they stopped or not."""
        return [node for node in self.nodes if node is not None and node.runs]

    def is_whole(self) -> bool:
        """Return whether all nodes are up and serve every shard."""
        nodes = self.running()
        return len(nodes) == SLOTS and all(node.membership.is_served for node in nodes)

    async def wait_served(self, seconds_max: float) -> None:
        """Wait until all nodes are up, and each of them answers for every game."""
        with checker("served again"):
            try:
                await until(self.is_whole, seconds_max)
                await until(self._all_answer, seconds_max)
            except trio.TooSlowError:
                raise AssertionError(f"not every shard is served after {seconds_max} s") from None

    async def _all_answer(self) -> bool:
        for node in self.running():
            for game in range(len(self.keys)):
                headers = self._headers(game, None)
                body = b'{"sort_by": ["score"]}'
                request = Request("POST", LEADERBOARD, "", headers, body, "198.51.100.1")
                try:
                    answer = await node.answer(request, CLIENT_SECONDS)
                except ProcessGone:
                    return False
                if answer.status != 200:
                    return False
        return True

    async def add_games(self) -> None:
        """Create games, each at a node of its own."""
        for number in range(GAMES):
            node, keys = self.running()[number % SLOTS], make_game_keys()
            add = partial(_add_game, node.world, f"Game {number}", keys)
            self.game_ids.append(await node.perform(add, 10.0))
            self.keys.append(keys)
        await self.shared.add(self.running())

    # Clients.

    def ask_of(self, game: int) -> Any:
        """Return what calls the endpoints of a game, at any node."""

        async def ask(method: str, path: str, body: bytes, player: str | None) -> tuple[int, Any]:
            await trio.sleep(self.dice.uniform(*THINK_SECONDS))
            node = self.dice.choice(await until(self.running))
            address = f"198.51.100.{crc32(f'{player}'.encode()) % 249 + 1}"
            request = Request(method, path, "", self._headers(game, player), body, address)
            began = trio.current_time()
            try:
                answer = await node.answer(request, CLIENT_SECONDS)
            except ProcessGone:
                took = trio.current_time() - began
                with checker("no call waits for ever"):
                    assert took < CALL_SECONDS_MAX or node.was_stopped, f"{path} was not answered"
                raise ConnectionLost from None
            if path == LEADERBOARD:
                check_ranked_once(answer)
            self.answers[answer.status] += 1
            self.trace.note(method, path, answer.status)
            return answer.status, msgspec.json.decode(answer.body)

        return ask

    def _headers(self, game: int, player: str | None) -> dict[str, str]:
        keys = self.keys[game]
        headers = {"x-api-token": keys.api_token, "host": "test"}
        if player == SERVICE:
            headers["x-api-private-token"] = keys.api_private_token
        elif player is not None:
            headers["x-game-player-token"] = player
        return headers

    # Checks.

    async def look_for_ever(self) -> None:
        """Check at every moment."""
        while True:
            await trio.sleep(LOOK_SECONDS)
            self.check()

    def check(self) -> None:
        """Check what holds at every moment."""
        check_one_owner(self.running())
        check_one_seat(self.running())
        check_one_actor(self.running())
        check_homes(self.running())
        self.homes.check()
        check_bring_ups(self.running())
        self.shared.check(self.running())
        self.commits.check()
        check_ledger(self.ledger)

    async def check_lists(self) -> None:
        """Check, at rest, that lists at each node are those of all partitions together.

        If the partition of a player who has moved has changed its node since, a leaderboard may
        count them twice until the node that they left forgets them.
        """
        try:
            await self._check_list(LEADERBOARD)
        except AssertionError:
            await trio.sleep(SHOWN_SECONDS)
            await self._check_list(LEADERBOARD)
        for path in LISTS.keys() - {LEADERBOARD}:
            await self._check_list(path)

    async def _check_list(self, path: str) -> None:
        for game in range(len(self.keys)):
            expected = expected_lists(self.database, self.ledger, self.game_ids[game])
            for node in self.running():
                headers = self._headers(game, None)
                request = Request("POST", path, "", headers, LISTS[path], "198.51.100.1")
                with suppress(ProcessGone):  # it had been cut off, and has ended just now
                    check_list(await node.answer(request, CLIENT_SECONDS), expected)


async def _add_game(world: World, name: str, keys: GameKeys) -> int:
    """Create a game with the stats that the clients of the histories count; return its id."""
    game_id = await create_game(world, LOCAL, name, keys)
    declare = ChangeGameSettings({"stats": '{"orders":{}}'}, ())
    await world.games.get_ref(game_id).ask(declare)
    return game_id


async def spend_for_ever(cluster: SimCluster) -> None:
    """Spend the shared plan at any node, until the plays end."""
    dice = random.Random(cluster.dice.random())
    while not cluster.over.is_set():
        await trio.sleep(dice.uniform(*SPEND_SECONDS))
        await cluster.shared.spend(dice.choice(await until(cluster.running)))


async def play(cluster: SimCluster, name: str, book: Book) -> None:
    """Play one kind of thing again and again."""
    dice = random.Random(cluster.dice.random())
    round_number = 0
    while not cluster.over.is_set():
        round_number += 1
        game = dice.randrange(GAMES)
        scene = SimScene(cluster.ask_of(game), book, cluster.over, game)
        with checker(f"history of {name}"):
            await PLAYS[name](scene, dice, f"{name} {round_number}")


@asynccontextmanager
async def bounded() -> AsyncIterator[None]:
    """End a run that does not end."""
    with trio.move_on_after(RUN_SECONDS_MAX) as scope:
        yield
    with checker("no call waits for ever"):
        assert not scope.cancelled_caught, f"the run has not ended after {RUN_SECONDS_MAX} s"


@asynccontextmanager
async def open_cluster(
    seed: int, trouble: Trouble, trace: Trace, partitions: int | None = None
) -> AsyncIterator[SimCluster]:
    """Run a cluster, and end it with the block."""
    cluster = SimCluster(seed, trouble, trace, partitions)
    async with trio.open_nursery() as cluster.nursery:
        await cluster.nursery.start(cluster.server.run)
        for slot in range(SLOTS):
            cluster.nursery.start_soon(cluster.keep, slot)
        try:
            await cluster.wait_served(30.0)
            await cluster.add_games()
            yield cluster
        finally:
            for node in filter(None, cluster.nodes):
                node.process.go_on()  # who is stopped could not end
        cluster.nursery.cancel_scope.cancel()


async def simulate(
    seed: int,
    harm: Callable[[SimCluster], Awaitable[None]],
    *,
    plays: tuple[str, ...] = tuple(PLAYS),
    trouble: Trouble = lambda _: None,
    partitions: int | None = None,
    trace: Trace,
) -> dict[str, Any]:
    """Run a cluster under clients and faults, let it heal, and check everything.

    Args:
        seed: of all chance.
        harm: does the faults.
        plays: what is played.
        trouble: plants a defect in each node.
        partitions: of each game; None lets the seed choose.
        trace: what happens is noted there.

    Returns:
        What the run was like.

    Raises:
        Finding: a check has failed.
    """
    book = Book()
    async with bounded(), open_cluster(seed, trouble, trace, partitions) as cluster:
        async with trio.open_nursery() as looking:
            looking.start_soon(cluster.look_for_ever)
            async with trio.open_nursery() as playing:
                playing.start_soon(spend_for_ever, cluster)
                for name in plays:
                    playing.start_soon(play, cluster, name, book)
                await harm(cluster)
                await cluster.wait_served(SERVED_SECONDS_MAX)
                await trio.sleep(PLAYED_ON_SECONDS)
                cluster.over.set()
            looking.cancel_scope.cancel()
        cluster.check()
        check_seats_are_durable(cluster.running(), cluster.ledger)
        await cluster.check_lists()
        await cluster.shared.check_at_rest(cluster.running())
        with checker("history"):
            book.close()
        return _told(cluster, book)


def _told(cluster: SimCluster, book: Book) -> dict[str, Any]:
    """Return what a run was like."""
    return {
        "faults": dict(sorted(cluster.faults.items())),
        "answers": dict(sorted(cluster.answers.items())),
        "checked": dict(book.checked),
        "open": book.open.total(),
        "undecided": book.undecided,
        "partitions": cluster.partitions,
        "moves": cluster.commits.moves_of_players,
        "starts": cluster.starts,
        "commits": len(cluster.database.log),
        "messages": cluster.network.sent,
        "seconds": round(trio.current_time()),
        "digest": cluster.trace.digest,
    }
