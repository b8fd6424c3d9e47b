"""What a behaviour may answer to what members send: let it pass, change it, or settle it itself.

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
    """What a member asks others to do."""

    action_type: str
    request_data: Any
    """The JSON object that he sent, decoded."""
    target_ids: tuple[int, ...]


class Update(msgspec.Struct, frozen=True):
    """What a member tells others, by REST: stored until they have polled it."""

    type: str
    data: Any
    target_ids: tuple[int, ...]


class Message(msgspec.Struct, frozen=True):
    """What a member tells others over his connection; any JSON value."""

    command: str
    data: Any
    target_ids: tuple[int, ...]
