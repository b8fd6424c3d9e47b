"""Code samples of a call: with curl, in Python and in JavaScript, ready to be pasted.

They call a server on this machine at its default port, and take keys and tokens from the
environment. The tests run every one of them.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from greenroom.http.auth import ADMIN_KEY_HEADER, PLAYER_TOKEN_HEADER, PROJECT_KEY_HEADER
from greenroom.http.table import Auth

SERVER: Final = "http://127.0.0.1:8080"
VARIABLES: Final = {
    PROJECT_KEY_HEADER: "API_TOKEN",
    PLAYER_TOKEN_HEADER: "PLAYER_TOKEN",
    ADMIN_KEY_HEADER: "API_PRIVATE_TOKEN",
}
"""The environment variable that each header is taken from."""

_PLAYER: Final = (PROJECT_KEY_HEADER, PLAYER_TOKEN_HEADER)
_HEADERS: Final = {
    Auth.KEY: (PROJECT_KEY_HEADER,),
    Auth.PLAYER: _PLAYER,
    Auth.PLAYER_AND_ADMIN: _PLAYER,
    Auth.ADMIN: (PROJECT_KEY_HEADER, ADMIN_KEY_HEADER),
}


class CallSample(msgspec.Struct, frozen=True):
    """A call for which samples are written.

    `target` is path and query; `body` is None for a call without one.
    """

    method: str
    target: str
    auth: Auth
    body: Any = None

    @property
    def url(self) -> str:
        """Return the URL of the call."""
        return SERVER + self.target

    @property
    def variables(self) -> Mapping[str, str]:
        """Return the variable of each header that is sent."""
        return {header: VARIABLES[header] for header in _HEADERS[self.auth]}


def code_samples(sample: CallSample) -> list[dict[str, str]]:
    """Return the samples of a call as `x-codeSamples` has them."""
    return [
        {"lang": "Shell", "label": "curl", "source": _curl(sample)},
        {"lang": "Python", "label": "Python", "source": _python(sample)},
        {"lang": "JavaScript", "label": "JavaScript (Node)", "source": _javascript(sample)},
    ]


def _curl(sample: CallSample) -> str:
    lines = [f"curl -X {sample.method} {shlex.quote(sample.url)}"]
    lines += [f'-H "{header}: ${name}"' for header, name in sample.variables.items()]
    if sample.body is not None:
        lines.append(f"-d {shlex.quote(_json(sample.body))}")
    return " \\\n  ".join(lines)


def _python(sample: CallSample) -> str:
    imports = ["import os", "import urllib.request"]
    headers = [
        f'        "{header}": os.environ["{name}"],' for header, name in sample.variables.items()
    ]
    lines = [
        "request = urllib.request.Request(",
        f"    {_json(sample.url)},",
        f'    method="{sample.method}",',
        *("    headers={", *headers, "    },"),
    ]
    if sample.body is not None:
        imports.insert(0, "import json")
        lines.append(f"    data=json.dumps({sample.body!r}).encode(),")
    lines += [")", "with urllib.request.urlopen(request) as answer:"]
    return "\n".join([*imports, "", *lines, "    print(answer.read().decode())"])


def _javascript(sample: CallSample) -> str:
    headers = [f'    "{header}": process.env.{name},' for header, name in sample.variables.items()]
    lines = [
        f"const answer = await fetch({_json(sample.url)}, {{",
        f'  method: "{sample.method}",',
        *("  headers: {", *headers, "  },"),
    ]
    if sample.body is not None:
        lines.append(f"  body: JSON.stringify({_json(sample.body)}),")
    return "\n".join([*lines, "});", "console.log(await answer.text());"])


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
