"""Models of single objects of Greenroom, which are asked one thing after the other.

Each model is as small as it can be, and knows nothing of the server's rules. Its docstring lists
the operations: action, what is given, what is answered.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from itertools import pairwise
from typing import Any, Final, Generic, TypeVar

import msgspec
from history import Operation, Refusal
from linearizability import Model

State = TypeVar("State", bound=Hashable)


class Simple(Generic[State]):
    """The parts that most models have in common."""

    name = ""
    reads: frozenset[str] = frozenset()
    """Actions that change nothing."""

    def is_read(self, operation: Operation) -> bool:
        """Return whether an operation changes nothing."""
        return operation.action in self.reads or isinstance(operation.result, Refusal)

    def seen(self, operations: Sequence[Operation]) -> Sequence[Operation]:
        """Leave out open reads, which say nothing."""
        return [each for each in operations if not each.is_open or each.action not in self.reads]


class Document(Simple[Hashable]):
    """A document that is replaced whole: each client writes values that nobody else writes.

    replace (value) → None; read → value.
    """

    name = "document"
    reads = frozenset({"read"})

    def __init__(self, initial: Hashable = None) -> None:
        self._initial = initial

    def initial(self) -> Hashable:
        return self._initial

    def step(self, state: Hashable, operation: Operation) -> Sequence[Hashable]:
        if operation.action == "replace":
            return (operation.given,)
        return (state,) if operation.result == state else ()

    def seen(self, operations: Sequence[Operation]) -> Sequence[Operation]:
        """Leave out open writes of values that nobody has read.

        If there is an order with such a write in it, there is one without it: whoever read next
        has read what came after it.
        """
        read = {each.result for each in operations if each.action == "read" and not each.is_open}
        return [each for each in operations if not each.is_open or each.given in read]


Counts = tuple[tuple[tuple[str, float], ...], tuple[str, ...]]
"""Values by name, and the last requests."""


class Counters(Simple[Counts]):
    """A player's stats, which requests add to; the last few requests are known again.

    add (request id, name, amount) → (value after, whether it was known); read → (name, value)s.
    """

    name = "stats"
    reads = frozenset({"read"})

    def __init__(self, requests_max: int) -> None:
        """Know so many requests again."""
        self._requests_max = requests_max

    def initial(self) -> Counts:
        return (), ()

    def step(self, state: Counts, operation: Operation) -> Sequence[Counts]:
        values, requests = state
        if operation.action == "read":
            return (state,) if operation.result == values else ()
        request_id, name, amount = operation.given
        is_known = request_id in requests
        after = state if is_known else self._added(state, request_id, name, amount)
        answer = (dict(after[0]).get(name, 0), is_known)
        return (after,) if operation.is_open or operation.result == answer else ()

    def _added(self, state: Counts, request_id: str, name: str, amount: float) -> Counts:
        values, requests = state
        changed = dict(values)
        changed[name] = changed.get(name, 0) + amount
        known = (*requests, request_id) if request_id else requests
        return tuple(sorted(changed.items())), known[-self._requests_max :]


Between = tuple[str, Hashable]
"""`none`, `pending` or `friends`, and who has asked."""


class Friendship(Simple[Between]):
    """A friendship of two players, or none; `given` is who calls.

    request → `pending` or `accepted`, accept, decline, end → None; read → what the other is to
    the caller: `friend`, `incoming`, `outgoing` or `none`.
    """

    name = "friendship"
    reads = frozenset({"read"})
    refusals: Final = {
        "request": {"friend": "AlreadyFriends", "outgoing": "FriendRequestAlreadySent"},
        "accept": dict.fromkeys(("friend", "outgoing", "none"), "FriendRequestNotFound"),
        "decline": dict.fromkeys(("friend", "outgoing", "none"), "FriendRequestNotFound"),
        "end": dict.fromkeys(("incoming", "outgoing", "none"), "NotFriends"),
    }

    def initial(self) -> Between:
        return "none", None

    def step(self, state: Between, operation: Operation) -> Sequence[Between]:
        caller, action = operation.given, operation.action
        seen = _as_seen(state, caller)
        if action == "read":
            return (state,) if operation.result == seen else ()
        refused = self.refusals[action].get(seen)
        if refused is not None:
            return (
                (state,) if not operation.is_open and operation.result == Refusal(refused) else ()
            )
        answer: Any = None
        after: Between = ("none", None)
        if action == "request":
            answer = "accepted" if seen == "incoming" else "pending"
        if seen == "incoming" and action in {"request", "accept"}:
            after = ("friends", state[1])
        elif action == "request":
            after = ("pending", caller)
        return (after,) if operation.is_open or operation.result == answer else ()


def _as_seen(state: Between, caller: Hashable) -> str:
    match state:
        case ("none", _):
            return "none"
        case ("friends", _):
            return "friend"
        case (_, by):
            return "outgoing" if by == caller else "incoming"


Seats = tuple[str, int, Hashable, tuple[Hashable, ...]]
"""`none`, `open` or `over`; how many seats there are; the host; the members as they joined."""


class Room(Simple[Seats]):
    """A room's members and host.

    open (host, seats, members) → None; join, leave, stop (who), kick (who, whom) → None or refused;
    roster (who) → (host, members in any order). By time, or by operators: remove, host (whom), end.
    """

    name = "room"
    reads = frozenset({"roster"})

    def __init__(self, *, host_switch: bool = True) -> None:
        """Let another member be host when the host leaves, or else end."""
        self._host_switch = host_switch

    def initial(self) -> Seats:
        return "none", 0, None, ()

    def step(self, state: Seats, operation: Operation) -> Sequence[Seats]:
        stage, size, _, members = state
        action, given = operation.action, operation.given
        if action == "open":
            host, seats, members = given
            return (("open", seats, host, members),) if stage == "none" else ()
        if stage == "none":
            return ()
        if action == "end":
            return (_over(size),)
        who, *others = given if isinstance(given, tuple) else (given,)
        if action == "roster":
            if isinstance(operation.result, Refusal):
                return () if who in members else (state,)
            host, seen = operation.result
            is_right = who in members and (host, {*seen}) == (state[2], {*members})
            return (state,) if is_right else ()
        refused = self._refusal(state, action, who, *others)
        if refused is not None:
            return (
                (state,) if not operation.is_open and operation.result == Refusal(refused) else ()
            )
        if not operation.is_open and operation.result is not None:
            return ()
        if action == "join":
            return (("open", size, state[2], (*members, who)),)
        if action == "stop":
            return (_over(size),)
        if action == "host":
            return (("open", size, who, members),)
        return self._without(state, others[0] if others else who)

    def _refusal(self, state: Seats, action: str, who: Hashable, *others: Hashable) -> str | None:
        """Return what refuses, None if nothing does."""
        stage, size, host, members = state
        if action == "join":
            if who in members:
                return "AlreadyInRoom"
            if stage == "over":
                return "RoomInactive"
            return "RoomFull" if len(members) >= size else None
        if who not in members:
            return "NotInAnyGameRoom" if action in {"kick", "stop"} else "NotInAnyRoom"
        if action in {"kick", "stop"} and who != host:
            return "OnlyHostKicks" if action == "kick" else "OnlyHostStops"
        if action == "kick" and others[0] == who:
            return "KickingOneself"
        return "MemberNotFound" if action == "kick" and others[0] not in members else None

    def _without(self, state: Seats, whom: Hashable) -> Sequence[Seats]:
        """Return what there may be without a member: who follows a host depends on who is here."""
        _, size, host, members = state
        left = tuple(each for each in members if each != whom)
        if whom != host:
            return (("open", size, host, left),)
        heirs: list[Seats] = [("open", size, heir, left) for heir in left if self._host_switch]
        return (*heirs, _over(size))


def _over(size: int) -> Seats:
    return "over", size, None, ()


Mail = tuple[bool, tuple[Hashable, ...]]
"""True if the member is there, and all updates of their stay."""


UNSEEN: Final = "unseen"


class Sent(msgspec.Struct, frozen=True):
    """An update, and what polls have shown right before it; more than one is impossible."""

    update: Hashable
    after: frozenset[Hashable] = frozenset()

    def __repr__(self) -> str:
        return repr(self.update)


class Inbox(Simple[Mail]):
    """The updates of one member of a room, who reads on by a cursor.

    come, gone → None: the member comes, goes; send (update) → whether it was for them;
    poll (cursor) → (updates, missed): what comes after the update that the cursor is.
    """

    name = "inbox"
    reads = frozenset({"poll"})

    def __init__(self, page_max: int) -> None:
        """Answer polls with so many updates at most."""
        self._page_max = page_max

    def initial(self) -> Mail:
        return False, ()

    def step(self, state: Mail, operation: Operation) -> Sequence[Mail]:
        is_here, updates = state
        match operation.action:
            case "come":
                return () if is_here else ((True, ()),)
            case "gone":
                return ((False, ()),) if is_here or operation.is_open else ()
            case "send":
                sent = _sent(operation)
                if operation.result is False:
                    return (state,)
                is_next = not sent.after or sent.after == {*updates[-1:]}
                return ((True, (*updates, sent.update)),) if is_here and is_next else ()
            case _:
                is_right = is_here and self._is_page(updates, operation)
                return (state,) if is_right else ()

    def _is_page(self, updates: tuple[Hashable, ...], operation: Operation) -> bool:
        cursor, (page, missed) = operation.given, operation.result
        start = updates.index(cursor) + 1 if cursor in updates else 0
        later = updates[start + missed :]
        is_whole = len(page) == len(later) or len(page) >= self._page_max
        return is_whole and later[: len(page)] == page

    def seen(self, operations: Sequence[Operation]) -> Sequence[Operation]:
        """Leave out open updates that no poll has shown, unless some were missed.

        Those that none has shown are all the same: it makes no difference which of them is where.
        The others are told what they come after. So there is no need to try them in every order.
        """
        found = super().seen(operations)
        polls = [each for each in found if each.action == "poll" and not each.is_open]
        shown = {update for each in polls for update in (*each.result[0], each.given)}
        after: dict[Hashable, set[Hashable]] = {}
        for each in polls:
            for before, update in pairwise(each.result[0]):
                after.setdefault(update, set()).add(before)
        is_missed = any(each.result[1] for each in polls)
        result = []
        for each in found:
            update = _sent(each).update
            if each.action != "send":
                result.append(each)
            elif update in shown:
                given = Sent(update, frozenset(after.get(update, ())))
                result.append(msgspec.structs.replace(each, given=given))
            elif is_missed or not each.is_open:
                result.append(msgspec.structs.replace(each, given=Sent(UNSEEN)))
        return result


def _sent(operation: Operation) -> Sent:
    given = operation.given
    return given if isinstance(given, Sent) else Sent(given)


def models(
    *, page_max: int, requests_max: int, documents: Hashable = None
) -> dict[str, Model[Any]]:
    """Return every model by its name, which is the first part of a history's keys.

    Args:
        page_max: updates in a page.
        requests_max: requests that a player's stats know again.
        documents: what documents are before anybody replaces them.
    """
    kinds: tuple[Model[Any], ...] = (
        *(Document(documents), Counters(requests_max), Friendship()),
        *(Room(), Inbox(page_max)),
    )
    return {kind.name: kind for kind in kinds}
