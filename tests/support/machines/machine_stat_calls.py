"""Calls that change stats: of players in rooms that count, and of their game's own services."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from machine_stats import CHANGE, Asked, Wanted
from machine_world import Call, MachineWorld, Scene

from greenroom.actors.flows.deletion import delete_player
from greenroom.actors.flows.stats import change_stats
from greenroom.actors.kernel.errors import CommitUnsettled
from greenroom.actors.player.messages import ReplacePlayerDocument
from greenroom.actors.player.refusals import PlayerNotFound
from greenroom.actors.room.messages import SendActions
from greenroom.actors.room.rules.groups import read_targets
from greenroom.actors.room.rules.refusals import PlayerNotInAnyRoom
from greenroom.behaviour.stats import NO_STATS

OPERATOR = 0
"""The player in whose name operators and services call; who it is makes no difference."""


class StatCalls:
    """The calls of all players, and of the game's services, by the player's number."""

    def __init__(self, machine: MachineWorld) -> None:
        self.machine = machine
        self.ledger = machine.ledger
        self.book = machine.ledger.stats

    def change_in_room(self, number: int, wanted: Sequence[Wanted]) -> Call:
        """Act, so that the room's behaviour changes the player's own stats."""
        mark = int(msgspec.json.decode(self.machine.mark())["mark"])
        asked = msgspec.json.encode(Asked(mark, tuple(wanted)))

        async def act(scene: Scene) -> object:
            room = scene.world.rooms.get_by_player(scene.player_id, PlayerNotInAnyRoom)
            return await room.ask(
                SendActions(
                    player_id=scene.player_id,
                    targets=read_targets("host", None),
                    action_type=CHANGE,
                    request_data=asked,
                    seed=asked[:16].ljust(16),
                )
            )

        def proof(call: Call) -> bool:
            return set(call.reply.ids) <= self.ledger.actions_sent

        return self.machine.call(number, act, proof, name="change stats", mark=asked)

    def change_by_service(self, number: int, request_id: str, wanted: Sequence[Wanted]) -> Call:
        """Have the game's service change stats; under an id that it has used, the same again."""
        key = (self.machine.ids[number], request_id)
        changes = self.book.request(key, tuple(wanted))

        async def act(scene: Scene) -> object:
            try:
                return await change_stats(
                    scene.world,
                    scene.game.game_id,
                    key[0],
                    lambda declared: [each.made(declared) for each in changes],
                    request_id,
                )
            except BaseException as error:
                if not isinstance(error, CommitUnsettled):
                    self.book.annul(key)
                raise

        def proof(call: Call) -> bool:
            stats: bytes = call.reply.stats
            is_known = stats == NO_STATS or (key[0], stats) in self.book.seen
            return key in self.book.counted and is_known

        return self.machine.call(OPERATOR, act, proof, name="change stats by service")

    def replace_document(self, number: int) -> Call:
        """Replace one's document by one that looks like stats."""
        forged = b'{"stats":{"score":1000000},"score":1000000,"results":"~x:1"}'

        async def act(scene: Scene) -> object:
            scene.asks(("document", scene.player_id), "replace", forged)
            return await scene.identity.player.ask(ReplacePlayerDocument(forged))

        return self.machine.call(number, act, name="replace document")

    def delete(self, number: int) -> Call:
        """Delete a player, as an operator would; the next player takes the number."""
        player_id = self.machine.ids[number]

        async def act(scene: Scene) -> None:
            try:
                await delete_player(scene.world, player_id)
                assert player_id in self.book.gone, "a deletion was acknowledged and is not durable"
            except PlayerNotFound:
                if player_id not in self.book.gone:
                    return  # another deletion is on its way
            if self.machine.ids[number] == player_id:
                await self.machine.register(number)

        return self.machine.call(OPERATOR, act, name="delete")
