"""Verdicts of a behaviour on what members send: let it pass, change it, or settle it.

`Forward` is the default everywhere: the room then works as the specification says, with the host's
client in charge.
"""

from __future__ import annotations

from typing import Any

import msgspec


class Forward(msgspec.Struct, frozen=True):
    """On to the targets, as it came."""


class Drop(msgspec.Struct, frozen=True):
    """To nobody; the sender is not told."""


class Replace(msgspec.Struct, frozen=True):
    """On to the targets, with other data."""

    data: Any


class Complete(msgspec.Struct, frozen=True):
    """The action is done; nobody is asked."""

    data: Any = None


class Fail(msgspec.Struct, frozen=True):
    """The action has failed; nobody is asked."""

    reason: str


ActionVerdict = Forward | Complete | Fail
Verdict = Forward | Drop | Replace


class Action(msgspec.Struct, frozen=True):
    """A request of a member to others."""

    action_type: str
    request_data: Any
    """The JSON object that the member sent, decoded."""
    target_ids: tuple[int, ...]


class Update(msgspec.Struct, frozen=True):
    """A message of a member to others, by REST: stored until they have polled it."""

    type: str
    data: Any
    target_ids: tuple[int, ...]


class Message(msgspec.Struct, frozen=True):
    """A message of a member to others over a connection; any JSON value."""

    command: str
    data: Any
    target_ids: tuple[int, ...]
