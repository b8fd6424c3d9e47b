"""JSON schemas of bodies and replies, in the dialect of OpenAPI 3.0."""

from __future__ import annotations

import types
import typing
from collections.abc import Callable, Iterable
from datetime import datetime
from inspect import getdoc
from typing import Any, get_args, get_origin

import msgspec

from greenroom.contract.fields import AnyValue, Body, Document, Omitted, RawDocument, SentAs, Stats
from greenroom.http.bodies import INTEGER_DIGITS_MAX, INTEGER_MAX, Field, body_fields
from greenroom.http.describe.glossary import DESCRIPTIONS
from greenroom.http.engine_format import DOUBLED, REPLACED, converter, holds_document, type_hints

Schema = dict[str, Any]

SPELLED_OUT_MAX = 1_000
"""Numbers that a pattern may list, where a field takes its numbers as strings too."""

_TIME = "2026-03-13T14:01:49Z"
EXAMPLES: dict[str, Any] = {
    "account": "created",
    "action_id": "9c1e5a7f3b2d4860ae1f92c7d4b60835",
    "action_ids": ["9c1e5a7f3b2d4860ae1f92c7d4b60835"],
    "action_type": "place",
    "after_id": 1000,
    "applied": ["wins"],
    "auth": "guest",
    "ban_duration": "week",
    "ban_id": "3f2a9c0d5b7e4816a2c4e6f80b1d3f57",
    "ban_reason": "Cheating",
    "banned_until": "2026-03-20T14:01:49Z",
    "bans_removed": 1,
    "count": 1,
    "created_at": _TIME,
    "data": {"level": 3, "xp": 12.5},
    "filtered": "What the ****",
    "from_players": "host",
    "from_players_ids": [17],
    "game_id": 1,
    "host": "127.0.0.1",
    "host_name": "Ada",
    "id": 17,
    "invite_id": "1d7c5b3a9f2e48608c4a6e0f2b4d6183",
    "is_online": True,
    "kind": "room",
    "join_token": "5d3b1f9a7c2e4860",
    "joined_at": _TIME,
    "last_heartbeat": _TIME,
    "last_login": _TIME,
    "last_logout": "2026-03-12T22:40:00Z",
    "last_update": "00000001000000100000010011a3f7c9",
    "last_updated": _TIME,
    "limit": 10,
    "matchmaking_id": "c4e8a1b3d5f7409286ace0f13579bd24",
    "matchmaking_name": "Duel for two",
    "max_players": 6,
    "missed": 0,
    "name": "Ada's den",
    "new_name": "Ada II",
    "offset_hours": 1,
    "offset_string": "+1",
    "original_timestamp": 1773406909,
    "original_utc": "2026-03-13T13:01:49+00:00",
    "password": "sesame",
    "platform_id": "76561197960287930",
    "platform_identity": "my-game",
    "platform_ticket": "14000000a1b2c3d4",
    "player_data": {"level": 3, "xp": 12.5},
    "player_id": 17,
    "player_name": "Ada",
    "player_tag": "#7KQ2M9XB",
    "private_key": "gr_plr_4f0OQ7cBnR1sUwz2YxVtK8mL3jHdE6aGpSoA9rTk",
    "port": 8081,
    "processed_at": _TIME,
    "readable": "2026-03-13 14:01:49 UTC",
    "request_data": {"cell": 4},
    "request_id": "e07b3c9d1f5a4286b8d0a2c4e6f81305",
    "requested_at": _TIME,
    "responded_at": _TIME,
    "responder_name": "Ada",
    "response_data": {"ok": True},
    "room_created_at": _TIME,
    "room_id": "7b0d2f4a6c8e41039f5d1b3a7c9e2046",
    "room_last_activity": _TIME,
    "room_name": "Ada's den",
    "rules": {"mode": "duel"},
    "search": "den",
    "sort_by": ["level", "xp"],
    "started_at": _TIME,
    "stats": {"wins": 3, "best_seconds": 71.25},
    "token": "7b0d2f4a6c8e41039f5d1b3a7c9e2046d81f6b3a59c72e04b6a8f1d3c5e79024",
    "status": "completed",
    "target_players": "host",
    "target_players_ids": [17],
    "text": "What the hell",
    "timestamp": 1773410509,
    "type": "chat",
    "udp_port": 8082,
    "update_id": "00000001000000100000010011a3f7c9",
    "update_ids": ["00000001000000100000010011a3f7c9"],
    "updated_at": _TIME,
    "utc": "2026-03-13T14:01:49+00:00",
}
"""Examples by field name; shown where the field's type allows them."""

_KEY_PATTERN = rf"^[+-]?[0-9]{{1,{INTEGER_DIGITS_MAX}}}$"
_NO_NUL = r"^[^\u0000]*$"


# Requests


def field_schema(field: Field, *, is_required: bool = False) -> Schema:
    """Return the schema of a field in a body: every value that is accepted."""
    schema = _KIND_SCHEMAS[field.type](field)
    described = field_description(field)
    if field.is_document:
        described += f": a JSON object; or send `{field.name}_json`, a string of it"
    if described:
        schema["description"] = described
    example = field_example(field)
    if example is not None and field.type is not RawDocument:
        schema["example"] = example
    if is_required:
        if field.type is str and not field.keep_empty:
            schema.setdefault("minLength", 1)
        return schema
    default = _limits(field).get("default", field.default)
    if default is not None:
        schema["default"] = default
    if "enum" in schema and not field.keep_empty:
        schema["enum"] = [*schema["enum"], ""]  # which is absent
    return _nullable(schema)


def field_example(field: Field) -> Any:
    """Return the field's own example, or else that of its name, or None."""
    own = (meta.examples[0] for meta in field.metas if meta.examples)
    return next(own, EXAMPLES.get(field.name))


def field_description(field: Field) -> str:
    """Return the field's own description, or else that of its name, or an empty text."""
    own = [meta.description for meta in field.metas if meta.description]
    return own[-1] if own else DESCRIPTIONS.get(field.name, "")


def body_schema(body: type[Body]) -> Schema:
    """Return the schema of a whole body: unknown members are ignored."""
    fields = body_fields(body)
    required = [
        field.name
        for field in fields
        if field.missing_text is not None or field.name in body.schema_required
    ]
    schema: Schema = {
        "type": "object",
        "properties": {
            field.name: field_schema(field, is_required=field.name in required) for field in fields
        },
        "additionalProperties": True,
    }
    if required:
        schema["required"] = required
    return schema


def integer_schema(field: Field) -> Schema:
    """Return the schema of an integer within the limits of its field and of the database."""
    limits = _limits(field)
    return {
        "type": "integer",
        "format": "int64",
        "minimum": limits.pop("minimum", -INTEGER_MAX),
        "maximum": limits.pop("maximum", INTEGER_MAX),
        **{word: value for word, value in limits.items() if word != "default"},
    }


def _lenient_integer_schema(field: Field) -> Schema:
    # in a list, as in a required field, an empty string is no integer
    is_needed = field.missing_text is not None or field.type is not int
    integer = integer_schema(field)
    if integer["maximum"] - integer["minimum"] < SPELLED_OUT_MAX:
        texts = "|".join(map(str, range(integer["minimum"], integer["maximum"] + 1)))
        pattern = f"^({texts})$" if is_needed else f"^({texts})?$"
    else:
        pattern = _KEY_PATTERN if is_needed else rf"^([+-]?[0-9]{{1,{INTEGER_DIGITS_MAX}}})?$"
    return {"anyOf": [integer, {"type": "string", "pattern": pattern}]}


def _string_schema(field: Field) -> Schema:
    limits = _limits(field)
    return {"type": "string", **({} if "enum" in limits else {"pattern": _NO_NUL}), **limits}


_KIND_SCHEMAS: dict[object, Callable[[Field], Schema]] = {
    str: _string_schema,
    int: _lenient_integer_schema,
    bool: lambda field: {"type": "boolean", **_limits(field)},
    float: lambda field: {"type": "number", **_limits(field)},
    list[int]: lambda field: {
        "type": "array",
        "items": _lenient_integer_schema(field),
        **_limits(field),
    },
    list[str]: lambda field: {
        "type": "array",
        "items": {"type": "string", "pattern": _NO_NUL},
        **_limits(field),
    },
    RawDocument: lambda field: document_schema(field.name),
}


def _limits(field: Field) -> Schema:
    """Return the limits in the field's `Meta`, as JSON schema has them."""
    words = {
        "ge": "minimum",
        "le": "maximum",
        "pattern": "pattern",
        "min_length": "minItems" if get_origin(field.type) is list else "minLength",
        "max_length": "maxItems" if get_origin(field.type) is list else "maxLength",
    }
    schema: Schema = {}
    for meta in field.metas:
        for attribute, word in words.items():
            value = getattr(meta, attribute)
            if value is not None:
                schema[word] = value
        schema.update(meta.extra_json_schema or {})
    return schema


# Replies


def _unmark(hint: Any) -> tuple[Any, tuple[Any, ...]]:
    """Return the type of a field as it is sent, and its annotations."""
    if get_origin(hint) is not typing.Annotated:
        return hint, ()
    hint, *marks = get_args(hint)
    for mark in marks:
        if isinstance(mark, SentAs):
            hint = mark.type
    if Omitted in marks:
        (hint,) = (part for part in get_args(hint) if part is not types.NoneType)
    return hint, tuple(marks)


def is_omitted(hint: Any) -> bool:
    """Return whether the server may leave out a field of this type."""
    return Omitted in _unmark(hint)[1]


class ReplySchemas:
    """Schemas of reply structs as components, each by its name; with `Engine` for that variant."""

    def __init__(self) -> None:
        """Start without components."""
        self.components: Schema = {}

    def reply(self, reply: type[msgspec.Struct]) -> Schema:
        """Return the schema of a whole answer, in either format."""
        plain = self._describe_struct(reply, is_engine=False)
        if converter(reply) is None:
            return plain
        return {"anyOf": [plain, self._describe_struct(reply, is_engine=True)]}

    def _describe_struct(self, struct: type[msgspec.Struct], *, is_engine: bool) -> Schema:
        is_engine = is_engine and converter(struct) is not None
        name = f"{struct.__name__}Engine" if is_engine else struct.__name__
        reference = {"$ref": f"#/components/schemas/{name}"}
        if name in self.components:
            return reference
        self.components[name] = {}  # reserve the name first, in case the struct contains itself
        hints = type_hints(struct)
        properties: Schema = {}
        required: list[str] = []
        for info in msgspec.structs.fields(struct):
            for key, schema in self._describe_members(info, hints[info.name], is_engine=is_engine):
                properties[key] = schema
                is_always = key not in {info.name, "stats_json"}
                if is_always or not is_omitted(hints[info.name]):
                    required.append(key)
        self.components[name] = {
            "type": "object",
            "description": getdoc(struct) or "",
            "properties": properties,
            "required": required,
        }
        return reference

    def _describe_members(
        self, info: msgspec.structs.FieldInfo, hint: Any, *, is_engine: bool
    ) -> Iterable[tuple[str, Schema]]:
        name = info.name
        if name == "success":
            yield name, {"type": "boolean", "enum": [True]}
            return
        is_document = holds_document(hint)
        hint, marks = _unmark(hint)
        if not (is_engine and is_document and name in REPLACED):
            if AnyValue in marks:
                schema: Schema = {"example": EXAMPLES[name]}
            else:
                schema = self._describe_value(hint, name, is_engine=is_engine)
            for mark in marks:
                if isinstance(mark, msgspec.Meta) and mark.description:
                    schema["description"] = mark.description
            if (
                name in DESCRIPTIONS and "$ref" not in schema
            ):  # beside a reference a description is ignored
                schema.setdefault("description", DESCRIPTIONS[name])
            if isinstance(info.default, str):
                schema.setdefault("example", info.default)
            yield name, schema
        if is_engine and is_document and name in REPLACED | DOUBLED:
            example = msgspec.json.encode(EXAMPLES.get(name, {})).decode()
            yield f"{name}_json", {"type": "string", "example": example}

    def _describe_value(self, hint: Any, name: str, *, is_engine: bool) -> Schema:
        if get_origin(hint) is typing.Annotated:
            hint = get_args(hint)[0]
        if get_origin(hint) in (typing.Union, types.UnionType):
            parts = get_args(hint)
            present = [part for part in parts if part is not types.NoneType]
            schemas = [self._describe_value(part, name, is_engine=is_engine) for part in present]
            schema = schemas[0] if len(schemas) == 1 else {"anyOf": schemas}
            return _nullable(schema) if types.NoneType in parts else schema
        if get_origin(hint) is list:
            (entry,) = get_args(hint)
            items = self._describe_value(entry, "", is_engine=is_engine)
            example = EXAMPLES.get(name)
            shown = {"example": example} if isinstance(example, list) else {}
            return {"type": "array", "items": items, **shown}
        if hint == Document:
            return document_schema(name)
        if hint == Stats:
            numbers = {"type": "object", "additionalProperties": {"type": "number"}}
            return {**numbers, "example": EXAMPLES["stats"]}
        if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
            return self._describe_struct(hint, is_engine=is_engine)
        return _scalar_schema(hint, name)


def _scalar_schema(hint: Any, name: str) -> Schema:
    if get_origin(hint) is typing.Literal:
        return {"type": "string", "enum": list(get_args(hint))}
    schema: Schema = {"type": _SCALARS[hint]}
    example = EXAMPLES.get(name)
    if example is not None:
        schema["example"] = str(example) if hint in (str, datetime) else example
    return schema


_SCALARS = {str: "string", datetime: "string", int: "integer", float: "number", bool: "boolean"}


def document_schema(name: str) -> Schema:
    """Return the schema of a game-defined document."""
    example = EXAMPLES.get(name, {})
    return {"type": "object", "additionalProperties": True, "example": example}


def example_of(schema: Schema, components: Schema) -> Any:
    """Return an example that satisfies a schema, put together from those of its parts.

    Args:
        schema: of a request or a reply, or any part of one.
        components: where its references lead.
    """
    if "example" in schema:
        return schema["example"]
    if "$ref" in schema:
        return example_of(components[schema["$ref"].rpartition("/")[2]], components)
    for word in ("allOf", "anyOf"):
        if word in schema:
            return example_of(schema[word][0], components)
    if "enum" in schema:
        return schema["enum"][0]
    if schema["type"] == "array":
        return [example_of(schema["items"], components)]
    if schema["type"] == "object":
        return {
            name: example_of(member, components)
            for name, member in schema.get("properties", {}).items()
        }
    return None if schema.get("nullable") else PLAIN_EXAMPLES[schema["type"]]


PLAIN_EXAMPLES: Schema = {"string": "text", "integer": 1, "number": 1.5, "boolean": True}
"""Examples by type, for fields whose names have none."""


_NULL: Schema = {"type": "object", "nullable": True, "enum": [None]}
"""The schema of null. `nullable` needs a `type` beside it, which references do not have."""


def _nullable(schema: Schema) -> Schema:
    """Return a schema that also accepts null, in OpenAPI 3.0's way."""
    if "$ref" in schema:
        return {"anyOf": [schema, _NULL]}
    if "anyOf" in schema:
        return {**schema, "anyOf": [_nullable(part) for part in schema["anyOf"]]}
    if "enum" in schema:
        return {**schema, "nullable": True, "enum": [*schema["enum"], None]}
    return {**schema, "nullable": True}
