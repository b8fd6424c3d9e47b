"""Updates: a member tells others something; each reads on from a cursor. Pure.

A room keeps its latest updates, in the order sent and across all members. Those that are dropped
are counted for each target by sender. So a cursor older than the oldest kept update can be told how
many it missed. The count is exact where one sender is read from, or everybody. Where some of
several senders are, and the cursor itself was dropped, it is an upper bound.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from itertools import islice
from operator import attrgetter
from typing import Final

import msgspec

from greenroom.actors.kernel.portion import DOCUMENTS_BYTES_MAX, portion
from greenroom.actors.room.messages import PollUpdates, SendUpdates, Sent, UpdatesPage, UpdateView
from greenroom.actors.room.rules.cursors import (
    ORDINAL_MASK,
    SENDER_MASK,
    Cursor,
    number_of,
    read_cursor,
    update_id,
)
from greenroom.actors.room.rules.events import Delivery, UpdatesSent
from greenroom.actors.room.rules.groups import Senders, find_senders, find_targets
from greenroom.actors.room.rules.state import (
    GONE,
    Fallen,
    Member,
    Room,
    RoomLimits,
    Sending,
    Update,
    weigh_updates,
)

PAGE_MAX: Final = 50

_number = attrgetter("number")


def decide_send(
    room: Room, command: SendUpdates, limits: RoomLimits, now: int
) -> tuple[tuple[UpdatesSent, ...], Sent]:
    """Tell each of the targets; nobody there to tell is a success with none.

    Raises:
        OnlyHostTargetsOthers, NoValidTargets: see `find_targets`.
    """
    target_ids = find_targets(room, command.player_id, command.targets)
    if not target_ids:
        return (), Sent((), ())
    sender_id = command.player_id
    event = sent_to(
        room, sender_id, target_ids, command.update_type, command.data, limits=limits, now=now
    )
    ids = tuple(update_id(room.room_id, sender_id, d) for d in event.deliveries)
    return (event,), Sent(ids, target_ids)


def sent_to(
    room: Room,
    sender_id: int,
    target_ids: tuple[int, ...],
    update_type: str,
    data: bytes,
    *,
    limits: RoomLimits,
    now: int,
    is_server: bool = False,
) -> UpdatesSent:
    """Return an update for each of these members, of whom there is one at least."""
    deliveries = tuple(
        _delivery(room, sender_id, target_id, room.last_number + place)
        for place, target_id in enumerate(target_ids, 1)
    )
    event = UpdatesSent(sender_id, update_type, data, deliveries, room.kept_from, now, is_server)
    return msgspec.structs.replace(event, kept_from=_kept_from(room, event, limits))


def poll(room: Room, command: PollUpdates) -> UpdatesPage:
    """Return what comes after the caller's cursor; an unknown one reads from the oldest kept.

    Raises:
        NoValidSources: see `find_senders`.
    """
    member = room.members[command.player_id]
    senders = find_senders(room, command.player_id, command.sources)
    cursor = _cursor(room, member, command.last_update)
    after = 0 if cursor is None else cursor.number
    first = bisect_right(member.inbox, after, key=_number)
    later = islice(member.inbox, first, None)
    own = (u for u in later if u.sender_id in senders)
    views = _views(room, portion(islice(own, PAGE_MAX), _size))
    last = views[-1].update_id if views else command.last_update
    return UpdatesPage(views, last, _missed(room, member, senders, cursor))


def list_unread(
    room: Room, player_id: int, bytes_max: int = DOCUMENTS_BYTES_MAX
) -> tuple[UpdateView, ...]:
    """Return what a member has not polled yet, oldest first, as much as fits in."""
    member = room.members[player_id]
    new = (u for u in member.inbox if u.number > member.read.get(u.sender_id, 0))
    is_alone = bytes_max == DOCUMENTS_BYTES_MAX
    return _views(room, portion(islice(new, PAGE_MAX), _size, bytes_max, first_always=is_alone))


def mark_read(room: Room, player_id: int, page: UpdatesPage) -> bool:
    """Note that a member was given a page: soft, no event. Return whether any of it is new."""
    member = room.members[player_id]
    before = member.read.copy()
    for view in page.updates:
        number = number_of(view.update_id)
        member.read[view.from_player_id] = max(number, member.read.get(view.from_player_id, 0))
    return member.read != before


def send(room: Room, event: UpdatesSent) -> None:
    """Drop what is no longer kept, then keep the new ones, as the room's newest entry."""
    _cut(room, event.kept_from)
    for delivery in event.deliveries:
        member = room.members[delivery.target_id]
        member.received = delivery.ordinal
        member.received_from[event.player_id] = delivery.pair_ordinal
    room.last_number = event.deliveries[-1].number
    store(room, event, room.version)


def store(room: Room, event: UpdatesSent, sequence: int) -> None:
    """Put updates into the inboxes of those targets who are still there."""
    sending = Sending(sequence, event)
    room.sendings.append(sending)
    room.kept_bytes += event.size
    sender_id, size = weigh_updates(event)
    room.kept_by_sender[sender_id] = room.kept_by_sender.get(sender_id, 0) + size
    for delivery in event.deliveries:
        member = _recipient(room, delivery)
        if member is not None:
            member.inbox.append(Update(delivery, sending))


def forget_all(room: Room) -> None:
    """Drop all updates."""
    room.sendings = []
    room.kept_bytes = 0
    room.kept_by_sender = {}
    room.kept_from = room.last_number + 1


def forget_sender(room: Room, player_id: int) -> None:
    """Count what somebody who left has sent among that of all who left."""
    for member in room.members.values():
        member.received_from.pop(player_id, None)
        fallen = member.fallen.pop(player_id, None)
        if fallen is not None:
            gone = member.fallen.setdefault(GONE, Fallen())
            gone.count += fallen.count
            gone.last_number = max(gone.last_number, fallen.last_number)
        member.read = {
            sender_id: number
            for sender_id, number in member.read.items()
            if sender_id in room.members or number >= room.kept_from
        }


def _delivery(room: Room, sender_id: int, target_id: int, number: int) -> Delivery:
    """Return a delivery with the update's numbers for one target."""
    target = room.members[target_id]
    pair_ordinal = target.received_from.get(sender_id, 0) + 1
    return Delivery(target_id, number, target.received + 1, pair_ordinal)


def _kept_from(room: Room, event: UpdatesSent, limits: RoomLimits) -> int:
    """Return the oldest number that can be kept beside new updates."""
    kept_from, kept_bytes = room.kept_from, room.kept_bytes
    count, size = len(event.deliveries), event.size
    for sending in room.sendings:
        kept = room.last_number + 1 - kept_from
        if kept + count <= limits.updates_max and kept_bytes + size <= limits.updates_bytes_max:
            break
        kept_from = sending.event.deliveries[-1].number + 1
        kept_bytes -= sending.event.size
    return kept_from


def _cut(room: Room, kept_from: int) -> None:
    """Let everything before a number fall off, and count it."""
    room.kept_from = kept_from
    count = bisect_right(room.sendings, kept_from - 1, key=_last_number)
    for sending in room.sendings[:count]:
        room.kept_bytes -= sending.event.size
        _uncount(room, sending.event)
        for delivery in sending.event.deliveries:
            member = _recipient(room, delivery)
            if member is not None:
                del member.inbox[0]
                sender = room.members.get(sending.event.player_id)
                is_here = sender is not None and delivery.number > sender.joined_number
                key = sending.event.player_id if is_here else GONE
                fallen = member.fallen.setdefault(key, Fallen())
                fallen.count += 1
                fallen.last_number = delivery.number
    del room.sendings[:count]


def _uncount(room: Room, event: UpdatesSent) -> None:
    sender_id, size = weigh_updates(event)
    room.kept_by_sender[sender_id] -= size
    if not room.kept_by_sender[sender_id]:
        del room.kept_by_sender[sender_id]


def _last_number(sending: Sending) -> int:
    return sending.event.deliveries[-1].number


def _recipient(room: Room, delivery: Delivery) -> Member | None:
    """Return the target of an update, unless they left since (and maybe came again)."""
    member = room.members.get(delivery.target_id)
    return member if member is not None and delivery.number > member.joined_number else None


def _cursor(room: Room, member: Member, text: str | None) -> Cursor | None:
    """Return a cursor if it is of an update to this member since they joined."""
    cursor = None if text is None else read_cursor(room.room_id, member.player_id, text)
    if cursor is None or not member.joined_number < cursor.number <= room.last_number:
        return None
    return cursor


def _missed(room: Room, member: Member, senders: Senders, cursor: Cursor | None) -> int:
    """Return how many updates from these senders fell off after a cursor, None from the first."""
    missed = total = 0
    for sender_id, fallen in member.fallen.items():
        total += fallen.count
        if sender_id not in senders:
            continue
        if cursor is None:
            missed += fallen.count
        elif fallen.last_number > cursor.number:
            missed += _missed_of(room, sender_id, fallen, cursor)
    if cursor is None or missed == 0:
        return missed
    return min(missed, (total - cursor.ordinal) & ORDINAL_MASK)


def _missed_of(room: Room, sender_id: int, fallen: Fallen, cursor: Cursor) -> int:
    """Return how many of one sender's fell off after a cursor, or at most how many."""
    sender = room.members.get(sender_id)
    is_theirs = (
        sender is not None
        and cursor.sender_low == sender_id & SENDER_MASK
        and cursor.number > sender.joined_number
    )
    return (fallen.count - cursor.pair_ordinal) & ORDINAL_MASK if is_theirs else fallen.count


def _size(update: Update) -> int:
    return update.sending.event.size


def _views(room: Room, updates: Iterable[Update]) -> tuple[UpdateView, ...]:
    """Return updates as their target reads them."""
    return tuple(
        UpdateView(
            update_id=update_id(room.room_id, update.sender_id, update.delivery),
            from_player_id=update.sender_id,
            update_type=update.sending.event.update_type,
            data=update.sending.event.data,
            created_at=update.sending.event.at,
            is_server=update.sending.event.is_server,
        )
        for update in updates
    )
