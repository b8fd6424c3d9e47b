"""Measure what clients see while workers go: killed, stopped, drained, restarted in turn.

A gap is the longest time between two calls of a client that were answered well, the longest of all
clients. They call without a pause, one call at a time.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from contextlib import suppress

import crew
import mixed
import processes
import seats
import trio
from looking import until
from probes import Probes
from scenario import Run
from talk import PERIOD_SECONDS, Talks

from greenroom.control.admin.cluster_messages import ListedNode

ROOMS_QUICK, MEMBERS = 30, 6
PROBES = 4
STAY = {"connections_move": "false"}
"""Connections that moved to the worker that has their game would be none of the other worker's."""
BEFORE_SECONDS, AFTER_SECONDS, STOPPED_SECONDS = 1.0, 5.0, 6.0
GIVE_UP_SECONDS = 2.0
"""How long a client waits for an answer of the worker that goes, before it connects again."""
TALKS, TALKS_QUICK = 50, 5
RESTARTED, RESTART_RATE, RESTART_PLAYERS = 3, 600, 300
RESTART_SECONDS_MAX, REST_SECONDS = 60.0, 2.0

Fault = Callable[[crew.BenchCrew, ListedNode], None]


def kill(_: crew.BenchCrew, node: ListedNode) -> None:
    """Kill a worker, as `kill -9` does."""
    os.kill(node.pid, signal.SIGKILL)


def drain(server: crew.BenchCrew, node: ListedNode) -> None:
    """Have a worker hand its shards over."""
    server.drain(node)


def stop(_: crew.BenchCrew, node: ListedNode) -> None:
    """Stop a worker; `_strike` has it go on."""
    os.kill(node.pid, signal.SIGSTOP)


CASES: tuple[tuple[str, Fault, int], ...] = (
    ("kill -9", kill, 500),
    ("kill -9", kill, 2_500),
    (f"SIGSTOP, {STOPPED_SECONDS:.0f} s", stop, 500),
    ("drain", drain, 300),
)
"""How a worker goes, and with how many rooms."""


def measure_gaps(run: Run) -> str:
    """Have a worker go in each way."""
    lines = [
        f"The worker of a game with rooms of {MEMBERS} goes. {PROBES} clients call the game by the",
        "other worker, which lives on, and as many by the worker that goes. Connections stay where",
        "they are (`connections_move = false`). A gap is the longest time between two calls of a",
        "client that were answered well, the longest of all clients (median in brackets). A client",
        f"of the worker that goes waits {GIVE_UP_SECONDS:g} s for an answer, and then connects",
        "again. One of the other worker waits for as long as it takes.",
        "",
        "| what | rooms | by the other: gap ms | errors | by itself: gap ms | errors |",
        "|---|---|---|---|---|---|",
    ]
    for name, fault, many in CASES:
        rooms = ROOMS_QUICK if run.is_quick else many
        for number in range(1, run.rounds + 1):
            run.say(f"round {number} of {run.rounds}: {name}, {rooms} rooms")
            told = measure_gap(run, rooms, fault)
            run.say(told)
            lines.append(f"| {name} | {rooms:,} | {told} |")
    return "\n".join(lines)


def measure_gap(run: Run, rooms: int, fault: Fault) -> str:
    """Return what the clients have seen while a worker went, as cells of a table."""
    with crew.running(2, **STAY) as (server, folder):
        game, goes, stays = server.game_of_two()
        seats.fill(run, server.at(goes, game), folder, rooms, MEMBERS)
        by = (
            Probes(str(stays.own_http), game.key, PROBES),
            Probes(str(goes.own_http), game.key, PROBES, answer_seconds_max=GIVE_UP_SECONDS),
        )

        async def watch() -> None:
            async with trio.open_nursery() as nursery:
                for probes in by:
                    await nursery.start(probes.run)
                await trio.sleep(BEFORE_SECONDS)
                for probes in by:
                    probes.forget_gaps()
                await _strike(server, goes, fault)
                nursery.cancel_scope.cancel()

        trio.run(watch)
        return " | ".join(probes.told() for probes in by)


async def _strike(server: crew.BenchCrew, goes: ListedNode, fault: Fault) -> None:
    """Have a worker go, and wait until all is over."""
    await trio.to_thread.run_sync(fault, server, goes)
    if fault is stop:
        await trio.sleep(STOPPED_SECONDS)
        with suppress(ProcessLookupError):  # its parent has ended it: the other has its games
            os.kill(goes.pid, signal.SIGCONT)
    await trio.sleep(AFTER_SECONDS)


def measure_messages(run: Run) -> str:
    """Drain the worker of realtime rooms in which numbers are said."""
    count = TALKS_QUICK if run.is_quick else TALKS
    lines = [
        f"The worker of {count} realtime rooms is drained. In each a member says a number every",
        f"{1_000 * PERIOD_SECONDS:.0f} ms, and two others listen. Lost are numbers that the server",
        "took and that did not come to somebody.",
        "",
        "| taken | lost | twice or in disorder | gaps told | longest silence ms |",
        "|---|---|---|---|---|",
    ]
    for number in range(1, run.rounds + 1):
        run.say(f"round {number} of {run.rounds}: messages")
        with crew.running(2) as (server, _):
            game, goes, stays = server.game_of_two()
            lines.append(f"| {_talk(server, game, goes, stays, count)} |")
    return "\n".join(lines)


def _talk(
    server: crew.BenchCrew, game: crew.PlacedGame, goes: ListedNode, stays: ListedNode, count: int
) -> str:
    async def watch() -> str:
        talks = Talks(str(stays.own_http), game.key, count)
        async with trio.open_nursery() as nursery:
            await nursery.start(talks.run)
            await trio.sleep(BEFORE_SECONDS)
            await _strike(server, goes, drain)
            talks.over.set()
        return talks.told()

    return trio.run(watch)


def measure_restarts(run: Run) -> str:
    """Restart three workers in turn under `mixed`."""
    lines = [
        f"{RESTARTED} workers; each gets SIGTERM in turn, and the next one once it is back.",
        f"{RESTART_PLAYERS} players of `mixed` go on, with {RESTART_RATE} calls a second. The",
        "generator does not repeat a call.",
        "",
        "| calls | errors | updates that are wrong | median ms | p99 ms | longest ms |",
        "|---|---|---|---|---|---|",
    ]
    for number in range(1, run.rounds + 1):
        run.say(f"round {number} of {run.rounds}: restarts")
        with crew.running(RESTARTED) as (server, _):
            game = server.games(RESTARTED)[0]
            lines.append(f"| {trio.run(_restart_all, run, server, game.key)} |")
    return "\n".join(lines)


async def _restart_all(run: Run, server: crew.BenchCrew, key: str) -> str:
    """Restart every worker while players play; return the cells of a table."""
    rows: list[processes.Row] = []

    def play(seconds: float) -> None:
        arguments = ["-url", server.target.url, "-key", key, "-rates", str(RESTART_RATE)]
        arguments += ["-players", str(RESTART_PLAYERS), "-d", f"{seconds:.0f}s", "-warmup", "2s"]
        rows.extend(processes.load(run.program, server.target, "mixed", *arguments))

    async with trio.open_nursery() as nursery:
        seconds = await _seconds_of_a_restart(server)
        nursery.start_soon(trio.to_thread.run_sync, play, 10.0 + RESTARTED * seconds)
        await trio.sleep(5.0)  # the players register and take their seats
        for place in range(RESTARTED):
            await _restart(server, place)
        if rows:
            raise SystemExit("the players had finished before the last worker was back")
    (row,) = rows
    wrong = {kind: row["updates"][kind] for kind in mixed.WRONGS if row["updates"][kind]}
    cells = [
        f"{sum(kind['Count'] for kind in row['kinds'].values()):,}",
        "; ".join(f"{count} {text}" for text, count in row["errors"].items()) or "none",
        ", ".join(f"{count} {kind}" for kind, count in wrong.items()) or "none",
        *(f"{row['lat_ms'][figure]:.1f}" for figure in ("P50", "P99", "Max")),
    ]
    for each in row["failures"] or ():
        run.say(
            f"{each['kind']} failed at {each['ms']} ms, after {each['took_ms']} ms: "
            f"{each['status'] or 'its connection was lost'} {each['text']}"
        )
    return " | ".join(cells)


async def _seconds_of_a_restart(server: crew.BenchCrew) -> float:
    """Restart a worker while nobody plays; return how long it takes, and half as much again."""
    began = trio.current_time()
    await _restart(server, 0)
    return 1.5 * (trio.current_time() - began)


async def _restart(server: crew.BenchCrew, place: int) -> None:
    """Stop a worker in order, and wait until another process has taken its place."""
    nodes = sorted(server.nodes(), key=lambda node: node.name)
    leaves = nodes[place]
    os.kill(leaves.pid, signal.SIGTERM)
    if not await until(lambda: server.is_whole(without=leaves.node), RESTART_SECONDS_MAX):
        raise SystemExit(f"no worker has taken the place of {leaves.name} in time")
    await trio.sleep(REST_SECONDS)
