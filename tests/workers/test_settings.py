"""The settings of one worker."""

from __future__ import annotations

from pathlib import Path

from greenroom.config import DEFAULTS, Settings
from greenroom.workers.messages import Begin, GivenSockets, encode, from_parent
from greenroom.workers.settings import DIVIDED, settings_of_worker

WHOLE = Settings(
    data_dir=Path("/data"),
    public_udp_port=4000,
    backup_dir=Path("/backups"),
    database_url="postgresql://greenroom:secret@there/db",
    trusted_proxies=["10.0.0.0/8"],
)


def test_what_an_address_may_do_in_all_is_divided():
    one = settings_of_worker(WHOLE, 2, 4, "dbname=here")
    assert one.pages_per_second_address == DEFAULTS.pages_per_second_address / 4
    assert one.connections_per_second_address == DEFAULTS.connections_per_second_address / 4


def test_what_is_charged_at_one_place_is_not():
    one = settings_of_worker(WHOLE, 2, 4, "dbname=here")
    for name in (
        "read_calls_per_second_player",
        "read_calls_per_second_address",
        "connections_per_address_max",
        "wrong_passwords_per_second_address",
        "leaderboard_bytes_per_second_address",
        "censor_calls_per_second_game_address",
        "rooms_bytes_max",
    ):
        assert name not in DIVIDED
        assert getattr(one, name) == getattr(DEFAULTS, name)


def test_each_has_its_own_public_udp_port_and_one_makes_the_backups():
    first, second = (settings_of_worker(WHOLE, number, 2, "dbname=here") for number in (1, 2))
    assert (first.public_udp_port, second.public_udp_port) == (4000, 4001)
    assert (first.backup_dir, second.backup_dir) == (Path("/backups"), None)
    assert first.database_url == "dbname=here"


def test_settings_travel_whole_and_are_in_no_repr():
    sockets = GivenSockets(http={1: [3]}, realtime={1: [4]}, udp=[5])
    begin = Begin(
        number=1,
        count=2,
        name="node",
        settings=WHOLE,
        sources={"port": "default"},
        import_path=["/a"],
        sockets=sockets,
    )
    assert from_parent(encode(begin)) == begin
    assert "secret" not in repr(begin)
