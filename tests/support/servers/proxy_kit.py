"""Real reverse proxies in front of a real server, told what `deploy/` has, and their clients."""

from __future__ import annotations

import http.client
import json
import shutil
import socket
import ssl
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
import trio
import trustme
from server_kit import ServerProcess
from waiting import block_until

HOST: Final = "play.example.com"
DEPLOY: Final = Path(__file__).resolve().parents[3] / "deploy"
SECONDS_MAX: Final = 30.0
PROXY_LOG: Final = "proxy.log"
"""The file in a proxy's directory that has what it prints."""
UNANSWERED_SECONDS: Final = 2.0


class Ports(NamedTuple):
    """The ports where the proxy listens, and where the server does."""

    https: int
    wss: int
    http: int
    realtime: int


class Proxy(NamedTuple):
    """A proxy: its program, and what it is told."""

    program: str
    write: Callable[[Path, Ports], list[str]]
    """Writes its files into a directory; returns the command."""
    has_tls: bool = True


def replaced(text: str, pairs: Mapping[str, str]) -> str:
    """A file of `deploy/` with this machine's ports and paths."""
    for old, new in pairs.items():
        assert old in text, old
        text = text.replace(old, new)
    return text


def _upstreams(ports: Ports) -> dict[str, str]:
    return {
        "127.0.0.1:8080": f"127.0.0.1:{ports.http}",
        "127.0.0.1:8081": f"127.0.0.1:{ports.realtime}",
    }


def _nginx(directory: Path, ports: Ports) -> list[str]:
    text = replaced((DEPLOY / "nginx.conf").read_text(), _upstreams(ports))
    return nginx_command(directory, ports, text)


def nginx_command(directory: Path, ports: Ports, text: str) -> list[str]:
    """Write a site's file, and return the command that starts nginx with it.

    Args:
        directory: has the certificate, and gets the file.
        ports: where it listens.
        text: the site, with the ports and paths of `deploy/nginx.conf`.
    """
    site = replaced(
        text,
        {
            "listen 443 ssl http2": f"listen 127.0.0.1:{ports.https} ssl http2",
            "listen 8443 ssl": f"listen 127.0.0.1:{ports.wss} ssl",
            f"/etc/ssl/{HOST}": str(directory),
        },
    )
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    folders = "".join(f"{kind}_temp_path {directory}/{kind};\n" for kind in kinds)
    (directory / "site.conf").write_text(site)
    (directory / "nginx.conf").write_text(
        f"daemon off; worker_processes 1; pid {directory}/pid; error_log {directory}/log;\n"
        f"events {{}}\nhttp {{ access_log off;\n{folders}include {directory}/site.conf; }}\n"
    )
    return ["nginx", "-p", str(directory), "-c", str(directory / "nginx.conf")]


_CADDY = (
    "{\n\tadmin off\n\tauto_https disable_redirects\n\tservers {\n\t\tprotocols h1 h2\n\t}\n}\n"
)


def _caddy(directory: Path, ports: Ports) -> list[str]:
    inside = f"\tbind 127.0.0.1\n\ttls {directory}/fullchain.pem {directory}/key.pem"
    sites = replaced(
        (DEPLOY / "Caddyfile").read_text(),
        _upstreams(ports)
        | {
            f"{HOST} {{": f"https://{HOST}:{ports.https} {{\n{inside}",
            f"{HOST}:8443 {{": f"https://{HOST}:{ports.wss} {{\n{inside}",
        },
    )
    return _caddy_command(directory, _CADDY + sites)


def _caddy_command(directory: Path, text: str) -> list[str]:
    (directory / "Caddyfile").write_text(text)
    home = [f"{name}={directory}" for name in ("HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME")]
    file = str(directory / "Caddyfile")
    return ["env", *home, "caddy", "run", "--adapter", "caddyfile", "--config", file]


def _haproxy(directory: Path, ports: Ports) -> list[str]:
    text = replaced((DEPLOY / "haproxy.cfg").read_text(), _upstreams(ports))
    return haproxy_command(directory, ports, text)


def haproxy_command(directory: Path, ports: Ports, text: str) -> list[str]:
    """Write HAProxy's file, and return the command that starts it; see `nginx_command`."""
    text = replaced(
        text,
        {
            "bind :443 ": f"bind 127.0.0.1:{ports.https} ",
            "bind :8443 ": f"bind 127.0.0.1:{ports.wss} ",
            f"/etc/ssl/{HOST}": str(directory),
        },
    )
    (directory / "haproxy.cfg").write_text(text)
    return ["haproxy", "-db", "-f", str(directory / "haproxy.cfg")]


def _plain_caddy(directory: Path, ports: Ports) -> list[str]:
    ways = ((ports.https, ports.http), (ports.wss, ports.realtime))
    sites = [f"http://:{a} {{\n\treverse_proxy 127.0.0.1:{b}\n}}\n" for a, b in ways]
    return _caddy_command(directory, _CADDY + "".join(sites))


def _plain_haproxy(directory: Path, ports: Ports) -> list[str]:
    text = (
        "defaults\n mode http\n option forwardfor\n"
        " timeout connect 5s\n timeout client 75s\n timeout server 75s\n"
        f"listen http\n bind 127.0.0.1:{ports.https}\n server s 127.0.0.1:{ports.http}\n"
        f"listen realtime\n bind 127.0.0.1:{ports.wss}\n server s 127.0.0.1:{ports.realtime}\n"
    )
    (directory / "haproxy.cfg").write_text(text)
    return ["haproxy", "-db", "-f", str(directory / "haproxy.cfg")]


PROXIES: Final = {
    "nginx": Proxy("nginx", _nginx),
    "caddy": Proxy("caddy", _caddy),
    "haproxy": Proxy("haproxy", _haproxy),
    "caddy, nothing told": Proxy("caddy", _plain_caddy, has_tls=False),
    "haproxy, nothing told": Proxy("haproxy", _plain_haproxy, has_tls=False),
}
"""The files of `deploy/`, and proxies that pass everything on."""


class Front:
    """A running proxy, as its clients see it; each call may come from another address."""

    def __init__(self, proxy: Proxy, ports: Ports, authority: ssl.SSLContext) -> None:
        self.has_tls = proxy.has_tls
        self.ports = ports
        self.authority = authority

    def connect(self, port: int, address: str) -> socket.socket:
        """A connection from one of this machine's own addresses."""
        connected = socket.create_connection(
            ("127.0.0.1", port), timeout=SECONDS_MAX, source_address=(address, 0)
        )
        if not self.has_tls:
            return connected
        return self.authority.wrap_socket(connected, server_hostname=HOST)

    async def stream(
        self, port: int, address: str
    ) -> trio.SocketStream | trio.SSLStream[trio.SocketStream]:
        """A connection as of `connect`, for trio."""
        plain = await trio.open_tcp_stream("127.0.0.1", port, local_address=address)
        if not self.has_tls:
            return plain
        stream = trio.SSLStream(plain, self.authority, server_hostname=HOST, https_compatible=True)
        await stream.do_handshake()
        return stream

    def exchange(self, address: str, *pieces: bytes, port: int | None = None) -> bytes:
        """Send pieces, each once something has come for the one before; return all that comes."""
        received = b""
        with self.connect(port or self.ports.https, address) as connected:
            try:
                for piece in pieces:
                    connected.sendall(piece)
                    received += connected.recv(65_536)
                while part := connected.recv(65_536):
                    received += part
            except (TimeoutError, ConnectionError, ssl.SSLError):
                pass  # a tunnel, or refused before everything was sent
        return received

    def first_answer(self, address: str, data: bytes, port: int | None = None) -> bytes:
        """Send something and return what comes first; nothing, where that wants more of it."""
        with self.connect(port or self.ports.https, address) as connected:
            connected.settimeout(UNANSWERED_SECONDS)
            with suppress(TimeoutError, ConnectionError, ssl.SSLError):
                connected.sendall(data)
                return connected.recv(65_536)
        return b""

    def call(
        self,
        address: str,
        method: str,
        path: str,
        body: object = None,
        headers: Mapping[str, str] = {},
    ) -> tuple[int, Any]:
        """A call of an ordinary client: its status, and the JSON it was answered."""
        connection = http.client.HTTPConnection(HOST, timeout=SECONDS_MAX)
        connection.sock = self.connect(self.ports.https, address)
        try:
            raw = None if body is None else json.dumps(body).encode()
            connection.request(method, path, raw, dict(headers))
            response = connection.getresponse()
            content = response.read()
        finally:
            connection.close()
        is_json = response.getheader("content-type", "").startswith("application/json")
        return response.status, json.loads(content) if is_json else content


PORTS_FIRST: Final = 12_000
PORTS_OF_A_BLOCK: Final = 200
BLOCKS: Final = 100
"""All blocks lie below the ports that the kernel gives to connections.

It could give one of those to somebody else after it was seen to be free and before the proxy
listens.
"""


def free_ports(count: int) -> list[int]:
    """Return ports that nobody listens on, and that no other run of the tests takes."""
    first = PORTS_FIRST + _take_block()[0] * PORTS_OF_A_BLOCK
    return list(islice(filter(_is_free, range(first, first + PORTS_OF_A_BLOCK)), count))


@cache
def _take_block() -> tuple[int, socket.socket]:
    """Return this process's own block of ports, and the name by which it holds that."""
    for number in range(BLOCKS):
        held = socket.socket(socket.AF_UNIX)
        try:
            held.bind(f"\0greenroom-tests-ports-{number}")
        except OSError:
            held.close()
        else:
            return number, held
    raise AssertionError("every block of ports is taken")


def _is_free(port: int) -> bool:
    try:
        socket.create_server(("", port)).close()
    except OSError:
        return False
    return True


@contextmanager
def running_proxy(name: str, server: ServerProcess, directory: Path) -> Iterator[Front]:
    """A proxy before a server, in a directory that the proxy's user may enter."""
    realtime = int(server.ready["realtime"].rpartition(":")[2])
    https, wss = free_ports(2)
    ports = Ports(https, wss, server.address[1], realtime)
    with running(PROXIES[name], ports, directory) as front:
        yield front


@contextmanager
def running(proxy: Proxy, ports: Ports, directory: Path) -> Iterator[Front]:
    """A proxy at its ports, in a directory that the proxy's user may enter."""
    if shutil.which(proxy.program) is None:
        pytest.skip(f"no {proxy.program}")
    authority = trustme.CA()
    issued = authority.issue_cert(HOST)
    issued.private_key_pem.write_to_path(directory / "key.pem")
    issued.cert_chain_pems[0].write_to_path(directory / "fullchain.pem")
    issued.private_key_and_cert_chain_pem.write_to_path(directory / "both.pem")
    trusting = ssl.create_default_context()
    authority.configure_trust(trusting)
    log = directory / PROXY_LOG
    with log.open("wb") as output:
        process = subprocess.Popen(proxy.write(directory, ports), stdout=output, stderr=output)
    try:
        _wait_listening(process, ports, log)
        yield Front(proxy, ports, trusting)
    finally:
        process.terminate()
        process.wait(SECONDS_MAX)


def _wait_listening(process: subprocess.Popen[bytes], ports: Ports, log: Path) -> None:
    def is_listening() -> bool:
        assert process.poll() is None, log.read_text()
        try:
            for port in (ports.https, ports.wss):
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            return False
        return True

    block_until(is_listening, SECONDS_MAX, explain=log.read_text)
