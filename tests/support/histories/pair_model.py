"""The model of a pair of players: what they are to each other, and where they gather.

It knows what the server does with each call of theirs, and nothing of why. A test compares it with
a server, in every state that it can be in (`tests/machines/test_pair_histories.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal, NamedTuple

from history import Operation
from history_models import Simple

Place = Literal["", "lobby", "room"]
Relationship = Literal["none", "asked", "asking", "friend"]


class Together(NamedTuple):
    """The state of a pair: a host, who opens lobbies of two, and a guest, who comes."""

    friends: Relationship = "none"
    """The guest's relationship to the host: asked by them, or asking them."""
    host_in: Place = ""
    guest_in: Place = ""
    """Nowhere, or where the host is."""
    requests: bool = False
    """True if a request of the guest's waits."""
    invited: bool = False
    """True if the guest has an open invite."""


SOCIAL: Final = ("ask", "ask back", "accept", "decline", "part")
GATHERING: Final = (
    *("open", "start", "dissolve", "stop", "invite", "decline invite", "request", "approve"),
    *("reject", "join lobby", "join room", "leave lobby", "leave room"),
)
ACTIONS: Final = (*SOCIAL, *GATHERING)
"""All that the two do. Each depends on the state alone; only of invites also on friendship."""


class Pair(Simple[Together]):
    """A pair of players.

    Each of `ACTIONS` → None. delete → None: an operator deletes the guest. look → the state; look
    for host → where the host is, when the guest is no player any more.
    """

    name = "pair"
    reads = frozenset({"look", "look for host"})

    def initial(self) -> Together:
        return Together()

    def step(self, state: Together, operation: Operation) -> Sequence[Together]:
        match operation.action:
            case "look":
                return (state,) if operation.result == state else ()
            case "look for host":
                is_alone = state == Together(host_in=state.host_in)
                return (state,) if is_alone and operation.result == state.host_in else ()
            case "delete":
                alone = Together(host_in=state.host_in)
                # in doubt, they may be whole without their seat
                return (alone, state._replace(guest_in="")) if operation.is_open else (alone,)
            case _:
                after = next_state(state, operation.action)
        if after is None and operation.action == "approve" and state.requests and operation.is_open:
            after = state._replace(requests=False)  # the guest has a seat: refused, and rejected
        return () if after is None else (after,)


def next_state(state: Together, action: str) -> Together | None:
    """Return what comes of one of `ACTIONS`; None if it is refused."""
    return _befriended(state, action) if action in SOCIAL else _gathered(state, action)


def _befriended(state: Together, action: str) -> Together | None:
    match action, state.friends:
        case "ask", "none":
            return state._replace(friends="asked")
        case "ask back", "none":
            return state._replace(friends="asking")
        case ("ask", "asking") | ("ask back" | "accept", "asked"):
            return state._replace(friends="friend")
        case ("decline", "asked") | ("part", "friend"):
            return state._replace(friends="none")
        case _:
            return None


def _gathered(state: Together, action: str) -> Together | None:
    change, host_in = state._replace, state.host_in
    is_in = bool(state.guest_in)
    match action:
        case "open" if not host_in:
            return change(host_in="lobby")
        case "start" if host_in == "lobby":
            return change(host_in="room", guest_in="room" if is_in else "", requests=False)
        case "dissolve" if host_in:  # of a lobby that has started: its room
            return Together(state.friends)
        case "stop" if host_in == "room":
            return Together(state.friends)
        case "invite" if state.friends == "friend" and host_in and not is_in and not state.invited:
            return change(invited=True)
        case "decline invite" if state.invited:
            return change(invited=False)
        case "request" if host_in == "lobby" and not is_in and not state.requests:
            return change(requests=True)
        case "approve" if state.requests and not is_in:
            return change(guest_in="lobby", requests=False, invited=False)
        case "reject" if state.requests:
            return change(requests=False)
        case "join lobby" if host_in == "lobby" and not is_in and state.invited:
            return change(guest_in="lobby", invited=False)
        case "join room" if host_in == "room" and not is_in:
            return change(guest_in="room", invited=False)
        case "leave lobby" if is_in:  # of a lobby that has started: its room
            return change(guest_in="")
        case "leave room" if state.guest_in == "room":
            return change(guest_in="")
        case _:
            return None
