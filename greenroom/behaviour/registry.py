"""The registered behaviours: from entries of the setting `behaviours` to classes.

    package.module:Class             every room of every game
    7=package.module:Class           every room of game 7
    */duel=package.module:Class      rooms of any game whose rules say {"type": "duel"}
    7/duel=package.module:Class      both

The most particular entry that fits wins. A room remembers `package.module:Class`, and comes back
with that after a restart, whatever the setting says then.
"""

from __future__ import annotations

import importlib
import inspect
import logging
import sys
import traceback
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, Literal, TypeGuard

import msgspec

from greenroom.behaviour.behaviour import RoomBehaviour, misnamed_hooks
from greenroom.behaviour.errors import (
    BadBehaviour,
    BadStat,
    BehaviourBug,
    Refused,
    is_said,
    shown,
)
from greenroom.behaviour.runner import Watch, unwatched
from greenroom.behaviour.sources import Sources
from greenroom.behaviour.spelling import describe_unknown, listed, quoted
from greenroom.behaviour.stats import Stat, Stats, check_declared
from greenroom.foreign_objects import name_of
from greenroom.interrupts import is_real_interrupt

ANY = "*"

Classes = Mapping[str, type[RoomBehaviour[Any]]]
"""Behaviours by name."""
UnknownNames = Literal["warn", "refuse"]
"""The fate of methods such as `on_jion`, and of rooms of a type that no entry names."""
TYPES_TOLD_MAX: Final = 100
"""The unknown types that are logged, once each. Clients choose them, so no further ones are."""

_logger = logging.getLogger(__name__)


class _RoomType(msgspec.Struct):
    """The only thing in a room's rules that is not the studio's own business."""

    type: Any = None


_read_type = msgspec.json.Decoder(_RoomType).decode


class Registry:
    """The behaviours of a server, loaded.

    Attributes:
        sources: the files that they are made of.
    """

    def __init__(
        self,
        entries: Iterable[str] = (),
        folder: Path | None = None,
        unknown_names: UnknownNames = "warn",
    ) -> None:
        """Load every class that is named.

        Args:
            entries: as above.
            folder: where modules are looked for, before Python's own path.
            unknown_names: what happens to names that nothing answers to.

        Raises:
            BadBehaviour: there is no such folder, an entry cannot be read, or its class cannot be
                loaded.
            BadStat: two behaviours of one game declare a stat differently, or too many.
        """
        self._unknown_names = unknown_names
        self._types_told: set[tuple[int, str]] = set()
        if folder is not None and not folder.is_dir():
            raise BadBehaviour(f"there is no folder {folder}: behaviours_dir has to be one")
        if folder is not None and str(folder) not in sys.path:
            sys.path.insert(0, str(folder))
        self._by_key: dict[tuple[str, str | None], str] = {}
        self._classes: dict[str, type[RoomBehaviour[Any]]] = {}
        for entry in entries:
            key, _, name = entry.strip().rpartition("=")
            self._by_key[_read_key(key, entry)] = name
            self._classes[name] = load(name)
        self._check_names(self._classes)
        self._stats = self._read_stats(self._classes)
        self.sources = Sources(self._classes, folder)

    def compute_digest(self) -> str:
        """Return digits that are equal on machines with the same behaviours; see `Sources`."""
        return self.sources.compute_digest(
            f"{key}={name}" for key, name in sorted(self._list_entries())
        )

    def _list_entries(self) -> list[tuple[str, str]]:
        return [(f"{game}/{kind}", name) for (game, kind), name in self._by_key.items()]

    def choose(self, game_id: int, rules: bytes) -> str | None:
        """Return the name of the behaviour of a new room; None for a plain one.

        Args:
            game_id: whose room.
            rules: what its creator gave, a JSON object.

        Raises:
            Refused: no entry names its type, and such rooms are to be refused.
        """
        if not self._by_key:
            return None
        kind = _read_type(rules).type
        kinds = (kind, None) if isinstance(kind, str) else (None,)
        keys = ((game, kind) for kind in kinds for game in (str(game_id), ANY))
        chosen = next((self._by_key[key] for key in keys if key in self._by_key), None)
        if chosen is None and kind is not None:
            self._note_unknown(game_id, kind)
        return chosen

    def _note_unknown(self, game_id: int, kind: object) -> None:
        """Refuse or log a room of a type that no entry names, if any names a type for its game."""
        games = (str(game_id), ANY)
        known = tuple(known for game, known in self._by_key if known and game in games)
        if not known:
            return
        is_known = f"Rooms have the types {listed(known)}"
        if isinstance(kind, str):
            name, text = quoted(kind), describe_unknown(kind, known, is_known)
        else:
            name, text = "", f"The type in the rules must be a string. {is_known}"
        if self._unknown_names == "refuse":
            raise Refused(text)
        told = (game_id, name)
        if told not in self._types_told and len(self._types_told) < TYPES_TOLD_MAX:
            self._types_told.add(told)
            _logger.warning("game %d: rooms of this type have no behaviour: %s", game_id, text)

    def make(self, name: str, watch: Watch = unwatched) -> RoomBehaviour[Any]:
        """Return a new instance of the behaviour of this name.

        Args:
            name: `package.module:Class`.
            watch: watches over the making, not over the loading.

        Raises:
            BehaviourBug: it cannot be loaded (any more), or fails when it is made.
        """
        behaviour = self._classes.get(name)
        if behaviour is None:
            behaviour = self._classes[name] = load(name)
        return instance_of(behaviour, name, watch)

    def reload(self) -> None:
        """Load all behaviours anew, from their files as they are now.

        Raises:
            BadBehaviour, BadStat: one of them cannot be loaded; then all stay as they were.
        """
        with self.sources.import_anew():
            loaded = {name: load(name) for name in self._classes}
            self._check_names(loaded)
            self._stats = self._read_stats(loaded)
            self._classes = loaded

    def _check_names(self, classes: Classes) -> None:
        """Refuse or log what looks like a hook, and is none; raises BadBehaviour."""
        for behaviour in classes.values():
            for text in misnamed_hooks(behaviour):
                if self._unknown_names == "refuse":
                    raise BadBehaviour(text)
                _logger.warning("%s", text)

    def get_stats(self, game_id: int) -> Stats:
        """Return the stats that a game's behaviours declare."""
        return self._stats.get(str(game_id)) or self._stats[ANY]

    def _read_stats(self, classes: Classes) -> dict[str, Stats]:
        """Return the stats of each game that an entry names, and of all others under `*`.

        Raises:
            BadStat: two behaviours of one game declare a stat differently, or too many.
        """
        games = {game for game, _ in self._by_key} | {ANY}
        return {game: self._collect_stats(game, classes) for game in games}

    def _collect_stats(self, game: str, classes: Classes) -> Stats:
        found: dict[str, Stat] = {}
        for (named, _), name in self._by_key.items():
            if named not in {ANY, game}:
                continue
            for stat_name, stat in classes[name].stats.items():
                if found.setdefault(stat_name, stat) != stat:
                    raise BadStat(f"{name} declares {stat_name} otherwise than another behaviour")
        check_declared(found, "a game's behaviours together")
        return found


def _read_key(key: str, entry: str) -> tuple[str, str | None]:
    game, _, kind = key.partition("/")
    game = game.strip() or ANY
    if game != ANY and not game.isdecimal():
        raise BadBehaviour(
            f"{entry!r}: {game!r} is no game's id; write [GAME][/TYPE]=package.module:Class"
        )
    return game, kind.strip() or None


def instance_of(behaviour: type[RoomBehaviour[Any]], name: str, watch: Watch) -> RoomBehaviour[Any]:
    """Return a new instance of a behaviour.

    Raises:
        BehaviourBug: it fails when it is made.
    """
    try:
        with watch("__init__"):
            return behaviour()
    except BaseException as error:
        if is_said(error, BehaviourBug) or is_real_interrupt(error):
            raise
        raise BadBehaviour(f"{name} cannot be made: {shown(error)}") from error


def load(name: str) -> type[RoomBehaviour[Any]]:
    """Return the class that `package.module:Class` names.

    Raises:
        BadBehaviour: there is none, it is no behaviour, or its module fails.
    """
    module_name, _, class_name = name.partition(":")
    if not module_name or not class_name:
        raise BadBehaviour(f"{name!r} must be written package.module:Class")
    try:
        module = importlib.import_module(module_name)
    except BaseException as error:
        if is_said(error, BehaviourBug) or is_real_interrupt(error):
            raise
        text = _import_failure(error, module_name)
        raise BadBehaviour(f"{module_name} cannot be imported: {text}") from error
    found = getattr(module, class_name, None)
    if not _is_behaviour(found):
        others = [key for key, value in vars(module).items() if _is_behaviour(value)]
        has = f"; it has {', '.join(others)}" if others else ""
        raise BadBehaviour(f"{module_name} has no RoomBehaviour of the name {class_name}{has}")
    return found


def _is_behaviour(value: object) -> TypeGuard[type[RoomBehaviour[Any]]]:
    return (
        inspect.isclass(value) and issubclass(value, RoomBehaviour) and value is not RoomBehaviour
    )


def _import_failure(error: BaseException, module_name: str) -> str:
    """Return what is wrong, and in which line of the studio's files."""
    if isinstance(error, ModuleNotFoundError) and f"{module_name}.".startswith(f"{error.name}."):
        if module_name.endswith(".py"):
            return f"{module_name} is a file: write {module_name.removesuffix('.py')}, without .py"
        return f"there is no module {error.name}; behaviours_dir is where it is looked for first"
    text = f"{name_of(error)}: {shown(error, str)}"
    frames = traceback.extract_tb(error.__traceback__)[1:]  # the first is this module's
    files = [frame for frame in frames if "importlib" not in frame.filename]
    return f"{text} ({files[-1].filename}, line {files[-1].lineno})" if files else text
