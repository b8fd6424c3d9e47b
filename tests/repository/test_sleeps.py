"""No test sleeps for real: it waits for an event, polls by `waiting`, or has a virtual clock."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

SLEEPS = {"sleep", "time.sleep", "trio.sleep", "trio.sleep_until"}
VIRTUAL_CLOCKS = {"autojump_clock", "mock_clock", "MockClock"}

VIRTUAL = {
    "tests/machines/test_shard_histories.py": "its histories run on a virtual clock",
    "tests/support/kernel_kit.py": "loads of actors; the kernel's tests have a virtual clock",
    "tests/support/machines/machine_store.py": "a database of the machines, on a virtual clock",
    "tests/support/machines/machine_world.py": "a world of the machines, on a virtual clock",
    **dict.fromkeys(
        (
            "tests/support/simulation/sim_cluster.py",
            "tests/support/simulation/sim_faults.py",
            "tests/support/simulation/sim_mutations.py",
            "tests/support/simulation/sim_plays.py",
            "tests/support/simulation/sim_shares.py",
        ),
        "a simulation, on a virtual clock",
    ),
    "tests/support/cluster/membership_kit.py": "a cluster; its tests have a virtual clock",
    "tests/support/world_kit.py": "a database in memory; its tests have a virtual clock",
}
"""Kits whose sleep takes no time, though the clock is chosen elsewhere."""

REAL = {
    "tests/deploy/test_alerts.py": "shows that no alert fires for a while; a player has leisure",
    "tests/faults/test_slow_database.py": "clients pause between calls, and overload takes time",
    "tests/faults/test_stalled_readers.py": "the pace of the clients is the load",
    "tests/persistence/test_committer.py": "shows that a gate stays open for a while",
    "tests/persistence/test_storage.py": "Postgres is killed at a moment that chance gives",
    "tests/repository/kits/test_patient_clock.py": "the clock of the tests is what is tested",
    "tests/support/crowd_kit.py": "a refused client pauses before it tries again",
    "tests/support/demo/demo_kit.py": "players hold keys for a while",
    "tests/support/histories/history_clients.py": "a refused client pauses before it tries again",
    "tests/support/sdks/line_kit.py": "a slow line is what is played",
    "tests/support/servers/cheat_kit.py": "what rests shows in two equal looks, a while apart",
    "tests/support/servers/honest_kit.py": "honest players steer at a human pace",
    "tests/support/servers/pair_kit.py": "a refused client pauses before it tries again",
    "tests/support/torture/torture_crowds.py": "the pace of the clients is the load",
    "tests/support/torture/torture_faults.py": "faults strike at moments that chance gives",
    "tests/support/torture/torture_fleet.py": "looks at real servers now and then",
    "tests/support/torture/torture_processes.py": "a process stands still for some time",
    "tests/support/torture/torture_rooms.py": "the pace of the clients is the load",
    "tests/support/torture/torture_run.py": "the calm between two faults has a length",
    "tests/support/waiting.py": "polls for all others, within a limit",
    "tests/transport/test_pressure.py": "a slow reader is what is tested",
}
"""Files in which a sleep is the load itself, or the length of what is shown, with the reason."""

Function = ast.FunctionDef | ast.AsyncFunctionDef


def sleeps_in(source: str) -> list[int]:
    """Return the lines of a module that may sleep for real.

    A test must take a virtual clock. For the helpers of a module it is enough that the module
    names one.
    """
    if "sleep" not in source:
        return []
    tree = ast.parse(source)
    names = {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    names |= {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    is_module_virtual = bool(VIRTUAL_CLOCKS & names)
    return [
        call.lineno
        for function, call in _sleeps(tree, None)
        if not _is_virtual(function, is_module_virtual=is_module_virtual)
    ]


def _sleeps(node: ast.AST, function: Function | None) -> Iterator[tuple[Function | None, ast.Call]]:
    """Yield each call that sleeps for more than no time, with the outermost function around it."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Call) and _takes_time(child):
            yield function, child
        within = child if function is None and isinstance(child, Function) else function
        yield from _sleeps(child, within)


def _takes_time(call: ast.Call) -> bool:
    return ast.unparse(call.func) in SLEEPS and [*map(ast.unparse, call.args)] != ["0"]


def _is_virtual(function: Function | None, *, is_module_virtual: bool) -> bool:
    if function is None or not function.name.startswith("test_"):
        return is_module_virtual
    return any(
        node.arg in VIRTUAL_CLOCKS for node in ast.walk(function.args) if isinstance(node, ast.arg)
    )


def test_no_test_sleeps_for_real_but_where_the_sleep_is_the_load() -> None:
    found = {
        str(path.relative_to(ROOT)): lines
        for path in sorted((ROOT / "tests").rglob("*.py"))
        if (lines := sleeps_in(path.read_text()))
    }

    unknown = {path: lines for path, lines in found.items() if path not in VIRTUAL | REAL}
    assert not unknown, "wait with `waiting.until`, or for an event"
    assert not (VIRTUAL | REAL).keys() - found.keys(), "these sleep no more: take them off the list"


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ("async def test_a(autojump_clock):\n    await trio.sleep(1)", []),
        ("async def test_a():\n    await trio.sleep(0)", []),
        ("async def test_a():\n    await trio.sleep(1)", [2]),
        ("def test_a():\n    while True:\n        time.sleep(0.01)", [3]),
        ("async def help():\n    await trio.sleep(1)", [2]),
        ("async def help():\n    await trio.sleep(1)\nasync def test_a(mock_clock): ...", []),
        ("async def test_a():\n    await trio.sleep(1)\nasync def test_b(mock_clock): ...", [2]),
        ("class A:\n    def run(self):\n        time.sleep(1)", [3]),
    ],
)
def test_a_sleep_is_found_where_no_virtual_clock_is(source: str, lines: list[int]) -> None:
    assert sleeps_in(source) == lines
