"""Headers about the client's address, and when they are believed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from greenroom.network.proxies import TrustedProxies, plain_address

PROXIES = TrustedProxies(["10.0.0.0/8", "::1", "192.0.2.7"])


@pytest.mark.parametrize(
    ("peer", "header", "client"),
    [
        ("10.0.0.1", None, "10.0.0.1"),
        ("10.0.0.1", "203.0.113.9", "203.0.113.9"),
        ("10.0.0.1", "1.1.1.1, 203.0.113.9", "203.0.113.9"),
        ("10.0.0.1", "1.1.1.1, 203.0.113.9,192.0.2.7 , 10.9.9.9", "203.0.113.9"),
        ("10.0.0.1", "10.1.1.1, 10.2.2.2", "10.1.1.1"),
        ("10.0.0.1", "203.0.113.9, nonsense", "10.0.0.1"),
        ("10.0.0.1", "", "10.0.0.1"),
        ("10.0.0.1", "[2001:db8::1]:4711", "2001:db8::1"),
        ("10.0.0.1", "203.0.113.9:4711", "203.0.113.9"),
        ("10.0.0.1", "::ffff:203.0.113.9", "203.0.113.9"),
        ("::1", "203.0.113.9", "203.0.113.9"),
        ("203.0.113.1", "1.1.1.1", "203.0.113.1"),
        ("unknown", "1.1.1.1", "unknown"),
    ],
)
def test_the_rightmost_address_that_is_not_ours_is_the_client(
    peer: str, header: str | None, client: str
):
    assert PROXIES.find_client_address(peer, header) == client


def test_without_proxies_nobody_is_believed():
    nobody = TrustedProxies([])
    assert not nobody
    assert nobody.find_client_address("127.0.0.1", "1.1.1.1") == "127.0.0.1"


def test_a_network_that_is_none_is_named():
    with pytest.raises(ValueError, match=r"10\.0\.0\.0/99"):
        TrustedProxies(["10.0.0.0/99"])


@given(st.text(max_size=200))
def test_no_header_crashes_it_and_the_answer_is_an_address(header: str):
    assert plain_address(PROXIES.find_client_address("10.0.0.1", header)) is not None


def test_a_header_of_a_thousand_hops_is_cut_short():
    assert PROXIES.find_client_address("10.0.0.1", ",".join(["10.0.0.2"] * 1_000)) == "10.0.0.2"


def test_a_header_that_nobody_is_trusted_for_is_hinted_at_once(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(TrustedProxies, "_has_hinted", False)
    nobody = TrustedProxies([])
    nobody.find_client_address("10.0.0.5", None)
    assert not caplog.records
    assert [nobody.find_client_address("10.0.0.5", "203.0.113.7") for _ in range(3)] == [
        "10.0.0.5"
    ] * 3
    (record,) = caplog.records
    assert "10.0.0.5" in record.getMessage()
    assert "trusted_proxies is empty" in record.getMessage()


def test_where_a_proxy_is_trusted_a_strangers_header_says_nothing(caplog: pytest.LogCaptureFixture):
    TrustedProxies(["10.0.0.0/8"]).find_client_address("203.0.113.9", "203.0.113.7")
    assert not caplog.records
