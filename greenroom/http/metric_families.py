"""Families of metrics as plain values, so that one worker can show those of all its siblings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec
from prometheus_client.core import Metric

NODE_LABEL = "node"
"""The label of whose line it is."""
TREE_LABEL = "service"
"""The name of the supervision tree's label `node` where nodes are told apart."""


class FamilySample(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One line of a family."""

    name: str
    labels: dict[str, str]
    value: float


class Family(msgspec.Struct, frozen=True, array_like=True):
    """One family of metrics."""

    name: str
    help: str
    kind: str
    samples: list[FamilySample]


def plain(metrics: Iterable[Metric]) -> list[Family]:
    """Return metrics as plain values."""
    return [
        Family(
            metric.name,
            metric.documentation,
            metric.type,
            [FamilySample(each.name, each.labels, float(each.value)) for each in metric.samples],
        )
        for metric in metrics
    ]


def merged(by_node: Mapping[str, Iterable[Family]]) -> list[Metric]:
    """Return the families of several nodes together, each line with its node as a label.

    Args:
        by_node: the families of each node, by its name.
    """
    found: dict[str, Metric] = {}
    for node, families in by_node.items():
        for family in families:
            metric = found.get(family.name)
            if metric is None:
                metric = found[family.name] = Metric(family.name, family.help, family.kind)
            for sample in family.samples:
                metric.add_sample(sample.name, _labels(sample.labels, node), sample.value)
    return list(found.values())


def _labels(labels: dict[str, str], node: str) -> dict[str, str]:
    """Return labels with that of a node."""
    renamed = {(TREE_LABEL if name == NODE_LABEL else name): v for name, v in labels.items()}
    return renamed | {NODE_LABEL: node}
