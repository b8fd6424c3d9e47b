"""The base of stores of counts: they write beside the committer, as a node that lives."""

from __future__ import annotations

from greenroom.actors.kernel.errors import StorageUnavailable
from greenroom.persistence.driver import Query, Row
from greenroom.persistence.errors import QueryFailed
from greenroom.persistence.loaders import Loaders
from greenroom.persistence.nodes.session import NodeSession


class CountStore:
    """A store of what nodes count."""

    def __init__(self, loaders: Loaders, session: NodeSession) -> None:
        """Read over `loaders`; write as the node of `session`."""
        self._loaders = loaders
        self._session = session

    async def write(self, *queries: Query) -> list[list[Row]]:
        """Write in one transaction, unless this node has ended; return the rows of each.

        Raises:
            StorageUnavailable: the database is away, or another server has taken over; nothing was
                written, or maybe all.
        """
        try:
            return await self._loaders.write(self._session.hold(), *queries)
        except QueryFailed as error:
            raise StorageUnavailable(f"usage could not be written: {error}") from error
