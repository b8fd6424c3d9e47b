"""Answers that never change: in which form they are sent, and when they need not be."""

from __future__ import annotations

import gzip

import pytest

from greenroom.http.request import Answer, Request
from greenroom.http.site.static import PACKED_BYTES_MIN, Static, takes_gzip

BODY = b"a page " * 1_000
TEXT = "text/plain; charset=utf-8"
PAGE = Static(BODY, TEXT, (("X-More", "y"),), cache_seconds=60)


def get(page: Static = PAGE, **headers: str) -> Answer:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return page.answer(Request("GET", "/x", "", named, b"", "203.0.113.7"))


def tag(answer: Answer) -> str:
    return dict(answer.headers)["ETag"]


def test_each_form_has_a_strong_tag_of_its_own_and_caches_are_told_why():
    plain, packed = get(), get(accept_encoding="gzip")
    assert (plain.body, gzip.decompress(packed.body)) == (BODY, BODY)
    assert tag(plain) != tag(packed)
    for answer in (plain, packed):
        headers = dict(answer.headers)
        assert headers["ETag"].startswith('"')
        assert headers["Vary"] == "Accept-Encoding"
        assert headers["Cache-Control"] == "public, max-age=60"
        assert headers["X-More"] == "y"
    assert dict(packed.headers)["Content-Encoding"] == "gzip"
    assert "Content-Encoding" not in dict(plain.headers)
    assert tag(get(Static(BODY + b"!", TEXT))) != tag(plain)
    assert dict(get(Static(BODY, TEXT)).headers)["Cache-Control"] == "no-cache"


def test_nothing_is_made_for_an_answer():
    assert get() is get()
    assert get(accept_encoding="gzip") is get(accept_encoding="br, gzip")


@pytest.mark.parametrize("encoding", ["", "gzip"])
def test_who_has_it_is_told_that_it_is_as_it_was(encoding: str):
    whole = get(accept_encoding=encoding)
    for known in (tag(whole), f'"other", {tag(whole)}', f"W/{tag(whole)}", "*"):
        answer = get(accept_encoding=encoding, if_none_match=known)
        assert (answer.status, answer.body, answer.headers) == (304, b"", whole.headers)
    for known in ('"other"', "", tag(whole).strip('"'), '"x",' * 10_000 + tag(whole)):
        assert get(accept_encoding=encoding, if_none_match=known) is whole


def test_what_is_small_is_not_packed():
    page = Static(b"x" * (PACKED_BYTES_MIN - 1), TEXT)
    assert get(page, accept_encoding="gzip") is get(page)


@pytest.mark.parametrize(
    ("header", "takes"),
    [
        ("gzip", True),
        ("deflate, GZIP;q=0.1", True),
        ("x-gzip", True),
        ("*", True),
        ("br;q=1.0, gzip; q=0.5, *;q=0", True),
        ("", False),
        ("br, deflate", False),
        ("gzip;q=0", False),
        ("gzip; q=0.000", False),
        ("*;q=0", False),
        ("gzip;q=0, *", False),
        ("notgzip", False),
        ("br," * 10_000 + "gzip", False),
    ],
)
def test_gzip_is_sent_to_those_who_take_it(header: str, takes: bool):
    assert takes_gzip(header) is takes
