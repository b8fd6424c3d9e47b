"""What an operator can meet: each error's text is one sentence that says what to do."""

from __future__ import annotations


class ControlError(Exception):
    """An expected failure; the text is for the operator, without a traceback."""


class OperationRefused(ControlError):
    """It cannot be done as asked (no such game, a name that is taken); nothing changed."""


class DataDirError(ControlError):
    """The data directory cannot be used."""


class DataDirInUse(DataDirError):
    """Another process of ours holds the data directory."""


class SocketError(ControlError):
    """The control socket cannot be opened, or the server behind it did not answer."""
