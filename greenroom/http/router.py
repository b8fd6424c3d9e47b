"""From method and path to a row of the table: one dict lookup where the path has no arguments."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Generic, TypeVar

from greenroom.http.auth import AUTHENTICATE
from greenroom.http.engine_format import ReplyEncoder
from greenroom.http.inputs import make_readers
from greenroom.http.limits import WRITING_CLASSES, CallLimits
from greenroom.http.metrics import Metrics
from greenroom.http.table import Auth, Endpoint

Row = TypeVar("Row")
METHODS: Final = ("GET", "POST", "PUT")


class Route:
    """A row of the table, prepared for serving."""

    __slots__ = (
        *("authenticate", "encoder", "endpoint", "is_players", "limits", "meter", "name"),
        *("only_reads", "read", "read_in_steps", "writes"),
    )

    def __init__(self, endpoint: Endpoint, limits: CallLimits, metrics: Metrics) -> None:
        """Plan how this endpoint's calls are checked, read, answered and counted."""
        self.endpoint = endpoint
        self.name = f"{endpoint.method} {endpoint.path}"
        self.authenticate = AUTHENTICATE[endpoint.auth]
        self.is_players = endpoint.auth in {Auth.PLAYER, Auth.PLAYER_AND_ADMIN}
        self.limits = limits.get_class(endpoint.rate_class_in_force)
        self.writes = endpoint.rate_class_in_force in WRITING_CLASSES
        self.only_reads = endpoint.method == "GET" or not self.writes
        self.read, self.read_in_steps = make_readers(endpoint)
        self.encoder = ReplyEncoder(endpoint.reply)
        self.meter = metrics.add_meter(endpoint.method, endpoint.path)


class Router(Generic[Row]):
    """Finds rows by method and path; a path's segment in braces matches anything but `/`."""

    def __init__(self) -> None:
        """Start without rows."""
        self._exact: dict[str, dict[str, Row]] = {}
        self._templates: dict[tuple[str | None, ...], dict[str, Row]] = {}

    def add(self, method: str, path: str, row: Row) -> None:
        """Add a row; GET rows answer HEAD too.

        Raises:
            ValueError: the method and path are taken.
        """
        if "{" in path:
            segments = tuple(
                None if part.startswith("{") else part for part in path.rstrip("/").split("/")
            )
            methods = self._templates.setdefault(segments, {})
        else:
            methods = self._exact.setdefault(path.rstrip("/"), {})
        for name in (method, "HEAD") if method == "GET" else (method,):
            if name in methods:
                raise ValueError(f"{method} {path} is in the table twice")
            methods[name] = row

    def find(self, method: str, path: str) -> tuple[Row | None, tuple[str, ...]]:
        """Return the row and the path's arguments; None where there is none.

        Args:
            method: in capitals.
            path: percent-decoded, without query; trailing slashes are ignored.
        """
        methods = self._exact.get(path)
        if methods is not None:
            return methods.get(method), ()
        return self._find_slowly(method, path.rstrip("/"))

    def list_methods(self, path: str) -> list[str]:
        """Return the methods that a path has, empty where there is no such path."""
        return [method for method in METHODS if self.find(method, path)[0] is not None]

    def _find_slowly(self, method: str, path: str) -> tuple[Row | None, tuple[str, ...]]:
        methods = self._exact.get(path)
        if methods is not None:
            return methods.get(method), ()
        parts = path.split("/")
        for segments, methods in self._templates.items():
            if len(segments) == len(parts) and _matches(segments, parts):
                taken = zip(segments, parts, strict=True)
                return methods.get(method), tuple(part for name, part in taken if name is None)
        return None, ()


def _matches(segments: Iterable[str | None], parts: Iterable[str]) -> bool:
    pairs = zip(segments, parts, strict=True)
    return all(part if segment is None else part == segment for segment, part in pairs)
