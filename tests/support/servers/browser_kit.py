"""A real browser without a window, driven over its DevTools protocol; and pages to show it."""

from __future__ import annotations

import atexit
import http.server
import itertools
import json
import shutil
import subprocess
import tempfile
import threading
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio
import trio_websocket
from trio_websocket import WebSocketConnection
from waiting import until

SECONDS_MAX = 200.0
"""A browser's whole life; its first start takes a while."""
CONDITION_SECONDS_MAX = 60.0
MESSAGE_BYTES_MAX = 64 << 20

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
FOUND = next(filter(None, map(shutil.which, NAMES)), None)
needs_browser = pytest.mark.skipif(FOUND is None, reason=f"no browser ({', '.join(NAMES)})")

FLAGS = (
    "--headless",
    "--no-sandbox",  # it shows our own pages alone; root and containers have no sandbox
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-quic",
    "--disable-sync",
    "--remote-debugging-port=0",
)


class Page:
    """A tab. What goes wrong in it, and what it asks the network for, is collected."""

    def __init__(self, browser: Browser, session_id: str) -> None:
        self._browser = browser
        self._session_id = session_id
        self.errors: list[str] = []
        self.urls: list[str] = []
        self._frames: list[str] = []
        self._answered: list[str] = []

    async def received(self) -> str:
        """Return all that came over the network: bodies of answers, and frames of WebSockets."""
        found = []
        for request_id in self._answered:
            answer = await self.call("Network.getResponseBody", requestId=request_id)
            found.append(str(answer["body"]))
        return "\n".join(found + self._frames)

    async def call(self, method: str, **parameters: Any) -> Any:
        return await self._browser.call(method, parameters, self._session_id)

    async def show(self, url: str) -> None:
        """Go to an address."""
        for domain in ("Runtime", "Log", "Network", "Page"):
            await self.call(f"{domain}.enable")
        found = await self.call("Page.navigate", url=url)
        assert "errorText" not in found, found
        await self.until(f"location.href == {json.dumps(url)} && document.readyState == 'complete'")

    async def evaluate(self, expression: str) -> Any:
        """Return what a JavaScript expression gives, once it is there."""
        found = await self.call(
            "Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True
        )
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    async def until(self, condition: str) -> None:
        """Wait until a JavaScript condition is true."""
        try:
            await until(lambda: self.evaluate(f"Boolean({condition})"), CONDITION_SECONDS_MAX)
        except trio.TooSlowError:
            shown = await self.evaluate("document.body.innerText")
            message = f"not so: {condition}\nshown:\n{shown}\nerrors: {self.errors}"
            raise AssertionError(message) from None

    async def text(self, selector: str) -> str:
        """Return the text of an element."""
        found = await self.evaluate(f"document.querySelector({json.dumps(selector)}).textContent")
        return str(found)

    async def reads(self, selector: str, text: str) -> None:
        """Wait until an element has this text."""
        wanted = json.dumps(text)
        await self.until(f"document.querySelector({json.dumps(selector)}).textContent == {wanted}")

    async def click(self, selector: str) -> None:
        await self.evaluate(f"document.querySelector({json.dumps(selector)}).click()")

    def note(self, event: str, data: Mapping[str, Any]) -> None:
        """Take an event of the tab."""
        match event:
            case "Runtime.exceptionThrown":
                self.errors.append(str(data["exceptionDetails"]))
            case "Runtime.consoleAPICalled" if data["type"] in {"error", "warning", "assert"}:
                self.errors.append(str(data["args"]))
            case "Log.entryAdded" if data["entry"]["level"] in {"error", "warning"}:
                self.errors.append(str(data["entry"]))
            case "Network.requestWillBeSent":
                self.urls.append(data["request"]["url"])
            case "Network.webSocketCreated":
                self.urls.append(data["url"])
            case "Network.webSocketFrameReceived":
                self._frames.append(data["response"]["payloadData"])
            case "Network.responseReceived" if data["type"] != "Preflight":  # these have no body
                self._answered.append(data["requestId"])
            case _:
                pass


class Browser:
    """A running browser."""

    def __init__(self, connection: WebSocketConnection) -> None:
        self._connection = connection
        self._numbers = itertools.count(1)
        self._answers: dict[int, trio.MemorySendChannel[Any]] = {}
        self._pages: dict[str, Page] = {}
        self._profiles: list[str] = []

    async def new_page(self) -> Page:
        """Open a tab with storage of its own."""
        # the browser forgets it, pages and all, when the connection ends in whatever way
        made = await self.call("Target.createBrowserContext", {"disposeOnDetach": True})
        context = made["browserContextId"]
        self._profiles.append(context)
        where = {"url": "about:blank", "browserContextId": context}
        target = (await self.call("Target.createTarget", where))["targetId"]
        attached = await self.call("Target.attachToTarget", {"targetId": target, "flatten": True})
        session_id: str = attached["sessionId"]
        page = self._pages[session_id] = Page(self, session_id)
        return page

    async def close_pages(self) -> None:
        """Close all tabs, and forget what they have stored."""
        while self._profiles:
            where = {"browserContextId": self._profiles.pop()}
            await self.call("Target.disposeBrowserContext", where)

    async def call(
        self, method: str, parameters: Mapping[str, Any] = {}, session_id: str | None = None
    ) -> Any:
        """Call the DevTools protocol."""
        number = next(self._numbers)
        self._answers[number], answer = trio.open_memory_channel[Any](1)
        message: dict[str, Any] = {"id": number, "method": method, "params": parameters}
        if session_id is not None:
            message["sessionId"] = session_id
        await self._connection.send_message(json.dumps(message))
        found = await answer.receive()
        assert "error" not in found, (method, found)
        return found["result"]

    async def listen(self) -> None:
        """Hand on answers and events."""
        while True:
            message = json.loads(await self._connection.get_message())
            if "id" in message:
                self._answers.pop(message["id"]).send_nowait(message)
            elif (page := self._pages.get(message.get("sessionId", ""))) is not None:
                page.note(message["method"], message["params"])


class _Process:
    """A browser with a profile that was empty when it started."""

    def __init__(self) -> None:
        assert FOUND is not None
        self.profile = Path(tempfile.mkdtemp(prefix="greenroom-browser-"))
        with (self.profile / "browser.log").open("wb") as log:
            self._process = subprocess.Popen(
                [FOUND, *FLAGS, f"--user-data-dir={self.profile}", "about:blank"],
                stdout=log,
                stderr=log,
            )
        atexit.register(self.stop)

    @property
    def has_ended(self) -> bool:
        return self._process.poll() is not None

    async def find_devtools(self) -> str:
        """Return where the browser is driven from, once it is up."""
        written = self.profile / "DevToolsActivePort"

        def is_written() -> bool:
            assert not self.has_ended, (self.profile / "browser.log").read_text()
            return written.exists() and written.read_text().count("\n") == 1

        await until(is_written)
        port, path = written.read_text().split("\n")
        return f"ws://127.0.0.1:{port}{path}"

    def stop(self) -> None:
        atexit.unregister(self.stop)
        self._process.terminate()
        self._process.wait(20)
        shutil.rmtree(self.profile, ignore_errors=True)


_running: list[_Process] = []
"""The browser of this process, once a test has wanted one: a start takes seconds."""


def _keep_process() -> _Process:
    """Return the browser that runs, a new one if there is none."""
    if _running and _running[0].has_ended:
        _running.pop().stop()
    if not _running:
        _running.append(_Process())
    return _running[0]


@asynccontextmanager
async def open_browser() -> AsyncGenerator[Browser]:
    """A browser without pages, for SECONDS_MAX at most; it has no page any more afterwards.

    Tests share its process, and nothing else: each page has a profile of its own.
    """
    with trio.fail_after(SECONDS_MAX):
        url = await _keep_process().find_devtools()
        async with (
            trio_websocket.open_websocket_url(
                url, max_message_size=MESSAGE_BYTES_MAX
            ) as connection,
            trio.open_nursery() as nursery,
        ):
            browser = Browser(connection)
            nursery.start_soon(browser.listen)
            yield browser
            await browser.close_pages()
            nursery.cancel_scope.cancel()


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base's name
        pass


@contextmanager
def serve_files(directory: Path) -> Iterator[str]:
    """Serve files as a studio's own web server would: from another origin than ours."""
    handler = partial(_Quiet, directory=str(directory))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
