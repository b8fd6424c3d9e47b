"""Rules of games: commands to events. Pure: no clock, no randomness, no database.

    state          command               events                  refused
    (no record)    CreateGame            GameCreated             name
    any            ReplaceGameDocument   GameDocumentReplaced    storage of the plan
    any            RotateGameKeys        GameKeysRotated         too many old keys
    any            RevokeOldKeys         GameKeysRotated
    any            ChangeGameSettings    GameSettingsReplaced    unknown setting, bad value

Every `decide_*` function refuses or returns the events of the command. It changes nothing.
"""

from __future__ import annotations

import hmac

import msgspec

from greenroom.actors.game import settings
from greenroom.actors.game.messages import (
    ChangeGameSettings,
    CreateGame,
    Game,
    GameCreated,
    GameDocumentReplaced,
    GameKeysRotated,
    GameSettingsReplaced,
    GameView,
    KeyKind,
    OldKey,
    RevokeOldKeys,
    RotateGameKeys,
)
from greenroom.actors.game.refusals import (
    GameNameRefused,
    InvalidAdminKey,
    InvalidProjectKey,
    TooManyOldKeys,
)
from greenroom.actors.kernel.message import Event
from greenroom.actors.plans.plan import Plan

GAME_NAME_CHARACTERS_MAX = 100
OLD_KEYS_MAX = 8
"""Each is looked at when a key is checked."""
OWN_RULES_BYTES_MAX = 16 << 10
"""Bytes of each part of the game document that the server itself reads."""


class _OwnRules(msgspec.Struct, omit_defaults=True):
    """The parts of a game document that the server reads. The rest is the game's own."""

    name_rules: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    room_title_rules: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    moderation: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


_decode_own_rules = msgspec.json.Decoder(_OwnRules).decode


def own_rules(document: bytes) -> tuple[bytes, list[str]]:
    """Return the part of a game document that the server reads: the rest may be large.

    Args:
        document: a JSON object's bytes.

    Returns:
        A JSON object with those members alone, and what was wrong with those left out.
    """
    try:
        found = _decode_own_rules(document)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return document, []  # whoever reads it says so
    problems: list[str] = []
    for name in _OwnRules.__struct_fields__:
        part = getattr(found, name)
        if part is not msgspec.UNSET and len(memoryview(part)) > OWN_RULES_BYTES_MAX:
            setattr(found, name, msgspec.UNSET)
            problems.append(f"{name} is larger than {OWN_RULES_BYTES_MAX} bytes")
    return msgspec.json.encode(found), problems


def check_project_key(game: Game, api_key_hash: bytes, now: int) -> None:
    """Check the project key; `now` in Unix seconds.

    Raises:
        InvalidProjectKey: it is not the game's key, or no longer.
    """
    is_current = hmac.compare_digest(game.api_key_hash, api_key_hash)
    if not is_current and not _is_old_key(game, "project", api_key_hash, now):
        raise InvalidProjectKey


def check_admin_key(game: Game, private_key_hash: bytes, now: int) -> None:
    """Check the admin key; `now` in Unix seconds.

    Raises:
        InvalidAdminKey: it is not the game's admin key, or no longer.
    """
    is_current = hmac.compare_digest(game.private_key_hash, private_key_hash)
    if not is_current and not _is_old_key(game, "admin", private_key_hash, now):
        raise InvalidAdminKey


def old_keys_at(game: Game, now: int) -> tuple[OldKey, ...]:
    """Return the old keys that still open the game."""
    return tuple(key for key in game.old_keys if now < key.expires_at)


def _is_old_key(game: Game, kind: KeyKind, key_hash: bytes, now: int) -> bool:
    return any(
        key.kind == kind and hmac.compare_digest(bytes.fromhex(key.key_hash), key_hash)
        for key in old_keys_at(game, now)
    )


def decide_rotate_keys(game: Game, command: RotateGameKeys, now: int) -> GameKeysRotated:
    """Replace keys.

    Raises:
        TooManyOldKeys: one more cannot be kept.
    """
    replaced: dict[KeyKind, bytes] = {}
    if command.api_key_hash is not None:
        replaced["project"] = game.api_key_hash
    if command.private_key_hash is not None:
        replaced["admin"] = game.private_key_hash
    if command.keep_seconds:
        expires_at = now + command.keep_seconds
        newer = [
            OldKey(kind=kind, key_hash=key_hash.hex(), replaced_at=now, expires_at=expires_at)
            for kind, key_hash in replaced.items()
        ]
        kept = (*old_keys_at(game, now), *newer)
    else:
        kept = tuple(key for key in old_keys_at(game, now) if key.kind not in replaced)
    if len(kept) > OLD_KEYS_MAX:
        raise TooManyOldKeys
    return GameKeysRotated(
        game_id=game.game_id,
        api_key_hash=command.api_key_hash or game.api_key_hash,
        private_key_hash=command.private_key_hash or game.private_key_hash,
        old_keys=kept,
        updated_at=now,
    )


def decide_revoke_old_keys(
    game: Game, command: RevokeOldKeys, now: int
) -> tuple[int, tuple[GameKeysRotated, ...]]:
    """Revoke old keys; return how many, and no event if nothing changes."""
    open_keys = old_keys_at(game, now)
    kept = tuple(key for key in open_keys if key.kind not in command.kinds)
    if kept == game.old_keys:
        return 0, ()
    event = GameKeysRotated(
        game_id=game.game_id,
        api_key_hash=game.api_key_hash,
        private_key_hash=game.private_key_hash,
        old_keys=kept,
        updated_at=now,
    )
    return len(open_keys) - len(kept), (event,)


def decide_create(command: CreateGame, now: int) -> GameCreated:
    """Create a game.

    Raises:
        GameNameRefused: it is empty, too long, or has characters that cannot be seen.
    """
    name = command.name
    if not name.strip() or len(name) > GAME_NAME_CHARACTERS_MAX or not name.isprintable():
        raise GameNameRefused
    return GameCreated(
        game_id=command.game_id,
        owner_id=command.owner.owner_id,
        name=name,
        api_key_hash=command.api_key_hash,
        private_key_hash=command.private_key_hash,
        tag_key=command.tag_key,
        created_at=now,
        shards=command.shards,
    )


def decide_change_settings(
    game: Game, command: ChangeGameSettings, now: int
) -> tuple[GameSettingsReplaced, ...]:
    """Change settings; there is no event for a setting that has the value already.

    Raises:
        GameSettingRefused: a setting is unknown, or its value of the wrong kind.
    """
    changed = settings.change_settings(game.settings, command.assigned, command.removed)
    if changed == game.settings:
        return ()
    return (GameSettingsReplaced(game.game_id, changed, now),)


def new_game(event: GameCreated, owner_name: str, plan: Plan) -> Game:
    """Return the record that a new game starts with."""
    return Game(
        game_id=event.game_id,
        owner_id=event.owner_id,
        owner_name=owner_name,
        plan=plan,
        name=event.name,
        api_key_hash=event.api_key_hash,
        private_key_hash=event.private_key_hash,
        tag_key=event.tag_key,
        data=b"{}",
        created_at=event.created_at,
        updated_at=event.created_at,
        shards=event.shards,
    )


def view_game(game: Game, now: int) -> GameView:
    """Return what operators see of the record; `now` in Unix seconds."""
    return GameView(
        game_id=game.game_id,
        owner_id=game.owner_id,
        owner_name=game.owner_name,
        plan=game.plan,
        name=game.name,
        data=game.data,
        created_at=game.created_at,
        updated_at=game.updated_at,
        old_keys=old_keys_at(game, now),
        partitions=len(game.shards),
    )


def apply(game: Game, event: Event) -> None:
    """Change the record by one event that has happened; cannot fail."""
    match event:
        case GameDocumentReplaced():
            game.data = event.data
            game.updated_at = event.updated_at
        case GameKeysRotated():
            game.api_key_hash = event.api_key_hash
            game.private_key_hash = event.private_key_hash
            game.old_keys = event.old_keys
            game.updated_at = event.updated_at
        case GameSettingsReplaced():
            game.settings = event.settings
            game.updated_at = event.updated_at
        case _:
            raise TypeError(f"a game cannot apply {type(event).__name__}")
