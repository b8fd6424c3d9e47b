"""The hooks that are called for what happens in a room, and what happens if one of them fails.

    what happens         hooks                      if a hook fails
    RoomCreated          on_create, then on_join    the room is not created; see `opening`
    MemberJoined         can_join, on_join          the player does not join
    HostChanged          choose_host,               the member online who joined first becomes host;
                         on_host_change             the rest as below
    MemberLeft           on_leave                   it happens all the same; what hooks did in this
    RoomEnded            on_stop                    turn is undone
    a timer is due       on_timer                   likewise; it does not fire again
    a job has ended      on_done                    likewise
    a connection         on_drop, on_reconnect      likewise

So a mistake in a studio's code keeps nobody in a room, and nobody out of another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from greenroom.actors.room.rules.events import (
    HostChanged,
    MemberCameBack,
    MemberJoined,
    MemberLeft,
    MemberRenamed,
    MemberWentOffline,
    RoomEnded,
    RoomEvent,
)
from greenroom.actors.studio_room import input_rules
from greenroom.actors.studio_room.turn import Turn
from greenroom.behaviour import BehaviourBug, Joining, Member, Refused, RoomBehaviour


def open_room(turn: Turn) -> None:
    """Call the hooks of a new room.

    Raises:
        RefusedByBehaviour, BehaviourFailed: there is to be no such room.
    """
    turn.ask("on_create")
    for member in list(turn.host.roster.members.values()):
        turn.ask("on_join", member)


def follow(turn: Turn, decided: Iterable[RoomEvent], *, host_is_chosen: bool = False) -> None:
    """Call the hooks for what the rules decided, and add what happens to the turn's events.

    Args:
        turn: has begun.
        decided: the events, in order.
        host_is_chosen: whether a new host among them is the studio's own choice.

    Raises:
        RefusedByBehaviour, BehaviourFailed: a player may not join.
    """
    happened: list[RoomEvent] = []
    for event in decided:
        if isinstance(event, MemberJoined):
            happened += turn.host.note_stats(event.player_id, event.at)
        happened.append(_follow(turn, event, host_is_chosen=host_is_chosen))
    turn.events += tuple(happened)


def catch_up(turn: Turn) -> bool:
    """Call the hooks for the first event that the behaviour has missed.

    Return whether there was any. If there was none, hooks see the room as it is from now on.
    """
    event = turn.host.take_missed()
    if event is None:
        turn.host.read_roster()
        return False
    _follow(turn, event, host_is_chosen=True)
    return True


def _follow(turn: Turn, event: RoomEvent, *, host_is_chosen: bool) -> RoomEvent:
    """Call the hooks for one event; return it, or what the studio makes of it."""
    if turn.has_failed:
        return event
    if isinstance(event, MemberJoined):
        join(turn, event)
        return event
    try:
        if isinstance(event, HostChanged):
            return _change_host(turn, event, is_chosen=host_is_chosen)
        _note(turn, event)
    except (BehaviourBug, Refused) as bug:
        turn.fail(bug, event)
    return event


def join(turn: Turn, event: MemberJoined) -> None:
    """Ask whether a player may join, and tell the behaviour that they have.

    Raises:
        RefusedByBehaviour, BehaviourFailed: they may not.
    """
    data = input_rules.decode(event.player_data)
    joining = Joining(player_id=event.player_id, player_name=event.player_name, player_data=data)
    turn.ask("can_join", joining, payload=data)
    member = Member(
        player_id=event.player_id,
        player_name=event.player_name,
        player_data=data,
        is_connected=False,
    )
    turn.host.roster.put(member)
    turn.ask("on_join", member, payload=data)


def _note(turn: Turn, event: RoomEvent) -> None:
    """Tell the behaviour of an event that it has no say in."""
    roster = turn.host.roster
    match event:
        case MemberLeft():
            _leave(turn, event)
        case RoomEnded():
            turn.host.runner.call_hook("on_stop", event.reason)
        case MemberWentOffline():
            roster.change(event.player_id, is_online=False)
        case MemberCameBack():
            roster.change(event.player_id, is_online=True)
        case MemberRenamed():
            roster.change(event.player_id, player_name=event.player_name)
        case _:
            pass


def _leave(turn: Turn, event: MemberLeft) -> None:
    """Take a member from the roster, and tell the behaviour."""
    host = turn.host
    roster, dropped = host.roster, host.memory.dropped
    member = roster.members.pop(event.player_id)
    if event.player_id in dropped:  # a player who returns is as if here for the first time
        host.remember(dropped=dropped - {event.player_id})
    roster.show(roster.host_id, leaving_id=event.player_id)
    host.runner.call_hook("on_leave", member, event.reason)
    roster.show(roster.host_id)


def _change_host(turn: Turn, event: HostChanged, *, is_chosen: bool) -> HostChanged:
    """Let the studio choose another host than the rules did, among the members online."""
    roster, hook = turn.host.roster, turn.host.runner.call_hook
    members, old_id = roster.members, roster.host_id
    candidates = tuple(m for m in members.values() if m.is_online and m.player_id != old_id)
    if candidates and not is_chosen:
        chosen = hook("choose_host", candidates)
        if isinstance(chosen, Member) and chosen.player_id in members:
            event = HostChanged(chosen.player_id, event.at)
    roster.show(event.player_id)
    old = None if old_id is None else members.get(old_id)
    hook("on_host_change", old, members[event.player_id])
    return event


def fire_timers(turn: Turn) -> None:
    """Call `on_timer` for every timer that is due."""
    runner = turn.host.runner
    now, timers = runner.room.now, runner.timers
    for timer in sorted(timers.values(), key=lambda timer: timer.due):
        if timer.due > now or turn.has_failed or timers.get(timer.name) is not timer:
            continue
        if timer.every_seconds is None:
            del timers[timer.name]
        else:
            behind = (now - timer.due) // timer.every_seconds
            due = timer.due + (behind + 1) * timer.every_seconds
            timers[timer.name] = msgspec.structs.replace(timer, due=due)
        turn.note("on_timer", timer.name)
    if turn.has_failed:
        drop_due_timers(turn)


def drop_due_timers(turn: Turn) -> None:
    """Forget the timers that are due, so that none whose hook fails fires again and again."""
    room, timers = turn.host.runner.room, turn.host.runner.timers
    for timer in list(timers.values()):
        if timer.due <= room.now:
            del timers[timer.name]


def note_connection(turn: Turn, player_id: int, *, is_connected: bool) -> None:
    """Tell the behaviour, once, that a member has lost their connection, or is back.

    The first connection is no return.
    """
    host, dropped = turn.host, turn.host.memory.dropped
    if is_connected is (player_id not in dropped):
        return
    member = host.roster.members[player_id]
    if is_connected:
        host.remember(dropped=dropped - {player_id})
        turn.note("on_reconnect", member)
    else:
        host.remember(dropped=dropped | {player_id})
        turn.note("on_drop", member)


def take_result(turn: Turn, on_done: Callable[..., Any], result: object) -> None:
    """Call `on_done` as a hook; where an earlier behaviour gave it, that of the present one."""
    runner = turn.host.runner
    if isinstance(getattr(on_done, "__self__", None), RoomBehaviour):
        on_done = getattr(runner.behaviour, on_done.__name__, on_done)
    try:
        runner.call("on_done", on_done, result)
    except (BehaviourBug, Refused) as bug:
        turn.fail(bug, result)
