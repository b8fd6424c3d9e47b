"""Collects the messages that connected members of one room send each other within a turn.

Most messages in a room are for everybody but the sender. To append each message to each member's
outbox as it comes touches every member's memory for every message. So the messages of a turn are
kept in one list, and each member gets their share in one piece when the turn is over. Members who
sent nothing get the same bytes; a sender gets acknowledgements in the place of their own messages.

Order is kept: `settle` is called before anything else is sent to a member of the room.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Protocol

from greenroom.actors.room.ports import Receive
from greenroom.sender import Sender
from greenroom.transport.messages import ClientKind, encode

MESSAGES_MAX: Final = 256
BYTES_MAX: Final = 64 << 10
"""Beyond either, members are handed their shares before the turn is over."""
ENVELOPE_BYTES: Final = 256
"""Bytes of a frame besides its command and its data, which may be written at twice its length."""


class Listener(Protocol):
    """A member's connection."""

    @property
    def kind(self) -> ClientKind:
        """Return the form of data that the client wants."""
        ...

    def tell(self, frames: bytes, count: int) -> None:
        """Take so many messages that count for what is replayed, and other frames with them."""
        ...

    def tell_now(self, frames: bytes, count: int) -> None:
        """Likewise, and send them at once where nothing waits before them."""
        ...


class Fanout:
    """The collected messages of one room.

    Bounded by `MESSAGES_MAX` and `BYTES_MAX`; `Flushable`.
    """

    __slots__ = ("_bytes", "_listeners", "_sender", "_speakers", "said")

    def __init__(self, listeners: Mapping[int, Listener], sender: Sender) -> None:
        """Begin with nothing.

        Args:
            listeners: who is connected, as it is kept up to date.
            sender: flushes it, and after that the connections.
        """
        self._listeners = listeners
        self._sender = sender
        self.said: list[Receive] = []
        """In this turn, and not handed out yet."""
        self._speakers: dict[int, list[tuple[int, bytes]]] = {}
        """For each player id, the places of their own messages in the list, with the
        acknowledgements."""
        self._bytes = 0

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
        for player_id, listener in tuple(self._listeners.items()):
            kind = listener.kind
            if kind not in pieces:
                of_kind = [encode(message, kind) for message in said]
                pieces[kind] = of_kind, b"".join(of_kind)
            of_kind, joined = pieces[kind]
            tell = listener.tell_now if is_over else listener.tell
            own = speakers.get(player_id)
            if own is None:
                tell(joined, count)
                continue
            share = of_kind.copy()
            for number, answer in own:
                share[number] = answer
            if self._listeners.get(player_id) is listener:
                tell(b"".join(share), count - len(own))

    def flush(self) -> bool:
        """See `Flushable`."""
        self.settle(is_over=True)
        return True

    async def send_rest(self) -> None:
        """See `Flushable`; nothing is ever left over here."""
