"""The checks of `greenroom doctor`: machine, data directory, ports, database."""

from __future__ import annotations

import os
import resource
import shutil
import socket
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import msgspec

from greenroom.cli.perform import perform, perform_live
from greenroom.cli.serve import descriptors_wanted
from greenroom.config import ConfigError, Settings, worker_count
from greenroom.control.admin.messages import ShowMissingRights, ShowSchema, ShowTree
from greenroom.control.client import NoServer
from greenroom.control.errors import ControlError
from greenroom.control.failures import sentence
from greenroom.workers.ports import plan_ports

Status = Literal["ok", "warn", "fail"]

RIGHTS_SHOWN_MAX = 5
DISK_BYTES_WARN = 1 << 30
DISK_BYTES_FAIL = 100 << 20
PYTHON_FIRST, PYTHON_LAST = (3, 11), (3, 13)


class Check(msgspec.Struct, frozen=True):
    """One line of the report. `advice` says what to do, unless all is well."""

    name: str
    status: Status
    text: str
    advice: str = ""


def examine(settings: Settings) -> list[Check]:
    """Run all checks. They change nothing, but may start an embedded Postgres for a moment.

    Args:
        settings: the settings of the server that is or will be run here.
    """
    is_running = _is_running(settings)
    checks: list[Callable[[], Check]] = [
        _python,
        _clock,
        lambda: _open_files(settings),
        lambda: _data_dir(settings.data_dir),
        lambda: _disk(settings.data_dir),
        lambda: _server(settings, is_running=is_running),
        lambda: _ports(settings, is_running=is_running),
    ]
    if settings.tls_certificate_file is not None:
        checks.append(lambda: _tls(settings))
    if settings.database_url is None:
        checks.append(lambda: _postgres(settings))
    checks.append(lambda: _database(settings, is_running=is_running))
    return [check() for check in checks]


def _is_running(settings: Settings) -> bool:
    try:
        perform_live(settings, ShowTree())
    except NoServer:
        return False
    except ControlError:
        return True  # something answers there, whatever it says
    return True


def _python() -> Check:
    version = ".".join(map(str, sys.version_info[:3]))
    if PYTHON_FIRST <= sys.version_info[:2] <= PYTHON_LAST:
        return Check("python", "ok", version)
    return Check("python", "fail", version, "Greenroom is tested on Python 3.11 to 3.13: use one.")


def _clock() -> Check:
    """Check that the clock is not behind the files of this program."""
    now = time.time()
    text = f"{datetime.fromtimestamp(now, UTC):%Y-%m-%dT%H:%M:%SZ}"
    if now + 86_400 < Path(__file__).stat().st_mtime:
        advice = "It is behind the time Greenroom was installed: set it, and keep it by NTP."
        return Check("clock", "fail", text, advice)
    return Check("clock", "ok", text)


def _open_files(settings: Settings) -> Check:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    wanted = descriptors_wanted(settings)
    if hard == resource.RLIM_INFINITY or hard >= wanted:
        return Check("open files", "ok", f"up to {'any number' if hard < 0 else hard}")
    advice = (
        f"As many connections as are allowed want {wanted}. LimitNOFILE= of a systemd unit raises "
        "it, or a line `* hard nofile …` in /etc/security/limits.conf before the next login."
    )
    return Check("open files", "warn", f"up to {hard}", advice)


def _data_dir(data_dir: Path) -> Check:
    if not _exists(data_dir):
        parent = _existing(data_dir)
        if os.access(parent, os.W_OK | os.X_OK):
            return Check("data directory", "ok", f"{data_dir} will be made by the first start")
        advice = f"Make it, or choose another with --data-dir: {parent} is not writable."
        return Check("data directory", "fail", f"{data_dir} cannot be made", advice)
    if not data_dir.is_dir():
        advice = "Choose another with --data-dir."
        return Check("data directory", "fail", f"{data_dir} is not a directory", advice)
    if not os.access(data_dir, os.R_OK | os.W_OK | os.X_OK):
        advice = "Run this as the server's user, or choose another with --data-dir."
        return Check("data directory", "fail", f"{data_dir} is not writable", advice)
    if data_dir.stat().st_mode & 0o022:
        advice = f"Others may write there: chmod go-w {data_dir}"
        return Check("data directory", "warn", str(data_dir), advice)
    return Check("data directory", "ok", str(data_dir))


def _disk(data_dir: Path) -> Check:
    free = shutil.disk_usage(_existing(data_dir)).free
    text = f"{free / (1 << 30):.1f} GiB free at {data_dir}"
    advice = "Make room: Postgres stops when the disk is full."
    if free < DISK_BYTES_FAIL:
        return Check("disk", "fail", text, advice)
    return (
        Check("disk", "warn", text, advice) if free < DISK_BYTES_WARN else Check("disk", "ok", text)
    )


def _server(settings: Settings, *, is_running: bool) -> Check:
    if not is_running:
        return Check("server", "ok", f"none runs on {settings.data_dir}")
    try:
        tree = perform_live(settings, ShowTree())
    except ControlError as error:
        return Check("server", "fail", str(error), "Look into its log; restart it if it hangs.")
    about = f"one runs on {settings.data_dir} ({tree.state})"
    crews = [child.children for child in tree.children if child.name == "workers"]
    workers = crews[0] if crews else []
    if not workers:
        return Check("server", "ok", about)
    away = [f"{node.name} is {node.state}" for node in workers if "running" not in node.state]
    about += f" with {len(workers)} workers"
    if away:
        advice = "The server's log says why; greenroom cluster status has the nodes."
        return Check("server", "warn", f"{about}: {', '.join(away)}", advice)
    return Check("server", "ok", about)


def _ports(settings: Settings, *, is_running: bool) -> Check:
    if is_running:
        return Check("ports", "ok", "the running server has them")
    try:
        plan = plan_ports(settings, worker_count(settings))
    except ConfigError as error:
        return Check("ports", "fail", str(error), "Choose other ports, or fewer workers.")
    realtime = [*([] if plan.shared_realtime is None else [plan.shared_realtime]), *plan.realtime]
    wanted = [
        ("port", plan.http, socket.SOCK_STREAM),
        *(("realtime_port", port, socket.SOCK_STREAM) for port in realtime),
        *(("udp_port", port, socket.SOCK_DGRAM) for port in plan.udp),
    ]
    problems = [
        f"{name} {port} ({problem})"
        for name, port, kind in wanted
        if (problem := _bind_problem(settings.host, port, kind))
    ]
    if problems:
        advice = "Stop whatever listens there, or choose other ports."
        return Check("ports", "fail", "cannot listen on " + ", ".join(problems), advice)
    ports = ", ".join(str(port) for _, port, _ in wanted)
    return Check("ports", "ok", f"{ports} on {settings.host} are free")


def _bind_problem(host: str, port: int, kind: socket.SocketKind) -> str | None:
    try:
        family, _, _, _, address = socket.getaddrinfo(
            host, port, type=kind, flags=socket.AI_PASSIVE
        )[0]
        with socket.socket(family, kind) as probe:
            if kind == socket.SOCK_STREAM:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except OSError as error:
        return error.strerror or str(error)
    return None


def _tls(settings: Settings) -> Check:
    """Check that the certificate can be used, is valid, and has a key that is its owner's alone."""
    from greenroom.network.tls import (
        TlsError,
        TlsFiles,
        advise_on_permissions,
        read_context,
        read_validity,
    )

    assert settings.tls_certificate_file is not None
    assert settings.tls_key_file is not None
    files = TlsFiles(settings.tls_certificate_file, settings.tls_key_file)
    try:
        read_context(files, ())
        validity = read_validity(files.certificate)
        permissions = advise_on_permissions(files.key)
    except (TlsError, OSError) as error:
        advice = "Give a PEM certificate chain and its unencrypted key."
        return Check("tls", "fail", str(error), advice)
    text, advice = f"{files.certificate} {validity.describe()}", "Renew the certificate."
    match validity.find_state():
        case "early" | "expired":
            return Check("tls", "fail", text, "Clients refuse it: renew it, or set the clock.")
        case "expiring":
            return Check("tls", "warn", text, "A running server takes the new files by itself.")
        case _ if permissions is not None:
            return Check("tls", "warn", text, permissions)
        case _:
            return Check("tls", "ok", text)


def _postgres(settings: Settings) -> Check:
    """Check that the embedded Postgres's programs run, and as which user."""
    from greenroom.persistence.embedded.postgres import EmbeddedPostgresError, inspect

    try:
        found = inspect(settings.data_dir, settings.postgres_bin_dir)
    except EmbeddedPostgresError as error:
        return Check("postgres", "fail", str(error), "Or set DATABASE_URL to another Postgres.")
    place = f"in {found.cluster}" if found.cluster else "with no database yet"
    running = f", running (pid {found.pid})" if found.pid else ""
    return Check(
        "postgres", "ok", f"{found.version} of {found.origin} as {found.account}, {place}{running}"
    )


def _database(settings: Settings, *, is_running: bool) -> Check:
    """Check that the database can be reached and that its schema fits."""
    if not is_running and settings.database_url is None:
        early = _no_cluster(settings)
        if early is not None:
            return early
    try:
        if settings.database_url is not None:
            missing = perform(settings, ShowMissingRights()).statements
            if missing:
                return _rights_missing(missing)
        schema = perform(settings, ShowSchema())
    except Exception as error:
        text = sentence(error)
        if text is None:
            raise
        return Check("database", "fail", text, "greenroom config show says which one that is.")
    pending = [migration.name for migration in schema.migrations if not migration.is_applied]
    if pending:
        text = f"reachable; {', '.join(pending)} not applied yet"
        return Check(
            "database", "ok", text, "The next start applies them, or greenroom db migrate."
        )
    return Check(
        "database", "ok", f"reachable, its schema is up to date ({schema.migrations[-1].name})"
    )


def _rights_missing(statements: list[str]) -> Check:
    """Say what the role may not do, and how the tables' owner lets it."""
    shown = "; ".join(statements[:RIGHTS_SHOWN_MAX])
    more = len(statements) - RIGHTS_SHOWN_MAX
    text = "reachable, but the URL's user lacks rights that a server needs"
    advice = f"As the owner, in psql: {shown}" + (f" (and {more} more)" if more > 0 else "")
    return Check("database", "fail", text, advice)


def _no_cluster(settings: Settings) -> Check | None:
    """Return a check that says why there is no embedded database to look at, or `None`."""
    from greenroom.persistence.embedded.postgres import EmbeddedPostgresError, inspect

    try:
        found = inspect(settings.data_dir, settings.postgres_bin_dir)
    except EmbeddedPostgresError:
        return Check("database", "warn", "not looked at", "Mend what is said of postgres first.")
    if found.cluster is None:
        return Check("database", "ok", "will be made by the first start")
    return None


def _existing(path: Path) -> Path:
    """Return a path if it exists, else the nearest existing directory above it."""
    while not _exists(path) and path != path.parent:
        path = path.parent
    return path


def _exists(path: Path) -> bool:
    """Return whether a path exists, as far as we are allowed to see."""
    try:
        return path.exists()
    except OSError:
        return False
