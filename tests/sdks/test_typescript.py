"""The TypeScript SDK, in Node and in a browser, against real servers."""

from __future__ import annotations

import json
import shutil
import subprocess
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
import trio
from line_kit import Line
from proxy_kit import free_ports
from sdk_kit import (
    PLATFORMS,
    ROOT,
    TYPESCRIPT,
    Platform,
    build_typescript,
    needs_compiler,
    open_platform,
    run_node,
)
from server_kit import Game, ServerProcess
from tally_kit import BEHAVIOURS, MODULES, RATES
from waiting import until

PACKAGE_BYTES_MAX = 30_000
PACK_SECONDS_MAX = 60.0

pytestmark = [needs_compiler, pytest.mark.slow, pytest.mark.timeout(300)]


async def begin(platform: Platform, server: ServerProcess, game: Game, **options: float) -> None:
    """Have two players connected in a room, as `it`."""
    config = {"server": server.ready["http"], "key": game.key, "options": options}
    keep = "(made) => { globalThis.it = made; return 0 }"
    await platform.evaluate(f"story.begin(sdk, {json.dumps(config)}).then({keep})")


async def shows(platform: Platform, condition: str) -> None:
    """Wait until a condition in JavaScript is true."""
    try:
        await until(lambda: platform.evaluate(f"Boolean({condition})"))
    except trio.TooSlowError:
        seen = "JSON.stringify([it.statuses, it.totals, it.troubles, it.done, it.heard])"
        raise AssertionError(f"{condition}: {await platform.evaluate(seen)}") from None


def test_the_hand_written_half_is_as_the_vectors_say() -> None:
    build_typescript()
    told = run_node("--test", "test/vectors.test.mjs")
    assert "# fail 0" in told
    assert int(told.split("# pass ")[1].split()[0]) > 60


def test_what_a_user_writes_is_checked_by_the_types(tmp_path: Path) -> None:
    build_typescript()
    folder = TYPESCRIPT / "test" / "types"
    done = subprocess.run(
        ["node", "node_modules/typescript/bin/tsc", "--noEmit", "-p", str(folder)],
        cwd=TYPESCRIPT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout


def test_the_package_is_small_and_has_what_it_names(tmp_path: Path) -> None:
    build_typescript()
    command = ["npm", "pack", "--ignore-scripts", "--pack-destination", str(tmp_path)]
    subprocess.run(
        command, cwd=TYPESCRIPT, capture_output=True, check=True, timeout=PACK_SECONDS_MAX
    )
    [packed] = tmp_path.glob("*.tgz")
    assert packed.stat().st_size < PACKAGE_BYTES_MAX
    with tarfile.open(packed) as archive:
        archive.extractall(tmp_path, filter="data")
    unpacked = tmp_path / "package"
    described = json.loads((unpacked / "package.json").read_text())
    assert "dependencies" not in described
    named = {path for entry in described["exports"].values() for path in entry.values()}
    assert all((unpacked / path).is_file() for path in named)
    assert not list(unpacked.glob("**/test"))
    assert (unpacked / "LICENSE").read_text() == (ROOT / "LICENSE").read_text()
    modules = tmp_path / "app" / "node_modules"
    modules.mkdir(parents=True)
    shutil.move(unpacked, modules / described["name"])
    used = (
        f'import {{ Game }} from "{described["name"]}";'
        f'import {{ Admin }} from "{described["name"]}/admin";'
        "console.log(typeof Game, typeof Admin)"
    )
    (tmp_path / "app" / "main.mjs").write_text(used)
    assert run_node(str(tmp_path / "app" / "main.mjs")) == "function function\n"


@pytest.mark.parametrize("name", PLATFORMS)
async def test_two_players_from_nothing_to_the_leaderboard(tally_server: ServerProcess, name: str):
    game = tally_server.new_game()
    async with open_platform(name) as platform:
        await begin(platform, tally_server, game)
        await shows(platform, "it.rooms.every((room) => room.state?.total === 0)")
        added = await platform.evaluate("it.rooms[0].action('add', {count: 2})")
        assert (added["status"], added["response_data"]) == ("completed", {"total": 2})
        assert added["sender"] == {"is_server": True}
        await shows(platform, "it.totals.every((total) => total === 2)")
        await shows(platform, "it.rooms[0].privateState.mine === 2")
        assert await platform.evaluate("it.rooms[1].privateState.mine") == 0
        refused = "it.rooms[1].action('add', {count: 10}).catch((e) => [e.name, e.message])"
        assert (await platform.evaluate(refused))[0] in {"ActionRefused", "ActionFailed"}
        assert await platform.evaluate("it.rooms[0].send('chat', {text: 'grüß dich ✓'})") == 1
        await shows(platform, "it.heard[1].length === 1")
        [heard] = await platform.evaluate("it.heard[1]")
        assert (heard["data"], heard["sender"]["name"]) == ({"text": "grüß dich ✓"}, "Ada")
        assert heard["sender"]["isServer"] is False
        await drop_and_resume(platform)
        board = await platform.evaluate("it.game.leaderboard({sort_by: ['added']})")
        assert [(entry["player_name"], entry["stats"]) for entry in board["leaderboard"][:1]] == [
            ("Ada", {"added": 10})
        ]
        assert await platform.evaluate("it.end()") == ["closed", "closed"]
        await administer(platform, tally_server, game)


async def drop_and_resume(platform: Platform) -> None:
    """Cut one player off; what the other says and does meanwhile comes later, and once."""
    await platform.evaluate("it.rooms[1].connection.cut('a test') ?? 0")
    assert await platform.evaluate("it.rooms[1].status") == "reconnecting"
    for number in range(3):
        await platform.evaluate(f"it.rooms[0].send('number', {number})")
    await platform.evaluate("it.rooms[0].action('add', {count: 8})")
    await shows(platform, "it.statuses[1].at(-1) === 'connected'")
    await shows(platform, "it.totals.every((total) => total === 10)")
    await shows(platform, "it.numbers(1).length === 3")
    assert await platform.evaluate("it.numbers(1)") == [0, 1, 2]
    rounds = "it.heard.map((each) => each.filter((m) => m.command === 'round').length)"
    await shows(platform, f"{rounds}.every((count) => count === 1)")
    assert await platform.evaluate("it.heard[1].find((m) => m.command === 'round').sender.isServer")


async def administer(platform: Platform, server: ServerProcess, game: Game) -> None:
    """Do what a studio's own service does, with the private key."""
    keys = json.dumps([server.ready["http"], game.key, game.private])
    await platform.evaluate(f"globalThis.owner = new admin.Admin(...{keys}); 0")
    listed = await platform.evaluate("owner.listPlayers({limit: 1})")
    assert [player["player_name"] for player in listed["players"]] == ["Ada"]
    player_id = listed["players"][0]["id"]
    banned = f"owner.ban({{player_id: {player_id}, ban_duration: 'hour', ban_reason: 'Cheating'}})"
    assert (await platform.evaluate(banned))["success"]
    told = await platform.evaluate(
        "it.players[0].getPlayer().catch((e) => [e.name, e.status, e.banInfo.ban_reason])"
    )
    assert told == ["Banned", 403, "Cheating"]
    stats = f"owner.stats({{player_id: {player_id}, changes: {{added: {{increment: 5}}}}}})"
    assert (await platform.evaluate(stats))["stats"] == {"added": 15}


class RoughServer(NamedTuple):
    """A server, and the ports of the network before it."""

    server: ServerProcess
    front: int
    realtime: int


@pytest.fixture
def rough_server(data_dir: Path, new_database: Callable[[], str]) -> Iterator[RoughServer]:
    """A server that can be killed, whose clients reach its realtime port by another one."""
    http, realtime, front = free_ports(3)
    for name, source in MODULES.items():
        (data_dir / f"{name}.py").write_text(source)
    ports = ("--port", str(http), "--realtime-port", str(realtime))
    where = ("--database-url", new_database(), "--behaviours-dir", str(data_dir))
    public = {"GREENROOM_PUBLIC_REALTIME_PORT": str(front)}
    server = ServerProcess(data_dir, *ports, *where, *BEHAVIOURS, **RATES, **public)
    yield RoughServer(server.start(), front, realtime)
    server.stop()


@pytest.mark.parametrize("name", PLATFORMS)
async def test_over_a_rough_network_and_a_killed_server_every_action_happens_once(
    rough_server: RoughServer, name: str
):
    server, front, realtime = rough_server
    patience = {"heartbeatSeconds": 0.5, "answerSecondsMax": 1.0}
    network = Line(("127.0.0.1", realtime))
    async with trio.open_nursery() as nursery, open_platform(name) as platform:
        await nursery.start(network.listen, front)
        await begin(platform, server, server.new_game(), **patience)
        await platform.evaluate("it.go()")
        await play_on(platform)
        await roughen(platform, network)
        await check_numbers(platform)
        server.kill()
        await shows(platform, "it.statuses.every((each) => each.at(-1) === 'reconnecting')")
        await trio.to_thread.run_sync(server.start)
        await play_on(platform)
        assert await platform.evaluate("it.stop()") == []
        done = await platform.evaluate("it.done")
        await shows(platform, f"it.totals.every((total) => total === {done})")
        own = "it.rooms.map((room) => room.privateState.mine)"
        assert sum(await platform.evaluate(own)) == done
        await platform.evaluate("it.end()")
        nursery.cancel_scope.cancel()


async def play_on(platform: Platform, count: int = 10) -> None:
    """Wait until so many more actions were answered, and both are connected."""
    done = await platform.evaluate("it.done")
    await shows(platform, f"it.done >= {done + count}")


async def roughen(platform: Platform, network: Line) -> None:
    """Delay, cut, cut inside a frame, and lose everything; play goes on each time."""
    network.delay_seconds = 0.02
    await play_on(platform)
    network.cut()
    await play_on(platform)
    network.bytes_max = 1_500
    network.cut()
    await shows(platform, "it.rooms.every((room) => room.connections >= 4)")
    network.bytes_max = 0
    network.cut()
    await play_on(platform)
    network.is_deaf = True
    await shows(platform, "it.rooms.every((room) => room.status === 'reconnecting')")
    network.is_deaf = False
    network.cut()
    await play_on(platform)


async def check_numbers(platform: Platform) -> None:
    """See that each has heard what the other one was told is taken: in order, none twice."""
    for listener, speaker in ((1, 0), (0, 1)):
        said = await platform.evaluate(f"it.said[{speaker}]")
        last = said[-1]
        await shows(platform, f"it.numbers({listener}).includes({last})")
        heard = await platform.evaluate(f"it.numbers({listener})")
        assert heard == sorted({*heard})
        assert {*said} <= {*heard}
