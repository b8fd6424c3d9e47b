"""The metrics that nodes tell each other are read as they were sent."""

from __future__ import annotations

from greenroom.cluster.messenger import pack, reader
from greenroom.control.node_peers import MetricsTold
from greenroom.http.metrics import Metrics, Sample


async def test_a_flag_is_told_as_a_number() -> None:
    metrics = Metrics()
    metrics.add_source(lambda: [Sample("greenroom_flag", "A flag.", True)])
    told = MetricsTold("a", await metrics.collect_families())
    assert reader([MetricsTold])(pack(told)) == told
