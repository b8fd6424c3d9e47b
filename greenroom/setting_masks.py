"""Masks the secrets among the settings, for logs and operators."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

SECRETS: Final = frozenset({"bus", "database_url", "metrics_token"})
"""The names of the settings that are secrets, or contain one."""


def masked(settings: msgspec.Struct) -> dict[str, Any]:
    """Return the settings as plain values without any secret, in the order of their definition."""
    shown: dict[str, Any] = {}
    for name in settings.__struct_fields__:
        value = getattr(settings, name)
        if name in SECRETS and value is not None:
            value = _MASKS[name](value) if name in _MASKS else "***"
        shown[name] = str(value) if isinstance(value, Path) else value
    return shown


_URL_PASSWORD: Final = re.compile(r"(://[^:/?#\s]*):[^\s]*@")
_PARAMETER_PASSWORD: Final = re.compile(
    r"((?:ssl|oauth_client_)?(?:password|secret)\s*=\s*)('(?:[^'\\]|\\.)*'?|[^\s&]*)", re.IGNORECASE
)


def mask_url(url: str) -> str:
    """Return a database address with every password in it replaced by `***`.

    It is greedy on purpose. An unescaped `@` or `/` inside a password hides too much, never too
    little.
    """
    return _PARAMETER_PASSWORD.sub(r"\1***", _URL_PASSWORD.sub(r"\1:***@", url))


def mask_bus(urls: str) -> str:
    """Return addresses of NATS servers without user names and passwords.

    It may hide more than those, never less.
    """
    return _SIGNS_IN.sub("://***@", urls)


_SIGNS_IN: Final = re.compile(r"://.*@", re.DOTALL)
_MASKS: Final[Mapping[str, Callable[[str], str]]] = {"bus": mask_bus, "database_url": mask_url}
