"""Examples of what passes over the realtime channel, made by the server's own code.

The hand-written half of every SDK is tested with them. Each file is a JSON object: `about` says how
to read it, and the other members are lists of cases with a `name` each.
"""

from __future__ import annotations

import json
from typing import Any

from sdks.model import Files
from sdks.vectors import deltas, fast_lane, frames, resume

FOLDER = "sdk/vectors"


def vector_files() -> Files:
    """Return the files of vectors."""
    return {
        f"{FOLDER}/deltas.json": _text(deltas.vectors()),
        f"{FOLDER}/fast_lane.json": _text(fast_lane.vectors()),
        f"{FOLDER}/frames.json": _text(frames.vectors()),
        f"{FOLDER}/resume.json": _text(resume.vectors()),
    }


def _text(vectors: dict[str, Any]) -> str:
    return json.dumps(vectors, ensure_ascii=False, indent=1) + "\n"
