"""How lobbies are written: events for the journal, whole lobbies for snapshots, the way back."""

from __future__ import annotations

from typing import Final

from greenroom.actors.kernel.journal import Recovered, Snapshot
from greenroom.actors.kernel.journal_codec import JournalCodec
from greenroom.actors.lobby import rules
from greenroom.actors.lobby.events import LobbyCreated, LobbyEvent
from greenroom.actors.lobby.state import Lobby

KIND: Final = "lobby"

CODEC: Final[JournalCodec[LobbyEvent, Lobby]] = JournalCodec(
    KIND, LobbyEvent, Lobby, event_format=1, state_format=1
)
entry = CODEC.make_entry
event_of = CODEC.decode_event


def snapshot(lobby: Lobby, shard: int = 0) -> Snapshot:
    """Return a lobby written down; it needs no older entries besides."""
    return CODEC.make_snapshot(lobby.lobby_id, lobby, lobby.version + 1, shard)


def restore(recovered: Recovered) -> Lobby | None:
    """Return the lobby that a snapshot and the journal make, None where there is neither.

    Raises:
        UnreadableJournal: one of them cannot be read, or an entry is missing.
    """
    return CODEC.restore(recovered, _begin, rules.apply)


def _begin(event: LobbyEvent) -> Lobby | None:
    return rules.new_lobby(event) if isinstance(event, LobbyCreated) else None
