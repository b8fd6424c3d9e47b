"""One server plays all examples; each test has a game of its own on it."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from cheat_kit import start_examples
from server_kit import ServerProcess


@pytest.fixture(scope="session")
def studio() -> Iterator[ServerProcess]:
    directory = Path(tempfile.mkdtemp(prefix="greenroom-"))
    directory.chmod(0o711)
    server = start_examples(directory)
    try:
        yield server
        assert server.stop() == 0
        assert b'"level":"error"' not in server.log.read_bytes(), "no client makes a hook fail"
    finally:
        server.kill()
        shutil.rmtree(directory, ignore_errors=True)
