"""Actions over a channel that wait for their results, across connections that are lost."""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

import trio

from greenroom.client.connection import Connection
from greenroom.client.errors import (
    ActionFailed,
    ActionLost,
    ActionRefused,
    ChannelLost,
    GreenroomError,
)
from greenroom.client.messages import Answered, Complaint, write_action
from greenroom.contract.allowed_values import RequestId
from greenroom.contract.room_exchange import ResultEntry

ACTION_SECONDS_MAX: Final = 30.0
WAITING_MAX: Final = 1_024
"""Actions of one channel that may wait for their results. Beyond it they are refused here."""
AGAIN: Final = ',"again":true}'
"""Ends a frame that may have been sent before."""


class WaitingAction:
    """One action, from the call to its result.

    Attributes:
        text: the frame that asks for it.
        is_sent: whether it has been handed to any connection.
        is_sent_again: whether it has been handed to a later connection, too.
    """

    def __init__(self, text: str) -> None:
        """Wait for the answer to this frame."""
        self.text = text
        self.is_sent = self.is_sent_again = False
        self._outcome: ResultEntry | GreenroomError | None = None
        self._is_settled = trio.Event()

    def settle(self, outcome: ResultEntry | GreenroomError) -> None:
        """Give the caller the result, or the error to raise."""
        self._outcome = outcome
        self._is_settled.set()

    async def wait(self) -> ResultEntry:
        """Wait for the result; raises what the action has ended with otherwise."""
        await self._is_settled.wait()
        outcome = self._outcome
        assert outcome is not None
        if isinstance(outcome, GreenroomError):
            raise outcome
        if outcome.status == "failed":
            raise ActionFailed(outcome)
        return outcome


class Actions:
    """The actions of one channel that have no result yet, in the order of their calls."""

    def __init__(self) -> None:
        """Begin with none."""
        self._prefix = secrets.token_hex(6)  # no other run of the program has these ids
        self._count = 0
        self._waiting: dict[RequestId, WaitingAction] = {}

    async def ask(
        self,
        connected: Callable[[], Awaitable[Connection]],
        action_type: str,
        request_data: bytes,
        target_id: int | None,
        seconds_max: float,
    ) -> ResultEntry:
        """Ask and wait for the result; see `Channel.action`. `connected` gives the connection."""
        if len(self._waiting) >= WAITING_MAX:
            raise ActionRefused(f"{WAITING_MAX} actions wait for their results: wait, too", None)
        self._count += 1
        request_id = f"{self._prefix}.{self._count}"
        waiting = WaitingAction(write_action(request_id, action_type, request_data, target_id))
        self._waiting[request_id] = waiting
        try:
            with trio.move_on_after(seconds_max):
                connection = await connected()
                waiting.is_sent = True
                with suppress(ChannelLost):  # then it is sent over the next connection
                    await connection.put(waiting.text)
                return await waiting.wait()
        finally:
            self._waiting.pop(request_id, None)
        raise ActionLost(f"no result has come within {seconds_max} s")

    # What comes.

    def take(self, answered: Answered) -> None:
        """Give a result to the action that it belongs to, if it still waits."""
        self._settle(answered.request_id, answered.result)

    def refuse(self, complaint: Complaint) -> bool:
        """Return whether a complaint is about an action; if so, end it."""
        request_id = complaint.request_id
        if request_id is None or request_id not in self._waiting:
            return False
        if self._waiting[request_id].is_sent_again:  # the first time it may have been taken
            self._settle(request_id, ActionLost(complaint.text))
        else:
            self._settle(request_id, ActionRefused(complaint.text, complaint.retry_after))
        return True

    def end(self, error: GreenroomError) -> None:
        """End all of them: the channel is over."""
        for request_id in tuple(self._waiting):
            self._settle(request_id, error)

    def _settle(self, request_id: RequestId, outcome: ResultEntry | GreenroomError) -> None:
        waiting = self._waiting.pop(request_id, None)
        if waiting is not None:
            waiting.settle(outcome)

    def take_frames_again(self) -> list[str]:
        """Return the frames that ask a new connection for those without an answer."""
        sent = [action for action in self._waiting.values() if action.is_sent]
        for action in sent:
            action.is_sent_again = True
        return [action.text[:-1] + AGAIN for action in sent]

    async def ask_again(self, connection: Connection, frames: list[str]) -> None:
        """Ask again over a new connection; the server takes no action twice."""
        with suppress(ChannelLost):
            for frame in frames:
                await connection.put(frame)
