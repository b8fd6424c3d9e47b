"""Logging: readable lines on a terminal, JSON everywhere else, and never a secret in either.

Nobody should hand a token or a password to a logger. If it happens all the same, the formatters
here are the last line of defence. Whatever looks like one of our tokens, or like the password in an
address, is replaced before a line is written. In JSON a record is one line of bounded length. As
text it is one line, with indented lines below it. So text from outside cannot forge a record.
"""

from __future__ import annotations

import logging
import re
import sys
import traceback
from datetime import UTC, datetime
from typing import Any, Literal, TextIO

import msgspec

from greenroom.foreign_objects import name_of, plain
from greenroom.interrupts import is_real_interrupt

Format = Literal["auto", "text", "json"]

TEXT_CHARACTERS_MAX = 8 * 1024
"""The longest message or field of a record."""
TRACEBACK_CHARACTERS_MAX = 24 * 1024
FIELDS_MAX = 32

_REDACTED = "[redacted]"
_TOKEN = re.compile(r"gr_(api|adm|plr)_[0-9A-Za-z]+")
_URL_PASSWORD = re.compile(r"(://[^\s:/@]{0,256}):[^\s@]{1,512}@")
_PARAMETER = re.compile(
    r"((?:password|secret)[\"']?\s{0,4}[=:]\s{0,4})"
    r"(?:'[^'\n]{0,512}'|\"[^\"\n]{0,512}\"|[^\s&,;)'\"]{1,512})",
    re.IGNORECASE,
)
_SECRET_FIELD = re.compile(r"token|password|secret|private_key|authorization|cookie", re.IGNORECASE)
_CONTROL = re.compile(
    "[\x00-\x08\x0a-\x1f\x7f-\x9f\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069]"
)

_STANDARD_ATTRIBUTES = frozenset(vars(logging.makeLogRecord({}))) | {
    "message",
    "asctime",
    "taskName",
}


def configure(
    log_format: Format = "auto",
    log_level: str = "info",
    stream: TextIO | None = None,
    node: str | None = None,
) -> None:
    """Send every logger of the process to one stream, and replace what was configured before.

    Args:
        log_format: `text`, `json`, or `auto`: text when the stream is a terminal.
        log_level: the least severity that is written: debug, info, warning or error.
        stream: the stream to write to; standard error by default.
        node: the node's name, where there are several; it stands in each line.
    """
    target = stream or sys.stderr
    as_text = log_format == "text" or (log_format == "auto" and target.isatty())
    handler = CountingHandler(target)
    handler.setFormatter(TextFormatter(node) if as_text else JsonFormatter(node))
    root = logging.getLogger()
    for old in root.handlers[:]:
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(log_level.upper())
    logging.raiseExceptions = False  # a full disk behind stderr must not print records raw
    logging.captureWarnings(True)


def is_json() -> bool:
    """Return whether what is logged is written as JSON."""
    formatters = [handler.formatter for handler in logging.getLogger().handlers]
    return any(isinstance(formatter, JsonFormatter) for formatter in formatters)


class CountingHandler(logging.StreamHandler[TextIO]):
    """Writes records, and counts them."""

    def emit(self, record: logging.LogRecord) -> None:
        """Count a record by its level, and write it."""
        level = record.levelname.lower()
        lines_logged[level] = lines_logged.get(level, 0) + 1
        super().emit(record)


lines_logged = {"warning": 0, "error": 0}
"""Records written since the process began, by level; those that the level leaves out are not."""


def redact(text: str) -> str:
    """Replace whatever looks like one of our tokens or like a password in an address."""
    text = _TOKEN.sub(rf"gr_\1_{_REDACTED}", text)
    text = _URL_PASSWORD.sub(rf"\1:{_REDACTED}@", text)
    return _PARAMETER.sub(rf"\1{_REDACTED}", text)


class _NodeFormatter(logging.Formatter):
    """Formats records of one node."""

    def __init__(self, node: str | None = None) -> None:
        """Name the node in each record, if there are several."""
        super().__init__()
        self._node = {} if node is None else {"node": node}


class TextFormatter(_NodeFormatter):
    """Formats a record as `12:00:01.234 warning greenroom.app: message key=value`.

    A traceback follows, indented.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as one line, or as one line and the indented lines of its traceback."""
        clock = datetime.fromtimestamp(record.created).astimezone().strftime("%H:%M:%S.%f")[:-3]
        fields = "".join(f" {key}={value}" for key, value in (self._node | _fields(record)).items())
        line = f"{_message(record)}{fields}"
        head = f"{clock} {record.levelname.lower():<7} {record.name}: {_escaped(line)}"
        trace = _traceback(record)
        below = [f"    {_escaped(part)}" for part in trace.splitlines()] if trace else []
        return "\n".join([head, *below])


class JsonFormatter(_NodeFormatter):
    """Formats a JSON object a line: time, level, logger, message, extra fields, exception."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as one line of JSON."""
        time = datetime.fromtimestamp(record.created, UTC)
        entry: dict[str, Any] = {
            "time": time.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": _message(record),
            **self._node,
        }
        for key, value in _fields(record).items():
            entry.setdefault(key, value)
        trace = _traceback(record)
        if trace:
            error = record.exc_info[1] if record.exc_info else None
            entry["exception"] = {"type": name_of(error), "traceback": trace}
        line = msgspec.json.encode(entry).decode()
        return _CONTROL.sub(lambda match: f"\\u{ord(match[0]):04x}", line)


def _message(record: logging.LogRecord) -> str:
    try:
        text = plain(record.getMessage())
    except BaseException as error:  # wrong % arguments are a bug, yet no reason to lose it
        if is_real_interrupt(error):
            raise
        text = f"{_text_of(record.msg)} (with arguments that do not fit)"
    return _safe(text)


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    """Return what the caller gave as `extra`, made harmless."""
    names = [name for name in vars(record) if name not in _STANDARD_ATTRIBUTES]
    fields: dict[str, Any] = {}
    for name in names[:FIELDS_MAX]:
        value = vars(record)[name]
        if _SECRET_FIELD.search(name):
            value = _REDACTED
        elif not _is_plain(value):
            value = _safe(_text_of(value))
        fields[_safe(name)] = value
    return fields


def _is_plain(value: object) -> bool:
    # a subclass may do anything when it is asked, and `isinstance` asks it
    if type(value) is int:
        return abs(value) < 1 << 63  # JSON encoders refuse what does not fit 64 bits
    return value is None or type(value) in {bool, float}


def _text_of(value: object) -> str:
    try:
        return plain(str(value))
    except BaseException as error:  # logging must not fail because a __str__ does
        if is_real_interrupt(error):
            raise
        return f"<{name_of(value)} that cannot be shown>"


def _traceback(record: logging.LogRecord) -> str:
    parts: list[str] = []
    if record.exc_info and record.exc_info[1] is not None:
        parts.extend(_format(record.exc_info[1]))
    if record.stack_info:
        parts.append(record.stack_info)
    return _safe("".join(parts), TRACEBACK_CHARACTERS_MAX)


def _format(error: BaseException) -> list[str]:
    """Return the lines of a traceback; an error of a studio's own kind may fail at being shown."""
    try:
        return traceback.format_exception(error, limit=-50)
    except BaseException as failure:
        if is_real_interrupt(failure):
            raise
        return [f"{name_of(error)}, whose traceback cannot be shown\n"]


def _safe(text: str, characters_max: int = TEXT_CHARACTERS_MAX) -> str:
    """Redact, shorten, and make encodable. A text that is too long keeps its head and tail."""
    if len(text) > 4 * characters_max:  # bounds the work of the patterns on hostile text
        text = _without_middle(text, 2 * characters_max)
    text = redact(text)
    if len(text) > characters_max:
        text = _without_middle(text, characters_max)
    return text.encode("utf-8", "backslashreplace").decode()


def _without_middle(text: str, characters_max: int) -> str:
    """Cut the middle out. The tail starts after white space, so never inside a secret."""
    half = characters_max // 2
    tail = re.sub(r"^\S+", "", text[-half:])
    return f"{text[:half]} … ({len(text) - half - len(tail)} characters left out) …{tail}"


def _escaped(line: str) -> str:
    return _CONTROL.sub(lambda match: ascii(match[0])[1:-1], line)
