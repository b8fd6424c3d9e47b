"""Tokens: made, told from junk, hashed."""

from __future__ import annotations

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from greenroom.actors.player.tokens import (
    ADMIN_KEY,
    PLAYER_TOKEN,
    PROJECT_KEY,
    checksum_ok,
    hash_token,
    make_token,
)

randoms = st.binary(min_size=24, max_size=24)


@given(st.sampled_from([PROJECT_KEY, ADMIN_KEY, PLAYER_TOKEN]), randoms)
def test_a_token_has_its_prefix_one_length_and_a_good_checksum(prefix: str, random_bytes: bytes):
    token = make_token(prefix, random_bytes)
    assert token.startswith(prefix)
    assert len(token) == 46
    assert token.replace("_", "").isalnum()
    assert token.isascii()
    assert checksum_ok(token)


@given(randoms, randoms)
def test_other_random_bytes_make_another_token(first: bytes, second: bytes):
    same = make_token(PLAYER_TOKEN, first) == make_token(PLAYER_TOKEN, second)
    assert same == (first == second)


@given(randoms, st.integers(0, 45), st.characters())
def test_one_wrong_character_breaks_the_checksum(random_bytes: bytes, place: int, char: str):
    token = make_token(PLAYER_TOKEN, random_bytes)
    mistyped = token[:place] + char + token[place + 1 :]
    assert checksum_ok(mistyped) == (mistyped == token)


@given(st.text())
def test_any_text_can_be_checked_and_hashed(text: str):
    assert checksum_ok(text) in {True, False}
    assert len(hash_token(text)) == 32


@pytest.mark.parametrize(
    "junk", ["", "a", "000000", "\ud800" * 40, "é" * 46, "gr_plr_", "x" * 9999]
)
def test_junk_is_refused_and_never_a_crash(junk: str):
    assert not checksum_ok(junk)
    assert len(hash_token(junk)) == 32


@pytest.mark.parametrize("length", [0, 23, 25])
def test_a_token_takes_exactly_192_random_bits(length: int):
    with pytest.raises(ValueError, match="24 random bytes"):
        make_token(PLAYER_TOKEN, os.urandom(length))
