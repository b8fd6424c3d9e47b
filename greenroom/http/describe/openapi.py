"""/openapi.json: the table as OpenAPI 3.0.3, made once at start-up.

The schemas describe everything that is accepted, leniency included, and everything that is
answered. So a client that is generated from them never meets anything else. They are made from the
structs that requests are decoded into and replies encoded from.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from inspect import getdoc
from typing import Any
from urllib.parse import urlencode

from greenroom.actors.plans.refusals import (
    WRITTEN_TOO_MUCH,
    CallShareUsed,
    PlayersHoldTooMuch,
    TooManyPlayersFromAddress,
    TooManyPlayersOnline,
)
from greenroom.contract.allowed_values import BAN_DURATIONS
from greenroom.contract.fields import Body
from greenroom.http.auth import ADMIN_KEY_HEADER, PLAYER_TOKEN_HEADER, PROJECT_KEY_HEADER
from greenroom.http.bodies import InvalidBody, TooManyContainers, body_fields
from greenroom.http.describe import examples
from greenroom.http.describe.code_samples import CallSample, code_samples
from greenroom.http.describe.examples import ToldCall, engine_form
from greenroom.http.describe.glossary import DESCRIPTIONS
from greenroom.http.describe.realtime import realtime
from greenroom.http.describe.schemas import (
    EXAMPLES,
    ReplySchemas,
    Schema,
    body_schema,
    document_schema,
    example_of,
    field_description,
    field_example,
    field_schema,
    integer_schema,
)
from greenroom.http.errors import (
    INTERNAL_SERVER_ERROR,
    INVALID_ENDPOINT,
    TOO_MANY_REQUESTS,
    KeyInvalid,
    status_of,
)
from greenroom.http.limits import WRITING_CLASSES
from greenroom.http.table import Auth, Endpoint

API_VERSION = "1.0.0"

_SECURITY: dict[Auth, list[Schema]] = {
    Auth.KEY: [{"ProjectKey": []}],
    Auth.PLAYER: [{"ProjectKey": [], "PlayerToken": []}],
    Auth.PLAYER_AND_ADMIN: [{"ProjectKey": [], "PlayerToken": []}],  # the third one may be added
    Auth.ADMIN: [{"ProjectKey": [], "AdminKey": []}],
}
_SECURITY_SCHEMES: dict[str, tuple[str, str]] = {
    "ProjectKey": (PROJECT_KEY_HEADER, "The game's project key; game clients carry it."),
    "PlayerToken": (PLAYER_TOKEN_HEADER, "The player's token: `private_key` of register."),
    "AdminKey": (ADMIN_KEY_HEADER, "The game's admin key; never put it into a game client."),
}
FORMAT_DESCRIPTION = (
    "with `format=engine` (or `unity`) in the query, answers hold documents as strings of compact "
    "JSON: `player_data`, `rules`, `request_data` and `response_data` become `<name>_json`, and "
    "`data_json` stands beside `data`. Anything else changes nothing."
)
_FORMAT_PARAMETER: Schema = {
    "name": "format",
    "in": "query",
    "description": FORMAT_DESCRIPTION[0].upper() + FORMAT_DESCRIPTION[1:],
    "schema": {"type": "string"},
    "example": "engine",
}
_DESCRIPTION = """\
Every answer is a JSON object with a boolean `success`; failures carry `error`, a text to show or
to match whole. Tokens travel in headers, never in URLs.

In requests, unknown members are ignored, `null` and (for strings) `""` count as absent, integers
may be sent as strings of digits. Wherever a body takes a document such as `player_data`, it may be
sent as `player_data_json` instead, a string that holds the JSON object.

The examples are one story of a new server: Ada (1), Ben (2), Cleo (3), Dan (4) and Eve (5) play its
first game. The code samples call `http://127.0.0.1:8080`, and take keys and tokens from the
environment variables `API_TOKEN`, `PLAYER_TOKEN` and `API_PRIVATE_TOKEN`.
"""
_BAN: Schema = {
    "success": False,
    "error": "You are banned: Cheating. This is a permanent ban.",
    "ban_info": {
        "ban_id": EXAMPLES["ban_id"],
        "ban_duration": "forever",
        "ban_reason": "Cheating",
        "banned_at": EXAMPLES["created_at"],
        "banned_until": None,
    },
}
_TOO_MANY: Schema = {"success": False, "error": TOO_MANY_REQUESTS, "retry_after": 1}
_TAGS = {
    "game_players": ("Players", "Accounts, sessions, tokens, bans"),
    "game_data": ("Documents", "The game's document and each player's, stored verbatim"),
    "game_room": ("Rooms", "Rooms: seats, actions that are answered, updates that are told"),
    "matchmaking": ("Lobbies", "Lobbies, which become rooms"),
    "realtime": ("Realtime tokens", "Tokens for the realtime ports: WebSocket and UDP"),
    "friends": ("Friends", "Friends, friend requests, invites to a room or lobby"),
    "censor": ("Moderation", "Moderation of texts"),
    "leaderboard": ("Leaderboards", "Rankings by numbers in players' documents"),
    "time": ("Time", "Authoritative time"),
}
"""The name and the description of each area."""
REALTIME_TAG = "Realtime messages"


def build(endpoints: Iterable[Endpoint]) -> Schema:
    """Return the OpenAPI 3.0.3 document of these endpoints."""
    replies = ReplySchemas()
    paths: Schema = {}
    tags: dict[str, str] = {}
    for endpoint in endpoints:
        name, description = _tag(endpoint)
        tags[name] = description
        path = paths.setdefault(endpoint.path, {})
        path[endpoint.method.lower()] = _operation(endpoint, replies)
    return {
        "openapi": "3.0.3",
        "info": {
            "title": "Greenroom",
            "version": API_VERSION,
            "description": _DESCRIPTION,
            "license": {"name": "MIT", "url": "https://opensource.org/license/mit"},
        },
        "servers": [{"url": "/", "description": "This server"}],
        "tags": [*_described(tags)],
        "paths": paths,
        "components": {
            "securitySchemes": {
                name: {"type": "apiKey", "in": "header", "name": header, "description": text}
                for name, (header, text) in _SECURITY_SCHEMES.items()
            },
            "headers": {
                "RetryAfter": {
                    "description": "Seconds to wait",
                    "required": True,
                    "schema": {"type": "integer", "minimum": 1},
                }
            },
            "schemas": {**_error_schemas(), **replies.components},
        },
    }


def _described(tags: Mapping[str, str]) -> Iterator[Schema]:
    """Yield the tags; the text about realtime messages follows that about their tokens."""
    for name, text in tags.items():
        yield {"name": name, "description": text}
        if name == _TAGS["realtime"][0]:
            yield {"name": REALTIME_TAG, "description": realtime(), "x-traitTag": True}


def _tag(endpoint: Endpoint) -> tuple[str, str]:
    area = endpoint.path.split("/")[2].removesuffix(".php")
    return _TAGS.get(area, (area, ""))


def operation_id(endpoint: Endpoint) -> str:
    """Return the name of an endpoint's operation in the document, and in the examples."""
    words = endpoint.path.removeprefix("/api/").replace(".php", "")
    return "_".join("".join(c if c.isalnum() else " " for c in words).split())


def _operation(endpoint: Endpoint, replies: ReplySchemas) -> Schema:
    told = examples.load().get(operation_id(endpoint))
    operation: Schema = {
        "operationId": operation_id(endpoint),
        "tags": [_tag(endpoint)[0]],
        "summary": endpoint.summary,
        **_description(endpoint),
        "security": _SECURITY[endpoint.auth],
        "parameters": _parameters(endpoint, told),
        "responses": _responses(endpoint, replies, told),
    }
    body = None if told is None else told.body
    if endpoint.body is not None:
        operation["requestBody"] = _request_body(endpoint.body, body)
    elif endpoint.document_body:
        operation["requestBody"] = {
            "description": "The document, stored as it is sent",
            "required": True,
            "content": _json(document_schema("data"), body or EXAMPLES["data"]),
        }
    if told is not None:
        operation["x-codeSamples"] = code_samples(_sample(endpoint, told))
    return operation


def _description(endpoint: Endpoint) -> Schema:
    """Return the handler's description, or nothing if it only repeats the summary."""
    text = getdoc(endpoint.handler) or ""
    return {} if text.rstrip(".") in {"", endpoint.summary} else {"description": text}


def _sample(endpoint: Endpoint, told: ToldCall) -> CallSample:
    target = endpoint.path.format(**told.path)
    if told.query:
        target += f"?{urlencode(told.query)}"
    return CallSample(endpoint.method, target, endpoint.auth, told.body)


# Requests


def _parameters(endpoint: Endpoint, told: ToldCall | None) -> list[Schema]:
    parameters: list[Schema] = [
        {
            "name": name,
            "in": "path",
            "required": True,
            "description": DESCRIPTIONS.get(name, ""),
            "schema": {"type": "string"},
            **({} if told is None else {"example": told.path[name]}),
        }
        for name in endpoint.path_names
    ]
    for field in body_fields(endpoint.query) if endpoint.query is not None else ():
        schema = field_schema(field)
        schema.pop("nullable", None)
        schema.pop("description", None)
        if field.type is int:  # a query has digits anyway; an empty value counts as absent
            schema = {"anyOf": [integer_schema(field), {"type": "string", "enum": [""]}]}
        parameter: Schema = {"name": field.name, "in": "query", "schema": schema}
        parameter["description"] = field_description(field)
        example = field_example(field) if told is None else told.query.get(field.name)
        if example is not None:
            parameter["example"] = example
        parameters.append(parameter)
    return [*parameters, _FORMAT_PARAMETER]


def _request_body(body: type[Body], example: Any) -> Schema:
    schema = body_schema(body)
    required = "required" in schema
    if not required:
        schema["nullable"] = True
    if example is None:
        example = {
            name: example_of(member, {})
            for name, member in schema["properties"].items()
            if "example" in member or name in schema.get("required", ())
        }
    return {
        "description": getdoc(body) or "",
        "required": required,
        "content": _json(schema, example),
    }


# Errors


def _error_schemas() -> Schema:
    error: Schema = {
        "type": "object",
        "description": "A failure.",
        "properties": {
            "success": {"type": "boolean", "enum": [False]},
            "error": {"type": "string"},
            "hint": {"type": "string", "description": "What to do; for developers, not to match"},
            "message": {"type": "string", "description": "Beside a bad project key alone"},
        },
        "required": ["success", "error"],
    }
    ban_info = {
        "type": "object",
        "properties": {
            "ban_id": {"type": "string"},
            "ban_duration": {"type": "string", "enum": [*BAN_DURATIONS]},
            "ban_reason": {"type": "string", "nullable": True},
            "banned_at": {"type": "string"},
            "banned_until": {"type": "string", "nullable": True},
        },
        "required": ["ban_id", "ban_duration", "ban_reason", "banned_at", "banned_until"],
    }
    return {
        "Error": error,
        "BannedError": {
            **error,
            "description": "The player is banned; bans by the publisher have no `ban_info`.",
            "properties": {**error["properties"], "ban_info": ban_info},
            "required": ["success", "error"],
        },
        "TooManyRequestsError": {
            **error,
            "description": "Try again after `retry_after` seconds.",
            "properties": {**error["properties"], "retry_after": {"type": "integer", "minimum": 1}},
            "required": ["success", "error", "retry_after"],
        },
    }


def _responses(endpoint: Endpoint, replies: ReplySchemas, told: ToldCall | None) -> Schema:
    texts = error_texts(endpoint)
    return {
        "200": {"description": "Success", "content": _success(endpoint, replies, told)},
        "400": _error("The request does not fit, or cannot be done now", texts[400]),
        "401": _error("A token is missing or not valid", texts[401]),
        **(
            {"403": _error("The player is banned", [_BAN["error"]], "BannedError", _BAN)}
            if _bans(endpoint)
            else {}
        ),
        "404": _error("What is named does not exist", [*texts[404], INVALID_ENDPOINT]),
        "413": _error("The body is too large", ["Request body is too large"]),
        "429": {
            **_error("Too much at once", texts[429], "TooManyRequestsError", _TOO_MANY),
            "headers": {"Retry-After": {"$ref": "#/components/headers/RetryAfter"}},
        },
        "500": _error("A fault of the server", [INTERNAL_SERVER_ERROR]),
    }


def _bans(endpoint: Endpoint) -> bool:
    if endpoint.auth in {Auth.PLAYER, Auth.PLAYER_AND_ADMIN}:
        return True
    return any(status_of(refusal) == 403 for refusal in endpoint.refusals)


def error_texts(endpoint: Endpoint) -> dict[int, list[str]]:
    """Return the error texts of this endpoint, by status."""
    tokens = endpoint.texts
    texts: dict[int, list[str]] = {
        400: [],
        401: [],
        404: [],
        429: [TOO_MANY_REQUESTS, CallShareUsed.text],
    }
    if endpoint.input is not None or endpoint.document_body or endpoint.method != "GET":
        texts[400] += [InvalidBody.text, TooManyContainers.text]
    for field in body_fields(endpoint.input) if endpoint.input is not None else ():
        if field.missing_text is not None:
            texts[400].append(field.missing_text)
    texts[401] += [tokens.key_missing, KeyInvalid.text]
    if endpoint.auth is not Auth.KEY:  # its area may have texts about other tokens
        texts[401] += [tokens.token_missing, tokens.token_invalid, tokens.token_foreign or ""]
    texts[401].append(tokens.admin_invalid)
    if _bans(endpoint):
        texts[429] += [TooManyPlayersOnline.text, TooManyPlayersFromAddress.text]
        texts[429].append(PlayersHoldTooMuch.text)
    if endpoint.rate_class_in_force in WRITING_CLASSES:
        texts[429].append(WRITTEN_TOO_MUCH)
    for refusal in endpoint.refusals:
        texts.setdefault(status_of(refusal), []).append(refusal.text)
    return {status: [*dict.fromkeys(filter(None, some))] for status, some in texts.items()}


def _error(
    description: str, texts: list[str], schema: str = "Error", example: Schema | None = None
) -> Schema:
    listed = "; ".join(f"`{text}`" for text in texts)
    if example is None and texts:
        example = {"success": False, "error": texts[0]}
    return {
        "description": f"{description}: {listed}" if listed else description,
        "content": _json({"$ref": f"#/components/schemas/{schema}"}, example),
    }


def _success(endpoint: Endpoint, replies: ReplySchemas, told: ToldCall | None) -> Schema:
    """Return the content of a 200, with an example in each of its formats."""
    schema = replies.reply(endpoint.reply)
    variants = schema.get("anyOf", [schema])
    if told is None:
        plain, engine = (example_of(variants[n], replies.components) for n in (0, -1))
    else:
        plain, engine = told.answer, engine_form(told.answer)
    if len(variants) == 1:
        return _json(schema, plain)
    content = _json(schema)
    content["application/json"]["examples"] = {
        "plain": {"summary": "As it is", "value": plain},
        "engine": {"summary": "With format=engine", "value": engine},
    }
    return content


def _json(schema: Schema, example: Schema | None = None) -> Schema:
    return {
        "application/json": {"schema": schema} | ({} if example is None else {"example": example})
    }
