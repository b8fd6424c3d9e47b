"""Builds the wheel of the client library: some packages of the checkout, and nothing else.

It is the build backend of `pyproject.toml` beside it (PEP 517), and needs the standard library
alone. The server and the client share `greenroom`, so no build tool would cut it in two by itself.
"""

from __future__ import annotations

import ast
import base64
import hashlib
import tomllib
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PACKAGES = ("behaviour", "client", "contract", "fastlane")
"""The packages of `greenroom` that the client library consists of."""
MODULES = ("__init__.py", "foreign_objects.py", "interrupts.py", "py.typed")
"""Its other files: the version, what `behaviour` imports, and the mark of types."""


def build_wheel(
    wheel_directory: str,
    config_settings: Mapping[str, Any] | None = None,  # noqa: ARG001 (PEP 517)
    metadata_directory: str | None = None,  # noqa: ARG001 (PEP 517)
) -> str:
    """Write the wheel into a directory; return its name."""
    version = _version()
    name = f"greenroom_client-{version}"
    files = {f"greenroom/{path}": data for path, data in _sources()}
    files |= {f"{name}.dist-info/{path}": data for path, data in _metadata(version)}
    record = f"{name}.dist-info/RECORD"
    rows = [f"{path},{_digest(data)},{len(data)}" for path, data in files.items()]
    files[record] = "\n".join([*rows, f"{record},,", ""]).encode()
    wheel = f"{name}-py3-none-any.whl"
    with zipfile.ZipFile(Path(wheel_directory, wheel), "w", zipfile.ZIP_DEFLATED) as archive:
        for path, data in files.items():
            # always the same date, so that the same sources give the same wheel
            archive.writestr(zipfile.ZipInfo(path), data, zipfile.ZIP_DEFLATED)
    return wheel


def build_sdist(
    sdist_directory: str,  # noqa: ARG001 (PEP 517)
    config_settings: Mapping[str, Any] | None = None,  # noqa: ARG001 (PEP 517)
) -> str:
    """Refuse: the sources are the checkout.

    Raises:
        RuntimeError: always.
    """
    raise RuntimeError("the client library is built from a checkout: pip wheel ./sdk/python")


def _sources() -> Iterator[tuple[str, bytes]]:
    package = ROOT / "greenroom"
    for folder in PACKAGES:
        for path in sorted((package / folder).rglob("*.py")):
            yield path.relative_to(package).as_posix(), path.read_bytes()
    for name in MODULES:
        yield name, (package / name).read_bytes()


def _version() -> str:
    for node in ast.parse((ROOT / "greenroom" / "__init__.py").read_text()).body:
        match node:
            case ast.Assign([ast.Name("__version__")], ast.Constant(str(version))):
                return version
    raise RuntimeError("greenroom/__init__.py has no version")


def _metadata(version: str) -> Iterator[tuple[str, bytes]]:
    project = tomllib.loads((HERE / "pyproject.toml").read_text())["project"]
    lines = [
        "Metadata-Version: 2.4",
        f"Name: {project['name']}",
        f"Version: {version}",
        f"Summary: {project['description']}",
        f"License-Expression: {project['license']}",
        "License-File: LICENSE",
        f"Requires-Python: {project['requires-python']}",
        *(f"Requires-Dist: {needed}" for needed in project["dependencies"]),
    ]
    readme = (HERE / project["readme"]).read_text()
    lines += ["Description-Content-Type: text/markdown", "", readme]
    yield "METADATA", "\n".join(lines).encode()
    wheel = "Wheel-Version: 1.0\nGenerator: greenroom\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    yield "WHEEL", wheel.encode()
    yield "licenses/LICENSE", (ROOT / "LICENSE").read_bytes()


def _digest(data: bytes) -> str:
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=")
    return f"sha256={digest.decode()}"
