"""The calls that other nodes send on again and again, so that they need not be told anew.

A player's client sends the same head with each poll. The node that it is connected to sends it on
whole once. The answer has a number, by which that node then sends on no more than the body.
"""

from __future__ import annotations

import itertools
from collections import OrderedDict
from collections.abc import Mapping
from typing import Final

import msgspec

from greenroom.cluster.calls.messages import ForwardCall
from greenroom.http.request import Notes

CALLS_MAX: Final = 4_096
"""Calls of one node that are kept, about 4 MB. Beyond, the oldest are forgotten. A node knows no
more heads itself; see `KnownHeads`."""
CHARACTERS_MAX: Final = 512
"""A call is not kept whose path, host and tokens together are longer."""

_Common = tuple[str, str, str, tuple[str | None, str | None, str | None], str]
"""Method, path, host, tokens and address: like calls have all of them in common."""


class KnownCall(msgspec.Struct, frozen=True):
    """The common part of calls that are like each other."""

    number: int
    shard: int
    method: str
    path: str
    headers: Mapping[str, str]
    address: str
    address_key: str
    notes: Notes


class KnownCalls:
    """Known calls by the nodes that send them."""

    def __init__(self) -> None:
        """Begin with none."""
        self._numbers = itertools.count(1)
        self._by_common: dict[int, OrderedDict[_Common, KnownCall]] = {}
        self._by_number: dict[int, KnownCall] = {}

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._by_number)

    def find(self, sender: int, call: ForwardCall) -> KnownCall | None:
        """Return the known call that a whole one is like, None if there is none."""
        calls = self._by_common.get(sender)
        known = None if calls is None else calls.get(_common(call))
        return None if known is None or known.shard != call.shard else known

    def recall(self, number: int) -> KnownCall | None:
        """Return a known call by its number, None if it has been forgotten."""
        return self._by_number.get(number)

    def keep(
        self, sender: int, call: ForwardCall, headers: Mapping[str, str], key: str, notes: Notes
    ) -> int:
        """Know a call from now on; return its number, 0 if it is too long to be kept.

        Args:
            sender: the node that has sent it.
            call: the call, which has no query.
            headers: those that it came with.
            key: that of its address; see `address_key`.
            notes: what was noted when it was answered.
        """
        if sum(map(len, (call.path, call.host, *filter(None, call.tokens)))) > CHARACTERS_MAX:
            return 0
        calls = self._by_common.setdefault(sender, OrderedDict())
        before = calls.pop(_common(call), None)
        if before is None and len(calls) >= CALLS_MAX:
            _, before = calls.popitem(last=False)
        if before is not None:
            del self._by_number[before.number]
        number = next(self._numbers)
        known = KnownCall(
            number, call.shard, call.method, call.path, headers, call.address, key, notes
        )
        calls[_common(call)] = self._by_number[number] = known
        return number

    def forget(self, sender: int) -> None:
        """Forget the calls of a node that is gone."""
        for known in self._by_common.pop(sender, OrderedDict()).values():
            del self._by_number[known.number]


def _common(call: ForwardCall) -> _Common:
    return call.method, call.path, call.host, call.tokens, call.address
