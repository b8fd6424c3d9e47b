"""Logs: one record a line, no secret in any of them, nothing forged."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from greenroom import logs
from greenroom.actors.player.tokens import ADMIN_KEY, PLAYER_TOKEN, PROJECT_KEY, make_token

TOKENS = [make_token(prefix, bytes(range(64))) for prefix in (PROJECT_KEY, ADMIN_KEY, PLAYER_TOKEN)]
Written = Callable[[], str]


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level, raising = root.handlers[:], root.level, logging.raiseExceptions
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    logging.raiseExceptions = raising
    logging.captureWarnings(capture=False)


def configured(log_format: logs.Format, level: str = "info") -> io.StringIO:
    stream = io.StringIO()
    logs.configure(log_format, level, stream)
    return stream


def entries(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().split("\n")[:-1]]


def test_json_lines_hold_time_level_logger_message_and_extras() -> None:
    stream = configured("json")
    logging.getLogger("greenroom.x").warning("it %s", "broke", extra={"rooms": 3, "who": "Ada"})
    (entry,) = entries(stream)
    assert entry.pop("time").endswith("Z")
    assert entry == {
        "level": "warning",
        "logger": "greenroom.x",
        "message": "it broke",
        "rooms": 3,
        "who": "Ada",
    }


def test_an_exception_in_json_is_part_of_its_record() -> None:
    stream = configured("json")
    try:
        raise ExceptionGroup("two", [ValueError("one"), KeyError("other")])
    except ExceptionGroup:
        logging.getLogger("x").exception("it broke")
    (entry,) = entries(stream)
    assert entry["exception"]["type"] == "ExceptionGroup"
    assert "ValueError: one" in entry["exception"]["traceback"]


class Masked(Exception):
    """An error of somebody's own kind that cannot be shown at all."""

    @property  # type: ignore[misc] # a hostile one does so
    def __class__(self) -> type:
        raise GeneratorExit

    def __str__(self) -> str:
        raise GeneratorExit


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_an_error_that_cannot_be_shown_is_logged_by_its_type(log_format: logs.Format) -> None:
    stream = configured(log_format)
    logging.getLogger("x").error("it broke", exc_info=Masked())
    assert "Masked, whose traceback cannot be shown" in stream.getvalue()


@pytest.mark.parametrize("log_format", ["text", "json"])
@pytest.mark.parametrize(
    "secret", [*TOKENS, "postgresql://anna:s3cret@db/x", "host=db password='s3cret word' user=a"]
)
def test_secrets_are_taken_out_wherever_they_are(log_format: logs.Format, secret: str) -> None:
    stream = configured(log_format)
    logger = logging.getLogger("x")
    logger.error("with %s inside", secret)
    logger.error("with " + secret + " inside")  # noqa: G003 (as a careless author would)
    logger.error("extra", extra={"url": secret, "deep": {"a": [secret]}, "token": "s3cret"})
    try:
        raise ValueError(secret)
    except ValueError:
        logger.exception(secret)
    written = stream.getvalue()
    assert "s3cret" not in written
    assert not any(token[7:] in written for token in TOKENS)
    assert "[redacted]" in written


def test_what_looks_like_a_port_is_no_password() -> None:
    line = "GET http://127.0.0.1:8080/x from anna@example.org"
    assert logs.redact(line) == line


@pytest.mark.parametrize("breaker", ["\n", "\r\n", "\x85", "\u2028", "\x1b[2J", "\x00", "\u202e"])
def test_nobody_can_forge_a_record(breaker: str) -> None:
    forged = f"Ada{breaker}12:00:00.000 error   greenroom: the roof is on fire"
    text, as_json = configured("text"), None
    logging.getLogger("x").warning("name %s", forged, extra={"name_of": forged})
    assert len(text.getvalue().splitlines()) == 1
    assert breaker not in text.getvalue()[:-1]
    as_json = configured("json")
    logging.getLogger("x").warning("name %s", forged)
    assert len(as_json.getvalue().splitlines()) == 1
    assert entries(as_json)[0]["message"] == f"name {forged}"


def test_lines_below_a_record_in_text_are_indented() -> None:
    stream = configured("text")
    try:
        raise ValueError("a\n12:00:00.000 error   greenroom: forged")
    except ValueError:
        logging.getLogger("x").exception("it broke")
    first, *below = stream.getvalue().splitlines()
    assert first.endswith("error   x: it broke")
    assert below
    assert all(line.startswith("    ") for line in below)


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_lines_are_bounded(log_format: logs.Format) -> None:
    stream = configured(log_format)
    for text in ("x" * 1_000_000, "x " * 500_000, "://" * 300_000, "password=" * 100_000):
        logging.getLogger("x").error(text, extra={f"f{n}": text for n in range(3)})
    assert max(map(len, stream.getvalue().splitlines())) < 64 * 1024
    try:
        raise ValueError("x " * 1_000_000)
    except ValueError:
        logging.getLogger("x").exception("it broke")
    assert len(stream.getvalue()) < 512 * 1024


def test_a_token_is_not_cut_in_half_by_the_bound() -> None:
    for padding in range(0, 64, 3):
        text = "x" * padding + f" {TOKENS[2]}" * 2000
        shortened = logs.JsonFormatter().format(logging.makeLogRecord({"msg": text}))
        assert TOKENS[2][-12:] not in shortened


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_no_record_can_make_the_formatter_fail(log_format: logs.Format) -> None:
    class Unshowable:
        def __str__(self) -> str:
            raise RuntimeError("no")

    stream = configured(log_format)
    logger = logging.getLogger("x")
    logger.error("%d %d", 1)  # noqa: PLE1206 (on purpose)
    logger.error("%s", Unshowable())
    logger.error("extra", extra={"a": Unshowable(), "b": 2**80, "c": float("nan"), "d": "\ud800"})
    logger.error("lone \udcff surrogate")
    assert len(stream.getvalue().splitlines()) == 4
    stream.getvalue().encode()


class Loud(BaseException):
    """Raised by whatever is asked of a hostile object."""


def shout(*_: object) -> Any:
    raise Loud


HOSTILE = {
    "a text": type("T", (str,), dict.fromkeys(("__len__", "__str__", "encode"), shout))("x"),
    "a number": type("N", (int,), dict.fromkeys(("__abs__", "__str__", "__format__"), shout))(3),
    "a mute object": type("O", (), dict.fromkeys(("__str__", "__repr__"), shout))(),
    "one without a class": type("O", (), {"__class__": property(shout), "__str__": shout})(),
    "one of a class without a name": type("M", (type,), {"__name__": property(shout)})(
        "O", (), {"__str__": shout}
    )(),
}


@pytest.mark.parametrize("log_format", ["text", "json"])
@pytest.mark.parametrize("name", HOSTILE)
def test_objects_of_somebody_elses_are_logged_whatever_they_do(
    log_format: logs.Format, name: str
) -> None:
    stream, value = configured(log_format), HOSTILE[name]
    logger = logging.getLogger("x")
    logger.error(value)
    logger.error("%s and %r", value, value)
    logger.error("extra", extra={"a": value})
    assert len(stream.getvalue().splitlines()) == 3


def test_the_format_follows_the_terminal() -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    logs.configure("auto", "info", terminal)
    logging.getLogger("x").info("hello")
    assert not terminal.getvalue().startswith("{")
    piped = configured("auto")
    logging.getLogger("x").info("hello")
    logging.getLogger("x").debug("unheard")
    assert entries(piped)[0]["message"] == "hello"
    assert len(entries(piped)) == 1
