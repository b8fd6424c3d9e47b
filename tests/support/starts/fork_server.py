"""A process that has imported Greenroom, and forks: each fork is a `greenroom` that need not.

`forked_start` runs this as a program, and sends its requests. A fork has the arguments, variables,
files, directory and limits of its request. It then runs `greenroom/__main__.py`, as Python does.
"""

from __future__ import annotations

import fcntl
import gc
import importlib
import json
import os
import pkgutil
import resource
import runpy
import selectors
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

REQUEST_BYTES_MAX: Final = 1 << 17
DESCRIPTORS_MAX: Final = 200
"""Descriptors of one request. Its first are for its exit status, then input, output and errors."""
HIGH_DESCRIPTOR: Final = 600
"""Descriptors that arrive are put here first, where none has its number in the end."""
LIMITS: Final = ("RLIMIT_NOFILE", "RLIMIT_AS", "RLIMIT_CORE", "RLIMIT_FSIZE", "RLIMIT_DATA")

Job = Callable[[], None]


def import_everything() -> None:
    """Import what commands and servers of any settings need, and read the words."""
    import greenroom
    from greenroom.actors.text import moderation

    for module in pkgutil.walk_packages(greenroom.__path__, "greenroom."):
        if not module.name.endswith("__main__") and ".starter" not in module.name:
            importlib.import_module(module.name)
    moderation.prepare()


def serve_forks(requests: socket.socket) -> Job | None:
    """Fork at every request, and tell how each fork ends.

    Returns:
        In a fork, what it is for; None in this process, when nobody asks any more.
    """
    gc.collect()
    gc.freeze()  # what all have in common stays shared
    told: dict[int, tuple[int, int]] = {}
    with selectors.DefaultSelector() as ready:
        ready.register(requests, selectors.EVENT_READ)
        while True:
            for key, _ in ready.select():
                if key.fd != requests.fileno():
                    ready.unregister(key.fd)
                    _tell_end(key.fd, *told.pop(key.fd))
                    continue
                line, descriptors, _, _ = socket.recv_fds(
                    requests, REQUEST_BYTES_MAX, DESCRIPTORS_MAX
                )
                if not line:
                    return None
                pid = os.fork()
                if pid == 0:
                    requests.close()
                    for pidfd, (_, status) in told.items():
                        os.close(pidfd)
                        os.close(status)
                    os.close(descriptors[0])
                    request = json.loads(line)
                    given = descriptors[1:]
                    return lambda: run(request, given)
                for descriptor in descriptors[1:]:
                    os.close(descriptor)
                pidfd = os.pidfd_open(pid)
                told[pidfd] = pid, descriptors[0]
                ready.register(pidfd, selectors.EVENT_READ)
                requests.send(str(pid).encode())


def _tell_end(pidfd: int, pid: int, status: int) -> None:
    _, found = os.waitpid(pid, 0)
    with suppress(BrokenPipeError):  # nobody waits for it
        os.write(status, str(os.waitstatus_to_exitcode(found)).encode())
    os.close(status)
    os.close(pidfd)


def run(request: dict[str, Any], descriptors: Sequence[int]) -> None:
    """Be the process that was asked for, to its end."""
    if request["is_session"]:
        os.setsid()
    _place(descriptors, request["descriptors"])
    os.umask(request["umask"])
    for name, limits in request["limits"].items():
        resource.setrlimit(getattr(resource, name), limits)
    os.chdir(request["directory"])
    os.environ.clear()
    os.environ.update(request["environment"])
    if not sys.flags.safe_path:
        sys.path[0] = request["directory"]
    sys.argv = [sys.argv[0], *request["arguments"]]
    if _has_workers(request):
        _offer_forks_to_workers()
    gc.enable()
    runpy.run_module("greenroom", run_name="__main__", alter_sys=True)


def _place(descriptors: Sequence[int], numbers: Sequence[int]) -> None:
    """Give each descriptor the number that it is known by."""
    high = [fcntl.fcntl(one, fcntl.F_DUPFD_CLOEXEC, HIGH_DESCRIPTOR) for one in descriptors]
    for descriptor in descriptors:
        os.close(descriptor)
    for descriptor, number in zip(high, numbers, strict=True):
        os.dup2(descriptor, number)
        os.close(descriptor)


def _has_workers(request: Mapping[str, Any]) -> bool:
    """Return whether this is a server that starts workers."""
    arguments = request["arguments"]
    return "serve" in arguments[:1] and (
        not {"--workers", "--bus"}.isdisjoint(arguments)
        or not {"GREENROOM_WORKERS", "GREENROOM_BUS"}.isdisjoint(request["environment"])
    )


def _offer_forks_to_workers() -> None:
    """Have this process's workers be forks, too: of a fork that it has for that."""
    import forked_start

    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    pid = os.fork()
    if pid == 0:
        ours.close()
        job = serve_forks(theirs)
        if job is None:
            os._exit(0)
        job()
        sys.exit()
    theirs.close()
    forked_start.fork_workers(forked_start.ForkServer(ours, pid))


def main() -> None:
    """Serve forks; in a fork, be what it is for."""
    import forked_start  # noqa: F401 (while it is found)

    gc.disable()
    number, folder = sys.argv[1:]
    sys.path.remove(folder)
    with socket.socket(fileno=int(number)) as requests:
        import_everything()
        job = serve_forks(requests)
    if job is not None:
        job()
