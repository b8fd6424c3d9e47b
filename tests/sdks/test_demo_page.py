"""The demo's page has the SDK as the compiler makes it."""

from __future__ import annotations

import demo_page
import pytest
from sdk_kit import needs_compiler

pytestmark = [needs_compiler, pytest.mark.slow]


def test_the_sdk_in_the_demos_page_has_not_drifted(capsys: pytest.CaptureFixture[str]) -> None:
    status = demo_page.main(["--check"])
    assert status == 0, capsys.readouterr().err
