"""The audit log: who did what, written before it is done, on a real database."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest
import trio
from command_kit import command
from furnished_kit import furnish
from server_kit import Api, ServerProcess

from greenroom.actors.kernel.errors import StorageUnavailable
from greenroom.actors.player.tokens import hash_token
from greenroom.actors.world.audit import AuditEntry, audited
from greenroom.app import open_admin_context
from greenroom.config import Settings
from greenroom.control.admin import messages, player_messages, room_messages
from greenroom.control.admin.audit_messages import Act, ListActs
from greenroom.control.admin.auditing import user_text
from greenroom.control.admin.context import AdminContext
from greenroom.control.admin.operations import OPERATIONS, run
from greenroom.control.errors import OperationRefused
from greenroom.persistence.operators.audit import DETAILS_BYTES_MAX

SECRET = "0123456789abcdef0123456789abcdef"
NOT_AUDITED = {
    *("owner.list", "owner.show", "game.list", "game.show", "player.list", "player.show"),
    *("room.list", "room.show", "room.history", "lobby.list", "tree", "audit"),
    *("db.status", "db.migrate", "db.url", "db.rights", "config.show"),
    # where shards live changes nothing that players or studios have
    *(f"cluster.{verb}" for verb in ("status", "load", "move", "drain", "balance")),
    "owner.apply_plan",  # what owner.set_plan, which is noted, tells the other nodes
}


async def acts(context: AdminContext, **wanted: Any) -> list[Act]:
    asked: dict[str, Any] = {"limit": 100, "before": 2**63 - 1, "since": 0, **wanted}
    return (await run(context, ListActs(**asked))).acts


def told(found: list[Act]) -> list[tuple[str, str]]:
    return [(act.action, act.outcome) for act in reversed(found)]


async def play(context: AdminContext) -> tuple[int, int]:
    """Do one of each; return the game and the player."""
    game_id, room_id = await furnish(context)
    players = (await run(context, messages.ListPlayers(game_id, 0, 10))).players
    player_id = players[0].player_id
    await run(context, messages.CreateOwner("studio", "free"))
    await run(context, messages.SetPlan("studio", "pro"))
    await run(context, messages.RotateKeys(game_id, ("project",), 60))
    await run(context, messages.RevokeKeys(game_id))
    await run(context, messages.ChangeGameSettings(game_id))
    secret = {"steam_publisher_key": SECRET}
    await run(context, messages.ChangeGameSettings(game_id, secret))
    ban = player_messages.BanPlayer(player_id, "day", "says where Ada lives")
    await run(context, ban, by="user anna (uid 1000)")
    await run(context, player_messages.UnbanPlayer(player_id))
    await run(context, player_messages.ExportPlayer(player_id))
    for ask in (room_messages.DiscardRoom(room_id), room_messages.StopRoom(room_id)):
        with pytest.raises(OperationRefused):  # it ended with its host's ban
            await run(context, ask)
    await run(context, player_messages.DeletePlayer(player_id))
    await run(context, messages.DeleteGame(game_id))
    return game_id, player_id


async def test_everything_that_changes_something_is_noted_with_its_outcome(
    data_dir: Path, database_url: str
) -> None:
    async with open_admin_context(
        Settings(data_dir=data_dir, database_url=database_url)
    ) as context:
        game_id, player_id = await play(context)
        found = await acts(context)
        assert told(found) == [
            ("game.create", "done"),
            ("owner.create", "done"),
            ("owner.set_plan", "done"),
            ("game.rotate_keys", "done"),
            ("game.revoke_keys", "done"),
            ("game.settings", "done"),
            ("player.ban", "done"),
            ("player.unban", "done"),
            ("player.export", "done"),
            ("room.discard", "refused"),
            ("room.stop", "refused"),
            ("player.delete", "done"),
            ("game.delete", "done"),
        ]
        assert {act.actor for act in found} == {user_text(), "user anna (uid 1000)"}
        assert f"(uid {os.getuid()})" in user_text()
        of_game = await acts(context, game_id=game_id)
        assert told(of_game)[0] == ("game.create", "done")
        assert {"player.ban", "player.delete"} < {act.action for act in of_game}
        assert len(await acts(context, player_id=player_id)) == 4
        assert told(await acts(context, action="player.ban")) == [("player.ban", "done")]
        assert len(await acts(context, action="player")) == 4
        assert await acts(context, action="play") == []
        assert told(await acts(context, actor="anna")) == [("player.ban", "done")]
        assert await acts(context, since=2**40) == []
        page = await run(context, ListActs(limit=5, before=2**63 - 1, since=0))
        assert page.next_before == page.acts[-1].audit_id
        rest = await acts(context, before=page.next_before)
        assert [*page.acts, *rest] == found


async def test_no_secret_and_no_text_of_a_player_is_noted(
    data_dir: Path, database_url: str
) -> None:
    async with open_admin_context(
        Settings(data_dir=data_dir, database_url=database_url)
    ) as context:
        await play(context)
    with psycopg.connect(database_url) as connection:
        rows = str(connection.execute("SELECT audit::text FROM audit").fetchall())
    assert '"steam_publisher_key"' in rows
    for text in (SECRET, "gr_", "Ada", "lives"):
        assert text not in rows


def test_every_operation_is_audited_or_known_to_change_nothing() -> None:
    from greenroom.control.admin.auditing import _FACTS

    audited_ones = {operation.name for operation in _FACTS}
    assert audited_ones | NOT_AUDITED == set(OPERATIONS)
    assert not audited_ones & NOT_AUDITED


async def test_what_cannot_be_noted_is_not_done(data_dir: Path, database_url: str) -> None:
    settings = Settings(data_dir=data_dir, database_url=database_url)
    async with open_admin_context(settings) as context:
        with psycopg.connect(database_url, autocommit=True) as connection:
            connection.execute("ALTER TABLE audit RENAME TO elsewhere")
        with pytest.raises(StorageUnavailable):
            await run(context, messages.CreateOwner("studio", "free"))
        owners = (await run(context, messages.ListOwners())).owners
        assert [owner.name for owner in owners if owner.name == "studio"] == []


class _Log:
    def __init__(self) -> None:
        self.outcomes: list[str] = []
        self.finish_error: Exception | None = None

    async def begin(self, entry: AuditEntry) -> int:
        await trio.lowlevel.checkpoint()
        return 1

    async def finish(self, audit_id: int, outcome: str, _: int | None) -> None:
        await trio.lowlevel.checkpoint()
        if self.finish_error is not None:
            raise self.finish_error
        self.outcomes.append(outcome)


async def test_the_outcome_of_a_crash_and_of_a_cancellation_is_failed() -> None:
    async def crash() -> None:
        raise ZeroDivisionError

    works: list[Callable[[], Awaitable[None]]] = [crash, trio.sleep_forever]
    for work in works:
        log = _Log()
        with trio.move_on_after(0.01):
            try:
                async with audited(log, AuditEntry(actor="a", action="b")):
                    await work()
            except ZeroDivisionError:
                pass
        assert log.outcomes == ["failed"]


async def test_an_act_whose_outcome_cannot_be_written_is_done_all_the_same() -> None:
    log = _Log()
    log.finish_error = StorageUnavailable("away")
    async with audited(log, AuditEntry(actor="a", action="b")):
        pass
    assert log.outcomes == []


async def test_the_log_is_bounded_in_days_rows_and_bytes(
    data_dir: Path, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = Settings(data_dir=data_dir, database_url=database_url)
    async with open_admin_context(settings) as context:
        for number in range(5):
            details = {"long": "x" * DETAILS_BYTES_MAX if number == 4 else ""}
            entry = AuditEntry(actor="a", action=f"act.{number}", details=details)
            await context.audit.begin(entry)
        assert "left_out" in bytes((await acts(context))[0].details).decode()
        monkeypatch.setattr("greenroom.persistence.operators.audit.ROWS_MAX", 3)
        assert await context.audit.remove(0) == 2
        assert [act.action for act in await acts(context)] == ["act.4", "act.3", "act.2"]
        assert await context.audit.remove(2**33) == 3


def test_the_command_and_the_admin_key_are_noted_beside_a_server_and_read_without_one(
    data_dir: Path, database_url: str
) -> None:
    server = ServerProcess(data_dir, "--database-url", database_url).start()
    try:
        game = server.new_game()
        api = Api(server.address, game)
        player_id, _ = api.register()
        body = {"player_id": player_id, "ban_duration": "day"}
        assert api.call("POST", "/api/game_players.php/ban", body, admin=True).status == 200
        body = {"player_id": player_id}
        assert api.call("POST", "/api/game_players.php/unban", body, admin=True).status == 200
        body = {"player_id": player_id + 1}
        assert api.call("POST", "/api/game_players.php/unban", body, admin=True).status == 404
        done = command("player", "delete", str(player_id), "--yes", data_dir=data_dir)
        assert done.status == 0, done.err
        rotate = ("game", "rotate-keys", str(game.game_id), "--project-only", "--yes")
        assert command(*rotate, data_dir=data_dir).status == 0
        beside = command("audit", "--json", data_dir=data_dir).json
    finally:
        assert server.stop() == 0
    alone = command("audit", "--json", data_dir=data_dir, DATABASE_URL=database_url).json
    assert alone == beside
    mark = hash_token(game.private).hex()[:8]
    seen = [(a["action"], a["actor"], a["outcome"]) for a in reversed(alone["acts"])]
    assert seen == [
        ("game.create", user_text(), "done"),
        ("player.ban", f"admin key {mark}", "done"),
        ("player.unban", f"admin key {mark}", "done"),
        ("player.unban", f"admin key {mark}", "refused"),
        ("player.delete", user_text(), "done"),
        ("game.rotate_keys", user_text(), "done"),
    ]
    shown = command(
        "audit", "--player", str(player_id), data_dir=data_dir, DATABASE_URL=database_url
    )
    assert shown.out.count("\n") == 4, shown.out
    both = ("game.rotate_keys", "game.rotate-keys")  # as the log has it, and as the command is
    for action in both:
        found = command(
            "audit", "--action", action, "--json", data_dir=data_dir, DATABASE_URL=database_url
        )
        assert [act["outcome"] for act in found.json["acts"]] == ["done"]
    refused = command("audit", "--since", "1w", data_dir=data_dir)
    assert refused.status == 2
