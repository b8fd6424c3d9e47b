"""The contract's operations: the server answers each, and the client library calls each."""

from __future__ import annotations

import ast
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from contract_kit import OPERATIONS

import greenroom.client
from greenroom.client import lobby_replies, replies, room_replies
from greenroom.client.decoding import decode_reply
from greenroom.contract.operation import Operation
from greenroom.contract.players import RegisterReply
from greenroom.contract.time import TimeReply
from greenroom.http.describe.openapi import build
from greenroom.http.endpoints import ENDPOINTS

DOCUMENT = build(ENDPOINTS)


def test_the_server_has_one_endpoint_for_each_operation() -> None:
    calls = [(endpoint.method, endpoint.path) for endpoint in ENDPOINTS]

    assert len(OPERATIONS) == 62
    assert sorted(calls) == sorted((each.method, each.path) for each in OPERATIONS.values())


def test_every_operation_is_called_in_one_place_of_the_client() -> None:
    folder = Path(greenroom.client.__file__).parent
    used = [
        node.id
        for path in folder.glob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Name) and node.id in OPERATIONS
    ]
    twice = {"ROOM_CURRENT", "LOBBY_CURRENT"}  # to see it, and to find one's seat again
    assert sorted(used) == sorted([*OPERATIONS, *twice])


def example(operation: Operation[Any]) -> bytes:
    """The answer that the reference shows for an operation."""
    described = DOCUMENT["paths"][operation.path][operation.method.lower()]
    content = described["responses"]["200"]["content"]["application/json"]
    shown = content["example"] if "example" in content else content["examples"]["plain"]["value"]
    return msgspec.json.encode(shown)


@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=OPERATIONS)
def test_the_client_reads_the_answer_that_the_reference_shows(operation: Operation[Any]) -> None:
    data = example(operation)

    reply = decode_reply(data, operation.reply)

    assert isinstance(reply, operation.reply)
    assert reply.raw == data


@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=OPERATIONS)
def test_the_client_leaves_out_fields_that_it_does_not_know(operation: Operation[Any]) -> None:
    data = msgspec.json.encode(msgspec.json.decode(example(operation)) | {"new_field": [1]})

    assert decode_reply(data, operation.reply).raw == data


def test_what_the_server_leaves_out_is_none_and_ids_in_strings_are_numbers() -> None:
    told = {"player_id": "17", "private_key": "k", "player_name": "Ada", "player_tag": "#x"}
    account = decode_reply(msgspec.json.encode(told | {"game_id": 1}), RegisterReply)

    assert account.platform_id is None
    assert account.player_id == 17


def test_times_are_moments_in_either_form() -> None:
    time = decode_reply(example(OPERATIONS["TIME"]), TimeReply)

    assert time.offset is not None
    assert time.offset.original_utc == datetime(2026, 3, 13, 14, 1, 49, tzinfo=UTC)
    assert (time.utc - time.offset.original_utc).seconds == 3600 * time.offset.offset_hours


@pytest.mark.parametrize("module", [replies, lobby_replies, room_replies])
def test_the_names_of_answers_are_those_of_the_contract(module: Any) -> None:
    foreign = [
        name
        for name in module.__all__
        if isinstance(getattr(module, name), type)
        and getattr(module, name) is not dict
        and not getattr(module, name).__module__.startswith("greenroom.contract.")
    ]
    assert foreign == []
