"""The page of all errors of the API, from the contract, the endpoint table and the refusals.

When an error comes is told by the docstring of its refusal. A text that nothing here explains is a
`LookupError`, so no error can be added without that.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from inspect import getdoc
from itertools import chain
from typing import Final, NamedTuple

from greenroom.actors.flows.refusals import StatRefused
from greenroom.actors.kernel.errors import Refused
from greenroom.actors.leaderboard.refusals import LeaderboardNotDeclared
from greenroom.actors.player.refusals import PlayerIsBanned
from greenroom.actors.studio_room.refusals import RefusedByBehaviour
from greenroom.actors.text.refusals import NameRefused
from greenroom.contract.refusals import CODES, HINTS, MISSING_HEADER_HINTS, REFUSALS
from greenroom.http.auth import ADMIN_KEY_HEADER, PLAYER_TOKEN_HEADER, PROJECT_KEY_HEADER
from greenroom.http.bodies import ARRAY_ENTRIES_MAX, Field, body_fields
from greenroom.http.describe.openapi import error_texts
from greenroom.http.endpoints import ENDPOINTS
from greenroom.http.errors import status_of
from greenroom.http.server.parser import (
    HEAD_TOO_LARGE,
    HTTP_2_IN_CLEAR,
    INCOMPLETE,
    TARGET_TOO_LONG,
    TIMED_OUT,
)
from greenroom.http.table import Auth, Endpoint
from greenroom.network.addresses import INVALID_HOST
from greenroom.network.head_limits import INVALID_REQUEST, TOO_MANY_FIELDS
from greenroom.network.target import OTHER_HOST
from sdks.model import Files
from sdks.pages.parts import page, paragraphs, table

PATH: Final = "docs/reference/errors.md"
CALLS_MAX: Final = 4
"""Calls that are named for an error; more are only counted."""

_INTRO: Final = """\
Every error text of the calls below `/api/`, by status. `error` in the answer is the whole text:
match it, or show it. The code is the name that the [client libraries](clients/python.md) have for
it. It is not on the wire.

"What to do" is the [hint](http.md#errors) of the answer. If it is empty, the text says it, and
the answer has no hint.

[When a call is answered](http.md#when-a-call-is-answered) tells what may have happened after each
status. The [control channel](realtime.md) has close codes and errors of its own.
"""
_HEADINGS: Final = {
    400: "400: the request does not fit, or cannot be done now",
    401: "401: a token is missing or not valid",
    403: "403: the player is banned",
    404: "404: what is named does not exist",
    413: "413: the body is too large",
    429: "429: too much at once",
    500: "500: a fault of the server",
}
_ABOUT: Final = {
    429: "Nothing changed. Repeat the call after `retry_after` seconds, a field of the answer.",
}
_COMMON: Final = {
    "body_too_large": "The body is longer than `body_bytes_max`.",
    "internal_server_error": "A bug, a database that refuses, or a commit with an unknown outcome.",
    "invalid_endpoint": "No call has this path, or not with this method.",
    "too_many_requests": "A rate or a limit of the plan is used up, or the server is overloaded.",
    "written_too_much": "The bytes that may be written in a day are used up.",
}
"""The errors that no refusal stands for, by code: when each comes."""
_CASES: Final = {
    "invalid_body": "The hint says at which byte, or what else is wrong with the body.",
    "invalid_endpoint": "The hint names the right method, or where all paths are listed.",
    "not_realtime": "The hint says which of the two it is.",
}
"""Advice for errors whose hint depends on the case, by code."""
_VARYING: Final[tuple[tuple[str, type[Refused], str], ...]] = (
    ("You are banned: Cheating. This is a permanent ban.", PlayerIsBanned, "`ban_info` has more."),
    ("Player name must be lower case", NameRefused, "[Names](http.md#names) has the rules."),
    ('There is no stat "wins": …', StatRefused, "[Stats](stats.md) has the rules."),
    (f"{LeaderboardNotDeclared.text}…", LeaderboardNotDeclared, "Use one of those."),
    ("No short cuts", RefusedByBehaviour, "The studio has written the text."),
)
"""Texts that vary, each with an example, and what to do."""
_NO_HTTP: Final = (
    (INVALID_REQUEST, "It breaks the grammar of HTTP."),
    (INVALID_HOST, "The header Host is missing, there twice, or no name of a host."),
    (OTHER_HOST, "Its target is a whole URL, for another host or port than the header Host."),
    (HEAD_TOO_LARGE, "Its first line and header fields are too long together."),
    (TOO_MANY_FIELDS, "It has too many header fields."),
    (TARGET_TOO_LONG, "Its path and query are too long."),
    (INCOMPLETE, "The connection ended in the middle of it."),
    (TIMED_OUT, "It did not arrive in time."),
    (HTTP_2_IN_CLEAR, "It is HTTP/2 without TLS, from a network that may not send it."),
)
"""Texts about requests that reach no call, and what is wrong with each."""


class _Error(NamedTuple):
    """An error as answers have it."""

    status: int
    text: str


def error_files() -> Files:
    """Return the page, by its path.

    Raises:
        LookupError: an endpoint has an error, and nothing tells when it comes.
    """
    parts = [*paragraphs(_INTRO)]
    calls = _calls()
    for status, heading in _HEADINGS.items():
        errors = sorted(error for error in calls if error.status == status)
        head = ("error", "code", "when it comes", "what to do", "calls")
        rows = [(*_told(error), _name_calls(calls[error])) for error in errors]
        parts += [f"## {heading}", *paragraphs(_ABOUT.get(status, "")), *table(head, rows)]
        if status == 403:
            parts += paragraphs("The text of other bans [varies](#texts-that-vary).")
    return {PATH: page("Errors", *parts, *_varying(), *_fields(), *_no_http())}


def _calls() -> dict[_Error, list[Endpoint]]:
    """Return every error that has a constant text, with the calls that answer it."""
    found: dict[_Error, list[Endpoint]] = {
        _Error(refusal.status, refusal.text): [] for refusal in REFUSALS
    }
    varying = {example.removesuffix("…") for example, *_ in _VARYING}
    for endpoint in ENDPOINTS:
        for status, texts in error_texts(endpoint).items():
            for text in texts:
                found.setdefault(_Error(status, text), []).append(endpoint)
    return {error: calls for error, calls in found.items() if error.text not in varying}


def _told(error: _Error) -> tuple[str, str, str, str]:
    """Return the cells about an error: text, code, when, what to do."""
    code = CODES.get(error, "")
    shown = (f"`{error.text}`", f"`{code}`" if code else "")
    if code in _COMMON:
        return (*shown, _COMMON[code], _CASES.get(code) or HINTS.get(error.text, ""))
    refusal = _refusals().get(error)
    if refusal is not None:
        hint = _CASES.get(code) or HINTS.get(error.text) or refusal.hint or ""
        return (*shown, _summary(refusal), hint)
    if error.status == 401:
        return (*shown, *_about_token(error.text))
    return (*shown, _about_field(error.text), HINTS.get(error.text, ""))


def _refusals() -> dict[_Error, type[Refused]]:
    """Return the class of every constant text; of two with one text, the first by name."""
    kinds = sorted(_below(Refused), key=lambda kind: kind.__name__, reverse=True)
    return {_Error(status_of(kind), kind.text): kind for kind in kinds if "text" in vars(kind)}


def _below(kind: type[Refused]) -> set[type[Refused]]:
    direct = kind.__subclasses__()
    return {*direct, *chain.from_iterable(map(_below, direct))}


def _summary(refusal: type[Refused]) -> str:
    """Return the first paragraph of a docstring, without the status."""
    first = (getdoc(refusal) or "").split("\n\n")[0]
    return re.sub(r" \(4\d\d\)", "", " ".join(first.split()))


def _about_token(text: str) -> tuple[str, str]:
    """Return when a text about a token comes, and what to do."""
    missing = sorted({header for row in ENDPOINTS for header in _missing_headers(row, text)})
    if missing:
        headers = " or ".join(f"`{header}`" for header in missing)
        is_one = len(missing) == 1
        hint = MISSING_HEADER_HINTS[missing[0]] if is_one else "The hint names the missing one."
        return f"The header {headers} is missing or empty.", hint
    rows = [row for row in ENDPOINTS if text in _texts_of_tokens(row)]
    if any(row.texts.token_foreign == text for row in rows):
        return "The player token is good, but its player is in another game.", HINTS[text]
    if any(row.auth is Auth.ADMIN or row.texts.admin_invalid == text for row in rows):
        return "The admin key is not that of the game.", HINTS[text]
    if rows:
        return "The player token is nobody's, or was replaced, or is of another game.", HINTS[text]
    raise LookupError(f"say in {__name__} when this comes: {text}")


def _missing_headers(row: Endpoint, text: str) -> Iterator[str]:
    """Yield the headers without which a call is answered with this text."""
    if text == row.texts.key_missing:
        yield PROJECT_KEY_HEADER
    if text == row.texts.token_missing and row.auth is not Auth.KEY:
        yield ADMIN_KEY_HEADER if row.auth is Auth.ADMIN else PLAYER_TOKEN_HEADER


def _texts_of_tokens(row: Endpoint) -> tuple[str | None, ...]:
    texts = row.texts
    return (texts.token_invalid, texts.token_foreign, texts.admin_invalid)


def _inputs() -> Iterator[Field]:
    """Yield the fields of all bodies and queries."""
    for endpoint in ENDPOINTS:
        if endpoint.input is not None:
            yield from body_fields(endpoint.input)


def _about_field(text: str) -> str:
    """Return when the text about a missing field comes."""
    fields = [field for field in _inputs() if field.missing_text == text]
    if not fields:
        raise LookupError(f"say in {__name__} when this comes: {text}")
    names = " or ".join(sorted({f"`{field.name}`" for field in fields}))
    also = ", or of the wrong type" if any(field.unfit_text == text for field in fields) else ""
    return f"{names} is missing, null or empty{also}."


def _name_calls(endpoints: Collection[Endpoint]) -> str:
    """Return the calls in a few words."""
    if len(endpoints) in {0, len(ENDPOINTS)}:
        return "any"
    if len(endpoints) > CALLS_MAX:
        return f"{len(endpoints)} calls"
    return ", ".join(f"`{each.path.removeprefix('/api/')}`" for each in endpoints)


def _varying() -> Iterator[str]:
    yield "## Texts that vary"
    yield from paragraphs("Their texts vary, so no code belongs to them. Match the status.")
    rows = [
        (f"`{example}`", str(status_of(kind)), _summary(kind), what)
        for example, kind, what in _VARYING
    ]
    yield from table(("for example", "status", "when it comes", "what to do"), rows)


def _fields() -> Iterator[str]:
    """Yield the section about fields of the wrong type, from all bodies and queries."""
    yield "## Fields of the wrong type"
    about = "A field of the wrong type is 400, with the name of the field in the text."
    yield from paragraphs(about)
    by_text: dict[str, set[str]] = {}
    for field in _inputs():
        if field.unfit_text is None:
            text = str(field.make_refusal()).replace(field.name, "…", 1)
            by_text.setdefault(text, set()).add(field.name)
        if field.is_document:
            for text in ("…_json must be a string", "… is not valid JSON"):
                by_text.setdefault(text, set()).add(field.name)
        elif field.kind.is_array and field.unfit_text is None:
            text = f"… must be an array of at most {ARRAY_ENTRIES_MAX} entries"
            by_text.setdefault(text, set()).add(field.name)
    rows = [
        (f"`{text}`", ", ".join(f"`{name}`" for name in sorted(names)))
        for text, names in sorted(by_text.items())
    ]
    yield from table(("error", "fields"), rows)


def _no_http() -> Iterator[str]:
    yield "## Requests that are not read"
    about = "The request reaches no call. The status is 400, and the connection is closed."
    yield from paragraphs(about)
    rows = [(f"`{text}`", when) for text, when in _NO_HTTP]
    yield from table(("error", "what is wrong with the request"), rows)
