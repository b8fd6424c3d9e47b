"""The host that a request is for, and its path, in every form of a target."""

from __future__ import annotations

import pytest

from greenroom.network.addresses import INVALID_HOST
from greenroom.network.target import OTHER_HOST, WrongHost, find_host, split_target


@pytest.mark.parametrize(
    ("target", "host", "found"),
    [
        (b"/x", "a:80", "a:80"),
        (b"/http://b/x", "a", "a"),
        (b"//b/x", "a", "a"),
        (b"*", "a", "a"),
        (b"/x", None, None),
        (b"http://a/x", None, "a"),
        (b"http://a/x", "a", "a"),
        (b"HTTP://A/x", "a", "A"),
        (b"http://a", "A:80", "a"),
        (b"http://a:080/x", "a:", "a:080"),
        (b"https://a/x", "a:443", "a"),
        (b"https://a:8443?q/x", "a:8443", "a:8443"),
        (b"http://[::1]/x", "[::1]:80", "[::1]"),
        (b"file:///etc/passwd", "a", "a"),
        (b"http://[FE80::1]:9/x", "[fe80::1]:9", "[FE80::1]:9"),
    ],
)
def test_the_host_of_a_request_is_that_of_its_target(
    target: bytes, host: str | None, found: str | None
):
    assert find_host(target, host, is_optional=True) == found


@pytest.mark.parametrize(
    ("target", "host"),
    [
        (b"http://b/x", "a"),
        (b"http://b?/x", "a"),
        (b"http://b", "a"),
        (b"http://a:81/x", "a"),
        (b"http://a/x", "a:443"),
        (b"https://a/x", "a:80"),
        (b"ws://a/x", "a:80"),
        (b"http://a/x", ""),
        (b"http://[::1]/x", "[::1]:81"),
        (b"http://[::1]/x", "[::2]"),
    ],
)
def test_a_request_for_two_hosts_is_refused(target: bytes, host: str):
    with pytest.raises(WrongHost, match=OTHER_HOST):
        find_host(target, host, is_optional=False)


@pytest.mark.parametrize(
    ("target", "host"),
    [
        (b"/x", None),
        (b"http://a/x", None),
        (b"/x", "a/b"),
        (b"http://a/x", "a, a"),
        (b"http:///x", ""),
        (b"http://u@a/x", "a"),
        (b"http://a:999999/x", "a:999999"),
    ],
)
def test_a_request_for_no_host_is_refused(target: bytes, host: str | None):
    with pytest.raises(WrongHost, match=INVALID_HOST):
        find_host(target, host, is_optional=False)


@pytest.mark.parametrize(
    ("target", "path", "query"),
    [
        (b"/x?q#f", "/x", "q"),
        (b"http://a/%78?q?r", "/x", "q?r"),
        (b"http://a", "/", ""),
        (b"http://a?q/x", "/", "q/x"),
        (b"/http://a/x", "/http://a/x", ""),
        (b"*", "*", ""),
    ],
)
def test_a_target_has_a_path_and_a_query_in_every_form(target: bytes, path: str, query: str):
    assert split_target(target) == (path, query)
