"""Shows members a behaviour's state: as a whole once, then what has changed.

    state  {"version": 7, "shared": …, "private": …}
    delta  {"from": 7, "to": 8, "shared": {…}, "private": {…}}    deltas, of what has changed

`Views` compares and counts; `StateSync` sends. Changes of a turn that is written down are shown
once they are durable, changes of a tick at once, and always in their order.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from greenroom.actors.room.ports import Connections, Happened
from greenroom.behaviour import BehaviourBug, Refused, RoomBehaviour
from greenroom.behaviour.behaviour import is_overridden
from greenroom.behaviour.delta import Delta, Json, diff
from greenroom.behaviour.errors import BadBehaviour, HookTooSlow, TooMuch
from greenroom.behaviour.runner import Runner
from greenroom.behaviour.view import DELTA, WHOLE

VIEW_BYTES_MAX: Final = 64 * 1024
"""The bytes that either part of a view, or of a delta, may have at most, as JSON."""

_encode: Final = msgspec.json.Encoder().encode


class Step(msgspec.Struct, frozen=True, gc=False):
    """An event to send to some members."""

    player_ids: tuple[int, ...]
    message: Happened


class _Seen(msgspec.Struct):
    """The view that a member was told last."""

    version: int
    private: Json
    size: int
    """About how many bytes `private` has as JSON; seldom fewer."""


class Views:
    """The views of all members. Those who were told have the same shared part."""

    __slots__ = ("_seen", "_shared", "_size", "_version")

    def __init__(self) -> None:
        """Begin with nobody told of anything."""
        self._version = 0
        self._shared: Json = None
        self._size = 0
        """About how many bytes the shared part has as JSON; seldom fewer."""
        self._seen: dict[int, _Seen] = {}

    def forget(self, player_id: int) -> None:
        """Note that a member needs the whole state next time."""
        self._seen.pop(player_id, None)

    def forget_all(self) -> None:
        """Note that everybody needs the whole state next time."""
        self._seen.clear()

    def advance(self, shared: Json, privates: Mapping[int, Json]) -> list[Step]:
        """Return what to tell so that all see what is to be seen now.

        Args:
            shared: what all see; it may not change afterwards.
            privates: what each sees alone, by member; likewise. Members who are not in it are
                forgotten.

        Raises:
            TooMuch, BadBehaviour: it is too large, or no JSON; `forget_all` must follow.
        """
        seen = self._seen
        for player_id in [i for i in seen if i not in privates]:
            del seen[player_id]
        steps, is_new = self._find_changes(shared, privates) if seen else ([], True)
        self._version += is_new
        self._shared = shared
        if len(seen) < len(privates):
            steps += self._make_wholes(shared, {i: p for i, p in privates.items() if i not in seen})
        return steps

    def _find_changes(self, shared: Json, privates: Mapping[int, Json]) -> tuple[list[Step], bool]:
        """Return what has changed for those who have been told, and whether anything has."""
        delta = _difference(self._shared, shared)
        change = {} if delta is None else {"shared": _said(delta)}
        if change:
            self._size = _grown(self._size, change["shared"], shared)
        version = self._version + 1
        steps: list[Step] = []
        others: dict[int, list[int]] = {}
        for player_id, seen in self._seen.items():
            private = privates[player_id]
            own = None if private is seen.private else _difference(seen.private, private)
            if own is not None:
                said = _said(own)
                data = {"from": seen.version, "to": version, **change, "private": said}
                seen.size = _grown(seen.size, said, private)
                steps.append(Step((player_id,), Happened(DELTA, data)))
                seen.private = private
            elif change:
                others.setdefault(seen.version, []).append(player_id)
            else:
                continue
            seen.version = version
        for before, player_ids in others.items():
            data = {"from": before, "to": version, **change}
            steps.append(Step(tuple(player_ids), Happened(DELTA, data)))
        return steps, bool(steps)

    def _make_wholes(self, shared: Json, privates: Mapping[int, Json]) -> list[Step]:
        """Return everything, for those who have been told nothing."""
        whole = _said(shared)
        self._size = len(memoryview(whole))
        change = {"version": self._version, "shared": whole}
        steps: list[Step] = []
        same: list[int] = []
        for player_id, private in privates.items():
            seen = self._seen[player_id] = _Seen(self._version, private, 0)
            if private is None:
                same.append(player_id)
            else:
                own = _said(private)
                seen.size = len(memoryview(own))
                data = {**change, "private": own}
                steps.append(Step((player_id,), Happened(WHOLE, data)))
        if same:
            steps.append(Step(tuple(same), Happened(WHOLE, {**change, "private": None})))
        return steps


def _difference(old: Json, new: Json) -> Delta | None:
    """Return what has changed: all of it, where it is nested too deep to be compared."""
    try:
        return diff(old, new)
    except RecursionError:  # players may nest what a behaviour shows
        return {"v": new}


def _grown(size: int, change: msgspec.Raw, value: Json) -> int:
    """Return about how large a part is after a change; it is measured when it may be too large.

    So what grows little by little is found when it does, not when the next member comes.

    Raises:
        TooMuch: it is.
    """
    size += len(memoryview(change))
    return size if size <= VIEW_BYTES_MAX else len(memoryview(_said(value)))


def _said(value: Json) -> msgspec.Raw:
    """Return a value as JSON, encoded once for all who get it.

    Raises:
        TooMuch: it is too large.
        BadBehaviour: half a character is in it, or it is nested too deep.
    """
    try:
        encoded = _encode(value)
    except (UnicodeEncodeError, RecursionError) as error:
        raise BadBehaviour(f"what members see cannot be said in JSON: {error}") from error
    if len(encoded) > VIEW_BYTES_MAX:
        raise TooMuch(
            f"what members see may have {VIEW_BYTES_MAX} bytes, this has {len(encoded)}: "
            "have shared() and private() return less"
        )
    return msgspec.Raw(encoded)


def is_wanted(behaviour: RoomBehaviour[Any]) -> bool:
    """Return whether a behaviour shows anything of its state."""
    return is_overridden(behaviour, "shared") or is_overridden(behaviour, "private")


class PendingView:
    """The changes that a turn shows members once it is durable."""

    __slots__ = ("_sync", "is_durable", "steps")

    def __init__(self, sync: StateSync, steps: list[Step]) -> None:
        """Hold what is to be shown; `StateSync.hold` does."""
        self._sync = sync
        self.steps = steps
        self.is_durable = False

    def tell(self) -> None:
        """Show it, behind all that was held before: its turn is durable."""
        self.is_durable = True
        self._sync.flush()

    def drop(self) -> None:
        """Never show it: its turn was rolled back."""
        self._sync.drop(self)


class StateSync:
    """Tells a room's connected members of its state.

    While a change is on its way to the database, changes of later ticks wait for it. So nobody sees
    what may yet be lost. No more is held than there are turns in flight.
    """

    def __init__(
        self,
        runner: Runner[Any],
        connections: Connections,
        report: Callable[[str, Exception, object], None],
    ) -> None:
        """Begin with nobody told.

        Args:
            runner: of a behaviour that shows something.
            connections: of the members.
            report: is told of mistakes in the behaviour, once until it works again, and of each
                hook that was interrupted.
        """
        self._connections = connections
        self._report = report
        self._views = Views()
        self._held: deque[PendingView] = deque()
        self._is_behind = False
        self._is_failing = False
        self._is_over = False
        self.follow(runner)

    def follow(self, runner: Runner[Any]) -> None:
        """Show what another runner has from now on, everything first."""
        self._runner = runner
        self._shows_shared = is_overridden(runner.behaviour, "shared")
        self._shows_private = is_overridden(runner.behaviour, "private")
        self._views.forget_all()

    def forget(self, player_id: int) -> None:
        """Send a member the whole state next time: they are new, or have lost their place."""
        self._views.forget(player_id)

    def publish(self) -> None:
        """Tell members how it stands now, behind everything that is held."""
        if self._held:
            self._is_behind = True
        else:
            self._send(self._find_steps())

    def hold(self) -> PendingView | None:
        """Return what shows members how it stands now, once that is durable; None for nothing."""
        steps = self._find_steps()
        if not steps:
            return None
        view = PendingView(self, steps)
        self._held.append(view)
        return view

    def drop(self, view: PendingView) -> None:
        """Drop what `hold` returned last, and show everything next time."""
        self._held.remove(view)
        self._views.forget_all()

    def close(self) -> None:
        """Show nobody anything any more: the room is brought up anew."""
        self._is_over = True

    def flush(self) -> None:
        """Show all that is durable, up to the first that is not."""
        if self._is_over:
            return
        while self._held and self._held[0].is_durable:
            self._send(self._held.popleft().steps)
        if self._is_behind and not self._held:
            self._is_behind = False
            self.publish()

    def _send(self, steps: list[Step]) -> None:
        if not self._is_over:
            room_id = self._runner.room.room_id
            for step in steps:
                self._connections.push_state(room_id, step.player_ids, step.message)

    def _find_steps(self) -> list[Step]:
        """Return what to tell now; nothing, and everything next time, if the behaviour fails."""
        room = self._runner.room
        connected = self._connections.get_connected(room.room_id)
        player_ids = [player_id for player_id in room.members if player_id in connected]
        if not player_ids:
            self._views.forget_all()
            return []
        try:
            shared = self._runner.read_shared() if self._shows_shared else None
            privates: dict[int, Json] = (
                self._runner.read_private(player_ids)
                if self._shows_private
                else dict.fromkeys(player_ids)
            )
            steps = self._views.advance(shared, privates)
        except (BehaviourBug, Refused) as bug:
            self._views.forget_all()
            if not self._is_failing or isinstance(bug, HookTooSlow):
                self._report(room.room_id, bug, None)
            self._is_failing = True
            return []
        self._is_failing = False
        return steps
