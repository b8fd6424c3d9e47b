"""Torture a server: a crowd plays while all sorts of things are done to it and to its Postgres.

Every crowd keeps an independent record of what was acknowledged, and compares. Ends with status 0
when nothing was lost, doubled, skipped or stuck; else with 1, and says what.
"""

from __future__ import annotations

import argparse
import random
import sys
from pathlib import Path

import trio

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), *map(str, (ROOT / "tests" / "support").glob("**/"))]

from torture_fleet_faults import (  # noqa: E402 (found by the line above)
    FAULTS,
    OF_CREWS,
    OF_FLEETS,
)
from torture_rooms import CROWDS  # noqa: E402
from torture_run import torture  # noqa: E402
from torture_server import MUTATIONS  # noqa: E402
from torture_target import say  # noqa: E402

PROOFS = {
    "drop-commits": ("killed_server",),
    "apply-twice": ("crashed_actor",),
    "commit-asynchronously": ("killed_machine",),
    "forget-revocations": ("killed_server",),
    "forget-deliveries": ("stopped_server",),
    "tell-rooms-late": ("stopped_server",),
    "forget-results": ("killed_server",),
    "repeat-results": ("killed_server",),
    "repeat-requests": ("killed_server",),
    "read-old-documents": ("crashed_actor",),
    "read-old-rosters": ("crashed_actor",),
    "let-hooks-end-the-server": ("frozen_server",),
}
"""By mutation, the faults that bring it to light."""
KINDS = {kind.__name__: kind for kind in CROWDS}
PROOF_SECONDS = 60.0


def main() -> int:
    """Run what the command line asks for; return the exit status."""
    parser = argparse.ArgumentParser(prog="scripts/torture", description=__doc__)
    parser.add_argument("--minutes", type=float, default=1.0, help="how long (default: 1)")
    parser.add_argument("--seed", type=int, help="repeat a run; drawn and printed by default")
    parser.add_argument(
        "--workers", type=int, default=1, metavar="N", help="of a server with workers"
    )
    parser.add_argument(
        "--nats", type=int, default=1, metavar="N", help="of N machines over NATS, a process each"
    )
    parser.add_argument(
        "--partitions", type=int, default=1, metavar="N", help="of each game (default: 1)"
    )
    parser.add_argument("--faults", nargs="+", choices=FAULTS, default=[], help="only these")
    parser.add_argument("--crowds", nargs="+", choices=KINDS, default=[*KINDS], help="only these")
    parser.add_argument("--report", type=Path, metavar="FILE", help="write the report there, too")
    parser.add_argument("--log", type=Path, metavar="FILE", help="write the server's log there")
    parser.add_argument("--mutation", choices=MUTATIONS, help="plant a bug that must be found")
    parser.add_argument("--prove", action="store_true", help="have each mutation found, and end")
    given = parser.parse_args()
    if min(given.workers, given.nats) < 1:
        parser.error("--workers and --nats take a number from 1 on")
    if given.workers > 1 < given.nats:
        parser.error("give --workers or --nats: the machines of --nats are a process each")
    has_several = max(given.workers, given.nats) > 1
    if not has_several and (alone := sorted(OF_CREWS.intersection(given.faults))):
        parser.error(f"{', '.join(alone)}: only a server with --workers or --nats can have that")
    if given.nats == 1 and (near := sorted(OF_FLEETS.intersection(given.faults))):
        parser.error(f"{', '.join(near)}: only machines of --nats can have that")
    seed = random.SystemRandom().randrange(10**6) if given.seed is None else given.seed
    say(f"seed {seed}")
    if given.prove:
        return max(prove(mutation, seed) for mutation in PROOFS)
    run = lambda: torture(  # noqa: E731 - what trio.run takes has no keywords
        given.minutes * 60,
        seed,
        mutation=given.mutation,
        faults=given.faults,
        crowd_types=[KINDS[name] for name in given.crowds],
        workers=given.workers,
        machines=given.nats,
        partitions=given.partitions,
    )
    outcome = trio.run(run)
    print(outcome.report())
    if given.report is not None:
        given.report.write_text(outcome.report())
    if given.log is not None:
        given.log.write_text(outcome.log)
    return 1 if outcome.violations else 0


def prove(mutation: str, seed: int) -> int:
    """Return 0 if a planted bug was found, else 1."""
    run = lambda: torture(  # noqa: E731 - as above
        PROOF_SECONDS, seed, mutation=mutation, faults=PROOFS[mutation]
    )
    outcome = trio.run(run)
    if outcome.violations:
        print(f"{mutation}: found: {outcome.violations[0]}", flush=True)
        return 0
    print(f"{mutation}: NOT FOUND", flush=True)
    return 1


if __name__ == "__main__":
    sys.exit(main())
