"""The common part of the SDKs is as the server's own code says: scripts/sdk."""

from __future__ import annotations

import tomllib
from pathlib import Path

import msgspec
import pytest
from sdks.__main__ import drift, generate
from sdks.emitters import typescript
from sdks.model import Model
from sdks.reading import read_contract

from greenroom.http.endpoints import ENDPOINTS

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def model() -> Model:
    return read_contract()


def test_no_generated_file_has_drifted() -> None:
    drifted = drift(generate(), ROOT)
    assert not drifted, "run scripts/sdk, and commit what it writes"


def test_a_file_that_is_missing_or_differs_has_drifted(tmp_path: Path) -> None:
    (tmp_path / "right").write_text("as it should be\n")
    (tmp_path / "changed").write_text("by hand\n")
    files = dict.fromkeys(("right", "changed", "missing"), "as it should be\n")
    assert drift(files, tmp_path) == ["changed", "missing"]


def test_a_field_that_the_contract_gains_changes_every_language(model: Model) -> None:
    [reply] = [each for each in model.structs if each.name == "RoomCreateReply"]
    gained = msgspec.structs.replace(reply.fields[0], name="brand_new")
    grown = msgspec.structs.replace(reply, fields=(*reply.fields, gained))
    structs = tuple(grown if each is reply else each for each in model.structs)
    files = typescript.emit(msgspec.structs.replace(model, structs=structs))
    assert drift(files, ROOT) == ["sdk/typescript/src/generated/types.ts"]


def test_every_endpoint_is_an_operation_with_a_name_of_its_own(model: Model) -> None:
    assert [(each.method, each.path) for each in model.operations] == [
        (each.method, each.path) for each in ENDPOINTS
    ]
    names = [each.name for each in model.operations]
    assert len(names) == len({*names})


def test_what_operations_name_is_in_the_model(model: Model) -> None:
    structs = [each.name for each in model.structs]
    requests = [each.request.name for each in model.operations if each.request is not None]
    assert len({*structs, *requests}) == len(structs) + len(requests)
    assert {each.reply for each in model.operations} <= {*structs}
    seen: set[str] = set()
    for struct in model.structs:
        for field in struct.fields:
            entry = field.type.entry or field.type
            assert not entry.struct or entry.struct in seen, "it stands behind what holds it"
        seen.add(struct.name)


def test_who_calls_and_what_must_be_given_is_told(model: Model) -> None:
    operations = {each.name: each for each in model.operations}
    assert operations["register"].auth == "key"
    assert not operations["register"].needs_request
    assert operations["ban"].auth == "admin"
    assert operations["ban"].needs_request
    assert operations["join_room"].path_names == ("room_id",)
    assert "room_full" in {refusal.code for refusal in operations["join_room"].refusals}
    assert operations["set_player"].request_in == "document"
    assert operations["time"].request_in == "query"
    ban = operations["ban"].request
    assert ban is not None
    by_name = {field.name: field for field in ban.fields}
    assert by_name["ban_duration"].type.words[0] == "hour"
    assert (by_name["ban_duration"].is_optional, by_name["ban_reason"].is_optional) == (False, True)


def test_the_python_library_needs_what_the_whole_needs_in_the_same_versions() -> None:
    whole = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    alone = tomllib.loads((ROOT / "sdk/python/pyproject.toml").read_text())["project"]
    known = {*whole["dependencies"], *whole["optional-dependencies"]["client"]}
    assert {*alone["dependencies"]} <= known
    assert alone["requires-python"] == whole["requires-python"]
