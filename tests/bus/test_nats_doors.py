"""Signing in to NATS servers, trusting them, and the sentences that say what to mend."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import trio
from bus_kit import CLUSTER, KEY, SECONDS_MAX, echo
from certificate_kit import Authority
from nats_key_kit import make_seed
from nats_kit import LARGE_ENOUGH, NatsProcess, free_ports

from greenroom.bus import nats, nats_connection
from greenroom.bus.bus import BusUnusable
from greenroom.bus.nats import NatsBus
from greenroom.bus.nats_keys import NatsKey
from greenroom.bus.nats_servers import NatsOptions, read_options

Start = Callable[[str], NatsProcess]
SEED = make_seed(b"a seed that everybody may know..")
OTHER_SEED = make_seed(b"another one that nobody lets in.")


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start a server with the given settings."""
    servers: list[NatsProcess] = []

    def start_server(settings: str) -> NatsProcess:
        servers.append(NatsProcess(tmp_path, settings))
        return servers[-1].start()

    yield start_server
    for server in servers:
        server.stop()


def make_bus(node_id: int, options: NatsOptions) -> NatsBus:
    bus = NatsBus(node_id, options, key=KEY, cluster_id=CLUSTER)
    bus.answer_with(echo)
    return bus


async def works(options: NatsOptions) -> bool:
    """Return whether two nodes reach each other, with a message of some length."""
    async with trio.open_nursery() as nursery:
        first, second = make_bus(1, options), make_bus(2, options)
        await nursery.start(first.run)
        await nursery.start(second.run)
        message = bytes(range(256)) * 4_000
        answer = await first.ask(2, message, seconds_max=SECONDS_MAX)
        nursery.cancel_scope.cancel()
    return answer == message


async def refusal(options: NatsOptions) -> str:
    """Return the sentence with which a bus does not start."""
    with pytest.raises(BusUnusable) as caught:
        await make_bus(1, options).run()
    sentence = str(caught.value)
    assert sentence.endswith(".")
    assert "\n" not in sentence
    return sentence


async def test_a_server_that_takes_too_little_is_named_with_the_line_to_write(start: Start) -> None:
    sentence = await refusal(read_options(start("").url()))
    assert "at most 1048576 bytes: write `max_payload: 2MB`" in sentence
    assert await works(read_options(start(LARGE_ENOUGH).url()))


USERS = LARGE_ENOUGH + 'authorization { users: [{ user: "me", password: "s3cr3t" }] }\n'


async def test_a_user_and_a_password_let_us_in(start: Start) -> None:
    assert await works(read_options(start(USERS).url("me:s3cr3t@")))


@pytest.mark.parametrize("signs_in", ["me:wr0ng@", "you:s3cr3t@", "s3cr3t@"])
async def test_a_wrong_password_is_told_and_not_shown(start: Start, signs_in: str) -> None:
    sentence = await refusal(read_options(start(USERS).url(signs_in)))
    assert "the setting bus must have the user and the password" in sentence
    assert "wr0ng" not in sentence
    assert "s3cr3t" not in sentence


async def test_a_password_that_is_missing_is_asked_for(start: Start) -> None:
    sentence = await refusal(read_options(start(USERS).url()))
    assert "nats://USER:PASSWORD@HOST:4222" in sentence
    assert "bus_nkey_file" in sentence


async def test_a_token_lets_us_in(start: Start) -> None:
    server = start(f'{LARGE_ENOUGH}authorization {{ token: "a token" }}\n')
    assert await works(read_options(server.url("a%20token@")))


async def test_a_seed_lets_us_in_and_another_is_told_with_the_line_to_write(
    start: Start, tmp_path: Path
) -> None:
    public = NatsKey(SEED).public
    server = start(f"{LARGE_ENOUGH}authorization {{ users: [{{ nkey: {public} }}] }}\n")
    (tmp_path / "seed").write_text(SEED)
    assert await works(read_options(server.url(), nkey_file=tmp_path / "seed"))

    (tmp_path / "seed").write_text(OTHER_SEED)
    sentence = await refusal(read_options(server.url(), nkey_file=tmp_path / "seed"))
    assert f"write `{{ nkey: {NatsKey(OTHER_SEED).public} }}` among the users" in sentence
    assert OTHER_SEED not in sentence


async def test_a_user_who_may_not_subscribe_is_told_to_the_operator(start: Start) -> None:
    users = 'users: [{ user: me, password: pw, permissions: { subscribe: "other.>" } }]'
    server = start(f"{LARGE_ENOUGH}authorization {{ {users} }}\n")
    sentence = await refusal(read_options(server.url("me:pw@")))
    assert "publish and subscribe to `greenroom.>`" in sentence


async def test_a_user_who_may_not_publish_is_told_to_the_operator(start: Start) -> None:
    users = 'users: [{ user: me, password: pw, permissions: { publish: "other.>" } }]'
    server = start(f"{LARGE_ENOUGH}authorization {{ {users} }}\n")
    sentence = await refusal(read_options(server.url("me:pw@")))
    assert "publish and subscribe to `greenroom.>`" in sentence


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    found = Authority(tmp_path)
    found.issue()
    return found


def tls_settings(authority: Authority) -> str:
    return (
        f'{LARGE_ENOUGH}tls {{ cert_file: "{authority.certificate}", '
        f'key_file: "{authority.key}" }}\n'
    )


def write_ca(authority: Authority, path: Path) -> Path:
    authority.write_root(path)
    return path


async def test_tls_with_an_authority_works(
    start: Start, authority: Authority, tmp_path: Path
) -> None:
    server = start(tls_settings(authority))
    ca_file = write_ca(authority, tmp_path / "ca.pem")
    for scheme in ("nats", "tls"):
        assert await works(read_options(server.url(scheme=scheme), ca_file=ca_file))


async def test_a_certificate_of_an_unknown_authority_is_not_trusted(
    start: Start, authority: Authority, tmp_path: Path
) -> None:
    (tmp_path / "other").mkdir()
    other = write_ca(Authority(tmp_path / "other"), tmp_path / "other.pem")
    server = start(tls_settings(authority))
    for options in (read_options(server.url()), read_options(server.url(), ca_file=other)):
        sentence = await refusal(options)
        assert "cannot be trusted" in sentence
        assert "bus_ca_file" in sentence


async def test_a_certificate_for_another_name_is_not_trusted(
    start: Start, authority: Authority, tmp_path: Path
) -> None:
    server = start(tls_settings(authority))
    ca_file = write_ca(authority, tmp_path / "ca.pem")
    sentence = await refusal(read_options(f"tls://0.0.0.0:{server.port}", ca_file=ca_file))
    assert "cannot be trusted" in sentence


async def test_without_tls_nothing_is_sent_where_tls_is_wanted(
    start: Start, authority: Authority, tmp_path: Path
) -> None:
    server = start(USERS)
    ca_file = write_ca(authority, tmp_path / "ca.pem")
    for options in (
        read_options(server.url("me:s3cr3t@", scheme="tls")),
        read_options(server.url("me:s3cr3t@"), ca_file=ca_file),
    ):
        assert "does not speak TLS" in await refusal(options)
    assert "authentication" not in server.log.lower()


async def test_plain_text_to_another_machine_is_refused_unless_it_is_allowed(start: Start) -> None:
    """The address 0.0.0.0 leads here, and is not known to."""
    url = f"nats://0.0.0.0:{start(LARGE_ENOUGH).port}"
    sentence = await refusal(read_options(url))
    assert "is on another machine and does not speak TLS" in sentence
    assert "bus_plain_allowed" in sentence
    assert await works(read_options(url, plain_allowed=True))


async def test_where_nobody_listens_the_start_ends_after_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(nats, "START_SECONDS_MAX", 0.3)
    [port] = free_ports(1)
    sentence = await refusal(read_options(f"nats://me:pw@127.0.0.1:{port}"))
    server = f"127.0.0.1:{port}"
    assert sentence.startswith(f"No NATS server at {server} can be used (the NATS server {server} ")
    assert sentence.endswith("): start one, or correct the setting bus.")


@pytest.mark.parametrize("greeting", [b"", b"SSH-2.0-OpenSSH_9.2\r\n", b"PING\r\n", b"INFO {"])
async def test_what_is_no_nats_server_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch, nursery: trio.Nursery, greeting: bytes
) -> None:
    monkeypatch.setattr(nats, "START_SECONDS_MAX", 0.5)
    monkeypatch.setattr(nats_connection, "OPEN_SECONDS_MAX", 0.1)

    async def greet(stream: trio.SocketStream) -> None:
        await stream.send_all(greeting)
        await trio.sleep_forever()

    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    nursery.start_soon(trio.serve_listeners, greet, listeners)
    port = listeners[0].socket.getsockname()[1]
    assert "No NATS server at" in await refusal(read_options(f"nats://127.0.0.1:{port}"))
    nursery.cancel_scope.cancel()


async def test_a_server_without_headers_is_too_old(nursery: trio.Nursery) -> None:
    async def greet(stream: trio.SocketStream) -> None:
        await stream.send_all(b'INFO {"version":"1.4.1","max_payload":9999999}\r\n')
        await trio.sleep_forever()

    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    nursery.start_soon(trio.serve_listeners, greet, listeners)
    port = listeners[0].socket.getsockname()[1]
    sentence = await refusal(read_options(f"nats://127.0.0.1:{port}"))
    assert re.search(r"has version 1\.4\.1 and no headers: install version 2\.2", sentence)
    nursery.cancel_scope.cancel()


async def test_a_server_that_works_makes_up_for_one_that_does_not(start: Start) -> None:
    [port] = free_ports(1)
    urls = f"nats://127.0.0.1:{port},{start('').url()},{start(LARGE_ENOUGH).url()}"
    assert await works(read_options(urls))
