"""Answers that never change: body, compressed body and tags are made once, at start-up."""

from __future__ import annotations

import gzip
from collections.abc import Iterable
from hashlib import sha256
from typing import Final

from greenroom.http.request import Answer, Request

PACKED_BYTES_MIN: Final = 1_024
"""The least bytes of a body that is compressed. A smaller one fits into a packet or two anyway."""
_HEADER_CHARACTERS_MAX: Final = 1_024
"""Characters of a header's list that are read; the rest is ignored."""
_TAG_DIGITS: Final = 32

Headers = tuple[tuple[str, str], ...]


class Static:
    """One resource. An answer costs reading two headers, whatever its size."""

    def __init__(
        self,
        body: bytes,
        content_type: str,
        headers: Headers = (),
        *,
        cache_seconds: int = 0,
        packed: bytes | None = None,
    ) -> None:
        """Make all possible answers.

        Args:
            body: the body of the answer.
            content_type: of the body, with its character set.
            headers: further headers, besides those for caches.
            cache_seconds: how long clients may use their copy without asking. With 0 they ask each
                time, and are answered 304 if it has not changed.
            packed: the body as gzip packed it; made here if not given.
        """
        if packed is None and len(body) >= PACKED_BYTES_MIN:
            packed = gzip.compress(body, mtime=0)
        tag = sha256(body).hexdigest()[:_TAG_DIGITS]
        shared: Headers = (
            *headers,
            ("Cache-Control", f"public, max-age={cache_seconds}" if cache_seconds else "no-cache"),
            ("Vary", "Accept-Encoding"),
        )
        self._plain = _Form(body, content_type, f'"{tag}"', shared)
        self._packed = self._plain
        if packed is not None:
            packed_headers: Headers = (*shared, ("Content-Encoding", "gzip"))
            self._packed = _Form(packed, content_type, f'"{tag}-gzip"', packed_headers)

    def answer(self, request: Request) -> Answer:
        """Answer GET and HEAD; never waits."""
        headers = request.headers
        form = self._plain
        if takes_gzip(headers.get("accept-encoding", "")):
            form = self._packed
        known = headers.get("if-none-match")
        return form.whole if known is None or not form.is_among(known) else form.unchanged


class _Form:
    """The body in one coding, and its two possible answers."""

    def __init__(self, body: bytes, content_type: str, tag: str, headers: Headers) -> None:
        self._tag = tag
        self.whole = Answer(200, body, (*headers, ("ETag", tag)), content_type=content_type)
        self.unchanged = Answer(304, b"", (*headers, ("ETag", tag)), content_type=content_type)

    def is_among(self, known: str) -> bool:
        """Return whether an If-None-Match names this form; a proxy may have made its tag weak."""
        tags = (tag.removeprefix("W/") for tag in _entries(known))
        return any(tag in {self._tag, "*"} for tag in tags)


def takes_gzip(accept_encoding: str) -> bool:
    """Return whether a client takes gzip: it says so, and not with the quality 0."""
    qualities = dict(_qualities(_entries(accept_encoding.lower())))
    for coding in ("gzip", "x-gzip", "*"):
        if coding in qualities:
            return qualities[coding]
    return False


def _qualities(entries: Iterable[str]) -> Iterable[tuple[str, bool]]:
    """Yield each coding of an Accept-Encoding, and whether it is wanted at all."""
    for entry in entries:
        coding, _, weight = entry.partition(";")
        yield coding.strip(), weight.replace(" ", "").rstrip("0") not in {"q=", "q=0."}


def _entries(header: str) -> list[str]:
    return [entry.strip() for entry in header[:_HEADER_CHARACTERS_MAX].split(",")]
