"""The command line as a whole process, and what an expected failure of it looks like."""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from forked_start import STARTER

SECONDS_MAX = 60.0


class Done:
    """A command that has ended."""

    def __init__(self, status: int, out: str, err: str) -> None:
        self.status, self.out, self.err = status, out, err

    @property
    def json(self) -> Any:
        assert self.out.count("\n") == 1, self.out + self.err
        return json.loads(self.out)


def command(*arguments: str, data_dir: Path, **environment: str) -> Done:
    line = [sys.executable, "-m", "greenroom", *arguments, "--data-dir", str(data_dir)]
    given = {k: v for k, v in os.environ.items() if k != "DATABASE_URL"} | environment
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        process = STARTER.start(line, given, out, err)
        try:
            status = process.wait(SECONDS_MAX)
        finally:
            process.kill()
        out.seek(0)
        err.seek(0)
        return Done(status, out.read(), err.read())


def assert_one_sentence(done: Done, *texts: str) -> None:
    """It failed as expected: status 1, no traceback, one line that holds these texts."""
    assert done.status == 1, done.err
    lines = done.err.splitlines()
    told = [line for line in lines if not line.startswith("{") or '"level":"critical"' in line]
    assert len(told) == 1, done.err
    assert "Traceback" not in done.err
    assert '"level":"error"' not in done.err, done.err
    if told[0].startswith("{"):
        message: str = json.loads(told[0])["message"]
        told = [message.replace("the server ends", "greenroom")]
    assert told[0].startswith("greenroom: ")
    for text in texts:
        assert text in told[0], told[0]


@contextmanager
def inherited(number: signal.Signals, handler: signal.Handlers) -> Iterator[None]:
    """Have processes that are started in here begin with this for a signal.

    Tests may be run in the background, where it is ignored, and what they start inherits that.
    """
    before = signal.signal(number, handler)
    try:
        yield
    finally:
        signal.signal(number, before)
