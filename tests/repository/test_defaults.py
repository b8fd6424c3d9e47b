"""Defaults are stated once, in `config.py`; everything else takes them from there."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from greenroom import actor_settings
from greenroom.config import DEFAULTS, FIELDS, Settings

PACKAGE = Path(__file__).resolve().parents[2] / "greenroom"
PREFIXES = ("", "room_", "lobby_", "realtime_", "storage_", "plan_", "free_")
"""A setting's name is one of these, then the name that its option has in a struct."""
FREE_PORT = 0
"""It asks for a port, and states none."""


def option_defaults(tree: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """Every field, parameter and argument by name that is given a value in this module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            for field in node.body:
                if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
                    yield field.target.id, field.value or ast.Constant(None)
        elif isinstance(node, ast.arguments):
            positional = (*node.posonlyargs, *node.args)
            last = positional[len(positional) - len(node.defaults) :]
            yield from ((a.arg, d) for a, d in zip(last, node.defaults, strict=True))
            named = zip(node.kwonlyargs, node.kw_defaults, strict=True)
            yield from ((a.arg, d) for a, d in named if d is not None)
        elif isinstance(node, ast.Call):
            yield from ((word.arg, word.value) for word in node.keywords if word.arg)


def is_number(value: ast.expr) -> bool:
    """Return whether numbers alone are written here: `300`, `64 << 10`, `5 * 10**9`."""
    if isinstance(value, ast.BinOp):
        return is_number(value.left) and is_number(value.right)
    return isinstance(value, ast.Constant) and type(value.value) in {int, float}


def is_setting(name: str) -> bool:
    return any(prefix + name in FIELDS for prefix in PREFIXES)


def restated(source: str) -> list[str]:
    """The options of a module that have a number of their own, though a setting sets them."""
    return [
        f"{name} = {ast.unparse(value)}"
        for name, value in option_defaults(ast.parse(source))
        if is_setting(name) and is_number(value) and ast.unparse(value) != str(FREE_PORT)
    ]


def test_no_option_that_a_setting_sets_has_a_number_of_its_own():
    found = {
        str(path.relative_to(PACKAGE)): numbers
        for path in sorted(PACKAGE.rglob("*.py"))
        if path.name != "config.py" and (numbers := restated(path.read_text()))
    }
    assert not found, "take these from config.DEFAULTS, or have them given"


@pytest.mark.parametrize(
    "source",
    [
        "class A:\n    friends_max: int = 500",
        "class A:\n    updates_bytes_max: int = 2 * 1024 * 1024",
        "def f(job_seconds_max: float = 30.0): ...",
        "def f(*, address_share_max: float = 1.0): ...",
        "FREE = PlanLimits(rooms_max=200)",
    ],
)
def test_a_number_that_stands_again_is_found(source: str):
    assert len(restated(source)) == 1


def test_actors_have_no_default_where_a_setting_has_one():
    structs = (
        actor_settings.room_limits(),
        actor_settings.lobby_limits(),
        actor_settings.guess_limits(),
        actor_settings.friend_limits(),
        actor_settings.world_settings(),
    )
    optional = [
        field.name
        for struct in structs
        for field in msgspec.structs.fields(struct)
        if not field.required
    ]
    assert optional == ["presence_seconds"]  # no setting sets these


def taken(settings: Settings) -> object:
    """Everything that actors take from the settings, as one value that can be compared."""
    return (
        actor_settings.room_limits(settings),
        actor_settings.lobby_limits(settings),
        actor_settings.friend_limits(settings),
        actor_settings.world_settings(settings),
        actor_settings.plans(settings),
        actor_settings.server_limits(settings),
    )


PLANS = [name for name in FIELDS if name.startswith(("free_", "standard_", "pro_"))]


@pytest.mark.parametrize(
    "name",
    [
        *("seat_grace_seconds", "room_idle_seconds", "room_updates_max", "room_updates_bytes_max"),
        *("lobby_requests_max", "lobby_requests_bytes_max", "lobby_requests_of_player_max"),
        *("wrong_passwords_per_second_address", "wrong_passwords_per_second_place"),
        *("rate_limit_factor", "rate_burst_seconds", "friends_max", "friend_requests_max"),
        *("stale_seconds", "sweep_seconds", "snapshot_seconds", "journal_retention_hours"),
        *("room_document_bytes_max", "rooms_bytes_max", "players_bytes_max", "games_bytes_max"),
        *("written_bytes_per_day_max", *PLANS),
    ],
)
def test_a_setting_changes_what_actors_take(name: str):
    changed = msgspec.structs.replace(DEFAULTS, **{name: getattr(DEFAULTS, name) * 2})
    assert taken(changed) != taken(DEFAULTS)
