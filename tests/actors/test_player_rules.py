"""The rules of players: every refusal, every event, and the laws that hold for all of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from greenroom.actors.kernel.errors import Refused
from greenroom.actors.kernel.message import Event
from greenroom.actors.player import rules
from greenroom.actors.player.messages import (
    Ban,
    BanPlayer,
    Player,
    PlayerCameOnline,
    PlayerDocumentReplaced,
    PlayerLoggedIn,
    PlayerLoggedOut,
    PlayerPresenceSaved,
    PlayerRenamed,
    PlayerTokenRotated,
    PlayerUnbanned,
    RegisterPlayer,
    WriteStats,
)
from greenroom.actors.player.refusals import (
    DocumentTooLarge,
    InvalidPlayerToken,
    PlayerIsBanned,
    PlayerNotFound,
    PlayerOfAnotherGame,
)
from greenroom.contract.allowed_values import BAN_DURATIONS

NOW = 1_700_000_000
TOKEN = b"t" * 32
OTHER_TOKEN = b"o" * 32


def a_player(**changes: Any) -> Player:
    """A player of game 1 who has just registered."""
    command = RegisterPlayer(7, 1, "Ada", "23456789", TOKEN, b'{"level":1}')
    player = rules.new_player(rules.decide_register(command, NOW))
    for name, value in changes.items():
        setattr(player, name, value)
    return player


def a_ban(until: int | None = None) -> Ban:
    return Ban("b" * 32, "forever" if until is None else "hour", "spam", NOW, until)


def ban_command(**changes: Any) -> BanPlayer:
    return BanPlayer(**{
        "game_id": 1, "ban_id": "c" * 32, "ban_duration": "day", "ban_reason": None, **changes,
    })  # fmt: skip


def test_a_new_player_is_online_and_has_never_logged_in():
    player = a_player()

    assert player.is_online
    assert player.last_heartbeat == player.created_at == player.updated_at == NOW
    assert player.last_login is None
    assert player.last_logout is None
    assert player.ban is None


def test_the_right_token_passes():
    rules.check_token(a_player(), 1, TOKEN, NOW)


def test_another_token_is_refused():
    with pytest.raises(InvalidPlayerToken) as refused:
        rules.check_token(a_player(), 1, OTHER_TOKEN, NOW)
    assert type(refused.value) is InvalidPlayerToken


def test_another_games_player_is_refused():
    with pytest.raises(PlayerOfAnotherGame):
        rules.check_token(a_player(), 2, TOKEN, NOW)


def test_a_wrong_token_says_nothing_about_bans_or_games():
    with pytest.raises(InvalidPlayerToken) as refused:
        rules.check_token(a_player(ban=a_ban()), 2, OTHER_TOKEN, NOW)
    assert type(refused.value) is InvalidPlayerToken


@pytest.mark.parametrize("until", [None, NOW + 1])
def test_a_banned_player_is_refused_with_their_ban(until: int | None):
    ban = a_ban(until)
    with pytest.raises(PlayerIsBanned) as refused:
        rules.check_token(a_player(ban=ban), 1, TOKEN, NOW)
    assert refused.value.ban == ban
    assert str(refused.value).startswith("You are banned: spam. ")


def test_another_games_services_cannot_write_stats():
    with pytest.raises(PlayerNotFound):
        rules.decide_write_stats(a_player(), WriteStats((), game_id=a_player().game_id + 1))


def test_a_ban_ends_at_its_very_second():
    rules.check_token(a_player(ban=a_ban(NOW)), 1, TOKEN, NOW)


def test_a_sign_of_life_brings_a_player_back_online():
    player = a_player(is_online=False)
    rules.apply_sign_of_life(player, NOW + 5)
    assert (player.is_online, player.last_heartbeat) == (True, NOW + 5)


def test_only_the_present_token_can_be_rotated():
    event = rules.decide_rotate(a_player(), TOKEN, OTHER_TOKEN, NOW + 1)
    assert event == PlayerTokenRotated(7, OTHER_TOKEN, NOW + 1)
    with pytest.raises(InvalidPlayerToken):
        rules.decide_rotate(a_player(token_hash=OTHER_TOKEN), TOKEN, b"x" * 32, NOW)


def test_fields_are_set_in_a_document_whose_other_bytes_stay_as_they_are():
    whole = rules.merge_documents(b'{"wins":1, "big":1.50}', {"wins": b"2", "hat": b'"red"'})
    assert whole == b'{"wins":2,"big":1.50,"hat":"red"}'


def test_a_document_grows_to_its_limit_and_not_past_it():
    room = rules.MERGED_BYTES_MAX - len(b'{"a":""}')
    assert (
        len(rules.merge_documents(b"{}", {"a": b'"%s"' % (b"x" * room)})) == rules.MERGED_BYTES_MAX
    )
    with pytest.raises(DocumentTooLarge):
        rules.merge_documents(b"{}", {"a": b'"%s"' % (b"x" * (room + 1))})


@pytest.mark.parametrize(
    ("is_online", "silent_seconds", "goes"),
    [(True, 119.9, False), (True, 120.0, True), (True, 1e9, True), (False, 1e9, False)],
)
def test_only_the_online_and_silent_go_stale(is_online: bool, silent_seconds: float, goes: bool):
    player = a_player(is_online=is_online, last_heartbeat=NOW)
    events = rules.decide_leave_if_stale(player, silent_seconds, 120, NOW + 200)
    expected = (PlayerPresenceSaved(7, False, NOW), PlayerLoggedOut(7, NOW + 200))
    assert events == (expected if goes else ())


def test_a_new_ban_replaces_an_older_one():
    player = a_player(ban=a_ban())
    for event in rules.decide_ban(player, ban_command(), NOW):
        rules.apply(player, event)
    assert player.ban == Ban("c" * 32, "day", None, NOW, NOW + 86_400)


@pytest.mark.parametrize("is_online", [True, False])
def test_a_ban_takes_whoever_is_online_offline(is_online: bool):
    player = a_player(is_online=is_online, last_heartbeat=NOW - 5)
    _, *offline = rules.decide_ban(player, ban_command(), NOW)
    expected = [PlayerPresenceSaved(7, False, NOW - 5), PlayerLoggedOut(7, NOW)]
    assert offline == (expected if is_online else [])


def test_another_games_owner_can_neither_ban_nor_pardon():
    with pytest.raises(PlayerNotFound):
        rules.decide_ban(a_player(), ban_command(game_id=2), NOW)
    with pytest.raises(PlayerNotFound):
        rules.decide_unban(a_player(ban=a_ban()), 2, NOW)


@pytest.mark.parametrize(
    ("ban", "removed"), [(None, 0), (a_ban(), 1), (a_ban(NOW + 1), 1), (a_ban(NOW), 0)]
)
def test_unban_ends_what_holds(ban: Ban | None, removed: int):
    events = rules.decide_unban(a_player(ban=ban), 1, NOW)
    assert events == (PlayerUnbanned(7, NOW),) * removed


@pytest.mark.parametrize(
    ("event", "changes"),
    [
        (PlayerDocumentReplaced(7, 1, b"{}", 5), {"player_data": b"{}", "updated_at": 5}),
        (PlayerPresenceSaved(7, False, 5), {"is_online": False, "last_heartbeat": 5}),
        (PlayerCameOnline(7, 5), {"is_online": True, "last_heartbeat": 5}),
        (PlayerLoggedIn(7, 5), {"is_online": True, "last_login": 5}),
        (PlayerLoggedOut(7, 5), {"is_online": False, "last_logout": 5}),
        (PlayerRenamed(7, "Bob", 5), {"player_name": "Bob", "updated_at": 5}),
        (PlayerTokenRotated(7, OTHER_TOKEN, 5), {"token_hash": OTHER_TOKEN, "updated_at": 5}),
        (PlayerUnbanned(7, 5), {"ban": None}),
    ],
)
def test_each_event_changes_its_own_columns_alone(event: Event, changes: dict[str, object]):
    player = a_player(ban=a_ban())
    before = msgspec.structs.asdict(player)
    rules.apply(player, event)
    assert msgspec.structs.asdict(player) == {**before, **changes}


def test_events_of_others_are_a_bug():
    class Foreign(Event, frozen=True):
        """Somebody else's."""

    with pytest.raises(TypeError, match="Foreign"):
        rules.apply(a_player(), Foreign())


def test_the_view_shows_the_record_but_no_token():
    player = a_player(last_login=3)
    shown = msgspec.structs.asdict(rules.view_player(player))
    record = msgspec.structs.asdict(player)
    assert "token_hash" not in shown
    assert shown == {name: record[name] for name in shown}


# Laws.

tokens = st.sampled_from([TOKEN, OTHER_TOKEN, b"z" * 32])
times = st.integers(NOW, NOW + 40_000_000)
Step = Callable[[Player], Event | tuple[Event, ...] | None]

steps = st.one_of(
    st.builds(
        lambda game, token, now: lambda player: rules.check_token(player, game, token, now),
        st.integers(1, 2), tokens, times,
    ),
    st.builds(
        lambda old, new, now: lambda player: rules.decide_rotate(player, old, new, now),
        tokens, tokens, times,
    ),
    st.builds(
        lambda silent, now: lambda player: rules.decide_leave_if_stale(player, silent, 120, now),
        st.floats(0, 1000), times,
    ),
    st.builds(
        lambda game, length, now: lambda player: rules.decide_ban(
            player, ban_command(game_id=game, ban_duration=length), now
        ),
        st.integers(1, 2), st.sampled_from(BAN_DURATIONS), times,
    ),
    st.builds(
        lambda game, now: lambda player: rules.decide_unban(player, game, now),
        st.integers(1, 2), times,
    ),
    st.builds(lambda now: lambda player: PlayerLoggedIn(player.player_id, now), times),
    st.builds(lambda now: lambda player: rules.decide_log_out(player, now), times),
    st.builds(lambda now: lambda player: PlayerRenamed(player.player_id, "Eve", now), times),
)  # fmt: skip


@given(st.lists(steps, max_size=30))
def test_decisions_change_nothing_and_replayed_events_give_the_same_player(script: list[Step]):
    player, history = a_player(), []
    for step in script:
        before = msgspec.structs.asdict(player)
        try:
            outcome = step(player)
        except Refused:
            outcome = None
        assert msgspec.structs.asdict(player) == before
        for event in outcome if isinstance(outcome, tuple) else filter(None, (outcome,)):
            history.append(event)
            rules.apply(player, event)

    replayed = a_player()
    for event in history:
        rules.apply(
            replayed, msgspec.msgpack.decode(msgspec.msgpack.encode(event), type=type(event))
        )
    assert replayed == player
