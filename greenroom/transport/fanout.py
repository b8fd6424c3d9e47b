"""The way to the connected members of one room; it collects what they send within a turn.

Most messages in a room are for everybody but the sender. To append each message to each member's
outbox as it comes touches every member's memory for every message. So the messages of a turn are
kept in one list, and each member gets their share in one piece when the turn is over. Members who
sent nothing get the same bytes; a sender gets acknowledgements in the place of their own messages.

Order is kept. Whatever else is told to members goes by `Fanout`, which hands out the collected
messages first. So does a connection before it sends a frame of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from greenroom.actors.room.ports import Message, Receive
from greenroom.network.sender import Sender
from greenroom.transport.link import Link
from greenroom.transport.messages import ClientKind, encode

MESSAGES_MAX: Final = 256
BYTES_MAX: Final = 64 << 10
"""Beyond either, members are handed their shares before the turn is over."""
UNENCODED: Final = [b"" for _ in ClientKind]
"""The frames of a message by kind of client, before any is encoded."""
ENVELOPE_BYTES: Final = 256
"""Bytes of a frame besides its command and its data, which may be written at twice its length."""


class Fanout:
    """The links of one room's members, and the messages collected for them.

    The messages are bounded by `MESSAGES_MAX` and `BYTES_MAX`; `Flushable`.

    Attributes:
        links: of connected members, by player id. A link's `put` and `offer` may be called, `tell`
            and `close` by `Fanout` and by those who took the link from it alone.
        said: the collected messages, in order.
    """

    __slots__ = ("_bytes", "_links", "_sender", "_speakers", "links", "said")

    links: Mapping[int, Link]

    def __init__(self, sender: Sender) -> None:
        """Begin with nobody connected.

        Args:
            sender: flushes it, and after that the connections.
        """
        self._links: dict[int, Link] = {}
        self.links = self._links
        self._sender = sender
        self.said: list[Receive] = []
        self._speakers: dict[int, list[tuple[int, bytes]]] = {}
        """For each player id, the places of their own messages in the list, with the
        acknowledgements."""
        self._bytes = 0

    # Who is connected.

    def find(self, player_id: int) -> Link | None:
        """Return a member's link, once it has its share."""
        self.settle()
        return self._links.get(player_id)

    def connect(self, player_id: int, link: Link) -> None:
        """Add a member's link; it gets what is sent from now on."""
        self.settle()
        self._links[player_id] = link
        link.fanout = self

    def disconnect(self, player_id: int, link: Link) -> bool:
        """Remove a member's link, once it has its share.

        Return False if it was gone by then: its share was more than it could take.
        """
        self.settle()
        if self._links.get(player_id) is not link:
            return False
        del self._links[player_id]
        return True

    def take(self, player_id: int) -> Link | None:
        """Remove a member's link, once it has its share, and return it, to be closed."""
        self.settle()
        return self._links.pop(player_id, None)

    def take_all(self) -> list[Link]:
        """Remove all links, once they have their shares, and return them, to be closed."""
        self.settle()
        links = list(self._links.values())
        self._links.clear()
        return links

    # What they are sent.

    def tell(self, player_ids: Iterable[int], message: Message) -> list[int]:
        """Send a message to members, behind all earlier ones; return those not connected."""
        if self.said:
            self.settle()
        links, frames = self._links, UNENCODED.copy()
        absent: list[int] = []
        for player_id in player_ids:
            link = links.get(player_id)
            if link is None:
                absent.append(player_id)
                continue
            kind = link.kind
            frame = frames[kind]
            if not frame:
                frame = frames[kind] = encode(message, kind)
            link.tell(frame, 1)
        return absent

    def say(self, message: Receive, answer: bytes) -> None:
        """Send a message to everybody but its sender, and the acknowledgement to the sender."""
        said, speaker_id = self.said, message.sender_id
        if not said:
            self._sender.add(self)
        own = self._speakers.get(speaker_id)
        if own is None:
            self._speakers[speaker_id] = [(len(said), answer)]
        else:
            own.append((len(said), answer))
        said.append(message)
        self._bytes += 2 * len(message.data) + len(message.command) + ENVELOPE_BYTES
        if len(said) >= MESSAGES_MAX or self._bytes >= BYTES_MAX:
            self.settle()

    def settle(self, *, is_over: bool = False) -> None:
        """Hand every member their share of the collected messages.

        Args:
            is_over: whether the turn is over too: nothing will follow that could be sent along.
        """
        said, self.said = self.said, []
        if not said:
            return
        speakers, self._speakers, self._bytes = self._speakers, {}, 0
        count = len(said)
        pieces: dict[ClientKind, tuple[list[bytes], bytes]] = {}
        for player_id, link in tuple(self._links.items()):
            kind = link.kind
            of_both = pieces.get(kind)
            if of_both is None:
                of_kind = [encode(message, kind) for message in said]
                of_both = pieces[kind] = of_kind, b"".join(of_kind)
            of_kind, joined = of_both
            tell = link.tell_now if is_over else link.tell
            own = speakers.get(player_id)
            if own is None:
                tell(joined, count)
                continue
            share = of_kind.copy()
            for number, answer in own:
                share[number] = answer
            if self._links.get(player_id) is link:
                tell(b"".join(share), count - len(own))

    def flush(self) -> bool:
        """See `Flushable`."""
        self.settle(is_over=True)
        return True

    async def send_rest(self) -> None:
        """See `Flushable`; nothing is ever left over here."""
