"""Advice for operators: sentences for connections that Postgres, or libpq, refused for good.

libpq tells why a connection failed in words alone. Those that are known here are final: trying
again brings the same answer. All others, such as a database that starts up, may pass.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

CHECK_URL: Final = "check the database URL"
NOT_UNDERSTOOD: Final = (
    "The database URL cannot be understood; write it as postgresql://user@host:5432/database,"
    " and percent-encode each of / : @ ? # in a password"
)


class _Answer(NamedTuple):
    """A final answer: how it is recognized, and the sentence; `{}` stands for its reason."""

    pattern: re.Pattern[str]
    sentence: str


def _answer(pattern: str, sentence: str) -> _Answer:
    return _Answer(re.compile(pattern, re.IGNORECASE), sentence)


_ANSWERS: Final = (
    _answer(
        r"authentication failed|no password supplied",
        f"The database refused the user name or the password; {CHECK_URL}",
    ),
    _answer(
        r"certificate|private key file|SSL error: (unsupported|wrong version|no protocols|tlsv1)",
        "TLS with the database failed: {}; check sslmode, sslrootcert, sslcert and sslkey in the"
        " database URL",
    ),
    _answer(
        r"server does not support SSL",
        "The database speaks no TLS, and the database URL wants it; turn on ssl in Postgres, or"
        " choose another sslmode",
    ),
    _answer(
        r"no pg_hba\.conf entry.*no encryption",
        "The database refused the connection: {}; it may want TLS (sslmode=require in the database"
        " URL), or a rule in its pg_hba.conf",
    ),
    _answer(
        r"no pg_hba\.conf entry|pg_hba\.conf rejects",
        f"The database refused the connection: {{}}; add a rule to its pg_hba.conf, or {CHECK_URL}",
    ),
    _answer(
        r'(database|role) ".*" does not exist|no such (database|user)',
        f"The database refused the connection: {{}}; create it, or {CHECK_URL}",
    ),
    _answer(
        r"permission denied for database|not permitted to log in|not currently accepting",
        "The database refused the connection: {}; let the URL's user log in and connect (ALTER ROLE"
        " … LOGIN, GRANT CONNECT ON DATABASE … TO …)",
    ),
    _answer(
        r"unrecognized configuration parameter|invalid command-line argument|invalid value for par",
        f"The database refused the connection: {{}}; {CHECK_URL}",
    ),
    _answer(
        r"invalid response to (SSL|GSSAPI) negotiation|expected authentication request",
        "What answers there is not Postgres; check host and port in the database URL",
    ),
    _answer(
        r"^connection is bad: (?!connection to server)|invalid \w+ value .* for connection option",
        f"The database URL cannot be used: {{}}; {CHECK_URL}",
    ),
)
"""In the order of asking: the first that fits counts."""


def advise(message: str) -> str | None:
    """Return the operator's sentence for a final answer, None for one that may pass.

    Args:
        message: the first line of libpq's error, which never holds a password.
    """
    for answer in _ANSWERS:
        if answer.pattern.search(message):
            return answer.sentence.format(_reason(message))
    return None


def _reason(message: str) -> str:
    """Return what comes behind address and severity."""
    reason = message.removeprefix("connection is bad: ").rpartition("FATAL: ")[2]
    return re.sub(r"^.*?connection to server .*? failed: ", "", reason).strip()
