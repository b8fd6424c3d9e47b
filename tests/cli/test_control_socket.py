"""The control socket: the command line's way into a running server."""

from __future__ import annotations

import contextlib
import os
import socket
import stat
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest
import trio

from greenroom.actors.kernel.errors import StorageUnavailable
from greenroom.config import Settings
from greenroom.control import client
from greenroom.control import socket as server
from greenroom.control.admin import messages, operations
from greenroom.control.admin.context import AdminContext
from greenroom.control.errors import OperationRefused, SocketError
from greenroom.control.protocol import CALL_BYTES_MAX, socket_path
from greenroom.network.unix_paths import ADDRESS_BYTES_MAX
from greenroom.supervisors.tree import TreeNode

Answering = Callable[[AdminContext, Any], Any]


def make_context(data_dir: Path, tree: Callable[[], TreeNode] | None = None) -> AdminContext:
    return AdminContext(
        world=cast("Any", None),
        conninfo="host=/nowhere dbname=greenroom user=greenroom",
        tree=tree or (lambda: TreeNode("greenroom", "running", children=[TreeNode("a", "up", 1)])),
        settings=Settings(data_dir=data_dir),
        audit=cast("Any", None),
        quarantine=cast("Any", None),
        partitions=cast("Any", None),
        is_serving=True,
        restore_rooms=trio.lowlevel.checkpoint,
    )


@asynccontextmanager
async def serving(data_dir: Path, **kwargs: Any) -> AsyncIterator[Path]:
    path = socket_path(data_dir)
    async with trio.open_nursery() as nursery:
        desk = server.Desk(make_context(data_dir, **kwargs))
        await nursery.start(server.run, desk, path)
        yield path
        nursery.cancel_scope.cancel()


async def call(path: Path, operation: Any) -> Any:
    return await trio.to_thread.run_sync(partial(client.call, path, operation))


async def send_raw(path: Path, content: bytes) -> bytes:
    stream = await trio.open_unix_socket(str(path))
    async with stream:
        await stream.send_all(content)
        received = b""
        while chunk := await stream.receive_some(1 << 16):
            received += chunk
        return received


async def test_an_operation_reaches_the_server_and_its_result_comes_back(tmp_path: Path) -> None:
    async with serving(tmp_path) as path:
        tree = await call(path, messages.ShowTree())
        assert tree == TreeNode("greenroom", "running", children=[TreeNode("a", "up", 1)])
        address = await call(path, messages.ShowDatabaseAddress())
        assert address.url == "postgresql:///greenroom?host=%2Fnowhere&user=greenroom"


async def test_the_socket_is_for_the_servers_user_alone_and_goes_with_it(tmp_path: Path) -> None:
    async with serving(tmp_path) as path:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert not path.exists()


async def test_a_dead_servers_socket_is_replaced(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(socket_path(tmp_path)))
    with pytest.raises(client.NoServer):
        await call(socket_path(tmp_path), messages.ShowTree())
    async with serving(tmp_path) as path:
        await call(path, messages.ShowTree())


async def test_a_data_directory_with_a_long_path_has_a_socket_too(tmp_path: Path) -> None:
    data_dir = tmp_path / ("long" * 30)
    data_dir.mkdir()
    assert len(os.fsencode(socket_path(data_dir))) > ADDRESS_BYTES_MAX
    async with serving(data_dir) as path:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        await call(path, messages.ShowTree())
    with pytest.raises(client.NoServer):
        await call(path, messages.ShowTree())


async def test_without_a_server_the_client_says_so(tmp_path: Path) -> None:
    with pytest.raises(client.NoServer, match="No server runs on"):
        await call(socket_path(tmp_path), messages.ShowTree())
    with pytest.raises(client.NoServer):
        await call(socket_path(tmp_path / "nowhere"), messages.ShowTree())


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (OperationRefused("There is no game 7."), "There is no game 7."),
        (StorageUnavailable("away"), "The database does not answer"),
        (ZeroDivisionError("secret detail"), "failed through a bug in the server"),
    ],
)
async def test_a_failed_operation_gives_one_sentence(
    tmp_path: Path, error: Exception, text: str
) -> None:
    def fail() -> TreeNode:
        raise error

    async with serving(tmp_path, tree=fail) as path:
        with pytest.raises(OperationRefused) as refused:
            await call(path, messages.ShowTree())
        assert text in str(refused.value)
        assert "secret detail" not in str(refused.value)


@pytest.mark.parametrize(
    "line",
    [
        b"\n",
        b"nonsense\n",
        b"\xff\xfe\n",
        b"[" * 5000 + b"\n",
        b'{"operation":"no.such","arguments":{},"version":"9"}\n',
        b'{"operation":"game.show","arguments":{"game_id":"x"},"version":"9"}\n',
        b'{"operation":"tree","arguments":{"extra":1},"version":"9"}\n',
    ],
)
async def test_a_line_that_makes_no_sense_is_answered_and_harms_nobody(
    tmp_path: Path, line: bytes
) -> None:
    async with serving(tmp_path) as path:
        answer = msgspec.json.decode(await send_raw(path, line))
        assert "does not understand" in answer["error"]
        await call(path, messages.ShowTree())


async def test_a_line_without_end_is_cut_off(tmp_path: Path) -> None:
    async with serving(tmp_path) as path:
        with contextlib.suppress(trio.BrokenResourceError):
            assert await send_raw(path, b"x" * (2 * CALL_BYTES_MAX)) == b""
        await call(path, messages.ShowTree())


async def test_a_client_that_leaves_does_not_stop_what_it_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, may_end, ended = trio.Event(), trio.Event(), trio.Event()

    async def slow(_: AdminContext, __: Any) -> TreeNode:
        begun.set()
        await may_end.wait()
        ended.set()
        return TreeNode("late", "up")

    replace(monkeypatch, messages.ShowTree, slow)
    async with serving(tmp_path) as path:
        stream = await trio.open_unix_socket(str(path))
        await stream.send_all(b'{"operation":"tree","arguments":{},"version":"9"}\n')
        await begun.wait()
        await stream.aclose()
        may_end.set()
        with trio.fail_after(5):
            await ended.wait()


async def test_a_server_that_works_on_it_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A late answer, with far more signs of life before it than the patience would need."""
    monkeypatch.setattr(server, "STILL_AT_IT_SECONDS", 0)
    monkeypatch.setattr(client, "PATIENCE_SECONDS", 5)

    async def slow(_: AdminContext, __: Any) -> TreeNode:
        for _turn in range(200):
            await trio.lowlevel.checkpoint()
        return TreeNode("late", "up")

    replace(monkeypatch, messages.ShowTree, slow)
    async with serving(tmp_path) as path:
        assert await call(path, messages.ShowTree()) == TreeNode("late", "up")


async def test_a_server_that_hangs_or_stops_is_told_from_one_that_answers(tmp_path: Path) -> None:
    path = socket_path(tmp_path)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen(8)
        trio_listener = trio.SocketListener(trio.socket.from_stdlib_socket(listener.dup()))

        async def answer_with(content: bytes) -> None:
            async with await trio_listener.accept() as stream:
                await stream.receive_some(1 << 16)
                await stream.send_all(content)

        for content, text in (
            (b"", "stopped before it answered"),
            (b"\n\n", "stopped before it answered"),
            (b"nonsense\n", "cannot be understood"),
            (b'{"result":{"unknown":1}}\n', "cannot be understood"),
            (b"{}\n", "cannot be understood"),
        ):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(answer_with, content)
                with pytest.raises((SocketError, OperationRefused), match=text):
                    await call(path, messages.ShowTree())
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(client, "PATIENCE_SECONDS", 0.05)
            with pytest.raises(SocketError, match="it hangs"):
                await call(path, messages.ShowTree())
        trio_listener.socket.close()


async def test_many_commands_at_once_are_all_answered(tmp_path: Path) -> None:
    async with serving(tmp_path) as path, trio.open_nursery() as nursery:
        for _ in range(server.CONNECTIONS_MAX * 2):
            nursery.start_soon(call, path, messages.ShowTree())


def test_every_operation_knows_its_name_and_its_result() -> None:
    for name, entry in operations.OPERATIONS.items():
        assert entry.arguments.name == name
        assert messages.result_type(entry.arguments) is not Any


def replace(monkeypatch: pytest.MonkeyPatch, operation: Any, run: Answering) -> None:
    entry = operations.OperationEntry(operation, run)
    monkeypatch.setitem(operations.OPERATIONS, operation.name, entry)


def test_a_crowd_before_the_socket_is_told_from_a_lack_of_permission(tmp_path: Path):
    path = socket_path(tmp_path)
    with contextlib.ExitStack() as crowd:
        listener = crowd.enter_context(socket.socket(socket.AF_UNIX))
        listener.bind(str(path))
        listener.listen(0)
        crowd.enter_context(socket.socket(socket.AF_UNIX)).connect(str(path))
        with pytest.raises(SocketError, match="Too many commands wait"):
            client.call(path, messages.ShowTree())
