"""Player tags: a bijection of ids, secret without the game's key."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from greenroom.actors.game.tags import PLAYER_ID_MAX, TAG_ALPHABET, make_tag, read_tag

keys = st.binary(min_size=16, max_size=16)
ids = st.integers(0, PLAYER_ID_MAX)
KEY = b"k" * 16


@given(keys, ids)
def test_a_tag_leads_back_to_its_player(key: bytes, player_id: int):
    tag = make_tag(key, player_id)
    assert len(tag) == 8
    assert set(tag) <= set(TAG_ALPHABET)
    for spelling in (tag, f"#{tag}", tag.lower()):
        assert read_tag(key, spelling) == player_id


@given(keys, st.text(alphabet=TAG_ALPHABET, min_size=8, max_size=8))
def test_every_well_formed_tag_is_somebodys(key: bytes, tag: str):
    player_id = read_tag(key, tag)
    assert player_id is not None
    assert make_tag(key, player_id) == tag


def test_the_alphabet_has_no_vowels_and_no_look_alikes():
    assert len(set(TAG_ALPHABET)) == 29
    assert not set(TAG_ALPHABET) & set("01AEIOU")


def test_tags_of_neighbours_share_nothing_and_never_collide():
    tags = [make_tag(KEY, player_id) for player_id in range(1, 5_001)]
    assert len(set(tags)) == len(tags)
    assert len({tag[:4] for tag in tags}) > 4_900
    assert make_tag(b"j" * 16, 1) != tags[0]


@pytest.mark.parametrize(
    "junk",
    ["", "#", "2345678", "234567890", "ABCDEFGH", "##23456789", "2345678\u0661", "\ud800" * 8],
)
def test_junk_is_no_tag(junk: str):
    assert read_tag(KEY, junk) is None


@pytest.mark.parametrize("player_id", [-1, PLAYER_ID_MAX + 1])
def test_ids_beyond_the_range_are_a_bug(player_id: int):
    with pytest.raises(ValueError, match="player ids end"):
        make_tag(KEY, player_id)
