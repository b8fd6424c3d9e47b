"""Reads a call, has its operation carried out, and makes the outcome that goes back."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from greenroom import __version__
from greenroom.control.admin.context import AdminContext
from greenroom.control.admin.messages import Operation
from greenroom.control.admin.operations import OPERATIONS
from greenroom.control.failures import sentence
from greenroom.control.protocol import Call, CallOutcome

_logger = logging.getLogger(__name__)

Run = Callable[[AdminContext, Operation[Any], str], Awaitable[Any]]
"""Carries an operation out: here, or wherever it belongs."""


async def answer_call(context: AdminContext, line: bytes, by: str, run: Run) -> CallOutcome:
    """Carry out a call and return its outcome. Nothing is raised but the caller's cancellation.

    Args:
        context: where.
        line: a `Call` in JSON.
        by: whom the audit log names.
        run: carries it out.

    Cancellation: it may have been done.
    """
    try:
        call = msgspec.json.decode(line, type=Call)
        entry = OPERATIONS[call.operation]
        arguments = msgspec.json.decode(call.arguments, type=entry.arguments)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, KeyError):
        return CallOutcome(
            error=f"The running server (version {__version__}) does not understand this command: "
            "use the greenroom command of its version."
        )
    try:
        result = await run(context, arguments, by)
        return CallOutcome(result=msgspec.Raw(msgspec.json.encode(result)))
    except Exception as error:
        text = sentence(error)
        if text is None:
            _logger.exception("%s failed", call.operation)
            text = f"{call.operation} failed through a bug in the server: its log has the details."
        return CallOutcome(error=text)
