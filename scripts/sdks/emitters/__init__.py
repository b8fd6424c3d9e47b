"""One module for each language: what an emitter gets, and what it gives.

An emitter is a function from a `Model` to the files that it makes: their texts by path, from the
root of the checkout. It writes nothing itself. Its files have a first line that says that they are
generated. It draws on nothing but the model: what it lacks is added to the model, so that all
languages have it.

    def emit(model: Model) -> Files:
        return {"sdk/csharp/Runtime/Api.cs": …}

A new emitter is listed in `EMITTERS`. `scripts/sdk` writes what it gives, and a test fails when a
file in the checkout differs (`tests/repository/test_sdks.py`).
"""

from __future__ import annotations

from typing import Final

from sdks.emitters import csharp, gdscript, typescript
from sdks.model import Emitter

EMITTERS: Final[tuple[Emitter, ...]] = (csharp.emit, gdscript.emit, typescript.emit)
