"""The checker of who is online: what it lets pass, and what it finds."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from history_clients import PLAYERS, Book, Scene
from history_switches import share_presence
from trio.testing import MockClock

LOG_OUT, LOG_IN = f"{PLAYERS}/logout", f"{PLAYERS}/login"


class Presence:
    """A server that knows who is there, and answers some calls otherwise than it should."""

    def __init__(self, *, login_status: int = 200, forgets_log_outs: bool = False) -> None:
        self._login_status = login_status
        self._forgets_log_outs = forgets_log_outs
        self._players = 0
        self._is_online = True

    async def ask(self, _: str, path: str, body: bytes, player: str | None) -> tuple[int, Any]:
        await trio.lowlevel.checkpoint()
        if path.endswith("register"):
            self._players += 1
            return 200, {"player_id": self._players, "private_key": f"token {self._players}"}
        if path == LOG_OUT:
            self._is_online = self._forgets_log_outs
        elif path == LOG_IN:
            self._is_online = True
            return self._login_status, {"error": "Storage cannot take changes at the moment"}
        return 200, {"player": {"is_online": self._is_online}}


def play(server: Presence) -> None:
    async def main() -> None:
        with trio.fail_after(30.0):
            await share_presence(Scene(server.ask, Book()), "Ann", calls=4, is_silence_told=True)

    trio.run(main, clock=MockClock(autojump_threshold=0))


@pytest.mark.parametrize("status", [200, 429, 500])
def test_a_login_that_was_refused_is_a_sign_of_life_all_the_same(status: int):
    play(Presence(login_status=status))


def test_a_log_out_that_is_forgotten_is_found():
    with pytest.raises(AssertionError, match=r"presence.* is older than promised"):
        play(Presence(forgets_log_outs=True))
