"""All operations that the contract declares, by their names."""

from __future__ import annotations

import importlib
import pkgutil
from typing import Any

import greenroom.contract
from greenroom.contract.operation import Operation

MODULES = [
    importlib.import_module(f"greenroom.contract.{module.name}")
    for module in pkgutil.iter_modules(greenroom.contract.__path__)
]
OPERATIONS: dict[str, Operation[Any]] = {
    name: found
    for module in MODULES
    for name, found in vars(module).items()
    if isinstance(found, Operation) and found.path.startswith("/api/")
}
