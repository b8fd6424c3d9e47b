"""The words and ids of a request: the members that they mean, and their mistakes."""

from __future__ import annotations

import pytest
from room_kit import GUEST, HOST, THIRD, RoomKit

from greenroom.actors.kernel.errors import Refused
from greenroom.actors.room.rules import refusals
from greenroom.actors.room.rules.groups import (
    find_senders,
    find_targets,
    read_sources,
    read_targets,
)
from greenroom.actors.room.rules.state import GONE


@pytest.fixture
def kit() -> RoomKit:
    """The host, two online, one offline."""
    kit = RoomKit()
    kit.join(GUEST, THIRD, 4)
    kit.silence(4)
    return kit


@pytest.mark.parametrize(
    ("word", "ids", "refused"),
    [
        ("everyone", None, refusals.InvalidTargets),
        ("", [1], refusals.InvalidTargets),
        ("ALL", None, refusals.InvalidTargets),
        ("specific", None, refusals.TargetIdsMissing),
        ("specific", [], refusals.InvalidTargetIds),
    ],
)
def test_words_that_name_no_targets_are_refused(
    word: str, ids: list[int] | None, refused: type[Refused]
):
    with pytest.raises(refused):
        read_targets(word, ids)


@pytest.mark.parametrize(
    ("word", "ids", "found"),
    [
        ("all", None, (HOST, GUEST, THIRD)),
        ("all", [GUEST], (HOST, GUEST, THIRD)),
        ("host", None, (HOST,)),
        ("others", None, (GUEST, THIRD)),
        ("specific", [THIRD, GUEST, 77, GUEST, 4], (GUEST, THIRD)),
        ("specific", [HOST], (HOST,)),
    ],
)
def test_the_host_targets_anybody_of_those_online(
    kit: RoomKit, word: str, ids: list[int] | None, found: tuple[int, ...]
):
    assert find_targets(kit.room, HOST, read_targets(word, ids)) == found


@pytest.mark.parametrize("ids", [[77], [4]])
def test_specific_targets_must_be_here(kit: RoomKit, ids: list[int]):
    with pytest.raises(refusals.NoValidTargets):
        find_targets(kit.room, HOST, read_targets("specific", ids))


@pytest.mark.parametrize("word", ["all", "others"])
def test_a_member_cannot_reach_beyond_the_host(kit: RoomKit, word: str):
    with pytest.raises(refusals.OnlyHostTargetsOthers):
        find_targets(kit.room, GUEST, read_targets(word, None))
    with pytest.raises(refusals.OnlyHostTargetsOthers):
        find_targets(kit.room, GUEST, read_targets("specific", [HOST, THIRD]))
    with pytest.raises(refusals.OnlyHostTargetsOthers):
        find_targets(kit.room, GUEST, read_targets("specific", [GUEST]))


def test_a_member_may_name_the_host_by_their_id(kit: RoomKit):
    assert find_targets(kit.room, GUEST, read_targets("host", None)) == (HOST,)
    assert find_targets(kit.room, GUEST, read_targets("specific", [HOST])) == (HOST,)


def test_nobody_left_to_target_is_no_mistake():
    kit = RoomKit(host_switch=False)
    assert find_targets(kit.room, HOST, read_targets("others", None)) == ()
    kit.join(GUEST)
    kit.silence(HOST)
    assert find_targets(kit.room, GUEST, read_targets("host", None)) == ()


def test_absent_sources_are_the_host(kit: RoomKit):
    assert read_sources(None, None) == read_sources("host", [GUEST])
    senders = find_senders(kit.room, GUEST, read_sources(None, None))
    assert [i in senders for i in (HOST, GUEST, GONE)] == [True, False, False]


@pytest.mark.parametrize(
    ("word", "ids", "wanted"),
    [
        ("all", None, [True, True, True, True]),
        ("others", None, [True, False, True, True]),
        ("specific", [THIRD, 77], [False, False, True, False]),
    ],
)
def test_sources_are_members_or_everybody_who_ever_sent(
    kit: RoomKit, word: str, ids: list[int] | None, wanted: list[bool]
):
    senders = find_senders(kit.room, GUEST, read_sources(word, ids))
    assert [i in senders for i in (HOST, GUEST, THIRD, GONE)] == wanted


def test_an_unknown_word_for_sources_is_refused():
    with pytest.raises(refusals.InvalidSources):
        read_sources("nobody", None)


@pytest.mark.parametrize("ids", [None, [], [77], [0]])
def test_specific_sources_must_be_members(kit: RoomKit, ids: list[int] | None):
    with pytest.raises(refusals.NoValidSources):
        find_senders(kit.room, HOST, read_sources("specific", ids))
