"""Tokens: made, told from junk, hashed."""

from __future__ import annotations

import string
from collections import Counter

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

randoms = st.binary(min_size=64, max_size=64).filter(
    lambda drawn: sum(byte < 248 for byte in drawn) >= 33
)


@given(st.sampled_from([PROJECT_KEY, ADMIN_KEY, PLAYER_TOKEN]), randoms)
def test_a_token_has_its_prefix_one_length_and_a_good_checksum(prefix: str, random_bytes: bytes):
    token = make_token(prefix, random_bytes)
    assert token.startswith(prefix)
    assert len(token) == 46
    assert token.replace("_", "").isalnum()
    assert token.isascii()
    assert checksum_ok(token)


@given(st.binary(min_size=33, max_size=33))
def test_every_random_byte_up_to_248_is_a_digit(digits: bytes):
    random_bytes = bytes(byte % 248 for byte in digits).ljust(64, b"\xff")
    alphabet = string.digits + string.ascii_uppercase + string.ascii_lowercase
    secret = make_token(PLAYER_TOKEN, random_bytes)[7:-6]
    assert secret == "".join(alphabet[byte % 248 % 62] for byte in digits)


def test_every_digit_is_as_likely_as_any_other():
    counts = Counter(make_token(PLAYER_TOKEN, bytes([byte]) * 64)[7] for byte in range(248))
    assert len(counts) == 62
    assert set(counts.values()) == {4}


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


@pytest.mark.parametrize("random_bytes", [b"", bytes(63), bytes(65), b"\xff" * 64])
def test_a_token_takes_exactly_so_many_random_bytes(random_bytes: bytes):
    with pytest.raises(ValueError, match="64 random bytes"):
        make_token(PLAYER_TOKEN, random_bytes)
