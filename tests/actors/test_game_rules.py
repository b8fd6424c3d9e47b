"""The rules of games."""

from __future__ import annotations

import msgspec
import pytest

from greenroom.actors.game import rules
from greenroom.actors.game.messages import (
    ChangeGameSettings,
    CreateGame,
    Game,
    GameDocumentReplaced,
    GameKeysRotated,
    GameSettingsReplaced,
    OldKey,
    Owner,
)
from greenroom.actors.game.refusals import GameNameRefused, InvalidAdminKey, InvalidProjectKey
from greenroom.actors.game.settings import GameSettings
from greenroom.actors.kernel.message import Event

NOW = 1_700_000_000
KEY, ADMIN = b"k" * 32, b"a" * 32
OLD_KEY = OldKey(kind="project", key_hash=KEY.hex(), replaced_at=NOW, expires_at=NOW + 10)
OWNER = Owner(owner_id=3, name="local", plan="unlimited", created_at=1)


def create(name: str = "Arena") -> CreateGame:
    return CreateGame(
        game_id=5,
        owner=OWNER,
        name=name,
        api_key_hash=KEY,
        private_key_hash=ADMIN,
        tag_key=b"t" * 16,
    )


def a_game() -> Game:
    return rules.new_game(rules.decide_create(create(), NOW), OWNER.name, OWNER.plan)


def test_a_new_game_has_an_empty_document_and_its_owners_plan():
    game = a_game()
    assert (game.data, game.plan, game.owner_name, game.owner_id) == (
        b"{}",
        "unlimited",
        "local",
        3,
    )
    assert game.created_at == game.updated_at == NOW


@pytest.mark.parametrize("name", ["A", "Arena 2", "蛙の部屋", "x" * 100])
def test_good_names_pass(name: str):
    assert rules.decide_create(create(name), NOW).name == name


@pytest.mark.parametrize(
    "name", ["", " ", "a\x00b", "a\nb", "x" * 101, "a\u202eb", "a\ud800", "a\u200bb"]
)
def test_bad_names_are_refused(name: str):
    with pytest.raises(GameNameRefused):
        rules.decide_create(create(name), NOW)


def test_keys_open_only_their_own_locks():
    rules.check_project_key(a_game(), KEY, NOW)
    rules.check_admin_key(a_game(), ADMIN, NOW)
    with pytest.raises(InvalidProjectKey):
        rules.check_project_key(a_game(), ADMIN, NOW)
    with pytest.raises(InvalidAdminKey):
        rules.check_admin_key(a_game(), KEY, NOW)


@pytest.mark.parametrize(
    ("event", "changes"),
    [
        (GameDocumentReplaced(5, b'{"a":1}', 9), {"data": b'{"a":1}', "updated_at": 9}),
        (
            GameKeysRotated(5, b"n" * 32, b"m" * 32, (OLD_KEY,), 9),
            {
                "api_key_hash": b"n" * 32,
                "private_key_hash": b"m" * 32,
                "old_keys": (OLD_KEY,),
                "updated_at": 9,
            },
        ),
        (
            GameSettingsReplaced(5, GameSettings(steam_app_id=480), 9),
            {"settings": GameSettings(steam_app_id=480), "updated_at": 9},
        ),
    ],
)
def test_each_event_changes_its_own_columns_alone(event: Event, changes: dict[str, object]):
    game = a_game()
    before = msgspec.structs.asdict(game)
    rules.apply(game, event)
    assert msgspec.structs.asdict(game) == {**before, **changes}


def test_an_old_key_opens_until_it_expires_and_only_as_what_it_was():
    game = a_game()
    rules.apply(game, GameKeysRotated(5, b"n" * 32, b"m" * 32, (OLD_KEY,), 9))
    rules.check_project_key(game, KEY, NOW + 9)
    with pytest.raises(InvalidProjectKey):
        rules.check_project_key(game, KEY, NOW + 10)
    with pytest.raises(InvalidAdminKey):
        rules.check_admin_key(game, KEY, NOW)


def test_settings_that_are_so_already_need_no_event():
    game = a_game()
    change = ChangeGameSettings({"steam_app_id": "480"}, ())
    (event,) = rules.decide_change_settings(game, change, 9)
    assert event == GameSettingsReplaced(5, GameSettings(steam_app_id=480), 9)
    rules.apply(game, event)
    assert rules.decide_change_settings(game, change, 10) == ()


def test_events_of_others_are_a_bug():
    class Foreign(Event, frozen=True):
        """Somebody else's."""

    with pytest.raises(TypeError, match="Foreign"):
        rules.apply(a_game(), Foreign())


def test_operators_never_see_keys():
    shown = set(msgspec.structs.asdict(rules.view_game(a_game(), NOW)))
    assert not shown & {"api_key_hash", "private_key_hash", "tag_key"}


def test_the_server_reads_its_own_parts_of_a_game_document_and_no_large_ones():
    rest = b'"motd":"' + b"x" * 100_000 + b'"'
    assert rules.own_rules(b"{%b}" % rest) == (b"{}", [])
    document = b'{"name_rules":{"case":"lower"},"moderation":{},"name_rules":null,%b}' % rest
    assert rules.own_rules(document) == (b'{"name_rules":null,"moderation":{}}', [])
    escaped = b'{"room_title_rule\\u0073":{}}'
    assert rules.own_rules(escaped) == (b'{"room_title_rules":{}}', [])
    large = b'{"name_rules":["%b"],"moderation":1}' % (b"x" * 16_384)
    problems = ["name_rules is larger than 16384 bytes"]
    assert rules.own_rules(large) == (b'{"moderation":1}', problems)
    unreadable = b'{"moderation"'
    assert rules.own_rules(unreadable) == (unreadable, []), "whoever reads it says what is wrong"
