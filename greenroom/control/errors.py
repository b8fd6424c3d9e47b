"""Errors for operators. Each text is one sentence that says what to do."""

from __future__ import annotations


class ControlError(Exception):
    """An expected failure. The text is for the operator, without a traceback."""


class OperationRefused(ControlError):
    """The operation cannot be done (no such game, a name is taken). Nothing changed."""


class DataDirError(ControlError):
    """The data directory cannot be used."""


class DataDirInUse(DataDirError):
    """Another Greenroom process holds the data directory."""


class SocketError(ControlError):
    """The control socket cannot be opened, or the server behind it did not answer."""
