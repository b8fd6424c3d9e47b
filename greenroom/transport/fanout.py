"""What the connected members of one room tell each other in a turn of theirs, put together once.

Most of what is said in a room is for all but its speaker. To append each message to each member's
outbox as it comes touches every member's memory for every message. So what comes within a turn is
kept in one list, and each member is handed his share in one piece when the turn is over: those who
said nothing get the same bytes, and a speaker has the answer to his message in its place.

Order is kept: whatever else goes to a member of the room is preceded by `settle`.
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
"""Of a frame besides its command and its data, which may be written at twice its length."""


class Listener(Protocol):
    """A member's connection."""

    @property
    def kind(self) -> ClientKind:
        """Return how the client wants data."""
        ...

    def tell(self, frames: bytes, count: int) -> None:
        """Take so many messages that count for what is replayed, and other frames with them."""
        ...

    def tell_now(self, frames: bytes, count: int) -> None:
        """Likewise, and send them at once where nothing waits before them."""
        ...


class Fanout:
    """Of one room. Bounded by `MESSAGES_MAX` and `BYTES_MAX`; `Flushable`."""

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
        """Which of it each has said himself, by player id, and what he is answered."""
        self._bytes = 0

    def say(self, message: Receive, answer: bytes) -> None:
        """Tell everybody but the speaker; him, the answer."""
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
        """Hand everybody his share of what there is.

        Args:
            is_over: so is the turn: nothing will follow that could be sent along.
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
