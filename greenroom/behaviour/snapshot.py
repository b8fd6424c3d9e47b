"""The part of a behaviour that is written down: its state, its chance and its timers, as bytes."""

from __future__ import annotations

from typing import Any

import msgspec

from greenroom.behaviour.behaviour import RoomBehaviour
from greenroom.behaviour.effects import StartTimer
from greenroom.behaviour.errors import BadBehaviour, BehaviourError, TooMuch, is_said, shown
from greenroom.foreign_objects import name_of
from greenroom.interrupts import is_real_interrupt

STATE_BYTES_MAX = 256 * 1024
"""The bytes that a room's state may have at most, encoded."""


class BehaviourSnapshot(msgspec.Struct, frozen=True, array_like=True):
    """The form of the bytes; fields are only ever added at the end."""

    state_version: int
    position: int
    """The position of `RoomRandom`."""
    timers: list[StartTimer]
    state: msgspec.Raw
    """The studio's state in msgpack."""


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(BehaviourSnapshot).decode


def encode_snapshot(
    behaviour: RoomBehaviour[Any], state: object, position: int, timers: dict[str, StartTimer]
) -> bytes:
    """Return everything as bytes; equal things give equal bytes.

    Raises:
        TooMuch: the state is too large.
        BadBehaviour: the state holds something that cannot be written down.
    """
    try:
        encoded = _encode(state)
    except BaseException as error:
        if is_real_interrupt(error):
            raise
        name, text = name_of(behaviour), shown(error, str)
        raise BadBehaviour(f"the state of {name} cannot be written down: {text}") from error
    if len(encoded) > STATE_BYTES_MAX:
        raise TooMuch(f"a room's state may have {STATE_BYTES_MAX} bytes, this has {len(encoded)}")
    return _encode(
        BehaviourSnapshot(
            behaviour.state_version, position, list(timers.values()), msgspec.Raw(encoded)
        )
    )


def decode_snapshot(saved: bytes) -> BehaviourSnapshot:
    """Return what `encode_snapshot` encoded."""
    return _decode(saved)


def read_state(behaviour: RoomBehaviour[Any], snapshot: BehaviourSnapshot) -> Any:
    """Return the state of a snapshot, migrated if an older version wrote it.

    Raises:
        BadBehaviour: it cannot be read.
    """
    name, version = name_of(behaviour), snapshot.state_version
    try:
        if version == behaviour.state_version:
            return msgspec.msgpack.decode(snapshot.state, type=behaviour.state_type)
        if version < behaviour.state_version:
            return behaviour.migrate(msgspec.msgpack.decode(snapshot.state), version)
    except BaseException as error:
        if is_said(error, BehaviourError) or is_real_interrupt(error):
            raise
        text = shown(error, str)
        raise BadBehaviour(f"the state of {name}, version {version}: {text}") from error
    raise BadBehaviour(
        f"the state of {name} is of version {version}, newer than {behaviour.state_version}"
    )
