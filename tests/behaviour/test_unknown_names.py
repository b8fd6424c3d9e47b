"""Names that nothing answers to: misspelt hooks, and rooms of a type that no entry names."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from greenroom.behaviour import Member, Refused, Room, RoomBehaviour, action
from greenroom.behaviour.behaviour import misnamed_hooks
from greenroom.behaviour.errors import BadBehaviour
from greenroom.behaviour.registry import TYPES_TOLD_MAX, Registry, UnknownNames

GOOD = """
from greenroom.behaviour import RoomBehaviour

class Duel(RoomBehaviour[None]):
    def on_join(self, room, member):
        pass
"""
MISSPELT = GOOD.replace("on_join", "on_jion")
TOLD = "Duel.on_jion is no hook: did you mean on_join?"


class Misspelt(RoomBehaviour[None]):
    tickhz = 20

    def on_jion(self, room: Room[None], member: Member) -> None: ...
    def can_jion(self, room: Room[None], member: Member) -> None: ...
    def on_scores_read(self, room: Room[None], scores: object) -> None: ...
    def initial_sate(self, rules: dict[str, Any]) -> None: ...


class Fine(RoomBehaviour[None]):
    strict = True
    turn_seconds = 20

    @action("on_jion")
    def on_jion(self, room: Room[None], by: Member) -> None: ...
    def _on_scores_read(self, room: Room[None], scores: object) -> None: ...
    def once(self, room: Room[None]) -> None: ...
    def start(self, room: Room[None]) -> None: ...
    def on_stop(self, room: Room[None], reason: str) -> None: ...


class Mixin:
    def on_tikc(self, room: Room[None], dt: float) -> None: ...


class Mixed(Fine, Mixin):
    strict = False


Write = Callable[[str], None]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Write]:
    """A folder on the path, and a function that writes the module `duel` in it."""
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def write_module(text: str) -> None:
        (tmp_path / "duel.py").write_text(text)

    yield write_module
    sys.modules.pop("duel", None)


def open_registry(unknown_names: UnknownNames, *entries: str) -> Registry:
    return Registry(entries or ["*/duel=duel:Duel"], None, unknown_names)


def choose(registry: Registry, rules: object, game_id: int = 7) -> str | None:
    return registry.choose(game_id, msgspec.json.encode(rules))


def test_each_misspelt_name_is_told_with_file_class_and_the_nearest():
    told = misnamed_hooks(Misspelt)
    starts = [
        "Misspelt.tickhz is no hook: did you mean tick_hz?",
        "Misspelt.on_jion is no hook: did you mean on_join?",
        "Misspelt.can_jion is no hook: did you mean can_join?",
        "Misspelt.on_scores_read is no hook: choose a name that does not begin with on_",
        "Misspelt.initial_sate is no hook: did you mean initial_state?",
    ]
    assert [text.startswith(start) for text, start in zip(told, starts, strict=True)] == [True] * 5
    line = Misspelt.on_jion.__code__.co_firstlineno
    assert told[1].endswith(f"({__file__}, line {line})")
    assert told[0].endswith(f"({__file__})")


def test_handlers_helpers_and_mixins_are_told_apart():
    assert misnamed_hooks(Fine) == []
    (told,) = misnamed_hooks(Mixed)
    assert told.startswith("Mixin.on_tikc is no hook: did you mean on_tick?")


def test_a_strict_behaviour_with_a_misspelt_hook_is_no_behaviour(write: Write):
    write(MISSPELT + "    strict = True\n")
    with pytest.raises(BadBehaviour, match=r"Duel\.on_jion is no hook.*duel\.py, line 5\)$"):
        open_registry("warn")


def test_another_is_loaded_with_a_warning_or_refused_as_the_setting_says(
    write: Write, caplog: pytest.LogCaptureFixture
):
    write(MISSPELT)
    open_registry("warn")
    assert TOLD in caplog.text
    with pytest.raises(BadBehaviour, match=r"Duel\.on_jion is no hook"):
        open_registry("refuse")


def test_a_reload_tells_it_too(write: Write, caplog: pytest.LogCaptureFixture):
    write(GOOD)
    registries = [open_registry("warn"), open_registry("refuse")]
    assert not caplog.text
    write(MISSPELT)
    before = registries[1].make("duel:Duel")
    registries[0].reload()
    assert TOLD in caplog.text
    with pytest.raises(BadBehaviour, match=r"Duel\.on_jion is no hook"):
        registries[1].reload()
    assert type(registries[1].make("duel:Duel")) is type(before)


def test_a_room_of_an_unknown_type_is_refused_with_the_nearest(write: Write):
    write(GOOD)
    registry = open_registry("refuse", "*/duel=duel:Duel", "7/race=duel:Duel", "8/quiz=duel:Duel")
    with pytest.raises(Refused, match=r'^"duell": did you mean "duel"\? Rooms have the types '):
        choose(registry, {"type": "duell"})
    with pytest.raises(Refused) as refused:
        choose(registry, {"type": "quiz"})
    assert str(refused.value) == '"quiz" is unknown. Rooms have the types "duel", "race"'
    odd: object
    for odd in (5, [], {}, True):
        with pytest.raises(
            Refused, match=r"^The type in the rules must be a string\. Rooms have the"
        ):
            choose(registry, {"type": odd})
    for odd in ("", "x" * 60_000, "\u202e"):
        with pytest.raises(Refused, match=r'^".*" is unknown\. Rooms have the types '):
            choose(registry, {"type": odd})
    assert choose(registry, {"type": "quiz"}, game_id=8) == "duel:Duel"
    assert choose(registry, {"type": "duel"}) == "duel:Duel"
    assert choose(registry, {}) is None
    assert choose(registry, {"type": None}) is None


@pytest.mark.parametrize("entries", [["duel:Duel"], ["8/duel=duel:Duel"], ["7=duel:Duel"]])
def test_where_no_entry_names_types_all_are_known(write: Write, entries: list[str]):
    write(GOOD)
    registry = open_registry("refuse", *entries)
    assert choose(registry, {"type": "x"}) == (None if entries[0].startswith("8") else "duel:Duel")


def test_the_warning_comes_once_for_each_type_and_not_without_end(
    write: Write, caplog: pytest.LogCaptureFixture
):
    write(GOOD)
    caplog.set_level(logging.WARNING)
    registry = open_registry("warn")
    for _ in range(2):
        assert choose(registry, {"type": "du\nel"}) is None
    (told,) = caplog.messages
    assert told.startswith(
        'game 7: rooms of this type have no behaviour: "du\N{REPLACEMENT CHARACTER}el": '
    )
    for number in range(2 * TYPES_TOLD_MAX):
        choose(registry, {"type": f"t{number}"})
    assert len(caplog.messages) == TYPES_TOLD_MAX
