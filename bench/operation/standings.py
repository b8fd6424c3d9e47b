"""Measure the first 10 of 1,000,000 players of one game, on one process and over two nodes.

The players are in eight partitions, and each of two nodes has some of these. Both kinds of servers
run on the same database by turns. For an answer of two nodes each gives its first players, and the
answers are merged.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import answers
import comparison
import crew
import processes
import seed
import top_ten
from comparison import Figure, Figures
from scenario import Run

PARTITIONS: Final = {"partitions_per_game": "8"}
"""The number that `auto` chooses with two nodes. Here a single process makes the game."""
ONE, TWO = "one process", "two nodes"
WAYS: Final = {ONE: 1, TWO: 2}
"""The workers of each server."""
PLAYERS_QUICK: Final = 20_000
SHOWN: Final = 10
QUIET: Final = f"top {SHOWN}"
BUSY: Final = f"top {SHOWN}, {top_ten.CHANGES_PER_SECOND} changes/s"
AIM: Final = 10_000
"""Answers a second, over two nodes."""


def measure(run: Run) -> str:
    """Measure one process and two nodes by turns."""
    players = PLAYERS_QUICK if run.is_quick else top_ten.PLAYERS
    figures: dict[tuple[str, str], list[Figure]] = defaultdict(list)
    with processes.fresh_folder() as folder:
        run.say(f"{players:,} players are put into the database")
        with crew.serving(folder, 1, **PARTITIONS):
            url = processes.database_url(folder)
            seed.add_players(url, players, are_online=False)
            best = seed.best_players(url, top_ten.BEST)
            tokens = seed.give_tokens(url, best)
        for number in range(1, run.rounds + 1):
            for way, workers in WAYS.items():
                run.say(f"round {number} of {run.rounds}: {way}")
                with crew.serving(folder, workers) as server:
                    _build(run, server, players)
                    for call, figure in _measure_calls(run, server.target, folder, tokens):
                        figures[call, way].append(figure)
    return "\n".join(report(figures, players))


def _build(run: Run, server: crew.BenchCrew, players: int) -> None:
    """Have the index built, and require that all players are in it."""
    counts = sorted(server.partitions_by_node().values())
    if len(counts) != server.workers:
        raise SystemExit(f"{len(counts)} nodes have partitions of the game")
    seconds, answer = top_ten.build(server.target)
    shown, total = len(answer["leaderboard"]), answer["total"]
    if (shown, total) != (SHOWN, players):
        raise SystemExit(f"a leaderboard of {total:,} players that shows {shown}")
    told = " and ".join(map(str, counts))
    run.say(f"built in {seconds:.1f} s; {told} partitions")


def _measure_calls(
    run: Run, target: processes.Target, folder: Path, tokens: list[str]
) -> Iterator[tuple[str, Figure]]:
    """Give the figures while nothing changes, and while the best change places."""
    yield QUIET, _measure(run, target)
    top_ten.log_in(run, target, folder, tokens)
    with top_ten.changing(run, target, folder, tokens):
        yield BUSY, _measure(run, target)


def _measure(run: Run, target: processes.Target) -> Figure:
    row = processes.request(
        run.program,
        target,
        *("-url", f"{target.url}/api/leaderboard.php", "-method", "POST"),
        *("-H", f"X-Api-Token: {target.api_token}", "-body", json.dumps(top_ten.BODY)),
        *("-c", str(answers.CONNECTIONS), "-d", f"{run.seconds}s", "-warmup", "2s"),
    )
    return Figure.of(row["rps"], answers.cpu_seconds(row), row["lat_ms"]["P99"])


def report(figures: Figures, players: int) -> list[str]:
    """Return the results, line by line."""
    reached = comparison.middle(figures, QUIET, TWO, comparison.WALL)
    verdict = "it holds" if reached >= AIM else "it is MISSED"
    return [
        f"One game of {players:,} players in {PARTITIONS['partitions_per_game']} partitions, some",
        f"of which each of two nodes has; {answers.CONNECTIONS} connections in a closed loop.",
        "Each change brings one of the best to the first place. It is a call of its own, whose",
        "cost is included in the CPU, and which is not counted as an answer. The ratios are those",
        "by the wall clock and by CPU.",
        "",
        *comparison.table(figures, [*WAYS], [ONE]),
        f"The aim is {AIM:,} answers a second over two nodes, `{QUIET}`: {verdict}, at",
        f"{reached:,.0f}.",
    ]
