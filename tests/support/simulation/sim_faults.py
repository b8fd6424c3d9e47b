"""Faults of a simulated cluster; each heals by itself."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

import trio
from sim_checks import check_one_owner
from sim_cluster import SimCluster
from sim_node import SimNode
from waiting import until
from world_kit import START

Fault = Callable[[SimCluster], Awaitable[None]]
FAULTS: dict[str, Fault] = {}
DAY_SECONDS = 86_400
QUICK = (0.0002, 0.002)
"""How long messages take on a bus that is well, in seconds."""
WRITE_SECONDS_MAX = 2.0
"""How long a fault waits for a node to write something."""
STEPS = ("prepare", "goodbye", "queued", "durable", "told")


def fault(function: Fault) -> Fault:
    """Note a fault under its function's name."""
    FAULTS[function.__name__] = function
    return function


def some_node(cluster: SimCluster) -> SimNode | None:
    """Return one of those that run, None if there is none."""
    nodes = cluster.running()
    return cluster.dice.choice(nodes) if nodes else None


@fault
async def killed(cluster: SimCluster) -> None:
    """Kill -9."""
    node = some_node(cluster)
    if node is not None:
        node.kill()


@fault
async def stopped(cluster: SimCluster) -> None:
    """SIGSTOP: shorter than the lease is trusted, about as long, and longer."""
    node = some_node(cluster)
    if node is not None:
        node.stop()
        await trio.sleep(cluster.dice.choice([1.0, 2.5, 3.2, 6.0]))
        node.go_on()
        check_one_owner(cluster.running())  # before any task of the node has run


@fault
async def stopped_writing(cluster: SimCluster) -> None:
    """SIGSTOP in the middle of a pass, just before a transaction leaves; it leaves afterwards."""
    node = some_node(cluster)
    if node is None:
        return
    stopped = trio.Event()

    def stop() -> None:
        if not stopped.is_set():
            node.line.hold()
            node.stop()
            stopped.set()

    node.line.when_writing = stop
    with trio.move_on_after(WRITE_SECONDS_MAX):
        await stopped.wait()
    node.line.when_writing = lambda: None
    if stopped.is_set():
        await trio.sleep(cluster.dice.choice([1.0, 3.2, 6.0]))
        node.go_on()
        node.line.release()
        check_one_owner(cluster.running())


@fault
async def stopped_twice(cluster: SimCluster) -> None:
    """Two nodes stand still at the same time."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(stopped, cluster)
        nursery.start_soon(stopped, cluster)


@fault
async def killed_waiting(cluster: SimCluster) -> None:
    """Kill -9 of a node that waits for the database."""
    cluster.server.go_silent()
    await trio.sleep(cluster.dice.uniform(0.1, 1.5))
    await killed(cluster)
    cluster.server.mend()


@fault
async def lost_power(cluster: SimCluster) -> None:
    """A machine loses its power: nobody is told, and its connections linger."""
    node = some_node(cluster)
    if node is not None:
        node.line.cut()
        node.kill()


@fault
async def cut_from_bus(cluster: SimCluster) -> None:
    """A node reaches no other, or is not heard, or both; or this is so with one other alone."""
    node = some_node(cluster)
    if node is None:
        return
    others = [other.node_id for other in cluster.running() if other is not node]
    if others and cluster.dice.random() < 0.3:
        others = [cluster.dice.choice(others)]
    ways = cluster.dice.choice(["in", "out", "both"])
    routes = [(node.node_id, other) for other in others if ways != "in"]
    routes += [(other, node.node_id) for other in others if ways != "out"]
    for route in routes:
        cluster.network.cut(*route)
    await trio.sleep(cluster.dice.uniform(0.5, 8.0))
    if node.runs:
        for route in routes:
            cluster.network.mend(*route)


@fault
async def lossy_bus(cluster: SimCluster) -> None:
    """Messages vanish, here and there."""
    cluster.network.loss = cluster.dice.uniform(0.02, 0.3)
    await trio.sleep(cluster.dice.uniform(0.5, 4.0))
    cluster.network.loss = 0.0


@fault
async def slow_bus(cluster: SimCluster) -> None:
    """Messages come late."""
    cluster.network.latency_seconds = 0.01, cluster.dice.choice([0.1, 0.5, 2.0])
    await trio.sleep(cluster.dice.uniform(0.5, 4.0))
    cluster.network.latency_seconds = QUICK


@fault
async def lost_bus(cluster: SimCluster) -> None:
    """A node loses its connection with the bus, knows it, and gets another."""
    node = some_node(cluster)
    if node is not None and node.node_id in cluster.network.list_nodes():
        cluster.network.disconnect(node.node_id)
        await trio.sleep(cluster.dice.uniform(0.01, 1.0))
        if node.node_id in cluster.network.list_nodes():
            cluster.network.reconnect(node.node_id)


@fault
async def lost_bus_waiting(cluster: SimCluster) -> None:
    """The same, while changes that were sent on wait for the database."""
    cluster.server.go_silent()
    await trio.sleep(cluster.dice.uniform(0.1, 0.6))
    await lost_bus(cluster)
    cluster.server.mend()


@fault
async def cut_from_database(cluster: SimCluster) -> None:
    """A node alone does not reach the database."""
    node = some_node(cluster)
    if node is not None:
        node.line.cut()
        await trio.sleep(cluster.dice.uniform(0.5, 8.0))
        node.line.mend()


@fault
async def late_at_database(cluster: SimCluster) -> None:
    """A node's words reach the database late, also when nobody waits for them any more."""
    node = some_node(cluster)
    if node is not None:
        node.line.late_seconds = cluster.dice.uniform(0.1, 5.0)
        await trio.sleep(cluster.dice.uniform(0.5, 8.0))
        node.line.mend()


@fault
async def lost_session(cluster: SimCluster) -> None:
    """The connection that a node writes over breaks, and with it its lock."""
    node = some_node(cluster)
    backend = None if node is None else cluster.database.writer_of(node.node_id)
    if backend is not None:
        cluster.database.end(backend)


@fault
async def database_away(cluster: SimCluster) -> None:
    """The database stands still, for everybody."""
    cluster.server.go_silent()
    await trio.sleep(cluster.dice.uniform(0.5, 6.0))
    cluster.server.mend()


@fault
async def database_restarted(cluster: SimCluster) -> None:
    """The database stops and starts again: what is committed stays, sessions end."""
    cluster.server.shut()
    await trio.sleep(cluster.dice.uniform(0.5, 4.0))
    cluster.server.mend()


@fault
async def moved_clock(cluster: SimCluster) -> None:
    """The calendar of a node jumps by an hour, and stays so; but not into another day.

    A plan has so many calls a day, and what is spent of it is counted over the whole run.
    """
    node = some_node(cluster)
    if node is not None:
        clock, jump = vars(node.world.clock), cluster.dice.choice([-3_600, 3_600])
        is_same_day = (node.world.clock.now() - jump) // DAY_SECONDS == START // DAY_SECONDS
        clock["_began"] += jump if is_same_day else -jump


@fault
async def handed_over(cluster: SimCluster) -> None:
    """Shards with games move to another node."""
    node = some_node(cluster)
    if node is not None:
        await hand_over_games(cluster, node)


async def hand_over_games(cluster: SimCluster, node: SimNode) -> None:
    """Move the shards of a node's games to another node."""
    others = [each for each in cluster.running() if each is not node]
    if not others:
        return
    to = cluster.dice.choice(others).node_id
    games = cluster.database.rows.all_games.values()
    shards = {game.shards[0] for game in games} & node.shards.list_owned().keys()

    async def move() -> None:
        await node.membership.hand_over.move(shards, to)

    try:
        await node.perform(move, 20.0)
    except Exception as error:  # noqa: BLE001 - it may be refused, or the node may end
        cluster.faults[f"hand-over: {type(error).__name__}"] += 1


@fault
async def handed_over_slowly(cluster: SimCluster) -> None:
    """The database does not answer for a moment, just when a hand-over is queued."""
    node = some_node(cluster)
    if node is None:
        return

    async def cut() -> None:
        node.line.cut()
        await trio.sleep(1.0)
        node.line.mend()

    def at_step(name: str) -> None:
        if name == "queued":
            cluster.nursery.start_soon(cut)

    node.residents.at_step = at_step
    await hand_over_games(cluster, node)
    node.residents.at_step = lambda _: None


@fault
async def died_handing_over(cluster: SimCluster) -> None:
    """A node dies at one of the steps of a hand-over."""
    node = some_node(cluster)
    if node is None:
        return
    step = cluster.dice.choice(STEPS)

    def at_step(name: str) -> None:
        if name == step:
            cluster.faults[f"died at {name}"] += 1
            node.kill()

    node.residents.at_step = at_step
    await hand_over_games(cluster, node)
    at_step("told")
    node.residents.at_step = lambda _: None


@fault
async def drained(cluster: SimCluster) -> None:
    """A node hands everything over and ends in order, as in a deploy."""
    node = some_node(cluster)
    if node is not None:
        await drain(cluster, node)


async def drain(cluster: SimCluster, node: SimNode) -> None:
    """Have a node hand everything over and end; kill it if it does not."""
    try:
        await node.perform(lambda: node.membership.drain(20.0), 30.0)
    except Exception as error:  # noqa: BLE001 - as above
        cluster.faults[f"drain: {type(error).__name__}"] += 1
    node.end()
    with trio.move_on_after(10.0):
        await node.gone.wait()
    if not node.gone.is_set():
        node.kill()


@fault
async def rolling_restart(cluster: SimCluster) -> None:
    """One node after another is drained, ends and starts anew."""
    for node in cluster.running():
        if node.runs:
            await drain(cluster, node)
            with trio.move_on_after(20.0):
                await until(cluster.is_whole)


@fault
async def drained_heirs(cluster: SimCluster) -> None:
    """All nodes but one are drained and stay; that one hands over to them, and ends in order."""
    nodes = cluster.running()
    if not nodes:
        return
    last, *others = nodes
    try:
        for node in others:
            stay = partial(node.membership.drain, 20.0, waits=True)
            await node.perform(stay, 30.0)
        await drain(cluster, last)
        with trio.move_on_after(20.0):
            await until(cluster.is_whole)
    except Exception as error:  # noqa: BLE001 - as above
        cluster.faults[f"drain: {type(error).__name__}"] += 1
    for node in others:
        await drain(cluster, node)


async def harm(cluster: SimCluster, *, seconds: float, names: tuple[str, ...] = ()) -> None:
    """Do one fault after another for some seconds, sometimes two at once."""
    until = trio.current_time() + seconds
    async with trio.open_nursery() as nursery:
        while trio.current_time() < until:
            await trio.sleep(cluster.dice.uniform(0.2, 3.0))
            name = cluster.dice.choice(names or [*FAULTS])
            cluster.faults[name] += 1
            cluster.trace.note("fault", name)
            if cluster.dice.random() < 0.3:
                nursery.start_soon(FAULTS[name], cluster)
            else:
                await FAULTS[name](cluster)
