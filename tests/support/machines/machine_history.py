"""Histories of the objects that a machine's calls met: what was asked, and what was told.

What happens by itself is told by the database, at the moment when it is durable: seats that run
out, rooms that end, and hosts who go offline. Everything else comes from callers alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from typing import Any

from history import History, Operation, Refusal
from history_models import models
from linearizability import check_all

from greenroom.actors.kernel.errors import CommitUnsettled, Refused
from greenroom.actors.kernel.journal import JournalEntry
from greenroom.actors.kernel.message import Event
from greenroom.actors.player.results import REQUESTS_MAX
from greenroom.actors.room.rules import codec
from greenroom.actors.room.rules.cursors import update_id
from greenroom.actors.room.rules.events import (
    HostChanged,
    MemberJoined,
    MemberLeft,
    RoomCreated,
    RoomEnded,
    UpdatesSent,
)
from greenroom.actors.room.rules.updates import PAGE_MAX

TELLING = frozenset({
    *("AlreadyFriends", "FriendRequestAlreadySent", "FriendRequestNotFound", "NotFriends"),
    *("RoomInactive", "RoomFull", "MemberNotFound", "OnlyHostKicks", "OnlyHostStops"),
    *("KickingOneself", "NotInAnyGameRoom"),
})  # fmt: skip
"""Refusals that depend on one object alone; from the others nothing is learnt about it."""

Asked = tuple[Operation, Callable[[Any], Any]]
"""An operation, and what its result is, given the reply of the call."""


class Chronicle:
    """The histories of one machine."""

    def __init__(self) -> None:
        self.history = History()
        self.marks: dict[str, bytes] = {}
        """By update: what was sent."""

    # What callers say.

    def begin(self, player_id: int, key: Hashable, action: str, given: Any) -> Operation:
        return self.history.begin(f"player {player_id}", key, action, given)

    def answered(self, asked: Iterable[Asked], reply: Any) -> None:
        """Note the reply of a call that was done."""
        for operation, reads in asked:
            self.history.finish(operation, reads(reply))

    def failed(self, asked: Iterable[Asked], error: Exception | None) -> None:
        """Note that a call was refused, cancelled (None), or could not be answered."""
        for operation, _ in asked:
            name = type(error).__name__
            if isinstance(error, CommitUnsettled):
                self.history.leave_open(operation, name)
            elif isinstance(error, Refused) and name in TELLING:
                self.history.finish(operation, Refusal(name))
            else:
                self.history.drop(operation)

    # What happens by itself.

    def take(self, events: Iterable[Event]) -> None:
        """Note what a change that is durable says of rooms."""
        entries = [e for e in events if isinstance(e, JournalEntry) and e.kind == "room"]
        happened = [(entry.key, codec.event_of(entry)) for entry in entries]
        for key, event in happened:
            match event:
                case RoomCreated():
                    members = tuple(member.player_id for member in event.members)
                    self._note("room", key, "open", (event.host_id, event.max_players, members))
                    for player_id in members:
                        self._note("inbox", (key, player_id), "come")
                case MemberJoined():
                    self._note("inbox", (key, event.player_id), "come")
                case MemberLeft():
                    self._note("inbox", (key, event.player_id), "gone")
                    if event.reason in {"stale", "banned"}:
                        self._note("room", key, "remove", event.player_id)
                case UpdatesSent():
                    for delivery in event.deliveries:
                        self.marks[update_id(key, event.player_id, delivery)] = event.data
                case RoomEnded(reason="idle"):
                    self._note("room", key, "end")
                case HostChanged() if not any(isinstance(e, MemberLeft) for _, e in happened):
                    self._note("room", key, "host", event.player_id)
                case _:
                    pass

    def _note(self, kind: str, key: Hashable, action: str, given: Any = None) -> None:
        self.history.finish(self.history.begin("server", (kind, key), action, given))

    # At the end.

    def check(self) -> Counter[str]:
        """Check all histories; return how many operations there were, by kind of object."""
        kinds = models(page_max=PAGE_MAX, requests_max=REQUESTS_MAX, documents=b"{}")
        verdicts = check_all(self.history, kinds)
        wrong = [each.report() for each in verdicts if each.is_linearizable is False]
        assert not wrong, "\n\n".join(wrong)
        undecided = [each.report() for each in verdicts if each.is_linearizable is None]
        assert not undecided, "\n".join(undecided)
        found: Counter[str] = Counter()
        for each in verdicts:
            found[each.model] += each.operations
        return found
