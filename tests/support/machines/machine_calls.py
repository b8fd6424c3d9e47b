"""Calls of players in a machine: one each, and the proof that it is durable."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from machine_ledger import Key
from machine_world import Call, MachineWorld, Scene

from greenroom.actors.flows import bans, friends, invites, lobbies, rooms
from greenroom.actors.flows.friends import Addressee
from greenroom.actors.flows.lobbies import NewLobby
from greenroom.actors.flows.rooms import Entrance, NewRoom
from greenroom.actors.friendship.messages import (
    FriendshipAccepted,
    FriendshipEnded,
    FriendshipRequested,
    Pair,
)
from greenroom.actors.lobby.events import JoinAnswered, JoinRequested, LobbyEnded, LobbyStarted
from greenroom.actors.player.messages import LogOut
from greenroom.actors.room.messages import (
    CompleteAction,
    KickMember,
    LeaveRoom,
    PollUpdates,
    SendActions,
    SendUpdates,
    Sent,
    StopRoom,
    UpdatesPage,
)
from greenroom.actors.room.rules.events import (
    ActionProcessed,
    MemberJoined,
    MemberLeft,
    RoomCreated,
    RoomEnded,
)
from greenroom.actors.room.rules.groups import read_sources, read_targets
from greenroom.actors.room.rules.refusals import NotInAnyRoom, PlayerNotInAnyRoom
from greenroom.actors.seating.invite_messages import InviteAnswer
from greenroom.actors.seating.invites import InviteAnswered, Invited


class Calls:
    """The calls of all players, by number."""

    def __init__(self, machine: MachineWorld) -> None:
        self.machine = machine
        self.ledger = machine.ledger

    def id_of(self, number: int) -> int:
        return self.machine.ids[number]

    # Rooms.

    def create_room(
        self, number: int, size: int, *, host_switch: bool, is_locked: bool, counts: bool = False
    ) -> Call:
        mark = self.machine.mark()
        if counts:
            mark = mark.replace(b"}", b',"type":"counting"}')
        wanted = NewRoom(
            room_name=None,
            password="secret" if is_locked else None,
            max_players=size,
            host_switch=host_switch,
            realtime=False,
            rules=mark,
            player_data=b"{}",
        )

        async def act(scene: Scene) -> object:
            player = scene.identity.player
            return await rooms.create_room(scene.world, scene.game.game, player, wanted)

        def proof(call: Call) -> bool:
            return self.ledger.happened(call.since, RoomCreated, room_id=call.reply.room_id)

        return self.machine.call(number, act, proof, name="create room", mark=mark)

    def join(self, number: int, key: Key, *, knows_password: bool = True) -> Call:
        mark = self.machine.mark()
        password = "secret" if knows_password else None
        entrance = Entrance(password=password, join_token=None, player_data=mark)

        async def act(scene: Scene) -> object:
            if key[0] == "room":
                scene.asks(key, "join", scene.player_id)
            join = rooms.join_room if key[0] == "room" else lobbies.join_lobby
            player = scene.identity.player
            return await join(scene.world, scene.game.game_id, player, key[1], entrance)

        def proof(call: Call) -> bool:
            return self.ledger.happened(call.since, MemberJoined, player_data=mark)

        return self.machine.call(number, act, proof, name=f"join {key[0]}", mark=mark)

    def leave_room(self, number: int) -> Call:
        async def act(scene: Scene) -> None:
            room = scene.world.rooms.get_by_player(scene.player_id, NotInAnyRoom)
            scene.asks(("room", room.key), "leave", scene.player_id)
            await room.ask(LeaveRoom(scene.player_id))

        return self.machine.call(number, act, self._left(number), name="leave room")

    def kick_from_room(self, number: int, target: int) -> Call:
        async def act(scene: Scene) -> None:
            room = scene.world.rooms.get_by_player(scene.player_id, NotInAnyRoom)
            scene.asks(("room", room.key), "kick", (scene.player_id, self.id_of(target)))
            await room.ask(KickMember(scene.player_id, self.id_of(target)))

        return self.machine.call(number, act, self._left(target), name="kick from room")

    def stop_room(self, number: int) -> Call:
        async def act(scene: Scene) -> None:
            room = scene.world.rooms.get_by_player(scene.player_id, NotInAnyRoom)
            scene.asks(("room", room.key), "stop", scene.player_id)
            await room.ask(StopRoom(scene.player_id))

        def proof(call: Call) -> bool:
            return self.ledger.happened(call.since, RoomEnded)

        return self.machine.call(number, act, proof, name="stop room")

    def ban(self, number: int) -> Call:
        """Ban a player, and pardon them; as an operator would."""

        async def act(scene: Scene) -> None:
            world, game_id = scene.world, scene.game.game_id
            player_id = self.id_of(number)
            await bans.ban_player(world, game_id, player_id, "hour", None)
            await bans.unban_player(world, game_id, player_id)

        return self.machine.call(number, act, name="ban")

    def log_out(self, number: int) -> Call:
        async def act(scene: Scene) -> None:
            await scene.identity.player.ask(LogOut())

        return self.machine.call(number, act, name="log out")

    def _left(self, number: int) -> Callable[[Call], bool]:
        def proof(call: Call) -> bool:
            return self.ledger.happened(call.since, MemberLeft, player_id=self.id_of(number))

        return proof

    # Updates and actions.

    def send_updates(self, number: int, word: str) -> Call:
        mark = self.machine.mark()

        async def act(scene: Scene) -> object:
            room = scene.world.rooms.get_by_player(scene.player_id, PlayerNotInAnyRoom)
            targets = read_targets(word, [self.id_of(0)])
            for player_id in self.machine.ids:
                reads = partial(_is_target, player_id)
                scene.asks(("inbox", (room.key, player_id)), "send", mark, reads)
            return await room.ask(SendUpdates(scene.player_id, targets, "move", mark))

        def proof(call: Call) -> bool:
            return set(call.reply.ids) <= self.ledger.updates

        return self.machine.call(number, act, proof, name="send updates", mark=mark)

    def poll(self, number: int) -> Call:
        """Read on from one's own cursor; what is read is compared with what was sent."""
        player_id, place = self.id_of(number), self.ledger.place_of(self.id_of(number), "room")
        room_id = "" if place is None else place.key[1]
        stay = None if place is None else place.members[player_id]

        async def act(scene: Scene) -> object:
            room = scene.world.rooms.get_by_player(scene.player_id, PlayerNotInAnyRoom)
            if stay is None or room.key != room_id:
                return None
            cursor = stay.cursor
            sources = read_sources("all", None)
            marks = self.machine.chronicle.marks
            key = ("inbox", (room_id, player_id))
            scene.asks(key, "poll", None if cursor is None else marks[cursor], _page_read)
            return cursor, await room.ask(PollUpdates(scene.player_id, sources, cursor))

        def proof(call: Call) -> bool:
            now = None if place is None else place.members.get(player_id)
            if call.reply is not None and stay is not None and now is stay:
                cursor, page = call.reply
                check_page(stay.updates, cursor, page)
                stay.cursor = page.last_update
            return True

        return self.machine.call(number, act, proof, name="poll")

    def send_actions(self, number: int, word: str) -> Call:
        mark = self.machine.mark()

        async def act(scene: Scene) -> object:
            room = scene.world.rooms.get_by_player(scene.player_id, PlayerNotInAnyRoom)
            targets = read_targets(word, [self.id_of(0)])
            return await room.ask(
                SendActions(
                    player_id=scene.player_id,
                    targets=targets,
                    action_type="place",
                    request_data=mark,
                    seed=mark.ljust(16),
                )
            )

        def proof(call: Call) -> bool:
            return set(call.reply.ids) <= self.ledger.actions_sent

        return self.machine.call(number, act, proof, name="send actions", mark=mark)

    def complete(self, number: int, action_id: str) -> Call:
        async def act(scene: Scene) -> None:
            room = scene.world.rooms.get_by_player(scene.player_id, PlayerNotInAnyRoom)
            await room.ask(CompleteAction(scene.player_id, action_id, "completed", None))

        def proof(call: Call) -> bool:
            return self.ledger.happened(call.since, ActionProcessed, action_id=action_id)

        return self.machine.call(number, act, proof, name="complete")

    # Lobbies.

    def create_lobby(
        self, number: int, size: int, *, host_switch: bool, by_requests: bool, can_leave: bool
    ) -> Call:
        mark = self.machine.mark()
        wanted = NewLobby(
            lobby_name=None,
            password=None,
            max_players=size,
            strict_full=False,
            join_by_requests=by_requests,
            host_switch=host_switch,
            can_leave_room=can_leave,
            realtime_room=False,
            rules=mark,
            player_data=b"{}",
        )

        async def act(scene: Scene) -> object:
            player = scene.identity.player
            return await lobbies.create_lobby(scene.world, scene.game.game, player, wanted)

        def proof(call: Call) -> bool:
            return ("lobby", call.reply.lobby_id) in self.ledger.places

        return self.machine.call(number, act, proof, name="create lobby", mark=mark)

    def _ask_room(self, scene: Scene, action: str) -> None:
        """Note that what was a lobby is asked as the room that it is now."""
        seat = scene.world.rooms.index._table.find(scene.player_id)
        if seat is not None and seat[0] == "room":
            scene.asks(seat, action, scene.player_id)

    def request(self, number: int, key: Key) -> Call:
        mark = self.machine.mark()

        async def act(scene: Scene) -> object:
            player = scene.identity.player
            game_id = scene.game.game_id
            return await lobbies.request_to_join(scene.world, game_id, player, key[1], mark)

        def proof(call: Call) -> bool:
            return self.ledger.happened(call.since, JoinRequested, request_id=call.reply)

        return self.machine.call(number, act, proof, name="request", mark=mark)

    def answer_request(self, number: int, request_id: str, *, is_approved: bool) -> Call:
        async def act(scene: Scene) -> None:
            world, game_id = scene.world, scene.game.game_id
            await lobbies.answer_request(
                world, game_id, scene.player_id, request_id, is_approved=is_approved
            )

        def proof(call: Call) -> bool:
            answer = "approved" if is_approved else "rejected"
            fields = {"request_id": request_id, "answer": answer}
            return self.ledger.happened(call.since, JoinAnswered, **fields)

        return self.machine.call(number, act, proof, name="answer request")

    def leave_lobby(self, number: int) -> Call:
        async def act(scene: Scene) -> None:
            self._ask_room(scene, "leave")
            await lobbies.leave_lobby(scene.world, scene.player_id)

        return self.machine.call(number, act, self._left(number), name="leave lobby")

    def kick_from_lobby(self, number: int, target: int) -> Call:
        async def act(scene: Scene) -> None:
            await lobbies.kick_from_lobby(scene.world, scene.player_id, self.id_of(target))

        return self.machine.call(number, act, self._left(target), name="kick from lobby")

    def remove_lobby(self, number: int) -> Call:
        async def act(scene: Scene) -> None:
            self._ask_room(scene, "stop")
            await lobbies.remove_lobby(scene.world, scene.player_id)

        def proof(call: Call) -> bool:
            return self.ledger.happened(call.since, LobbyEnded, RoomEnded)

        return self.machine.call(number, act, proof, name="remove lobby")

    def start_lobby(self, number: int) -> Call:
        async def act(scene: Scene) -> object:
            return await lobbies.start_lobby(scene.world, scene.player_id)

        def proof(call: Call) -> bool:
            room_id, since = call.reply.room_id, call.since
            created = self.ledger.happened(since, RoomCreated, room_id=room_id)
            return created and self.ledger.happened(since, LobbyStarted, room_id=room_id)

        return self.machine.call(number, act, proof, name="start lobby")

    # Friends and invites.

    def befriend(self, number: int, target: int) -> Call:
        async def act(scene: Scene) -> object:
            self._ask_pair(scene, target, "request")
            other = Addressee(None, self.id_of(target))
            game = scene.game.game
            return await friends.request_friendship(scene.world, game, scene.player_id, other)

        def proof(call: Call) -> bool:
            _, status = call.reply
            kind = FriendshipAccepted if status == "accepted" else FriendshipRequested
            return self._between(call, number, target, kind)

        return self.machine.call(number, act, proof, name="befriend")

    def accept(self, number: int, target: int) -> Call:
        async def act(scene: Scene) -> None:
            self._ask_pair(scene, target, "accept")
            other_id, game_id = self.id_of(target), scene.game.game_id
            await friends.accept_friendship(scene.world, game_id, scene.player_id, other_id)

        def proof(call: Call) -> bool:
            return self._between(call, number, target, FriendshipAccepted)

        return self.machine.call(number, act, proof, name="accept friendship")

    def decline(self, number: int, target: int) -> Call:
        async def act(scene: Scene) -> None:
            self._ask_pair(scene, target, "decline")
            other_id, game_id = self.id_of(target), scene.game.game_id
            await friends.decline_friendship(scene.world, game_id, scene.player_id, other_id)

        def proof(call: Call) -> bool:
            return self._between(call, number, target, FriendshipEnded)

        return self.machine.call(number, act, proof, name="decline friendship")

    def end(self, number: int, target: int) -> Call:
        async def act(scene: Scene) -> None:
            self._ask_pair(scene, target, "end")
            other_id, game_id = self.id_of(target), scene.game.game_id
            await friends.end_friendship(scene.world, game_id, scene.player_id, other_id)

        def proof(call: Call) -> bool:
            return self._between(call, number, target, FriendshipEnded)

        return self.machine.call(number, act, proof, name="end friendship")

    def _ask_pair(self, scene: Scene, target: int, action: str) -> None:
        pair = Pair.make(scene.game.game_id, scene.player_id, self.id_of(target))

        def status(reply: Any) -> object:
            return reply[1] if action == "request" else None

        scene.asks(("friendship", pair), action, scene.player_id, status)

    def _between(self, call: Call, number: int, target: int, kind: type) -> bool:
        pair = Pair.make(self.machine.game.game_id, self.id_of(number), self.id_of(target))
        fields = {"low_id": pair.low_id, "high_id": pair.high_id}
        return self.ledger.happened(call.since, kind, **fields)

    def invite(self, number: int, target: int) -> Call:
        async def act(scene: Scene) -> object:
            player, game_id = scene.identity.player, scene.game.game_id
            return await invites.invite_friend(scene.world, game_id, player, self.id_of(target))

        def proof(call: Call) -> bool:
            return self.ledger.happened(call.since, Invited, invite_id=call.reply)

        return self.machine.call(number, act, proof, name="invite")

    def answer_invite(self, number: int, which: int, answer: InviteAnswer) -> Call:
        """Answer one of the invites that one sees; without any, see none."""

        async def act(scene: Scene) -> object:
            found = invites.invites_to(scene.world, scene.player_id)
            if not found:
                return None
            invite_id = found[which % len(found)].invite_id
            return await invites.answer_invite(
                scene.world, scene.game.game_id, scene.player_id, invite_id, answer
            )

        def proof(call: Call) -> bool:
            fields = {"player_id": self.id_of(number), "answer": answer}
            return call.reply is None or self.ledger.happened(call.since, InviteAnswered, **fields)

        return self.machine.call(number, act, proof, name="answer invite")


def _is_target(player_id: int, sent: Sent) -> bool:
    return player_id in sent.target_ids


def _page_read(reply: tuple[str | None, UpdatesPage]) -> object:
    """Return what a page says."""
    page = reply[1]
    return tuple(update.data for update in page.updates), page.missed


def check_page(sent: list[str], cursor: str | None, page: UpdatesPage) -> int:
    """Check a page of updates: what was sent after the cursor, in order, nothing lost in between.

    Args:
        sent: the ids of all updates to this member, in order.
        cursor: the last one that the member has read.
        page: what the member is given.

    Returns:
        How many of the updates the member had read, or missed, before.
    """
    position = 0 if cursor is None else sent.index(cursor) + 1
    found = [update.update_id for update in page.updates]
    start = position + page.missed
    assert found == sent[start : start + len(found)], "updates were lost, repeated or reordered"
    assert page.last_update == (found[-1] if found else cursor), "the cursor is not the last's"
    return position
