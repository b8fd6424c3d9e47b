"""The pages of the SDKs' reference: their examples are code that compiles."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path
from textwrap import indent

import pytest
from page_kit import ROOT, blocks_of
from program_kit import SDK, compile_csharp, has_mono
from sdk_kit import COMPILER, build_typescript, needs_compiler, run_node
from sdks.reading import read_contract

REFERENCE = ROOT / "docs" / "reference" / "sdk"
EXAMPLE = re.compile(
    r"(?:const |var )?(?:answer|result) = await |(?:const |var )room = |async with p"
)
"""The beginning of an example; signatures begin otherwise."""

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def examples(language: str) -> Iterator[str]:
    """Yield the examples of a language's pages."""
    for page in sorted((REFERENCE / language).glob("*.md")):
        for block in blocks_of(page):
            if EXAMPLE.match(block.text):
                yield block.text


@pytest.mark.parametrize("language", ["csharp", "godot", "typescript"])
def test_every_operation_and_a_room_have_an_example(language: str) -> None:
    assert len(list(examples(language))) == len(read_contract().operations) + 1


def test_the_examples_in_python_are_python() -> None:
    found = list(examples("python"))
    assert len(found) > 50
    for example in found:
        ast.parse("async def example():\n" + indent(example, "    "))


@needs_compiler
def test_the_examples_in_typescript_compile(tmp_path: Path) -> None:
    modules = tmp_path / "node_modules"
    modules.mkdir()
    (modules / "greenroom-client").symlink_to(build_typescript())
    bodies = "\n".join(f"  {{\n{example}  }}" for example in examples("typescript"))
    (tmp_path / "examples.ts").write_text(
        'import type { Game, Player } from "greenroom-client";\n'
        'import type { Admin } from "greenroom-client/admin";\n'
        f"export async function all(game: Game, player: Player, owner: Admin) {{\n{bodies}\n}}\n"
    )
    options = {
        "target": "es2022",
        "module": "nodenext",
        "strict": True,
        "noEmit": True,
        "types": [],
        "lib": ["es2022", "dom"],
    }
    config = {"compilerOptions": options, "include": ["examples.ts"]}
    (tmp_path / "tsconfig.json").write_text(json.dumps(config))
    run_node(str(COMPILER), "-p", str(tmp_path))


@pytest.mark.skipif(not has_mono(), reason="no mcs (Mono's compiler)")
def test_the_examples_in_c_sharp_compile(tmp_path: Path) -> None:
    bodies = "\n".join(f"        {{\n{example}        }}" for example in examples("csharp"))
    source = tmp_path / "source"
    source.mkdir()
    (source / "Examples.cs").write_text(
        "using System;\nusing System.Threading.Tasks;\nusing Greenroom;\nusing Greenroom.Server;\n"
        "public static class Examples\n{\n"
        "    public static async Task All(GameApi game, PlayerApi player, AdminApi owner)\n"
        f"    {{\n{bodies}\n    }}\n}}\n"
    )
    greenroom, server = tmp_path / "Greenroom.dll", tmp_path / "Greenroom.Server.dll"
    compile_csharp(SDK / "csharp" / "Runtime", greenroom, "-target:library")
    compile_csharp(SDK / "csharp" / "Server", server, "-target:library", f"-r:{greenroom}")
    libraries = ("-target:library", "-nowarn:219", f"-r:{greenroom}", f"-r:{server}")
    compile_csharp(source, tmp_path / "Examples.dll", *libraries)
