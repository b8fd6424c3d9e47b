"""The pages of the SDKs' reference, one module a language; `rest.py` has what most have in common.

What is generated is told from the model, what is written by hand from its doc comments. So neither
can drift from the code: a test fails when a page in the checkout differs.
"""

from __future__ import annotations

from typing import Final

from sdks.model import Emitter
from sdks.pages import csharp, godot, python, typescript

PAGES: Final[tuple[Emitter, ...]] = (csharp.emit, godot.emit, python.emit, typescript.emit)
