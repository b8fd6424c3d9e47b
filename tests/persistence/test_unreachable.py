"""A database URL that cannot be used: final answers are told at once, all others are waited for.

Nothing here is timed. A start that waits for a database says so in its log. Its patience here is an
hour, so a final answer that is not known as one ends the test.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import trio
from postgres_kit import PostgresProcess
from waiting import until

from greenroom.cli.main import main
from greenroom.persistence.connect_advice import advise
from greenroom.persistence.driver import DatabaseConnection
from greenroom.persistence.errors import DatabaseConnectionLost, StorageError
from greenroom.persistence.settings import StorageSettings
from greenroom.persistence.storage import Storage

SECONDS_MAX = 60.0
PATIENT = StorageSettings(start_seconds_max=3_600, connect_seconds_max=10)
PASSWORD = "hunter2"


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port


class TcpPostgres(PostgresProcess):
    """A Postgres that listens on a port of loopback, with rules of its own."""

    port = 0

    def start_on_port(self) -> None:
        self.port = free_port()
        self._options = ("fsync=off", "listen_addresses=127.0.0.1", f"port={self.port}")
        (self.directory / "data" / "pg_hba.conf").write_text(
            "local all greenroom trust\n"
            "hostssl all tls 127.0.0.1/32 trust\n"
            "host all barred 127.0.0.1/32 reject\n"
            "host all guarded 127.0.0.1/32 scram-sha-256\n"
            "host all greenroom,nobody,guest,sleeper 127.0.0.1/32 trust\n"
        )
        self.start()

    def conninfo(self, database: str) -> str:
        return f"{super().conninfo(database)} port={self.port}"

    def url(self, user: str, rest: str, password: str = PASSWORD) -> str:
        return f"postgresql://{user}:{password}@127.0.0.1:{self.port}/{rest}"


SCRIPT = f"""
CREATE ROLE guarded LOGIN PASSWORD 'right';
CREATE ROLE barred LOGIN;
CREATE ROLE tls LOGIN;
CREATE ROLE guest LOGIN PASSWORD '{PASSWORD}';
CREATE ROLE sleeper NOLOGIN;
CREATE DATABASE closed;
REVOKE CONNECT ON DATABASE closed FROM PUBLIC;
CREATE DATABASE shut ALLOW_CONNECTIONS false;
"""


@pytest.fixture(scope="module")
def postgres() -> Iterator[TcpPostgres]:
    server = TcpPostgres.make()
    assert isinstance(server, TcpPostgres)
    server.start_on_port()

    async def prepare() -> None:
        connection = await DatabaseConnection.connect(server.conninfo("postgres"), seconds_max=10)
        for statement in filter(str.strip, SCRIPT.split(";")):
            await connection.script(statement, seconds_max=10)
        connection.close()

    trio.run(prepare)
    yield server
    server.remove()


async def refusal(conninfo: str, caplog: pytest.LogCaptureFixture) -> str:
    """Return the sentence of a start that was refused at once, without the password."""
    with (
        trio.fail_after(SECONDS_MAX),
        caplog.at_level("INFO"),
        pytest.raises(StorageError) as told,
    ):
        await Storage(conninfo, PATIENT).run()
    text = str(told.value)
    assert caplog.messages == []
    assert PASSWORD not in text
    assert "\n" not in text
    return text


FINAL = {
    "wrong password": ("guarded", "postgres", "refused the user name or the password; check the"),
    "unknown database": ("greenroom", "nowhere", 'database "nowhere" does not exist; create it'),
    "unknown role": ("nobody", "postgres", 'role "nobody" does not exist; create it'),
    "no rule": ("unnamed", "postgres", "no pg_hba.conf entry for host"),
    "a rule against": ("barred", "postgres", "pg_hba.conf rejects connection for host"),
    "no right to log in": ("sleeper", "postgres", 'role "sleeper" is not permitted to log in; let'),
    "no right to connect": ("guest", "closed", 'permission denied for database "closed"; let'),
    "a database that is shut": ("guest", "shut", "is not currently accepting connections; let"),
    "no right to make tables": ("guest", "postgres", "greenroom doctor says which right"),
    "no such option": ("greenroom", "postgres?options=-cnonsense%3D1", '"nonsense"; check the'),
    "TLS required by us": ("greenroom", "postgres?sslmode=require", "turn on ssl in Postgres"),
    "TLS required there": ("tls", "postgres", "it may want TLS (sslmode=require in the"),
}


@pytest.mark.parametrize("name", FINAL)
async def test_a_final_answer_is_told_at_once(
    postgres: TcpPostgres, caplog: pytest.LogCaptureFixture, name: str
):
    user, rest, text = FINAL[name]
    assert text in await refusal(postgres.url(user, rest), caplog)


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("postgresql://u:hunter2@h:x/db", "cannot be understood"),
        ("postgresql://u:hunter2@h:65536/db", "cannot be understood"),
        ("postgresql://u:a@hunter2@h/db", "percent-encode each of / : @ ? # in a password"),
        ("postgresql://u:hunter2/x@h/db", "percent-encode each of"),
        ("postgresql://u:hunter2@127.0.0.1:1/db?sslmode=no", 'invalid sslmode value: "no"; check'),
        ("postgresql://u:hunter2@127.0.0.1:1/db?keepalives_idle=x", '"keepalives_idle"; check'),
        ("postgresql://u:hunter2@127.0.0.1:1/db?service=none", 'service "none" not found; check'),
    ],
)
async def test_a_url_that_cannot_be_used_is_told_at_once(
    caplog: pytest.LogCaptureFixture, url: str, text: str
):
    assert text in await refusal(url, caplog)


class Names(trio.abc.HostnameResolver):
    """A name server that knows no names."""

    def __init__(self, error: OSError) -> None:
        self._error = error

    async def getaddrinfo(self, *_: Any, **__: Any) -> Any:
        raise self._error

    async def getnameinfo(self, *_: Any) -> Any:
        raise NotImplementedError


async def test_a_name_that_there_is_not_is_told_at_once(caplog: pytest.LogCaptureFixture):
    trio.socket.set_custom_hostname_resolver(
        Names(socket.gaierror(socket.EAI_NONAME, "Name or service not known"))
    )
    told = await refusal(f"postgresql://u:{PASSWORD}@db.example/x", caplog)
    assert told == "The host name db.example of the database is not known; check the database URL"


async def test_a_name_server_that_does_not_answer_is_waited_for(
    caplog: pytest.LogCaptureFixture,
):
    trio.socket.set_custom_hostname_resolver(
        Names(socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution"))
    )
    await assert_waited_for("postgresql://u@db.example/x", caplog)


@pytest.fixture
async def impostor(nursery: trio.Nursery) -> Callable[[bytes], Any]:
    """Opens ports that answer something else to whoever speaks."""

    async def start(said: bytes) -> int:
        async def serve(stream: trio.SocketStream) -> None:
            await stream.receive_some()
            await stream.send_all(said)
            await stream.aclose()

        (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
        nursery.start_soon(trio.serve_listeners, serve, [listener])
        port: int = listener.socket.getsockname()[1]
        return port

    return start


@pytest.mark.parametrize("mode", ["disable", "prefer", "require"])
@pytest.mark.parametrize(
    "said",
    [
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        b"-ERR unknown command\r\n",
        b"J\x00\x00\x00\n8.0.36\x00",
    ],
)
async def test_what_is_not_postgres_is_told_at_once(
    impostor: Callable[[bytes], Any], caplog: pytest.LogCaptureFixture, said: bytes, mode: str
):
    url = f"postgresql://u:{PASSWORD}@127.0.0.1:{await impostor(said)}/x?sslmode={mode}"
    assert "is not Postgres; check host and port" in await refusal(url, caplog)


async def assert_waited_for(conninfo: str, caplog: pytest.LogCaptureFixture) -> None:
    """Check that a start goes on trying, and says so."""
    with trio.fail_after(SECONDS_MAX), caplog.at_level("INFO"):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(Storage(conninfo, PATIENT).run)
            await until(lambda: bool(caplog.messages))
            assert caplog.messages == ["the database does not answer; trying for 3600 s"]
            nursery.cancel_scope.cancel()


async def test_a_port_that_nobody_listens_on_is_waited_for(caplog: pytest.LogCaptureFixture):
    await assert_waited_for(f"postgresql://u@127.0.0.1:{free_port()}/x", caplog)


async def test_a_socket_that_is_not_there_yet_is_waited_for(caplog: pytest.LogCaptureFixture):
    await assert_waited_for("host=/nowhere dbname=x", caplog)


@pytest.mark.parametrize(
    "text",
    [
        "the database system is starting up",
        "the database system is shutting down",
        "the database system is in recovery mode",
        "the database system is not yet accepting connections",
        "the database system is not accepting connections",
        "sorry, too many clients already",
        'too many connections for database "x"',
        "remaining connection slots are reserved for roles with the SUPERUSER attribute",
        "terminating connection due to administrator command",
    ],
)
def test_what_passes_is_no_final_answer(text: str):
    where = 'connection failed: connection to server at "127.0.0.1", port 5432 failed: '
    assert advise(f"{where}FATAL:  {text}") is None
    assert advise(f"{where}{text}") is None


async def test_a_final_answer_counts_beside_addresses_that_are_silent(
    postgres: TcpPostgres, caplog: pytest.LogCaptureFixture
):
    hosts = f"127.0.0.1:{postgres.port},127.0.0.1:{free_port()}"
    told = await refusal(f"postgresql://nobody@{hosts}/postgres", caplog)
    assert 'role "nobody" does not exist' in told


async def test_an_address_that_lets_us_in_counts_more_than_one_that_refuses(
    postgres: TcpPostgres,
):
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))  # it listens to nobody
        hosts = f"127.0.0.1:{silent.getsockname()[1]},127.0.0.1:{postgres.port}"
        connection = await DatabaseConnection.connect(
            f"postgresql://greenroom@{hosts}/postgres", seconds_max=10
        )
        connection.close()


async def test_a_refusal_of_a_running_server_is_a_lost_connection_like_others(
    postgres: TcpPostgres,
):
    with pytest.raises(DatabaseConnectionLost, match="does not exist"):
        await DatabaseConnection.connect(postgres.url("nobody", "postgres"), seconds_max=10)


async def tls_front(nursery: trio.Nursery, certificate: Any, port: int) -> int:
    """Open a port that speaks TLS as Postgres does, and passes all on to one that does not."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificate.configure_cert(context)

    async def pump(source: trio.abc.ReceiveStream, sink: trio.abc.SendStream) -> None:
        async for data in source:
            await sink.send_all(data)

    async def serve(stream: trio.SocketStream) -> None:
        await stream.receive_some()  # the wish for TLS
        await stream.send_all(b"S")
        secure = trio.SSLStream(stream, context, server_side=True, https_compatible=True)
        with suppress(trio.BrokenResourceError):
            await secure.do_handshake()
            behind = await trio.open_tcp_stream("127.0.0.1", port)
            async with secure, behind, trio.open_nursery() as pumps:
                pumps.start_soon(pump, behind, secure)
                await pump(secure, behind)
                pumps.cancel_scope.cancel()

    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    nursery.start_soon(trio.serve_listeners, serve, [listener])
    found: int = listener.socket.getsockname()[1]
    return found


async def test_a_certificate_that_does_not_fit_is_told_at_once(
    postgres: TcpPostgres, nursery: trio.Nursery, caplog: pytest.LogCaptureFixture, tmp_path: Path
):
    trustme = pytest.importorskip("trustme")
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "ours.pem"))
    trustme.CA().cert_pem.write_to_path(str(tmp_path / "other.pem"))
    port = await tls_front(nursery, authority.issue_cert("db.example"), postgres.port)

    def url(mode: str, root: str) -> str:
        options = f"sslmode={mode}&sslrootcert={tmp_path / root}"
        return f"postgresql://greenroom:{PASSWORD}@127.0.0.1:{port}/postgres?{options}"

    for mode, root, text in (
        ("verify-full", "ours.pem", "does not match host name"),
        ("verify-ca", "other.pem", "certificate verify failed"),
        ("verify-ca", "none.pem", "does not exist"),
    ):
        told = await refusal(url(mode, root), caplog)
        assert told.startswith("TLS with the database failed: ")
        assert text in told
    connection = await DatabaseConnection.connect(url("verify-ca", "ours.pem"), seconds_max=10)
    connection.close()


@pytest.mark.parametrize("command", [["doctor"], ["db", "status"], ["db", "migrate"]])
def test_commands_tell_a_final_answer(
    postgres: TcpPostgres, data_dir: Path, capsys: pytest.CaptureFixture[str], command: list[str]
):
    url = postgres.url("guarded", "postgres")
    assert main([*command, "--data-dir", str(data_dir), "--database-url", url]) != 0
    told = capsys.readouterr()
    assert "The database refused the user name or the password" in told.out + told.err
    assert PASSWORD not in told.out + told.err
