"""Uses of the kernel and the client that must not type-check, with mypy's errors."""

from __future__ import annotations

from greenroom.actors.game.messages import CheckPlayerName, GameRole
from greenroom.actors.kernel.actor import Actor, handles
from greenroom.actors.kernel.directory import Directory
from greenroom.actors.kernel.message import Changed, Command, Event
from greenroom.actors.kernel.ref import Ref
from greenroom.actors.player.messages import PlayerRole, ReadPlayerDocument, Rename
from greenroom.actors.world.world import World
from greenroom.client import Game, Player, Room


class DoorRole:
    """Marks commands that doors take."""


class Opened(Event, frozen=True):
    """The door is open."""


class Open(Command[DoorRole, int], frozen=True):
    """Answer how often it was opened."""


class Door(Actor[DoorRole]):
    """Its handler answers with another type than the command promises."""

    @handles(Open)  # error: arg-type
    def open(self, command: Open) -> str:
        return "open"


class Gate(Actor[DoorRole]):
    """Its change carries another type than the command promises."""

    @handles(Open)  # error: arg-type
    def open(self, command: Open) -> Changed[str]:
        return Changed("open", Opened())


async def a_command_of_another_kind_of_actor(
    player: Ref[PlayerRole], game: Ref[GameRole], world: World
) -> None:
    await player.ask(CheckPlayerName("Ada"))  # error: arg-type
    await game.ask(ReadPlayerDocument())  # error: arg-type
    player.tell(CheckPlayerName("Ada"))  # error: arg-type
    await world.players.get_ref(1).ask(Open())  # error: arg-type


async def a_reply_taken_for_something_else(player: Ref[PlayerRole], game: Ref[GameRole]) -> None:
    length: int = await game.ask(CheckPlayerName("Ada"))  # error: arg-type
    document: bytes = await player.ask(ReadPlayerDocument())  # error: arg-type
    name = await player.ask(Rename("Ada"))  # error: func-returns-value
    del length, document, name


async def what_is_no_command(player: Ref[PlayerRole]) -> None:
    await player.ask("rename")  # error: arg-type
    await player.ask(Rename)  # error: arg-type
    await player.ask(Rename(7))  # error: arg-type
    await player.ask(Rename("Ada"), 1.5)  # error: call-arg


async def what_the_client_library_does_not_take(game: Game, player: Player, room: Room) -> None:
    await game.admin("key").ban(7, "fortnight")  # error: arg-type
    await room.tell("moved", {}, target="nobody")  # error: arg-type
    await player.create_room(7)  # error: arg-type
    await player.create_lobby()  # error: call-arg
    await player.set_document([1])  # error: arg-type


def what_only_its_owner_may_do(players: Directory[PlayerRole], door: Door) -> None:
    players.adopt(1, door)  # error: arg-type
    Changed(1, Open())  # error: arg-type
    Rename("Ada").player_name = "Bob"  # error: misc
