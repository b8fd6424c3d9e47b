"""Uses of the kernel that must type-check. Never run: mypy and pyright read it in every check."""

from __future__ import annotations

from typing import assert_type

from greenroom.actors.game.messages import CheckPlayerName, GameRole
from greenroom.actors.kernel.actor import Actor, handles
from greenroom.actors.kernel.directory import Directory
from greenroom.actors.kernel.message import Changed, Command, Event
from greenroom.actors.kernel.ref import Ref
from greenroom.actors.player.messages import (
    Ban,
    BanPlayer,
    LeaveIfStale,
    PlayerDocument,
    PlayerRole,
    ReadPlayerDocument,
    Rename,
)
from greenroom.actors.world.world import World
from greenroom.supervisors.dynamic import DynamicSupervisor


class DoorRole:
    """Marks commands that doors take."""


class Opened(Event, frozen=True):
    """The door is open."""


class Open(Command[DoorRole, int], frozen=True):
    """Answer how often it was opened."""


class Look(Command[DoorRole, str], frozen=True):
    """Answer what is behind it."""


class Door(Actor[DoorRole]):
    """A read answers with its reply, a change with `Changed`, and one handler may do either."""

    @handles(Open)
    def open(self, command: Open) -> int | Changed[int]:
        return Changed(1, Opened())

    @handles(Look)
    def look(self, command: Look) -> str:
        return "a garden"


async def the_reply_has_the_type_that_the_command_says(
    player: Ref[PlayerRole], game: Ref[GameRole], ban: BanPlayer
) -> None:
    assert_type(await player.ask(ReadPlayerDocument()), PlayerDocument)
    assert_type(await player.ask(ban), Ban)
    assert_type(await player.ask(Rename("Ada"), seconds_max=1.5), None)
    assert_type(await game.ask(CheckPlayerName("Ada")), str)


def a_tell_takes_any_command_of_its_actor(player: Ref[PlayerRole]) -> None:
    player.tell(LeaveIfStale(120))
    player.tell(Rename("Ada"))


def a_directory_gives_references_of_its_kind(
    world: World, doors: DynamicSupervisor[DoorRole]
) -> None:
    assert_type(world.players.get_ref(1), Ref[PlayerRole])
    assert_type(world.games.find_active(1), Ref[GameRole] | None)
    assert_type(doors.adopt(1, Door()), Ref[DoorRole])
    directory: Directory[DoorRole] = doors
    assert_type(directory.get_ref(1), Ref[DoorRole])
