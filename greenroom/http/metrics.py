"""/metrics for Prometheus, and the counting behind it.

Requests are counted in plain integers (0.3 µs where prometheus-client's own children take 2); its
library comes in when somebody looks. What other parts have to tell they give as `Sample`s.
"""

from __future__ import annotations

import hmac
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping
from typing import Literal, Protocol

import msgspec
import trio
from prometheus_client import (
    GCCollector,
    PlatformCollector,
    ProcessCollector,
    generate_latest,
)
from prometheus_client.core import (
    CollectorRegistry,
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)

from greenroom.histogram import Histogram
from greenroom.http.errors import error_answer, invalid_endpoint
from greenroom.http.metric_families import Family, merged, plain
from greenroom.http.request import Answer, Request
from greenroom.network.addresses import host_name, is_loopback, names_loopback
from greenroom.network.proxies import FORWARDING_HEADERS

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
SECONDS_BOUNDS = (0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0)
"""Upper bounds of the latency histogram: an answer from memory takes the first, a durable one some
of the middle, the wait for a lost database the last."""
_FOREIGN_HEADERS = (*FORWARDING_HEADERS, "origin")
"""Headers that no scraper on this machine sends, whatever the socket says.

They come from a proxy that nobody declared, or from a web page in a browser here.
"""


class Meter(Histogram):
    """Counts the requests of one endpoint."""

    __slots__ = ("method", "path", "statuses")

    def __init__(self, method: str, path: str) -> None:
        """Start at zero; method and path are the labels."""
        super().__init__(SECONDS_BOUNDS)
        self.method = method
        self.path = path
        self.statuses: dict[int, int] = {}

    def count(self, status: int, seconds: float) -> None:
        """Note one answer and how long it took to make."""
        self.statuses[status] = self.statuses.get(status, 0) + 1
        self.buckets[bisect_left(SECONDS_BOUNDS, seconds)] += 1
        self.seconds_sum += seconds


class Sample(msgspec.Struct, frozen=True):
    """One number of another part."""

    name: str
    """`greenroom_…`, base units last; a counter's name without `_total`."""
    help: str
    value: float | Histogram
    """A histogram is one of seconds."""
    labels: dict[str, str] = {}
    kind: Literal["gauge", "counter"] = "gauge"


Source = Callable[[], Iterable[Sample]]
"""Called at every scrape."""


class Siblings(Protocol):
    """The other workers of this machine, and their parent."""

    @property
    def own_name(self) -> str:
        """Return what this node is called."""
        ...

    async def collect_families(self) -> dict[str, list[Family]]:
        """Return the families of each that answers soon, by its name.

        Cancellation: nothing has changed.
        """
        ...


class Metrics:
    """All that is counted, and the page that shows it."""

    def __init__(
        self,
        token: str | None = None,
        public_host: str | None = None,
        siblings: Siblings | None = None,
    ) -> None:
        """Start with nothing counted.

        Args:
            token: the setting `metrics_token`; None shows the page to this machine alone.
            public_host: the setting; a name by which this machine may ask, beside its own.
            siblings: the other workers of this machine, whose metrics are shown, too.
        """
        self._siblings = siblings
        self._public_host = None if public_host is None else public_host.lower()
        self._token = None if token is None else token.encode()
        self._meters: list[Meter] = []
        self._sources: list[Source] = []
        self._slow_sources: list[Source] = []
        self._process = CollectorRegistry(auto_describe=False)
        ProcessCollector(registry=self._process)
        PlatformCollector(registry=self._process)
        GCCollector(registry=self._process)

    def add_meter(self, method: str, path: str) -> Meter:
        """Return a new meter for an endpoint."""
        meter = Meter(method, path)
        self._meters.append(meter)
        return meter

    def add_source(self, source: Source, *, in_thread: bool = False) -> None:
        """Add a source that is asked at every scrape.

        Args:
            source: is called in the server's own thread, so it must be quick.
            in_thread: whether it is called in another one, because it asks the disk.
        """
        (self._slow_sources if in_thread else self._sources).append(source)

    async def answer(self, request: Request) -> Answer:
        """Answer a scrape: 200, 401 for a wrong token, 404 for outsiders where none is set.

        Cancellation: nothing has changed.
        """
        if self._token is not None:
            given = request.headers.get("authorization", "").encode("utf-8", "replace")
            if not hmac.compare_digest(given, b"Bearer " + self._token):
                return error_answer(401, "Invalid metrics token")
        elif not self._is_local(request):
            return invalid_endpoint()
        if self._siblings is None:
            text = await trio.to_thread.run_sync(self._render, self._read_samples())
        else:
            by_node = await self._siblings.collect_families()
            by_node[self._siblings.own_name] = await self.collect_families()
            text = await trio.to_thread.run_sync(_render_merged, by_node)
        return Answer(200, text, content_type=CONTENT_TYPE)

    async def collect_families(self) -> list[Family]:
        """Return this node's metrics, for the worker that shows them.

        Cancellation: nothing has changed.
        """
        return await trio.to_thread.run_sync(self._group_families, self._read_samples())

    def _read_samples(self) -> list[Sample]:
        return [sample for source in self._sources for sample in source()]

    def _group_families(self, samples: list[Sample]) -> list[Family]:
        return plain([*self._collect(samples), *self._process.collect()])

    def _collect(self, samples: list[Sample]) -> list[Metric]:
        samples += [sample for source in self._slow_sources for sample in source()]
        return [*_request_families(list(self._meters)), *_families(samples)]

    def _is_local(self, request: Request) -> bool:
        """Return whether a scraper on this machine asks, by a name that is this machine's."""
        if any(name in request.headers for name in _FOREIGN_HEADERS):
            return False
        host = request.headers.get("host", "")
        is_called = names_loopback(host) or host_name(host).lower() == self._public_host
        return is_called and is_loopback(request.address)

    def _render(self, samples: list[Sample]) -> bytes:
        """Make the page, in a thread because it takes milliseconds. Counters go on meanwhile."""
        return _text(self._collect(samples)) + generate_latest(self._process)


def families_of(samples: list[Sample]) -> list[Family]:
    """Return the families of some samples, as plain values."""
    return plain(_families(samples))


def _render_merged(by_node: Mapping[str, list[Family]]) -> bytes:
    """Make the page of several nodes; in a thread, because it takes milliseconds."""
    return _text(merged(by_node))


def _text(families: list[Metric]) -> bytes:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Families(families))
    return generate_latest(registry)


class _Families:
    """A collector of what was made beforehand."""

    def __init__(self, families: list[Metric]) -> None:
        self._made = families

    def collect(self) -> list[Metric]:
        return self._made


def _request_families(meters: list[Meter]) -> list[Metric]:
    requests = CounterMetricFamily(
        "greenroom_http_requests", "Answers given.", labels=("method", "endpoint", "status")
    )
    seconds = HistogramMetricFamily(
        "greenroom_http_request_seconds",
        "From the whole request to the whole answer, sending aside.",
        labels=("method", "endpoint"),
    )
    for meter in meters:
        labels = (meter.method, meter.path)
        for status, count in sorted(meter.statuses.copy().items()):
            requests.add_metric((*labels, str(status)), count)
        if any(meter.buckets):
            seconds.add_metric(
                labels, buckets=meter.compute_cumulative(), sum_value=meter.seconds_sum
            )
    return [requests, seconds]


def _families(samples: list[Sample]) -> list[Metric]:
    families: dict[str, Metric] = {}
    for sample in samples:
        family = families.get(sample.name)
        if family is None:
            family = families[sample.name] = _family(sample)
        labels = tuple(sample.labels.values())
        if isinstance(family, HistogramMetricFamily):
            assert isinstance(sample.value, Histogram)
            family.add_metric(labels, sample.value.compute_cumulative(), sample.value.seconds_sum)
        else:
            assert isinstance(family, CounterMetricFamily | GaugeMetricFamily)
            assert not isinstance(sample.value, Histogram)
            family.add_metric(labels, float(sample.value))  # a flag is a number, too
    return list(families.values())


def _family(sample: Sample) -> Metric:
    labels = tuple(sample.labels)
    if isinstance(sample.value, Histogram):
        return HistogramMetricFamily(sample.name, sample.help, labels=labels)
    if sample.kind == "counter":
        return CounterMetricFamily(sample.name, sample.help, labels=labels)
    return GaugeMetricFamily(sample.name, sample.help, labels=labels)
