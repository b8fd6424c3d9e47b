"""A balancer whose tests begin while machines are missing that its file names."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import NamedTuple

import pytest
from balancer_kit import BALANCERS, balancing
from server_kit import data_directory

HERE = "127.0.0.1"
CALLERS = 8
CALLS = 240


class Standing(NamedTuple):
    """A machine, as far as a balancer's file has it."""

    ports: tuple[int, int]


class Ready(http.server.BaseHTTPRequestHandler):
    """Answers all that is asked."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def do_POST(self) -> None:
        self.do_GET()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def standing() -> Iterator[Standing]:
    server = http.server.ThreadingHTTPServer((HERE, 0), Ready)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield Standing((server.server_port, server.server_port))
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.parametrize("name", BALANCERS)
def test_no_call_fails_for_a_machine_that_is_not_there(name: str) -> None:
    with data_directory() as directory, standing() as machine:
        directory.chmod(0o755)
        with balancing(name, [machine], directory) as front:

            def call(_: int) -> int:
                return front.call(HERE, "POST", "/", {})[0]

            with ThreadPoolExecutor(CALLERS) as callers:
                assert set(callers.map(call, range(CALLS))) == {200}
