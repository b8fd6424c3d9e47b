"""A server that speaks Steam's documented answers on a real socket, and can misbehave."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, NamedTuple, Self
from urllib.parse import parse_qs, urlsplit

APP_ID = 480
KEY = "0123456789ABCDEF0123456789ABCDEF"
STEAM_ID = "76561197960287930"


class Ticket(NamedTuple):
    """A ticket that a client of the game would have got from Steam."""

    steam_id: str = STEAM_ID
    identity: str | None = None
    app_id: int = APP_ID
    flags: Mapping[str, bool] = {}


class Question(NamedTuple):
    """One request, as it came."""

    path: str
    parameters: Mapping[str, str]
    headers: Mapping[str, str]


class SteamServer:
    """Steam. It takes a ticket as often as it is shown; `raw` replaces the next answers' bytes."""

    def __init__(self) -> None:
        self.tickets: dict[str, Ticket] = {}
        self.personas: dict[str, str] = {}
        self.questions: list[Question] = []
        self.raw: bytes | None = None
        self.is_silent = False
        self._stopped = threading.Event()
        steam = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                steam._serve(self)

            def log_message(self, *args: Any) -> None:
                """Say nothing."""

        class Server(ThreadingHTTPServer):
            request_queue_size = 128
            daemon_threads = True

        self._server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        self._stopped.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def ticket(self, ticket: str, **fields: Any) -> str:
        """Make a ticket good; return it."""
        self.tickets[ticket] = Ticket(**fields)
        return ticket

    def answer_json(self, content: object, status: int = 200) -> None:
        """Answer this from now on."""
        body = json.dumps(content).encode()
        self.answer_bytes(body, status)

    def answer_bytes(self, body: bytes, status: int = 200) -> None:
        """Answer this from now on."""
        head = f"HTTP/1.1 {status} x\r\nContent-Length: {len(body)}\r\n\r\n"
        self.raw = head.encode() + body

    def behave(self) -> None:
        """Answer as Steam does from now on."""
        self.raw, self.is_silent = None, False

    def _serve(self, handler: BaseHTTPRequestHandler) -> None:
        url = urlsplit(handler.path)
        parameters = {k: v[0] for k, v in parse_qs(url.query, keep_blank_values=True).items()}
        self.questions.append(Question(url.path, parameters, dict(handler.headers.items())))
        if self.is_silent:
            self._stopped.wait()
            return
        if self.raw is not None:
            handler.close_connection = True
            handler.wfile.write(self.raw)
            return
        status, content = self._answer(url.path, parameters, handler.headers.get("x-webapi-key"))
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        handler.send_response(status)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    def _answer(self, path: str, parameters: Mapping[str, str], key: str | None) -> tuple[int, Any]:
        if key != KEY:
            return 403, b"<html><head><title>Forbidden</title></head></html>"
        if path == "/ISteamUserAuth/AuthenticateUserTicket/v1/":
            return 200, {"response": self._verdict(parameters)}
        if path == "/ISteamUser/GetPlayerSummaries/v2/":
            ids = parameters["steamids"].split(",")
            known = [
                {"steamid": i, "personaname": self.personas[i]} for i in ids if i in self.personas
            ]
            return 200, {"response": {"players": known}}
        return 404, b"Not Found"

    def _verdict(self, parameters: Mapping[str, str]) -> dict[str, Any]:
        ticket = self.tickets.get(parameters["ticket"])
        if ticket is None:
            return {"error": {"errorcode": 101, "errordesc": "Invalid ticket"}}
        if str(ticket.app_id) != parameters["appid"]:
            return {"error": {"errorcode": 102, "errordesc": "Ticket for other app"}}
        if ticket.identity != parameters.get("identity"):
            return {"error": {"errorcode": 3, "errordesc": "Invalid parameter"}}
        user: dict[str, object] = {
            "result": "OK",
            "steamid": ticket.steam_id,
            "ownersteamid": ticket.steam_id,
        }
        return {
            "params": user | {"vacbanned": False, "publisherbanned": False} | dict(ticket.flags)
        }
