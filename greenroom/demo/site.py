"""The demo's page, and what it must know: the project key, and the address for phones."""

from __future__ import annotations

import gzip
import importlib.resources
import socket
from collections.abc import Iterator
from importlib.resources.abc import Traversable
from typing import Final
from urllib.parse import urlsplit

import msgspec

from greenroom.config import Settings
from greenroom.control.first_game import first_game_file, read_first_game
from greenroom.http.errors import error_answer
from greenroom.http.request import Answer, Request
from greenroom.http.site.front import Page
from greenroom.http.site.static import Static
from greenroom.listening_services import Pages

PATH: Final = "/demo"
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:;"
    " connect-src 'self' ws: wss:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""The realtime port is another origin, and behind a proxy another host: hence `ws:`."""
NO_GAME: Final = (
    "The demo has no game to play: its data directory is of a server that has lost its first"
    " game's keys. Start the demo with another --data-dir."
)

_HEADERS: Final = (
    ("Content-Security-Policy", POLICY),
    ("X-Content-Type-Options", "nosniff"),
    ("Referrer-Policy", "no-referrer"),
)
_TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".mjs": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
_EVERYWHERE: Final = ("0.0.0.0", "::")
_OUTSIDE: Final = ("192.0.2.1", 9)
"""An address of nobody's (RFC 5737). A UDP socket that is connected to it sends nothing, yet shows
which of this machine's addresses others see."""


class DemoSite:
    """The pages below `/demo`."""

    def __init__(self, settings: Settings, start: str) -> None:
        """Serve the demo of a server with these settings.

        Args:
            settings: the server's.
            start: a name for this start, by which pages see that the server was started again.
        """
        self._settings = settings
        self._start = start

    def make_pages(self) -> Pages:
        """Return what the HTTP port is to answer, by path."""
        root = importlib.resources.files("greenroom.demo") / "page"
        found = dict[str, Page](_files(root, PATH))
        found[PATH] = found.pop(f"{PATH}/index.html")
        found[f"{PATH}/about.json"] = self._answer_about
        return found

    def find_phone_address(self, http: str) -> str | None:
        """Return the page's address for other machines; None if only this one reaches it.

        Args:
            http: the address by which this machine reaches the server.
        """
        host, settings = urlsplit(http).hostname or "", self._settings
        if settings.public_host is not None:
            host = settings.public_host
        elif settings.host in _EVERYWHERE:
            host = _own_address() or host
        if host in {"127.0.0.1", "::1", "localhost"}:
            return None
        url = urlsplit(http)
        shown = f"[{host}]" if ":" in host else host
        port = "" if url.port is None else f":{url.port}"
        return f"{url.scheme}://{shown}{port}{PATH}"

    def _answer_about(self, request: Request) -> Answer:
        """Answer what the page asks first, and whenever it is connected again."""
        game = read_first_game(first_game_file(self._settings.data_dir))
        if game is None:
            return error_answer(503, NO_GAME)
        secure = "s" if self._settings.tls_certificate_file is not None else ""
        host = request.headers.get("host", "")
        about = {
            "key": game.api_token,
            "start": self._start,
            "phone": self.find_phone_address(f"http{secure}://{host}") if host else None,
        }
        return Answer(200, msgspec.json.encode(about), (("Cache-Control", "no-store"), *_HEADERS))


def _files(folder: Traversable, path: str) -> Iterator[tuple[str, Page]]:
    """Yield every file of a folder and those in it, by the path where it is served."""
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _files(entry, f"{path}/{entry.name}")
            continue
        name = entry.name.removesuffix(".gz")
        content_type = _TYPES.get(name[name.rfind(".") :])
        if content_type is None:
            continue
        body = entry.read_bytes()
        packed = body if entry.name.endswith(".gz") else None
        plain = gzip.decompress(body) if packed else body
        yield f"{path}/{name}", Static(plain, content_type, _HEADERS, packed=packed).answer


def _own_address() -> str | None:
    """Return the address by which others see this machine; None without a network."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        try:
            asking.connect(_OUTSIDE)
        except OSError:
            return None
        address: str = asking.getsockname()[0]
        return address
