"""Every answer that the tests are given is held against /openapi.json, by somebody else's judge.

That is openapi-schema-validator, which takes OpenAPI 3.0.3 by its letter: `nullable` without a
`type` beside it, for one, allows no null.
"""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from openapi_schema_validator import OAS30Validator
from referencing import Registry
from referencing.jsonschema import DRAFT4

from greenroom.http.describe.openapi import build
from greenroom.http.endpoints import ENDPOINTS
from greenroom.http.errors import INVALID_ENDPOINT
from greenroom.http.router import Router
from greenroom.http.table import Endpoint

DOCUMENT: dict[str, Any] = json.loads(json.dumps(build(ENDPOINTS)))


def validator(schema: dict[str, Any], document: dict[str, Any]) -> OAS30Validator:
    """Return the judge of a schema that stands in a document."""
    registry: Registry[Any] = Registry().with_resource(
        "urn:document", DRAFT4.create_resource(document)
    )
    prefixed = json.loads(json.dumps(schema).replace('"#/', '"urn:document#/'))
    return OAS30Validator(prefixed, registry=registry)


def faults(value: Any, schema: dict[str, Any], document: dict[str, Any] = DOCUMENT) -> list[str]:
    """Return what is wrong with a value, by a schema of the document."""
    return [error.message for error in validator(schema, document).iter_errors(value)]


@cache
def _router() -> Router[Endpoint]:
    router: Router[Endpoint] = Router()
    for endpoint in ENDPOINTS:
        router.add(endpoint.method, endpoint.path, endpoint)
    return router


@cache
def _judge(method: str, path: str, status: int, *, is_engine: bool) -> OAS30Validator:
    responses = DOCUMENT["paths"][path][method.lower()]["responses"]
    assert str(status) in responses, f"{method} {path} is answered {status}, which is not described"
    schema = responses[str(status)]["content"]["application/json"]["schema"]
    if "anyOf" in schema:  # the formats of a reply
        schema = schema["anyOf"][is_engine]
    return validator(schema, DOCUMENT)


def judge(method: str, target: str, status: int, value: Any) -> None:
    """Fail the test if this is no answer that the document describes.

    Args:
        method: as it was sent.
        target: path and query of the request.
        status: of the answer.
        value: its JSON; None where it has no body.
    """
    path, _, query = target.partition("?")
    endpoint, _ = _router().find(method, path)
    if method == "HEAD" or endpoint is None:
        return
    if status == 404 and value.get("error") == INVALID_ENDPOINT:
        return  # a path that only looks like one, percent signs and all
    is_engine = any(f"format={name}" in query.split("&") for name in ("engine", "unity"))
    errors = _judge(endpoint.method, endpoint.path, status, is_engine=is_engine).iter_errors(value)
    told = [f"{error.json_path}: {error.message}" for error in errors]
    assert not told, f"{method} {target} {status} is not as /openapi.json says: {told}"
