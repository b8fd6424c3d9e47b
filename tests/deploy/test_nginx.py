"""nginx's own answers, as `deploy/nginx.conf` has them: the API's form, and HTTP/2."""

from __future__ import annotations

import json
import shutil
import ssl
import tempfile
from collections.abc import Iterator
from pathlib import Path

import h2.config
import h2.connection
import h2.events
import pytest
from proxy_kit import HOST, Front, free_ports, running_proxy
from server_kit import ServerProcess

from greenroom.http.errors import BODY_TOO_LARGE

HERE = "127.0.0.1"


@pytest.fixture(scope="module")
def front() -> Iterator[Front]:
    """nginx before a server that has gone."""
    directory = Path(tempfile.mkdtemp(prefix="greenroom-proxy-"))
    directory.chmod(0o755)
    server = ServerProcess(directory)
    http, realtime = free_ports(4)[2:]
    server.ready = {"http": f"http://{HERE}:{http}", "realtime": f"ws://{HERE}:{realtime}"}
    try:
        with running_proxy("nginx", server, directory) as running:
            yield running
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def test_a_server_that_has_gone_is_an_error_as_the_api_has_it(front: Front):
    status, answer = front.call(HERE, "GET", "/api/time.php")
    assert (status, answer["success"]) == (502, False)
    assert "try again" in answer["error"]


def test_a_realtime_port_that_nobody_serves_is_such_an_error_too(front: Front):
    head = f"GET / HTTP/1.1\r\nHost: {HOST}\r\nConnection: close\r\n\r\n"
    answer = front.first_answer(HERE, head.encode(), front.ports.wss)
    assert answer.split(b" ")[1] == b"502"
    assert json.loads(answer.partition(b"\r\n\r\n")[2])["success"] is False


def test_a_body_that_is_too_long_is_an_error_as_the_api_has_it(front: Front):
    status, answer = front.call(HERE, "POST", "/api/time.php", {"x": "y" * (1 << 20)})
    assert (status, answer) == (413, {"success": False, "error": BODY_TOO_LARGE})


@pytest.mark.parametrize(("length", "status"), [(0, b"502"), (2 << 20, b"413")])
def test_pages_of_other_origins_may_read_the_errors(front: Front, length: int, status: bytes):
    head = f"POST /api/time.php HTTP/1.1\r\nHost: {HOST}\r\nContent-Length: {length}\r\n"
    answer = front.first_answer(HERE, f"{head}Connection: close\r\n\r\n".encode())
    assert answer.split(b" ")[1] == status
    assert b"\r\naccess-control-allow-origin: *\r\n" in answer.lower()


@pytest.mark.parametrize("page", ["413", "502"])
def test_the_pages_of_errors_are_no_pages_of_the_site(front: Front, page: str):
    assert front.call(HERE, "GET", f"/errors/{page}")[0] == 404


def test_clients_may_speak_http_2(front: Front):
    trusting = front.authority
    trusting.set_alpn_protocols(["h2", "http/1.1"])
    with front.connect(front.ports.https, HERE) as connected:
        assert isinstance(connected, ssl.SSLSocket)
        assert connected.selected_alpn_protocol() == "h2"
    with front.connect(front.ports.wss, HERE) as connected:
        assert isinstance(connected, ssl.SSLSocket)
        assert connected.selected_alpn_protocol() != "h2"
    assert connected.server_hostname == HOST


def test_a_body_that_is_too_long_is_an_error_as_the_api_has_it_over_http_2(front: Front):
    front.authority.set_alpn_protocols(["h2", "http/1.1"])
    client = h2.connection.H2Connection(h2.config.H2Configuration())
    client.initiate_connection()
    head = {":method": "POST", ":path": "/api/time.php", ":authority": HOST, ":scheme": "https"}
    client.send_headers(1, [*head.items(), ("content-length", str(1 << 21))])
    told: dict[bytes, bytes] = {}
    content = b""
    with front.connect(front.ports.https, HERE) as connected:
        connected.sendall(client.data_to_send())
        while told.get(b"content-length") != b"%d" % len(content):
            for event in client.receive_data(connected.recv(65_536)):
                if isinstance(event, h2.events.ResponseReceived):
                    told = dict(event.headers)
                elif isinstance(event, h2.events.DataReceived):
                    content += event.data
    assert told[b":status"] == b"413"
    assert json.loads(content) == {"success": False, "error": BODY_TOO_LARGE}
