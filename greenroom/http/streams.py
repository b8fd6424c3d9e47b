"""A streamed reply on its way out: pages of structs in, chunks of JSON out."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

import msgspec


class Streamed:
    """A reply too long to hold: one array, sent page by page, and the count of its entries.

    On the wire it is `{"success":true,"<field>":[…],"count":<n>}`. The reply type of the endpoint
    describes the same shape; its entries are the structs that the pages hold.
    """

    __slots__ = ("field", "pages")

    def __init__(self, field: str, pages: AsyncIterator[Sequence[msgspec.Struct]]) -> None:
        """Name the array's field and give its pages; a page may be empty, an error cuts it off.

        Errors while the first page is made are answered like any other; later ones abort the
        connection, so that a cut list never looks whole.
        """
        self.field = field
        self.pages = pages


class ReplyStream:
    """The bytes of one `Streamed`. Its owner must `aclose` it, even if it was not read whole."""

    __slots__ = ("_charge", "_count", "_encode", "_is_over", "_pages", "_ready")

    def __init__(
        self,
        streamed: Streamed,
        encode: Callable[[Sequence[msgspec.Struct]], Awaitable[bytes]],
        charge: Callable[[int], None],
    ) -> None:
        """Prepare the stream; nothing is read yet.

        Args:
            streamed: what the handler returned.
            encode: returns a page as an array of JSON.
            charge: called with the number of bytes of each page.
        """
        self._charge = charge
        self._pages = streamed.pages
        self._encode = encode
        self._ready: bytes | None = b'{"success":true,"%b":[' % streamed.field.encode()
        self._count = 0
        self._is_over = False

    async def read_ahead(self) -> None:
        """Read the first page, so that an error on the way to it can still become an answer.

        Raises:
            Exception: any error of the pages; the stream is closed then.
        """
        head = self._ready
        assert head is not None
        try:
            self._ready = head + await self._read_chunk()
        except BaseException:
            await self.aclose()
            raise

    def __aiter__(self) -> ReplyStream:
        return self

    async def __anext__(self) -> bytes:
        """Return the next chunk, never an empty one.

        Raises:
            StopAsyncIteration: the reply is complete.
            Exception: any error of the pages; the reply so far is not complete.
        """
        if self._ready is not None:
            chunk, self._ready = self._ready, None
            return chunk
        if self._is_over:
            raise StopAsyncIteration
        return await self._read_chunk()

    async def aclose(self) -> None:
        """Let the source of the pages clean up."""
        close = getattr(self._pages, "aclose", None)
        if close is not None:
            await close()

    async def _read_chunk(self) -> bytes:
        async for page in self._pages:
            if page:
                separator = b"," if self._count else b""
                self._count += len(page)
                chunk = separator + (await self._encode(page))[1:-1]
                self._charge(len(chunk))
                return chunk
        self._is_over = True
        return b'],"count":%d}' % self._count
