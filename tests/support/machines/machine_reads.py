"""Calls that tell how single objects stand, and some that change nothing but those."""

from __future__ import annotations

from machine_stats import Wanted
from machine_world import Call, MachineWorld, Scene

from greenroom.actors.flows.friends import relationship_of
from greenroom.actors.flows.stats import change_stats
from greenroom.actors.friendship.messages import Pair
from greenroom.actors.player.messages import ReadPlayerDocument, ReplacePlayerDocument
from greenroom.actors.room.messages import ReadRoster
from greenroom.actors.room.rules.refusals import PlayerNotInAnyRoom
from greenroom.behaviour.stats import read

COUNTED = "visits"
"""A stat that nothing else changes."""


class Reads:
    """The calls of all players, by number."""

    def __init__(self, machine: MachineWorld) -> None:
        self.machine = machine
        self.book = machine.ledger.stats

    def document(self, number: int) -> Call:
        """Read one's document."""

        async def act(scene: Scene) -> object:
            scene.asks(("document", scene.player_id), "read", reads=lambda r: r.player_data)
            return await scene.identity.player.ask(ReadPlayerDocument())

        return self.machine.call(number, act, name="read document")

    def replace_document(self, number: int) -> Call:
        """Replace one's document by one that nobody else writes."""
        document = self.machine.mark()

        async def act(scene: Scene) -> object:
            scene.asks(("document", scene.player_id), "replace", document)
            return await scene.identity.player.ask(ReplacePlayerDocument(document))

        return self.machine.call(number, act, name="replace document")

    def roster(self, number: int) -> Call:
        """Read who is in one's room."""

        async def act(scene: Scene) -> object:
            room = scene.world.rooms.get_by_player(scene.player_id, PlayerNotInAnyRoom)
            scene.asks(
                ("room", room.key),
                "roster",
                scene.player_id,
                lambda seats: (seats[0].player_id, tuple(seat.player_id for seat in seats)),
            )
            return await room.ask(ReadRoster(scene.player_id))

        return self.machine.call(number, act, name="read roster")

    def relationship(self, number: int, target: int) -> Call:
        """Read what another is to a player."""
        other_id = self.machine.ids[target]

        async def act(scene: Scene) -> object:
            own_id, game_id = scene.player_id, scene.game.game_id
            key = ("friendship", Pair.make(game_id, own_id, other_id))
            scene.asks(key, "read", own_id, lambda found: found or "none")
            return await relationship_of(scene.world, game_id, own_id, other_id)

        return self.machine.call(number, act, name="read relationship")

    def visit(self, number: int, request_id: str) -> Call:
        """Have the game's service count one more visit, under an id of the request."""
        player_id = self.machine.ids[number]
        wanted = Wanted(COUNTED, "increment", 1)
        self.book.request((player_id, request_id), (wanted,))

        async def act(scene: Scene) -> object:
            scene.asks(
                ("stats", player_id),
                "add",
                (request_id, COUNTED, 1),
                lambda reply: (read(reply.stats).get(COUNTED, 0), reply.is_repeated),
            )
            world, game_id = scene.world, scene.game.game_id
            return await change_stats(
                world, game_id, player_id, lambda known: [wanted.made(known)], request_id
            )

        return self.machine.call(number, act, name="visit")
