"""/metrics: who may look, what is shown."""

from __future__ import annotations

import pytest
from prometheus_client.parser import text_string_to_metric_families

from greenroom.histogram import Histogram
from greenroom.http.errors import invalid_endpoint
from greenroom.http.metrics import CONTENT_TYPE, Metrics, Sample
from greenroom.http.request import Request
from greenroom.metric_sources import Bounded, count_samples, load_samples, tree_samples
from greenroom.supervisors.tree import ACTORS, TreeNode


def scrape(address: str = "127.0.0.1", **headers: str) -> Request:
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    given = {"host": "127.0.0.1:8080"} | given
    return Request("GET", "/metrics", "", given, b"", address)


@pytest.mark.parametrize("address", ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"])
async def test_without_a_token_this_machine_may_look(address: str) -> None:
    answer = await Metrics().answer(scrape(address))

    assert (answer.status, answer.content_type) == (200, CONTENT_TYPE)


@pytest.mark.parametrize("address", ["203.0.113.7", "10.0.0.1", "2001:db8::1", "unknown", ""])
async def test_without_a_token_nobody_else_learns_that_there_is_such_a_page(address: str) -> None:
    answer = await Metrics().answer(scrape(address))

    assert answer.status == 404
    assert answer.body == invalid_endpoint().body, "as of any path that there is not"


@pytest.mark.parametrize("header", ["x_forwarded_for", "x_real_ip", "forwarded", "via", "origin"])
async def test_what_was_forwarded_from_this_machine_is_not_of_this_machine(header: str) -> None:
    answer = await Metrics().answer(scrape(**{header: "127.0.0.1"}))

    assert answer.status == 404


@pytest.mark.parametrize(
    "host",
    ["localhost", "LocalHost:9", "127.0.0.1", "127.1.2.3:80", "[::1]", "[::1]:8080"],
)
async def test_this_machine_calls_itself_by_its_own_names(host: str) -> None:
    assert (await Metrics().answer(scrape(host=host))).status == 200


@pytest.mark.parametrize(
    "host",
    [
        *(
            "",
            "evil.example",
            "evil.example:8080",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
        ),
        *("10.0.0.1", "[::2]", "[fe80::1]:8080", "127.0.0.1@evil.example", "127.0.0.1, localhost"),
    ],
)
async def test_a_page_in_a_browser_here_whose_name_leads_here_learns_nothing(host: str) -> None:
    """Its requests come from this machine, and without Origin: the browser sees one site."""
    assert (await Metrics().answer(scrape(host=host))).status == 404
    assert (await Metrics(public_host="play.example.com").answer(scrape(host=host))).status == 404


async def test_this_machine_may_call_itself_by_its_public_name() -> None:
    metrics = Metrics(public_host="play.example.com")

    assert (await metrics.answer(scrape(host="Play.example.com:8080"))).status == 200
    assert (await metrics.answer(scrape("203.0.113.7", host="play.example.com"))).status == 404
    with_token = Metrics("s3cret")
    for host in ("evil.example", "play.example.com"):
        request = scrape("203.0.113.7", host=host, authorization="Bearer s3cret")
        assert (await with_token.answer(request)).status == 200


@pytest.mark.parametrize("address", ["203.0.113.7", "127.0.0.1"])
async def test_with_a_token_whoever_has_it_may_look(address: str) -> None:
    metrics = Metrics("s3cret")

    assert (await metrics.answer(scrape(address, authorization="Bearer s3cret"))).status == 200
    for wrong in ("", "Bearer", "Bearer s3cre", "s3cret", "Basic s3cret", "Bearer ünï"):
        assert (await metrics.answer(scrape(address, authorization=wrong))).status == 401
    assert (await metrics.answer(scrape(address))).status == 401


async def test_the_page_is_what_prometheus_reads() -> None:
    metrics = Metrics()
    meter = metrics.add_meter("POST", '/api/"odd\n\\path')
    metrics.add_meter("GET", "/api/never.php")
    meter.count(200, 0.0001)
    meter.count(200, 0.003)
    meter.count(500, 60.0)
    tree = TreeNode("greenroom", "running", 0, 3, [TreeNode("http", "running", 2, 1, [])])
    metrics.add_source(lambda: tree_samples(tree))
    commits = Histogram((0.1, 1.0))
    for seconds in (0.1, 0.2, 7.0):
        commits.observe(seconds)
    metrics.add_source(lambda: [Sample("greenroom_commit_seconds", "How long.", commits)])
    load = Bounded("greenroom_taken", "Taken.", 3, 4, {"port": "http"})
    metrics.add_source(lambda: load_samples([load]), in_thread=True)
    metrics.add_source(lambda: count_samples("greenroom_lost", "Lost.", "where", {"here": 3}))
    metrics.add_source(lambda: [Sample("greenroom_odd", "Odd.", 1.0)])

    text = (await metrics.answer(scrape())).body.decode()

    samples = {
        (sample.name, *sorted(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    path = meter.path
    assert samples["greenroom_http_requests_total", path, "200", "POST"] == 2
    assert samples["greenroom_http_requests_total", path, "500", "POST"] == 1
    assert samples["greenroom_http_request_seconds_bucket", path, "0.00025", "POST"] == 1
    assert samples["greenroom_http_request_seconds_bucket", path, "5.0", "POST"] == 2
    assert samples["greenroom_http_request_seconds_bucket", "+Inf", path, "POST"] == 3
    assert samples["greenroom_http_request_seconds_sum", path, "POST"] == pytest.approx(60.0031)
    assert samples["greenroom_restarts_total", "greenroom/http"] == 2
    assert samples["greenroom_mailbox_commands", "greenroom"] == 3
    assert samples["greenroom_commit_seconds_bucket", "0.1"] == 1
    assert samples["greenroom_commit_seconds_bucket", "1.0"] == 2
    assert samples["greenroom_commit_seconds_bucket", "+Inf"] == 3
    assert samples["greenroom_commit_seconds_sum",] == pytest.approx(7.3)
    assert samples["greenroom_taken", "http"] == 3
    assert samples["greenroom_taken_max", "http"] == 4
    assert samples["greenroom_odd",] == 1
    assert samples["greenroom_lost_total", "here"] == 3
    assert "process_open_fds" in text
    assert "never.php" not in text


def test_no_single_actor_becomes_a_time_series() -> None:
    actor = TreeNode("player/17", "up", 1, 2)
    players = TreeNode("players", "running", 0, 2, [TreeNode(ACTORS, "5 active", 1, 2, [actor])])
    nodes = {sample.labels["node"] for sample in tree_samples(players)}
    assert nodes == {"players", "players/actors"}
