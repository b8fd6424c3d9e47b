"""The questions of nodes about a game in several partitions, each with its handler.

An answer comes from what this node has, and asks no other node. A question may be asked twice.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

import msgspec

from greenroom.actors.flows.deletion import ForgetFriends, forget_friends
from greenroom.actors.flows.invites import FindInvites, find_invites
from greenroom.actors.flows.partitions import PullPlayer, pull_away
from greenroom.actors.flows.ranking import FindTop, find_top
from greenroom.actors.flows.spread.arrivals import receive_players
from greenroom.actors.flows.spread.copies import DropCopy, drop_copy
from greenroom.actors.flows.spread.ending import EndGame, end_game_here
from greenroom.actors.flows.spread.lists import (
    FindLobbies,
    FindRooms,
    find_lobbies,
    find_rooms,
)
from greenroom.actors.flows.spread.results import WriteForRoom, write_for_room
from greenroom.actors.world.departures import ReceivePlayers
from greenroom.actors.world.others import Question
from greenroom.actors.world.world import World

ANSWERS: Final[dict[type[Question], Callable[[World, Any], Awaitable[msgspec.Struct]]]] = {
    DropCopy: drop_copy,
    EndGame: end_game_here,
    ForgetFriends: forget_friends,
    FindInvites: find_invites,
    FindLobbies: find_lobbies,
    FindRooms: find_rooms,
    FindTop: find_top,
    PullPlayer: pull_away,
    ReceivePlayers: receive_players,
    WriteForRoom: write_for_room,
}
