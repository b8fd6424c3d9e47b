"""Run scenarios and write what they measured into bench/RESULTS.md; `scripts/bench` calls it.

Every scenario has a section of its own there, between two markers, so that one may be measured
again without the rest.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import arenas
import charts
import churn
import cluster
import disk
import endpoints
import growth
import idle
import instructions
import join_rate
import lobby_start
import machine
import mixed
import one_game
import overload
import overview
import pairs
import press
import printed
import processes
import relay_rooms
import restart
import results
import room_list
import rooms_memory
import top_ten
import udp_relay
from scenario import Run, Scenario

SCENARIOS: tuple[Scenario, ...] = (
    endpoints.SCENARIO,
    mixed.SCENARIO,
    room_list.SCENARIO,
    top_ten.SCENARIO,
    rooms_memory.SCENARIO,
    restart.SCENARIO,
    disk.SCENARIO,
    relay_rooms.SCENARIO,
    udp_relay.SCENARIO,
    idle.SCENARIO,
    join_rate.SCENARIO,
    lobby_start.SCENARIO,
    growth.SCENARIO,
    arenas.SCENARIO,
    churn.SCENARIO,
    cluster.SCENARIO,
    one_game.SCENARIO,
    overload.SCENARIO,
    press.SCENARIO,
    pairs.SCENARIO,
    instructions.SCENARIO,
    printed.scenario(
        "state-sync",
        "rooms of 8 at 20 Hz, in one process",
        "realtime/state_sync.py",
        is_default=True,
    ),
    printed.scenario("moderation", "recall, precision, time", "api/moderation.py", is_default=True),
    printed.scenario(
        "leaderboard", "1,000,000 players", "api/leaderboard.py", is_default=False, minutes=5
    ),
)


def main() -> None:
    """Measure, print and write; see the module's docstring."""
    options = parse()
    if options.list:
        for scenario in SCENARIOS:
            mark = "*" if scenario.is_default else " "
            print(f"{mark} {scenario.name:16} {scenario.minutes:3} min  {scenario.summary}")
        total = sum(scenario.minutes for scenario in SCENARIOS if scenario.is_default)
        print(f"* runs when none is named, all of them some {total} min")
        return
    known = {scenario.name: scenario for scenario in SCENARIOS}
    unknown = [name for name in options.scenarios if name not in known]
    if unknown:
        raise SystemExit(f"no such scenario: {', '.join(unknown)}; known: {', '.join(known)}")
    chosen = [known[name] for name in options.scenarios] or [
        scenario for scenario in SCENARIOS if scenario.is_default or options.all
    ]
    program = processes.build_loadgen()
    for number, scenario in enumerate(chosen, 1):
        run = Run(
            program=program,
            rounds=options.rounds,
            seconds=options.seconds,
            title=f"{number}/{len(chosen)} {scenario.name}",
            is_quick=options.quick,
            only=options.only,
            against=tuple(options.against),
        )
        run.say(f"some {sum(each.minutes for each in chosen[number - 1 :])} minutes to go")
        load = machine.load()
        began = time.monotonic()
        body = scenario.measure(run)
        took_seconds = time.monotonic() - began
        picture = Path("plots") / f"{scenario.name}.png"
        if run.charts:
            body = f"{body.strip()}\n\n![{scenario.name}]({picture})"
        text = section(scenario, body, options, load, took_seconds)
        print(text, flush=True)
        if options.dry or options.only:
            continue
        if run.charts:
            charts.save(run.charts, options.into / picture)
        results.write(options.into / "RESULTS.md", scenario.name, text)
        overview.draw(options.into)


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        prog="scripts/bench", description="Measure the server on this machine."
    )
    parser.add_argument("scenarios", nargs="*", metavar="scenario", help="default: the quick ones")
    parser.add_argument("--all", action="store_true", help="every scenario there is")
    parser.add_argument("--list", action="store_true", help="name them, measure nothing")
    parser.add_argument("--rounds", type=int, default=3, help="of each measurement (default 3)")
    parser.add_argument("--seconds", type=int, default=6, help="of each measurement (default 6)")
    parser.add_argument("--quick", action="store_true", help="a small share of long scenarios")
    parser.add_argument(
        "--only",
        metavar="PART,PART",
        type=lambda text: frozenset(text.split(",")),
        default=frozenset[str](),
        help="parts of a scenario, such as floods of `press`; RESULTS.md stays as it is",
    )
    parser.add_argument(
        "--against",
        metavar="CHECKOUT",
        type=Path,
        action="append",
        default=[],
        help="what `pairs` and `instructions` compare with, such as a `git worktree` of an older "
        "commit; may be given several times",
    )
    parser.add_argument("--dry", action="store_true", help="print, but leave RESULTS.md as it is")
    parser.add_argument(
        "--into",
        metavar="FOLDER",
        type=Path,
        default=Path(__file__).parent,
        help="where RESULTS.md and its plots are (default: bench)",
    )
    options = parser.parse_args()
    if options.rounds < 1 or options.seconds < 1:
        parser.error("--rounds and --seconds must be at least 1")
    for checkout in options.against:
        if not (checkout / "greenroom" / "__main__.py").is_file():
            parser.error(f"--against {checkout}: no checkout of Greenroom is there")
    if sys.platform != "linux":
        parser.error("measuring needs Linux: it pins processes to cores and reads /proc")
    return options


def section(
    scenario: Scenario, body: str, options: argparse.Namespace, load: str, took_seconds: float
) -> str:
    """Return a scenario's results with how they were come by."""
    quick = " --quick" if options.quick else ""
    quick += f" --only {','.join(sorted(options.only))}" if options.only else ""
    quick += "".join(f" --against {machine.commit(each)}" for each in options.against)
    chosen = f"--rounds {options.rounds} --seconds {options.seconds}{quick}"
    settings = ", ".join(filter(None, (processes.settings(), scenario.settings)))
    software, hardware = machine.describe()
    return f"""## {scenario.name}: {scenario.summary}

{body.strip()}

| measured | |
|---|---|
| when | {time.strftime("%Y-%m-%d")}, in {took_seconds:.0f} s |
| with | `scripts/bench {scenario.name} {chosen}` |
| software | {software} |
| machine | {hardware}; load before: {load} |
| settings other than the defaults | {settings} |
"""


if __name__ == "__main__":
    main()
