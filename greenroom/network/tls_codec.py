"""TLS without I/O: plain bytes to records and back, so that TLS takes the same way as plain TCP."""

from __future__ import annotations

import ssl


class TlsBroken(Exception):
    """The peer does not speak TLS as agreed; the connection cannot go on."""


class TlsCodec:
    """One side of a connection."""

    __slots__ = ("_in", "_out", "_tls")

    def __init__(self, context: ssl.SSLContext, server_name: str | None = None) -> None:
        """Begin before the handshake.

        Args:
            context: a server's, or a client's.
            server_name: for a client, the name that the certificate must have. `None` for a server.
        """
        self._in = ssl.MemoryBIO()
        self._out = ssl.MemoryBIO()
        is_server = server_name is None
        self._tls = context.wrap_bio(self._in, self._out, is_server, server_name)

    @property
    def peer_certificate(self) -> bytes | None:
        """Return the other side's certificate as DER, once the handshake is done; None if none."""
        return self._tls.getpeercert(binary_form=True)

    def shake_hands(self, received: bytes) -> tuple[bool, bytes]:
        """Go on with the handshake.

        Args:
            received: what came from the peer, empty at the start.

        Returns:
            Whether it is done, and what to send (an alert, too, should it fail the next time).

        Raises:
            TlsBroken: there is no agreement.
        """
        self._in.write(received)
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            return False, self._out.read()
        except ssl.SSLError as error:
            raise TlsBroken(str(error)) from None
        return True, self._out.read()

    def decrypt(self, received: bytes) -> bytes:
        """Return the plain bytes in these records; none while a record is incomplete.

        Raises:
            TlsBroken: they are not TLS records, or the peer has ended TLS.
        """
        if received:
            self._in.write(received)
        parts: list[bytes] = []
        try:
            while part := self._tls.read(1 << 16):
                parts.append(part)
        except ssl.SSLWantReadError:
            return b"".join(parts)
        except ssl.SSLError as error:
            if not parts:
                raise TlsBroken(str(error)) from None
        if not parts:
            raise TlsBroken("closed")
        return b"".join(parts)

    def encrypt(self, data: bytes | memoryview) -> bytes:
        """Return records that hold the data, and whatever else is to be sent.

        Raises:
            TlsBroken: the connection cannot go on after what the peer has sent.
        """
        try:
            self._tls.write(data)
        except ssl.SSLError as error:
            raise TlsBroken(str(error)) from None
        return self._out.read()
