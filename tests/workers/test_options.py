"""Options of a server that its workers have, too: TLS, reloads, realtime, the fast lane."""

from __future__ import annotations

import os
import signal
import ssl
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from certificate_kit import Authority, shown
from realtime_kit import Client, dial
from reload_kit import Evening, studio_folder
from server_kit import KINDS, ServerProcess
from udp_kit import fast
from waiting import block_until, until
from workers_kit import Crew, Ingress, crew, ingress

from greenroom.client import Game, Player
from greenroom.control.admin.cluster_messages import DrainNode, ListedNode
from greenroom.control.client import call
from greenroom.control.protocol import socket_path
from greenroom.fastlane.frames import ClientMessage

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


@asynccontextmanager
async def room_of_two(
    url: str, key: str, tls: ssl.SSLContext | None = None
) -> AsyncGenerator[list[Player]]:
    """Two players in a realtime room."""
    async with Game.connect(url, key, tls=tls) as game:
        players = [await game.register(f"Player {number}") for number in range(2)]
        room = await players[0].create_room(realtime=True, host_switch=False)
        await players[1].join_room(room.room_id)
        yield players


@asynccontextmanager
async def connected(
    players: list[Player], port: int | None = None, tls: ssl.SSLContext | None = None
) -> AsyncGenerator[list[Client]]:
    """Connections of some players, at the port that their tokens name, or at this one."""
    async with AsyncExitStack() as stack:
        clients: list[Client] = []
        for player in players:
            reply = await player.realtime_token()
            at = f"127.0.0.1:{port or reply.realtime_server.port}"
            url = f"{'ws' if tls is None else 'wss'}://{at}/"
            dialled = dial(url, reply.token, 120.0, ssl_context=tls)
            clients.append(await stack.enter_async_context(dialled))
            await clients[-1].expect("connected")
        yield clients


async def talk(speaker: Client, listener: Client, word: str) -> None:
    """Say a word, which the other hears."""
    await speaker.say(word, target="others")
    assert (await listener.expect("receive"))["command"] == word
    await speaker.expect("sent")


def realtime_port(server: ServerProcess) -> int:
    """Return the realtime port of the first worker."""
    port = urlsplit(str(server.ready["realtime"])).port
    assert port is not None
    return port


@pytest.mark.parametrize("kind", KINDS)
async def test_calls_and_connections_over_tls_go_to_the_owner(data_dir: Path, kind: str) -> None:
    authority = Authority(data_dir)
    authority.issue()
    tls = authority.trusting()
    with ingress(
        *("--server", kind),
        GREENROOM_TLS_CERTIFICATE_FILE=str(authority.certificate),
        GREENROOM_TLS_KEY_FILE=str(authority.key),
        GREENROOM_RATE_LIMIT_FACTOR="1000",
    ) as server:
        async with room_of_two(server.ready["http"], server.new_game().key, tls) as players:
            await players[0].set_document({"number": 1})
            assert (await players[0].document()).data == {"number": 1}
            async with connected(players, tls=tls) as (first, second):
                await talk(first, second, "directly")
            async with connected(players, realtime_port(server), tls) as (first, second):
                await talk(first, second, "relayed")
                async with fast(first) as lane, fast(second) as other:
                    await lane.say(ClientMessage("quick", b"1"))
                    assert (await other.hear()).command == "quick"
            await _renew(server, authority)
            async with connected(players, realtime_port(server), tls) as (first, second):
                await talk(first, second, "renewed")


async def _renew(server: Ingress, authority: Authority) -> None:
    """Put another certificate in place, and wait until all workers show it."""
    number = authority.issue()
    os.kill(server.pid, signal.SIGHUP)
    urls = [node.own_http for node in server.nodes()]
    ports = [urlsplit(url or "").port or 0 for url in urls] + [realtime_port(server)]

    async def have_it() -> bool:
        return {await shown(port) for port in ports} == {number}

    await until(have_it)


async def test_a_relayed_connection_has_the_fast_lane_of_its_rooms_owner(data_dir: Path) -> None:
    with ingress(GREENROOM_RATE_LIMIT_FACTOR="1000") as server:
        async with (
            room_of_two(server.ready["http"], server.new_game().key) as players,
            connected(players, realtime_port(server)) as (first, second),
            fast(first) as lane,
            fast(second) as other,
        ):
            assert lane.udp.getpeername()[1] != server.ready["udp_port"]
            await lane.say(ClientMessage("quick", b"1"))
            assert (await other.hear()).command == "quick"


def owner_of_rooms(server: Crew) -> ListedNode:
    """Return the node with the most rooms."""
    return max(server.nodes(), key=lambda node: node.rooms or 0)


def test_all_workers_go_on_with_what_is_saved(data_dir: Path) -> None:
    folder, given = studio_folder(data_dir)
    with crew(data_dir, 2, *given) as server:
        evening = Evening(server, folder)
        assert evening.greet() == "Hello 1"
        evening.write("words.py", 'GREETING = "Good evening"', "rooms that go on with them: 1")
        assert evening.greet() == "Good evening 2"
        block_until(lambda: server.log.read_text().count("behaviours reloaded") == 2)
        owner = owner_of_rooms(server)
        call(socket_path(data_dir), DrainNode(node=str(owner.node)))
        block_until(lambda: owner_of_rooms(server).node != owner.node)
        assert evening.greet() == "Good evening 3"
