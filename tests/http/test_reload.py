"""`greenroom serve --reload`: a studio edits its files while a room plays."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from reload_kit import GAME, Evening, studio_folder
from server_kit import ServerProcess

RENAMED = GAME.replace("greeted", "welcomed").replace(": int = 0", ": int")
MIGRATED = (
    RENAMED
    + """
    state_version = 2

    def migrate(self, old: dict[str, int], version: int) -> Guests:
        return Guests(welcomed=100 * old["greeted"])
"""
)


@pytest.fixture
def evening(data_dir: Path, database_url: str) -> Iterator[Evening]:
    folder, given = studio_folder(data_dir)
    server = ServerProcess(data_dir, "--database-url", database_url, *given).start()
    yield Evening(server, folder)
    assert server.stop() == 0


def test_rooms_go_on_with_what_is_saved_and_never_with_what_is_broken(evening: Evening):
    assert evening.greet() == "Hello 1"
    evening.write("words.py", 'GREETING = "Good evening"', "rooms that go on with them: 1")
    assert evening.greet() == "Good evening 2"
    evening.write("words.py", "GREETING =", "SyntaxError: invalid syntax")
    assert evening.greet() == "Good evening 3"
    evening.write("words.py", "import nowhere", "No module named 'nowhere'")
    assert evening.greet() == "Good evening 4"
    evening.write("words.py", "raise KeyboardInterrupt", "cannot be imported: KeyboardInterrupt")
    assert evening.greet() == "Good evening 5"
    evening.write("words.py", "while True: pass", "importing behaviours was interrupted after")
    assert evening.greet() == "Good evening 6"
    evening.write("words.py", 'GREETING = "Hi"', "rooms that go on with them: 1")
    evening.write("greeting.py", RENAMED, "with the old code: 1")
    assert evening.greet() == "Hi 7"
    evening.write("greeting.py", MIGRATED, "rooms that go on with them: 1")
    assert evening.greet() == "Hi 701"
