"""Have Autobahn's fuzzing client judge the realtime port's connections; see HELP.

What is judged is the code that serves players (`transport/connection.py` and all it stands on).
Only the room is left out: everybody is let in, and hears their own messages.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, cast

import msgspec
import trio

from greenroom.actors.world.world import World
from greenroom.cluster.relaying.first_line import RelayLines
from greenroom.cluster.relaying.relay import RealtimeRelay
from greenroom.cluster.shard_map import ShardMap
from greenroom.transport.arrival.arrival import Arrived
from greenroom.transport.arrival.handshake import Opening
from greenroom.transport.connection import RealtimeConnection
from greenroom.transport.hub import Hub
from greenroom.transport.listener import RealtimePort
from greenroom.transport.options import RealtimeOptions
from greenroom.transport.ports import RelayTarget
from greenroom.transport.websocket.frames import encode_frame
from greenroom.transport.websocket.session import SessionPhase

ROOT = Path(__file__).resolve().parent.parent
REPORT = ROOT / "tests" / "transport" / "autobahn.json"
RELAYED_REPORT = REPORT.with_name("autobahn-relayed.json")
RELAYED = "--relayed"
PACKAGES = ROOT / ".cache" / "autobahn"
SUITE = "autobahntestsuite==25.10.1"

HELP = f"""\
usage: scripts/autobahn             every case (half a minute); writes {REPORT.relative_to(ROOT)}
       scripts/autobahn CASES...    some cases ("6.*" 7.1.1); writes nothing
       scripts/autobahn --relayed [CASES...]
                                    the same by way of another node, which relays the connections;
                                    writes {RELAYED_REPORT.relative_to(ROOT)}

Autobahn's test suite runs on Python 2.7 alone, so CI does not run this. Needed: a Python 2.7
(CPython or PyPy) with pip, named by AUTOBAHN_PYTHON unless it is called python2.7, python2 or pypy.
The first time {SUITE} is installed into {PACKAGES.relative_to(ROOT)} (a minute).
"""

AGENT = "greenroom"
EXTENSIONS = ("12.*", "13.*")
"""Cases of permessage-deflate, which is never agreed to: the suite would skip each by itself."""

RUN_SUITE = """\
import site, sys
site.addsitedir(sys.argv.pop(1))
from autobahntestsuite.wstest import run
run()
"""
IS_SUITABLE = "import pip, sys; sys.exit(sys.version_info[:2] != (2, 7))"

OWNER, INGRESS = 1, 2
"""The nodes: the one that echoes, and the one that relays to it."""
KEY = bytes(32)
"""The key that seals the first line of a relayed connection."""

GOOD = frozenset({"OK", "INFORMATIONAL"})
"""The latter where the protocol leaves open what to do."""


OPTIONS = RealtimeOptions(
    host="127.0.0.1",
    message_bytes_max=32 << 20,
    outbox_bytes_max=64 << 20,
    messages_per_second=1e9,
)
"""The suite sends messages of up to 16 MiB, as fast as it can."""


class CannotRun(Exception):
    """The suite cannot run here; the text is for whoever ran the script."""


def main(arguments: Sequence[str]) -> int:
    """Run the suite; return the exit status."""
    if arguments and arguments[0] in {"-h", "--help"}:
        print(HELP, end="")
        return 0
    try:
        python = find_python()
        install(python)
    except CannotRun as error:
        print(error, file=sys.stderr)
        return 2
    cases = [argument for argument in arguments if argument != RELAYED]
    return trio.run(partial(judge, python, cases, is_relayed=RELAYED in arguments))


def find_python() -> str:
    """Return a Python 2.7 with pip.

    Raises:
        CannotRun: there is none.
    """
    named = os.environ.get("AUTOBAHN_PYTHON")
    candidates = [named] if named else ["python2.7", "python2", "pypy"]
    for candidate in filter(shutil.which, candidates):
        tried = [candidate, "-c", IS_SUITABLE]
        if subprocess.run(tried, capture_output=True, check=False).returncode == 0:
            return candidate
    looked_for = ", ".join(candidates)
    raise CannotRun(
        f"Autobahn's test suite needs a Python 2.7 with pip; found none (looked for: {looked_for})."
        " Name one: AUTOBAHN_PYTHON=/path/to/python2.7 scripts/autobahn"
    )


def install(python: str) -> None:
    """Install the suite, unless it is there.

    Raises:
        CannotRun: pip failed.
    """
    stamp = PACKAGES / "greenroom-suite"
    made_of = f"{SUITE} {python}"
    if stamp.exists() and stamp.read_text() == made_of:
        return
    if PACKAGES.exists():
        shutil.rmtree(PACKAGES)
    print(f"Installing {SUITE} ...", file=sys.stderr)
    pip = [python, "-m", "pip", "install", "--disable-pip-version-check", "--quiet"]
    installed = subprocess.run(
        [*pip, "--target", str(PACKAGES), SUITE],
        env=python2_variables(),
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    if installed.returncode != 0:
        raise CannotRun(
            f"{installed.stderr}\npip could not install {SUITE}; what it said is above."
        )
    stamp.write_text(made_of)


def python2_variables() -> dict[str, str]:
    """Return the environment for Python 2: ours without where our modules are."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


async def judge(python: str, cases: Sequence[str], *, is_relayed: bool) -> int:
    """Serve, run the suite on it, and tell; return the exit status."""
    with tempfile.TemporaryDirectory(prefix="greenroom-") as directory:
        async with trio.open_nursery() as nursery:
            port = await start_port(nursery, is_relayed=is_relayed)
            await trio.to_thread.run_sync(run_suite, python, port.port, cases, Path(directory))
            nursery.cancel_scope.cancel()
        found = json.loads((Path(directory) / "index.json").read_bytes())[AGENT]
    report = RELAYED_REPORT if is_relayed else REPORT
    return tell(found, None if cases else report)


async def start_port(nursery: trio.Nursery, *, is_relayed: bool) -> RealtimePort:
    """Start the port that echoes, and return it, or the one that relays to it."""
    nobodys_world = cast("World", NobodysWorld())
    port: RealtimePort = EchoPort(OPTIONS, nobodys_world, Hub(), relay=relay_of(OWNER))
    await nursery.start(port.run)
    if is_relayed:
        RelayedConnection.owner_port = port.port
        port = RelayingPort(OPTIONS, nobodys_world, Hub(), relay=relay_of(INGRESS))
        await nursery.start(port.run)
    return port


class NobodysWorld:
    """The world of a connection whose member is never let in."""

    as_of: ClassVar[int | None] = None


class Echo(RealtimeConnection):
    """A connection without a member, whose messages come back."""

    async def _admit(self, opening: Opening, as_of: int | None) -> None:
        """Let everybody in."""

    def _take_messages(
        self,
        data: bytes,
        now: float,  # noqa: ARG002 - nobody sends too fast
    ) -> float | None:
        """Send every message back; go on until the session is over."""
        self._session.receive(data)
        while (message := self._session.read_next()) is not None:
            self.put(encode_frame(*message))
        return None if self._session.phase is SessionPhase.OVER else 0.0


class EchoPort(RealtimePort):
    """A realtime port of such connections."""

    connection_class = Echo


class RelayedConnection(RealtimeConnection):
    """A connection whose room is said to be the other node's."""

    owner_port: ClassVar[int]

    async def _serve(self, arrived: Arrived) -> None:
        """Relay it, unless it is no opening of a WebSocket."""
        if arrived.opening is not None:
            target = RelayTarget(OWNER, OPTIONS.host, self.owner_port, "0" * 32)
            arrived = msgspec.structs.replace(arrived, target=target)
        await super()._serve(arrived)


class RelayingPort(RealtimePort):
    """A realtime port that relays all connections."""

    connection_class = RelayedConnection


class NoRooms:
    """A database without rooms; see `RoomShards`."""

    async def find_shard_of_room(self, room_id: str) -> int | None:  # noqa: ARG002 - there is none
        """Find nothing."""
        return None


class Owner(msgspec.Struct, frozen=True):
    """The row of the node that owns all rooms; its address is told to `RelayedConnection`."""

    node_id: int = OWNER
    addresses: Mapping[str, str] = {}


def relay_of(node_id: int) -> RealtimeRelay[Owner]:
    """Return what relays and takes relayed connections at a node."""
    lines = RelayLines(node_id, KEY, time=time.time, random_bytes=os.urandom)
    shards = ShardMap[Owner](node_id)
    shards.note_nodes([Owner()])
    return RealtimeRelay(shards, NoRooms(), lines, has_room=lambda _: False)


def run_suite(python: str, port: int, cases: Sequence[str], directory: Path) -> None:
    """Run the suite's fuzzing client; its report goes into a directory."""
    plan = {
        "outdir": str(directory),
        "servers": [{"agent": AGENT, "url": f"ws://127.0.0.1:{port}/"}],
        "cases": list(cases) or ["*"],
        "exclude-cases": list(EXTENSIONS),
        "exclude-agent-cases": {},
    }
    specification = directory / "plan.json"
    specification.write_text(json.dumps(plan))
    suite = [python, "-c", RUN_SUITE, str(PACKAGES)]
    subprocess.run(
        [*suite, "-m", "fuzzingclient", "-s", str(specification)],
        check=True,
        cwd=directory,
        env=python2_variables(),
        stdout=subprocess.DEVNULL,
    )


def find_commit() -> str:
    """Return the commit that is judged; a `+` says that something is changed."""
    command = ["git", "describe", "--always", "--exclude", "*", "--dirty=+"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


def tell(found: Mapping[str, Mapping[str, Any]], report: Path | None) -> int:
    """Print what is amiss and how many cases ended how; write the report if there is to be one."""
    cases = {
        case: {"behavior": found[case]["behavior"], "close": found[case]["behaviorClose"]}
        for case in sorted(found, key=lambda case: [int(part) for part in case.split(".")])
    }
    amiss = {name: ended for name, ended in cases.items() if not GOOD.issuperset(ended.values())}
    for name, ended in amiss.items():
        print(f"{name}: {ended['behavior']}, on closing {ended['close']}")
    counts = Counter(ended["behavior"] for ended in cases.values())
    told = ", ".join(f"{count} {behavior}" for behavior, count in counts.most_common())
    print(f"{len(cases)} cases: {told}")
    if report is not None:
        lines = ",\n".join(f'    "{name}": {json.dumps(ended)}' for name, ended in cases.items())
        report.write_text(
            f'{{\n  "suite": "{SUITE}",\n  "date": "{datetime.now(UTC).date()}",\n'
            f'  "commit": "{find_commit()}",\n  "left_out": {json.dumps(EXTENSIONS)},\n'
            f'  "cases": {{\n{lines}\n  }}\n}}\n'
        )
    return 1 if amiss else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
