"""Tell expected failures from bugs, and give the operator's sentence for each."""

from __future__ import annotations

import errno
from collections.abc import Iterator

from greenroom.actors.kernel.errors import (
    ActorUnavailable,
    CommitUnsettled,
    Refused,
    StorageRefused,
    StorageUnavailable,
)
from greenroom.actors.kernel.journal_codec import UnreadableJournal
from greenroom.bus.bus import BusUnusable
from greenroom.config import ConfigError
from greenroom.control.errors import ControlError
from greenroom.control.files import why_not
from greenroom.network.sockets import ListenError
from greenroom.network.tls import TlsError
from greenroom.persistence.errors import DatabaseError, StorageError
from greenroom.supervisors.supervisor import RestartLimitExceeded, StartFailed

_SPEAKING = (BusUnusable, ConfigError, ControlError, StorageError, ListenError, TlsError, Refused)
"""Errors whose text already is the sentence for the operator."""
_OF_THE_MACHINE = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS))
"""Errors of a full or broken disk, which any program gets."""


def sentence(error: BaseException) -> str | None:
    """Return the sentence for the operator, or `None` if the error is a bug.

    Groups and failed starts are searched for the errors below them. A bug beside an expected
    failure is still a bug.
    """
    texts = [_sentence(leaf) for leaf in _leaves(error)]
    if any(text is None for text in texts):
        return None
    return next(iter(dict.fromkeys(text for text in texts if text)), None)


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from _leaves(inner)
    elif isinstance(error, StartFailed) and error.__cause__ is not None:
        yield from _leaves(error.__cause__)
    else:
        yield error


def _sentence(error: BaseException) -> str | None:
    match error:
        case StorageRefused():
            return f"The database refused: {error}. Nothing was changed."
        case StorageUnavailable():
            return "The database does not answer: nothing was changed. Try again later."
        case CommitUnsettled():
            return "The database did not confirm the change in time: look whether it was made."
        case ActorUnavailable():
            return f"The server could not do it now ({error}): try again, or see its log."
        case DatabaseError() if not isinstance(error, StorageError):
            return f"The database failed: {error}."
        case UnreadableJournal():
            return f"It cannot be restored: {error}. See greenroom room discard and lobby discard."
        case RestartLimitExceeded():
            return f"The server gave up: {error}; its log says why."
        case _ if isinstance(error, _SPEAKING):
            return str(error)
        case OSError() if error.errno in _OF_THE_MACHINE:
            return f"Cannot write {error.filename or 'the output'} {why_not(error)}"
        case _:
            return None
