"""What games are asked, what they answer, what happens to them."""

from __future__ import annotations

from typing import Literal

import msgspec

from greenroom.actors.kernel.message import Event

Plan = Literal["unlimited", "free", "standard", "pro"]


class GameRole:
    """Marks commands that games take."""


class Game(msgspec.Struct, kw_only=True):
    """A game's whole record; `data` is the game document, a JSON object's bytes."""

    game_id: int
    owner_id: int
    owner_name: str
    plan: Plan
    name: str
    api_key_hash: bytes
    private_key_hash: bytes
    tag_key: bytes
    """Secret of 16 bytes that turns player ids into player tags."""
    data: bytes
    created_at: int
    updated_at: int


class GameCreated(Event, frozen=True):
    """A new game; its document is empty."""

    game_id: int
    owner_id: int
    name: str
    api_key_hash: bytes
    private_key_hash: bytes
    tag_key: bytes
    created_at: int


class GameDocumentReplaced(Event, frozen=True):
    """Its document is now this JSON object, verbatim."""

    game_id: int
    data: bytes
    updated_at: int


class GameKeysRotated(Event, frozen=True):
    """Only the new keys open the game."""

    game_id: int
    api_key_hash: bytes
    private_key_hash: bytes
    updated_at: int
