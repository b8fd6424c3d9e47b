"""Resolves the words and ids of a request to members of a room."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from greenroom.actors.room.messages import Group
from greenroom.actors.room.rules.refusals import (
    InvalidSources,
    InvalidTargetIds,
    InvalidTargets,
    NoValidSources,
    NoValidTargets,
    OnlyHostTargetsOthers,
    TargetIdsMissing,
)
from greenroom.actors.room.rules.state import Room
from greenroom.contract.allowed_values import GroupWord

_WORDS: Final[dict[str, GroupWord]] = {
    "all": "all",
    "host": "host",
    "others": "others",
    "specific": "specific",
}


class Senders(msgspec.Struct, frozen=True):
    """The senders whose updates are wanted: those in `player_ids`, or all but those."""

    player_ids: frozenset[int]
    is_everybody_else: bool = False

    def __contains__(self, player_id: int) -> bool:
        """Return whether this sender's are wanted; `GONE` stands for everybody who left."""
        return (player_id in self.player_ids) is not self.is_everybody_else


def read_targets(word: str, player_ids: Iterable[int] | None) -> Group:
    """Return the group that a request's `target_players` and `target_players_ids` name.

    Raises:
        InvalidTargets: not one of the four words.
        TargetIdsMissing: specific ones, without ids.
        InvalidTargetIds: specific ones, and no id in the list.
    """
    known = _WORDS.get(word)
    if known is None:
        raise InvalidTargets
    if known != "specific":
        return Group(known)
    if player_ids is None:
        raise TargetIdsMissing
    wanted = frozenset(player_ids)
    if not wanted:
        raise InvalidTargetIds
    return Group(known, wanted)


def read_sources(word: str | None, player_ids: Iterable[int] | None) -> Group:
    """Return the group that a request's `from_players` and `from_players_ids` name.

    Raises:
        InvalidSources: not one of the four words; absent is the host.
    """
    known = _WORDS.get("host" if word is None else word)
    if known is None:
        raise InvalidSources
    return Group(known, frozenset(player_ids or ()) if known == "specific" else frozenset())


def find_targets(room: Room, sender_id: int, group: Group) -> tuple[int, ...]:
    """Return the ids of the online members in a group, in the order in which they joined.

    Raises:
        OnlyHostTargetsOthers: the group has more than the host, and the sender is not the host.
        NoValidTargets: the group names members, and none of them is online.
    """
    is_beyond_host = group.word in {"all", "others"} or bool(group.player_ids - {room.host_id})
    if sender_id != room.host_id and is_beyond_host:
        raise OnlyHostTargetsOthers
    online = (m.player_id for m in room.members.values() if m.is_online)
    match group.word:
        case "all":
            return tuple(online)
        case "host":
            return tuple(i for i in online if i == room.host_id)
        case "others":
            return tuple(i for i in online if i != sender_id)
        case _:
            found = tuple(i for i in online if i in group.player_ids)
    if not found:
        raise NoValidTargets
    return found


def find_senders(room: Room, reader_id: int, group: Group) -> Senders:
    """Return whose updates are meant.

    Raises:
        NoValidSources: the group names players, and none of them is a member.
    """
    match group.word:
        case "all":
            return Senders(frozenset(), is_everybody_else=True)
        case "host":
            return Senders(frozenset({room.host_id}))
        case "others":
            return Senders(frozenset({reader_id}), is_everybody_else=True)
        case _:
            found = group.player_ids & room.members.keys()
    if not found:
        raise NoValidSources
    return Senders(found)
