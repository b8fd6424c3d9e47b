"""The server that Autobahn's suite runs against still answers (CI has no Python 2.7)."""

from __future__ import annotations

import autobahn
import pytest
import trio
from trio_websocket import open_websocket_url


@pytest.mark.parametrize("is_relayed", [False, True])
async def test_the_port_that_autobahn_judges_sends_messages_back(is_relayed):
    with trio.fail_after(10):
        async with trio.open_nursery() as nursery:
            port = await autobahn.start_port(nursery, is_relayed=is_relayed)
            async with open_websocket_url(f"ws://127.0.0.1:{port.port}/") as socket:
                await socket.send_message("said")
                assert await socket.get_message() == "said"
            nursery.cancel_scope.cancel()
