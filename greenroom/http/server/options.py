"""Options of the HTTP server, and its bounds with their reasons."""

from __future__ import annotations

from typing import Literal

import msgspec

from greenroom.config import DEFAULTS
from greenroom.network.sockets import BACKLOG


class HttpOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of the HTTP server. Sizes are in bytes, times in seconds."""

    host: str = DEFAULTS.host
    """A name or an address; every address it resolves to is listened on."""
    port: int = DEFAULTS.port
    """The TCP port; 0 takes a free one."""
    server: Literal["greenroom", "hypercorn"] = DEFAULTS.server
    """`hypercorn` answers every connection with Hypercorn and Quart-trio: the slow reference."""
    trusted_proxies: tuple[str, ...] = ()
    """Networks (CIDR) whose X-Forwarded-For is believed."""
    http2_clear_from: tuple[str, ...] = ()
    """Networks (CIDR) whose connections without TLS may begin with HTTP/2."""

    body_bytes_max: int = DEFAULTS.body_bytes_max
    """A longer body is answered 413."""
    header_bytes_max: int = DEFAULTS.header_bytes_max
    """Bytes of request line and headers together."""
    bodies_bytes_max: int = DEFAULTS.bodies_bytes_max
    """All requests that are still coming in together; beyond, they are answered 429."""
    answers_bytes_max: int = DEFAULTS.answers_bytes_max
    """All large answers that are still going out together; beyond, their requests are answered
    429. Several times the largest answer there is, and a fraction of a small machine's memory."""
    unvouched_bytes_max: int = DEFAULTS.unvouched_bytes_max
    """Bytes of a request that are kept while it arrives, before its tokens are known to be good."""
    address_share_max: float = DEFAULTS.address_share_max
    """An address holds at most so many times what is free of each budget: see `Shares`."""
    drain_bytes_max: int = 4 << 20
    """Bytes of a body that is too large, which are read and thrown away to keep the connection."""

    request_seconds_max: float = DEFAULTS.request_seconds_max
    """From the first byte of a request to its last."""
    idle_seconds_max: float = DEFAULTS.idle_seconds_max
    """Between requests; longer than the 60 s that common proxies keep theirs."""
    answer_seconds_max: float = 60.0
    """Seconds for the handler and the sending of an answer (of each part of a streamed one).

    It is six times the longest wait for a commit, so that only what hangs is ever cut off.
    """
    handshake_seconds_max: float = 10.0
    linger_seconds_max: float = 2.0
    """How long the rest of a refused request is read, so that the client sees the answer."""
    stop_seconds_max: float = DEFAULTS.stop_seconds_max
    """How long answers in flight may take when the server stops."""

    connections_max: int = DEFAULTS.connections_max
    connections_per_address_max: int | None = None
    """Half of `connections_max` where not given: whole schools share an address. Trusted proxies
    are exempt."""
    backlog: int = BACKLOG
