"""Carry out operations: in the running server if there is one, else on the database itself."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

from greenroom.control.admin.cluster_messages import (
    BalanceShards,
    DrainNode,
    MoveShard,
    ShowCluster,
)
from greenroom.control.admin.messages import (
    CreateGame,
    CreateOwner,
    MigrateSchema,
    Operation,
    ShowDatabaseAddress,
    ShowTree,
)
from greenroom.control.client import NoServer, call
from greenroom.control.datadir import holder_of
from greenroom.control.errors import DataDirInUse, OperationRefused
from greenroom.control.protocol import socket_path
from greenroom.control.signals import stop_signals

if TYPE_CHECKING:
    import trio

    from greenroom.config import Settings

IN_USE_SECONDS_MAX = 15.0
"""Seconds to wait for another command, or for a server that is starting or stopping."""
RETRY_SECONDS = 0.2

MAY_MAKE_A_DATABASE = frozenset({MigrateSchema.name, CreateOwner.name, CreateGame.name})
"""Operations that make the embedded database where there is none. Others would find nothing in it,
and an operator who forgot `--data-dir` would not notice."""

NEED_A_SERVER = frozenset(
    {ShowTree.name, ShowCluster.name, DrainNode.name, BalanceShards.name, MoveShard.name}
)
"""Operations that make no sense without a running server."""

Result = TypeVar("Result")


class CommandInterrupted(Exception):
    """A signal ended the command. What it had started was stopped in order."""


def perform(settings: Settings, operation: Operation[Result]) -> Result:
    """Carry out an operation.

    Raises:
        ControlError, StorageError, ActorError: it could not be done. They may be in a group.
        Interrupted: a signal asked to stop.
    """
    return _while_in_use(settings, lambda: _perform_once(settings, operation))


def with_database(
    settings: Settings, work: Callable[[str], Result], *, beside_server: bool
) -> Result:
    """Run blocking work on the running server's database, or on one started for this purpose.

    Args:
        settings: which database.
        work: gets the database's address. It runs in a thread of trio's, so it can check for
            cancellation.
        beside_server: allow it while a server runs. It reads, so there must be a database.

    Raises:
        OperationRefused: a server runs and must not, or there is no database to read.
        ControlError, StorageError: the database cannot be reached, or `work` raised it.
        Interrupted: a signal asked to stop.
    """
    return _while_in_use(
        settings, lambda: _with_database_once(settings, work, beside_server=beside_server)
    )


def with_scratch_database(settings: Settings, work: Callable[[str], Result]) -> Result:
    """Run blocking work on an empty embedded database, bring its schema up to date, remove it.

    Args:
        settings: where Postgres's programs are.
        work: gets the database's address. It runs in a thread of trio's.

    Raises:
        ControlError, StorageError: Postgres does not start, or `work` raised it.
        Interrupted: a signal asked to stop.
    """
    return _run(lambda: _work_on_scratch(settings, work))


def _while_in_use(settings: Settings, attempt: Callable[[], Result]) -> Result:
    """Try again while another command, or a server that starts or stops, holds the directory."""
    deadline = time.monotonic() + IN_USE_SECONDS_MAX
    while True:
        try:
            return attempt()
        except* DataDirInUse as in_use:
            if time.monotonic() > deadline:
                raise _still_in_use(settings) from in_use
        time.sleep(RETRY_SECONDS)


def _perform_once(settings: Settings, operation: Operation[Result]) -> Result:
    try:
        return perform_live(settings, operation)
    except NoServer:
        if operation.name in NEED_A_SERVER:
            raise
        if operation.name not in MAY_MAKE_A_DATABASE:
            _check_database_is_there(settings)
    return _run(lambda: _alone(settings, operation))


def _with_database_once(
    settings: Settings, work: Callable[[str], Result], *, beside_server: bool
) -> Result:
    try:
        address = perform_live(settings, ShowDatabaseAddress()).url
    except NoServer:
        if beside_server:  # it reads; what replaces the database may make one
            _check_database_is_there(settings)
        return _run(lambda: _work_alone(settings, work))
    if not beside_server:
        raise OperationRefused(f"A server runs on {settings.data_dir}: stop it first.")
    return _run(lambda: _work_beside(address, work))


def _check_database_is_there(settings: Settings) -> None:
    """Refuse a data directory that has no embedded database, rather than make an empty one."""
    if settings.database_url is not None:
        return
    from greenroom.persistence.embedded.cluster import existing_cluster

    if existing_cluster(settings.data_dir) is None:
        raise OperationRefused(
            f"There is no database in {settings.data_dir}: name the server's data directory with "
            "--data-dir, or make one with greenroom serve."
        )


def _still_in_use(settings: Settings) -> DataDirInUse:
    holder = holder_of(settings.data_dir)
    who = f"{holder.purpose} (pid {holder.pid} on {holder.host})" if holder else "process"
    return DataDirInUse(
        f"A greenroom {who} uses {settings.data_dir} and does not answer commands: it may be "
        "starting or stopping; try again."
    )


def perform_live(settings: Settings, operation: Operation[Result]) -> Result:
    """Have the running server carry out an operation.

    Raises:
        NoServer: no server runs on this data directory.
        ControlError: it could not be done.
    """
    path = socket_path(settings.data_dir)
    if settings.database_url is not None:
        _check_same_database(settings, call(path, ShowDatabaseAddress()).url)
    return call(path, operation)


def _check_same_database(settings: Settings, url: str) -> None:
    """Refuse to use the server's database when another one was asked for."""
    asked = settings.database_url
    if asked is None or asked == url:
        return
    from psycopg import ProgrammingError
    from psycopg.conninfo import conninfo_to_dict

    try:
        places = [
            (p.get("host"), p.get("port", "5432"), p.get("dbname", p.get("user")))
            for p in (conninfo_to_dict(asked), conninfo_to_dict(url))
        ]
    except ProgrammingError:
        places = [(None, None, None), ("", None, None)]
    if places[0] != places[1]:
        raise OperationRefused(
            f"The server that runs on {settings.data_dir} uses another database than the one "
            "given: leave the database URL out, or name another --data-dir."
        )


def _run(function: Callable[[], Awaitable[Result]]) -> Result:
    """Run a function until it ends or a signal ends it."""
    import trio

    return trio.run(_until_signal, function)


async def _until_signal(function: Callable[[], Awaitable[Result]]) -> Result:
    import trio

    async with trio.open_nursery() as nursery:
        await nursery.start(_cancel_on_signal, nursery.cancel_scope)
        result = await function()
        nursery.cancel_scope.cancel()
        return result
    raise CommandInterrupted


async def _alone(settings: Settings, operation: Operation[Result]) -> Result:
    """Start what the operation needs, carry it out, and stop everything again."""
    from greenroom.control.admin.operations import run
    from greenroom.control.database import ALONE

    alone = ALONE.get(operation.name)
    if alone is not None:
        result: Result = await alone(settings)
        return result
    from greenroom.app import open_admin_context

    async with open_admin_context(settings) as context:
        return await run(context, operation)


async def _work_alone(settings: Settings, work: Callable[[str], Result]) -> Result:
    from greenroom.control.database import open_database

    async with open_database(settings) as conninfo:
        return await _work_beside(conninfo, work)


async def _work_on_scratch(settings: Settings, work: Callable[[str], Result]) -> Result:
    from greenroom.control.scratch_database import open_scratch_database
    from greenroom.persistence.storage import migrate_database

    async with open_scratch_database(settings.postgres_bin_dir) as conninfo:
        result = await _work_beside(conninfo, work)
        await migrate_database(conninfo)  # as the next start would
        return result


async def _work_beside(conninfo: str, work: Callable[[str], Result]) -> Result:
    import trio

    return await trio.to_thread.run_sync(work, conninfo)


async def _cancel_on_signal(scope: trio.CancelScope, *, task_status: trio.TaskStatus[None]) -> None:
    """Cancel the scope at the first signal. Later ones are ignored, so Postgres stops in order."""
    import trio

    with trio.open_signal_receiver(*stop_signals()) as signals:
        task_status.started()
        async for _ in signals:
            scope.cancel()
