"""A cluster of two nodes, for whoever asks for no other."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from cluster_kit import Cluster, open_cluster


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    async with open_cluster() as cluster:
        yield cluster
