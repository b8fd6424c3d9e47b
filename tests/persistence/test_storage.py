"""Storage as a whole: what is acknowledged is there, whatever happens to Postgres."""

from __future__ import annotations

from postgres_kit import FakeWriter, registered

from greenroom.persistence.storage import Storage


async def test_a_registered_player_can_be_loaded(storage: Storage):
    writer = FakeWriter()
    await storage.committer.submit(writer, [registered(7)]).wait(writer, 10)

    player = await storage.accounts.player(7)

    assert player is not None
    assert player.player_name == "Player 7"
    assert player.player_data == b'{"level":1}'
    assert player.created_at == 1_700_000_000
    assert player.last_login is None
