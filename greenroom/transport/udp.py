"""The UDP port, held until the fast lane comes.

It is bound and silent: nothing valid can come in, and what is not valid gets no answer.
"""

from __future__ import annotations

import trio

from greenroom import sockets


class UdpPort:
    """The UDP port. A service for a supervisor."""

    def __init__(self, host: str, port: int) -> None:
        """Prepare; nothing is opened before `run`.

        Args:
            host: a name or an address.
            port: 0 takes a free one.
        """
        self._host = host
        self.port = port
        """The bound port once it runs, the same when it is run again."""

    async def run(self, *, task_status: trio.TaskStatus[int] = trio.TASK_STATUS_IGNORED) -> None:
        """Hold the port until cancelled; started with the bound port.

        What comes in stays in the kernel's small buffer, and is dropped there.

        Raises:
            ListenError: the port cannot be opened.
        """
        bound = await sockets.bind_udp(self._host, self.port)
        self.port = bound[0].getsockname()[1]
        try:
            task_status.started(self.port)
            await trio.sleep_forever()
        finally:
            for each in bound:
                each.close()
