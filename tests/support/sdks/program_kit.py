"""The SDKs as they are in `sdk/`: compiled, or put together, where their tools are installed."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from sdk_kit import COMPILER, HAS_NODE, ROOT, build_typescript

SDK: Final = ROOT / "sdk"
VECTORS: Final = SDK / "vectors"
_MCS: Final = ("mcs", "-langversion:7", "-warnaserror", "-warn:4", "-r:System.Net.Http")


def has_mono() -> bool:
    """Return whether C# can be compiled and run here."""
    return shutil.which("mcs") is not None and shutil.which("mono") is not None


def has_godot3() -> bool:
    """Return whether scripts of Godot 3 can be run here."""
    return shutil.which("godot3-server") is not None


def build_csharp(directory: Path) -> Path:
    """Compile the two assemblies of the C# SDK and its tests; return the tests' program."""
    csharp = SDK / "csharp"
    greenroom, server = directory / "Greenroom.dll", directory / "Greenroom.Server.dll"
    program = directory / "Greenroom.Tests.exe"
    compile_csharp(csharp / "Runtime", greenroom, "-target:library")
    compile_csharp(csharp / "Server", server, "-target:library", f"-r:{greenroom}")
    compile_csharp(csharp / "Tests~", program, f"-r:{greenroom}", f"-r:{server}")
    return program


def compile_csharp(folder: Path, out: Path, *options: str) -> None:
    """Compile all files of a folder."""
    sources = [str(path) for path in sorted(folder.rglob("*.cs"))]
    subprocess.run([*_MCS, f"-out:{out}", *options, *sources], check=True)


def build_godot3(directory: Path) -> Path:
    """Put a project of Godot 3 together with the add-on and its tests; return its folder."""
    project = directory / "godot3"
    for folder in (SDK / "godot" / "addons", SDK / "godot" / "godot3" / "addons"):
        shutil.copytree(folder, project / "addons", dirs_exist_ok=True)
    shutil.copytree(SDK / "godot" / "tests", project, dirs_exist_ok=True)
    (project / "project.godot").write_text("config_version=4\n")
    return project


def commands(directory: Path) -> dict[str, list[str]]:
    """Build what can be built, and return the players' programs by their SDKs' names.

    `{driver}` in a command stands for the driver's host and port.
    """
    player = Path(__file__).with_name("python_player.py")
    found = {"python": [sys.executable, str(player), "{driver}"]}
    if HAS_NODE and COMPILER.exists():
        script = build_typescript() / "test" / "scenario-player.mjs"
        found["typescript"] = ["node", str(script), "{driver}"]
    if has_mono():
        found["csharp"] = ["mono", str(build_csharp(directory)), "play", "{driver}"]
    if has_godot3():
        project = str(build_godot3(directory))
        arguments = ["--script", "scenario_player.gd", "--driver={driver}"]
        found["godot"] = ["godot3-server", "--path", project, *arguments]
    return found
