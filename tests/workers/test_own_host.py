"""The host by which other machines reach one."""

from __future__ import annotations

from typing import Any

import pytest
import trio
import trio.testing

from greenroom.bus.nats_servers import NatsServer
from greenroom.config import ConfigError, Settings
from greenroom.own_host import NAME_SECONDS_MAX, nats_options, own_host

DATABASE = "postgresql://somewhere/greenroom"
NEAR, FAR = "nats://127.0.0.1:4222", "tls://nats.example:4222"


def settings(**more: Any) -> Settings:
    given: dict[str, Any] = {"bus": FAR, "database_url": DATABASE, "host": "0.0.0.0"}
    return Settings(**given | more)


def reach(monkeypatch: pytest.MonkeyPatch, *found: str | None) -> list[str]:
    """Let NATS servers be reached from these addresses, one after the other; return who is."""
    asked: list[str] = []

    async def source(server: NatsServer, _: int) -> str | None:
        asked.append(server.host)
        return found[min(len(asked), len(found)) - 1]

    monkeypatch.setattr("greenroom.own_host._source", source)
    return asked


def test_one_machine_has_no_bus() -> None:
    assert nats_options(settings(bus=None)) is None


async def test_machines_need_a_database_that_all_reach() -> None:
    with pytest.raises(ConfigError, match="set database_url, too"):
        await own_host(settings(database_url=None, advertise="10.0.0.9"))


async def test_what_is_advertised_comes_first() -> None:
    assert await own_host(settings(advertise="green.example", host="127.0.0.1")) == "green.example"


async def test_a_host_of_its_own_is_told() -> None:
    assert await own_host(settings(host="10.0.0.7")) == "10.0.0.7"


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost"])
async def test_a_host_that_others_cannot_reach_is_refused(host: str) -> None:
    with pytest.raises(ConfigError, match=f"host is {host}, where the other machines"):
        await own_host(settings(host=host))
    assert await own_host(settings(host=host, bus=NEAR)) == host  # nobody else is meant to


async def test_the_way_to_nats_shows_the_address(
    autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = reach(monkeypatch, None, "127.0.0.1", "10.0.0.5")
    assert await own_host(settings()) == "10.0.0.5"
    assert asked == ["nats.example"] * 3


async def test_a_name_that_is_never_known_is_not_waited_for_for_ever(
    autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    reach(monkeypatch, None)
    assert await own_host(settings())
    assert NAME_SECONDS_MAX <= trio.current_time() < NAME_SECONDS_MAX + 1.0
