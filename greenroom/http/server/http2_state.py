"""Bounds of what h2 keeps of an HTTP/2 connection for as long as it lasts.

No budget counts it, so it has to be little, whatever the peer sends: connections that are silent
afterwards would keep it. h2 keeps every setting of any number, a table of headers as large as the
peer likes, and how the last 65,536 streams have ended.
"""

from __future__ import annotations

from typing import Final

from h2.connection import H2Connection
from h2.settings import SettingCodes, Settings
from h2.utilities import SizeLimitDict

TABLE_BYTES_MAX: Final = 4096
"""Bytes of headers that answers repeat: as HTTP/2 has it unless a peer wishes for less."""
CLOSED_STREAMS_MAX: Final = 256
"""Streams whose end is remembered. Frames of theirs may be on their way, of older ones hardly."""

_KNOWN: Final = frozenset(map(int, SettingCodes))


class _PeerSettings(Settings):
    """The settings of a peer, without those that mean nothing."""

    def __setitem__(self, key: SettingCodes | int, value: int) -> None:
        """Take a setting, or ignore it."""
        if key == SettingCodes.HEADER_TABLE_SIZE:
            value = min(value, TABLE_BYTES_MAX)
        if key in _KNOWN:
            super().__setitem__(key, value)


def bound_state(connection: H2Connection) -> None:
    """Bound what a server's new connection keeps."""
    connection.remote_settings = _PeerSettings(client=True)
    vars(connection)["_closed_streams"] = SizeLimitDict(size_limit=CLOSED_STREAMS_MAX)
