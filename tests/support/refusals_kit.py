"""The refusals that the endpoints may answer, as the contract should list them."""

from __future__ import annotations

import re

from greenroom.actors.kernel.errors import Refused
from greenroom.actors.plans.refusals import WRITTEN_TOO_MUCH, CallShareUsed
from greenroom.contract.refusals import Refusal
from greenroom.http.bodies import InvalidBody, TooManyContainers
from greenroom.http.endpoints import ENDPOINTS
from greenroom.http.errors import (
    BODY_TOO_LARGE,
    INTERNAL_SERVER_ERROR,
    INVALID_ENDPOINT,
    TOO_MANY_REQUESTS,
    KeyInvalid,
    status_of,
)

EVERYWHERE: tuple[type[Refused], ...] = (KeyInvalid, InvalidBody, TooManyContainers, CallShareUsed)
CONSTANTS = (
    Refusal("body_too_large", 413, BODY_TOO_LARGE),
    Refusal("internal_server_error", 500, INTERNAL_SERVER_ERROR),
    Refusal("invalid_endpoint", 404, INVALID_ENDPOINT),
    Refusal("too_many_requests", 429, TOO_MANY_REQUESTS),
    Refusal("written_too_much", 429, WRITTEN_TOO_MUCH),
)


def code_of(refusal: type[Refused]) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", refusal.__name__).lower()


def listed_refusals() -> tuple[Refusal, ...]:
    """Each text with its status once; of two refusals with one text, the last by code is it."""
    kinds = {kind for endpoint in ENDPOINTS for kind in endpoint.refusals} | {*EVERYWHERE}
    found = {
        (status_of(kind), kind.text): Refusal(code_of(kind), status_of(kind), kind.text)
        for kind in sorted(kinds, key=code_of)
        if kind.text
    }
    return tuple(sorted([*found.values(), *CONSTANTS], key=lambda refusal: refusal.code))
