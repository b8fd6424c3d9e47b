"""A method's name begins with a verb, so that a call reads as what it does."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "greenroom"
VERBS = Path(__file__).with_name("verbs.txt")

PREDICATES = frozenset({"is", "has", "may", "can", "must"})
STATEMENTS = frozenset(
    {
        *("awaits", "heeds", "holds", "lacks", "owns"),
        *("serves", "takes", "trusts", "vouches", "wants"),
    }
)
"""Verbs of methods that return whether it is so, as `owns(shard)`."""
PROPERTY = r"property|\.setter"
HOOK = "on"
"""Called when that happens, as `on_join`."""
NOUN = r"_*[a-z]+_of"
"""A noun, though its first word may be a verb elsewhere: `seat_of`, `count_of`."""


class Kept(NamedTuple):
    """Names of methods in a module that others have given."""

    path: str
    names: str
    reason: str


TIME = "Python's `datetime` and `time` call them so"
TRIO = "trio's `Instrument` has them"
STATUS = "trio's status of a task has it"
HYPERCORN = "Hypercorn calls them so"
RANDOM = "Python's `random.Random` has them"
HOOKS = "studios' behaviours define them, as the released `RoomBehaviour` calls them"
ROOM = "studios' behaviours call them: `room.after(5, …)` and `max` read as the rule they are in"
CLIENT = "released, and the libraries for other languages have the same: `game.rooms()`"
HARNESS = "released: tests of studios' behaviours call them"

GIVEN = (
    Kept("actors/services/job_tasks.py", "task_spawned", TRIO),
    Kept("network/pass_sender.py", "before_io_wait", TRIO),
    Kept("cluster/lease_guard.py", "after_io_wait", TRIO),
    Kept("http/overload/cpu_shares.py", "after_task_step", TRIO),
    Kept("http/overload/pass_budget.py", "after_io_wait before_io_wait", TRIO),
    Kept("control/database_service.py", "started", STATUS),
    Kept("supervisors/supervisor.py", "started", STATUS),
    Kept("workers/crew.py", "started", STATUS),
    Kept("http/server/handoff.py", "selected_alpn_protocol", "Python's `ssl` calls it so"),
    Kept(
        "http/server/hypercorn_server.py",
        "_idle_timeout _maybe_recycle protocol_send",
        HYPERCORN,
    ),
    Kept(
        "http/server/http2_protocol.py",
        "_priority_updated initiate insert_stream block unblock",
        HYPERCORN,
    ),
    Kept("actors/kernel/clock.py", "now time monotonic", TIME),
    Kept("testing/clock.py", "now time monotonic", TIME),
    Kept("behaviour/chance.py", "random getrandbits gauss seed getstate setstate", RANDOM),
    Kept("demo/pilots.py", "random gauss", RANDOM),
)
"""Names that Python and libraries give."""

STUDIOS = (
    Kept("behaviour/behaviour.py", "initial_state shared private", HOOKS),
    Kept("demo/comets.py", "initial_state shared", HOOKS),
    Kept("demo/noughts.py", "shared", HOOKS),
    Kept("behaviour/player.py", "max min", ROOM),
    Kept("behaviour/room.py", "after every player", ROOM),
    Kept("client/admin.py", "players stats", CLIENT),
    Kept("client/channel.py", "states action", CLIENT),
    Kept("client/friends.py", "invites", CLIENT),
    Kept("client/game.py", "admin document rooms lobbies leaderboard time", CLIENT),
    Kept("client/lobby.py", "current players", CLIENT),
    Kept("client/player.py", "document room lobby realtime_token realtime", CLIENT),
    Kept("client/room.py", "current players results pending updates", CLIENT),
    Kept("testing/harness.py", "pending heard polled view", HARNESS),
)
"""Names in studios' code, which would break with other ones. No new ones come to them."""

KEPT = {(kept.path, name) for kept in (*GIVEN, *STUDIOS) for name in kept.names.split()}


class Method(NamedTuple):
    """One method of the package."""

    path: str
    line: int
    name: str
    returns: str

    @property
    def first_word(self) -> str:
        return self.name.strip("_").split("_")[0]

    def __str__(self) -> str:
        return f"greenroom/{self.path}:{self.line}: {self.name}"


def methods_of(path: str, text: str) -> Iterator[Method]:
    """Yield the methods in a module, without properties and those with two underscores."""
    for outer in ast.walk(ast.parse(text)):
        if isinstance(outer, ast.ClassDef):
            for node in outer.body:
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                    decorators = " ".join(map(ast.unparse, node.decorator_list))
                    if not node.name.startswith("__") and not re.search(PROPERTY, decorators):
                        returns = ast.unparse(node.returns) if node.returns else ""
                        yield Method(path, node.lineno, node.name, returns)


def all_methods() -> Iterator[Method]:
    for path in sorted(PACKAGE.rglob("*.py")):
        yield from methods_of(str(path.relative_to(PACKAGE)), path.read_text())


@cache
def verbs() -> frozenset[str]:
    return frozenset(VERBS.read_text().split())


def is_well_named(method: Method) -> bool:
    if (method.path, method.name) in KEPT:
        return True
    if method.first_word in STATEMENTS:
        return re.match(r"bool\b", method.returns) is not None
    begins_well = method.first_word in verbs() | PREDICATES | {HOOK}
    return begins_well and not re.fullmatch(NOUN, method.name)


def test_a_method_begins_with_a_verb() -> None:
    badly = [str(method) for method in all_methods() if not is_well_named(method)]
    assert not badly, "begin with a verb; a new one goes into tests/repository/verbs.txt"


def test_a_planted_noun_is_found() -> None:
    text = '''
class Room:
    def close(self): ...
    def _members(self): return []
    def cleanup(self): """Close what is open."""
    def members(self): """Return who is in it."""
    def seat_of(self, player_id): """Return where somebody sits."""
    def owns(self, shard) -> bool: ...
    def holds(self) -> list[str]: ...
    @property
    def _host(self): ...
    @_host.setter
    def _host(self, host): ...
'''
    found = [method.name for method in methods_of("x.py", text) if not is_well_named(method)]
    assert found == ["_members", "cleanup", "members", "seat_of", "holds"]


def test_the_lists_have_nothing_that_is_not_used() -> None:
    methods = list(all_methods())
    assert verbs() | STATEMENTS <= {method.first_word for method in methods}
    others = {(method.path, method.name) for method in methods if method.first_word not in verbs()}
    assert others >= KEPT
