"""Errors between Greenroom and its database.

    DatabaseError
    ├── QueryFailed                   Postgres answered with an error; the connection lives on
    ├── DatabaseConnectionLost        the connection broke or was silent; the outcome is unknown
    │   └── DatabaseConnectionRefused there is none, and trying again would not bring one
    └── StorageError                  one sentence for the operator; the server cannot go on
        ├── StorageHeld               another process has the lock of this database
        ├── StorageFenced             a newer server has taken over; this one must stop
        └── MigrationError            the schema and the code do not fit together

No text has a password, a token or a row's content. Of Postgres's errors only the primary message is
kept, never the detail.
"""

from __future__ import annotations

from greenroom.supervisors.spec import Hopeless


class DatabaseError(Exception):
    """The base class of all errors of the database."""


CLASSES_THAT_PASS = frozenset({"08", "25", "28", "3D", "40", "42", "53", "55", "57", "58", "F0"})
"""SQLSTATE classes that do not concern a row; the transaction is repeated until they pass. With any
other class a row is at fault, and is isolated."""


class QueryFailed(DatabaseError):
    """Postgres refused a statement; the transaction that it was in is rolled back."""

    def __init__(self, sqlstate: str, message: str) -> None:
        """Store Postgres's five-character code beside its primary message."""
        super().__init__(f"{message} (SQLSTATE {sqlstate})")
        self.sqlstate = sqlstate

    @property
    def is_passing(self) -> bool:
        """Return whether the same transaction may succeed later."""
        return self.sqlstate[:2] in CLASSES_THAT_PASS or not self.sqlstate

    @property
    def is_elsewhere(self) -> bool:
        """Return whether this server is read-only (a standby), so that another one may be found."""
        return self.sqlstate[:2] == "25"

    @property
    def is_fence(self) -> bool:
        """Return whether the fence has refused us."""
        return self.sqlstate == "GR001"


class DatabaseConnectionLost(DatabaseError):
    """The connection is gone and closed; what was under way may or may not have happened."""


class DatabaseConnectionRefused(DatabaseConnectionLost):
    """Connecting was refused for good; the text is one sentence that says what to do."""


class StorageError(DatabaseError):
    """The database cannot be used; the text is one sentence that says what to do."""


class StorageHeld(StorageError, Hopeless):
    """Another process writes to this database; only one may."""


class StorageFenced(StorageError, Hopeless):
    """A newer server has raised the epoch, so this one may not write any more."""


class MigrationError(StorageError):
    """The database's schema is newer than the code, or an applied migration was edited."""
