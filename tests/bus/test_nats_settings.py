"""Addresses, keys and certificates for NATS: read as they are meant, or refused in a sentence."""

from __future__ import annotations

import base64
import binascii
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from nats_key_kit import make_seed

from greenroom.bus.bus import BusUnusable
from greenroom.bus.nats_keys import NatsKey, read_key
from greenroom.bus.nats_servers import SERVERS_MAX, NatsServer, NatsServers, read_options

_ADDRESS = r"^The setting bus has .*nats://USER:PASSWORD@HOST:4222\.$"


def test_addresses_are_read_with_what_they_sign_in_with() -> None:
    options = read_options(
        "nats://me:p%40ss@one:4333, tls://two,three, nats://[::1]:9,nats://tok@x"
    )
    shown = [(s.host, s.port, s.wants_tls, s.user, s.password) for s in options.servers]
    assert shown == [
        ("one", 4333, False, "me", "p@ss"),
        ("two", 4222, True, None, None),
        ("three", 4222, False, None, None),
        ("::1", 9, False, None, None),
        ("x", 4222, False, "tok", None),
    ]
    assert [str(server) for server in options.servers][3] == "[::1]:9"


@pytest.mark.parametrize(
    "urls",
    [
        "",
        ",",
        "http://secret@x",
        "nats://",
        "nats://user:secret@:4222",
        "nats://user:secret@x:99999",
        "nats://user:secret@x:port",
        "nats://user:secret@x/path",
        "nats://user:secret@x?query",
        "nats://user:secret@[::1",
        ",".join(["nats://secret@x"] * (SERVERS_MAX + 1)),
    ],
)
def test_what_is_no_address_is_refused_without_showing_a_password(urls: str) -> None:
    with pytest.raises(BusUnusable, match=_ADDRESS) as e:
        read_options(urls)
    assert "secret" not in str(e.value)


def test_no_text_of_a_server_shows_its_password() -> None:
    [server] = read_options("nats://user:secret@x").servers
    assert "secret" not in f"{server} {server!r} {[server]}"


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "127.1.2.3", "[::1]"])
def test_servers_of_this_machine_are_known_as_such(host: str) -> None:
    assert read_options(f"nats://{host}").servers[0].is_here


@pytest.mark.parametrize("host", ["localhost.example", "10.0.0.1", "[fe80::1]", "0.0.0.0", "nats"])
def test_other_servers_may_be_anywhere(host: str) -> None:
    assert not read_options(f"nats://{host}").servers[0].is_here


def test_servers_that_are_told_of_are_bounded_and_signed_in_to_as_their_teller() -> None:
    [given] = read_options("tls://me:pw@nats.example").servers
    servers = NatsServers([given])
    servers.note(["10.0.0.1:4222", "b.example:4223", "nats.example:4222", "10.0.0.1:4222"], given)
    told = servers.list_after(given)
    assert told == [
        NatsServer("10.0.0.1", 4222, True, "nats.example", "me", "pw"),
        NatsServer("b.example", 4223, True, "b.example", "me", "pw"),
        given,
    ]
    assert servers.list_after(told[0]) == [told[1], given, told[0]]
    assert servers.list_after(None) == [given, told[0], told[1]]

    servers.note([f"h{number}:1" for number in range(1000)], given)
    assert len(servers.list_after(None)) == SERVERS_MAX
    servers.note(["", ":4222", "x:port", "x:99999", "evil@x:1", "[::1"], given)
    assert servers.list_after(None) == [given]


def test_a_seed_gives_the_public_key_and_signatures_that_verify() -> None:
    key = NatsKey(make_seed(bytes(range(32))))
    raw = base64.b32decode(key.public + "=" * (-len(key.public) % 8))
    assert key.public.startswith("U")
    assert raw[0] == 20 << 3
    assert binascii.crc_hqx(raw[:-2], 0).to_bytes(2, "little") == raw[-2:]
    signature = base64.urlsafe_b64decode(key.sign("nonce") + "==")
    Ed25519PublicKey.from_public_bytes(raw[1:-2]).verify(signature, b"nonce")


def test_a_seed_of_the_documentation_of_nats_has_the_public_key_there() -> None:
    """From the page about nkeys in the manual of NATS; everybody knows this one."""
    seed = "SUACSSL3UAHUDXKFSNVUZRF5UHPMWZ6BFDTJ7M6USDXIEDNPPQYYYCU3VY"
    assert NatsKey(seed).public == "UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF4"


def test_a_file_may_say_more_than_the_seed(tmp_path: Path) -> None:
    seed = make_seed(bytes(32))
    (tmp_path / "seed").write_text(f"# the key of the bus\n\n  {seed}  \n")
    assert read_key(tmp_path / "seed").public == NatsKey(seed).public


def test_a_file_that_others_may_read_is_told_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "seed"
    path.write_text(make_seed(bytes(32)))
    path.chmod(0o600)
    read_key(path)
    assert not caplog.records
    path.chmod(0o644)
    read_key(path)
    assert f"Other users may use the key {path}: chmod g-w,o= {path}" in caplog.text


WRONG_SEEDS = {
    "nothing": "",
    "a public key": "UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF4",
    "one letter changed": make_seed(bytes(32))[:-8] + "B" + make_seed(bytes(32))[-7:],
    "cut off": make_seed(bytes(32))[:-3],
    "not base 32": "SU!!" + "1" * 54,
    "an account's seed": make_seed(bytes(32), kind=0),
    "SU alone": "SU",
    "not text": "SU\N{SNOWMAN}",
}


@pytest.mark.parametrize("name", WRONG_SEEDS)
def test_a_file_without_a_seed_is_refused_without_showing_it(tmp_path: Path, name: str) -> None:
    (tmp_path / "seed").write_text(WRONG_SEEDS[name])
    with pytest.raises(BusUnusable, match="has no seed of a NATS user") as caught:
        read_options("nats://x", nkey_file=tmp_path / "seed")
    assert len(WRONG_SEEDS[name]) < 10 or WRONG_SEEDS[name] not in str(caught.value)


def test_files_that_are_missing_are_named_with_their_setting(tmp_path: Path) -> None:
    with pytest.raises(BusUnusable, match=r"missing \(No such file.*bus_nkey_file"):
        read_options("nats://x", nkey_file=tmp_path / "missing")
    with pytest.raises(BusUnusable, match=r"missing \(No such file.*bus_ca_file"):
        read_options("nats://x", ca_file=tmp_path / "missing")
    (tmp_path / "empty").touch()
    with pytest.raises(BusUnusable, match=r"empty .*bus_ca_file"):
        read_options("nats://x", ca_file=tmp_path / "empty")
