"""Parts of every command: the common options, the settings, and a way to run operations."""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

import click

from greenroom.cli.output import say, say_json

if TYPE_CHECKING:
    from greenroom.config import Loaded, Settings
    from greenroom.control.admin.messages import Operation

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

SENTENCE_MAX = 1_000  # characters, which are more than any sentence of a docstring has
PLANS = ["unlimited", "free", "standard", "pro"]


class WholeNumber(click.IntRange):
    """A whole number within bounds; click would speak of an integer range."""

    name = "whole number"

    def get_metavar(
        self,
        param: click.Parameter,
        ctx: click.Context,  # noqa: ARG002 (click passes it)
    ) -> str | None:
        """Return what stands for the number in the help of an option."""
        return "N" if param.param_type_name == "option" else None


ID = WholeNumber(1, 2**63 - 1)
ID.name = "id"

_OPTIONS = (
    click.option(
        "--data-dir",
        metavar="DIR",
        help="The data directory; by default ~/.local/share/greenroom, "
        "/var/lib/greenroom for root.",
    ),
    click.option(
        "--config",
        metavar="FILE",
        help="The settings file; by default greenroom.toml in the current or the data directory.",
    ),
    click.option(
        "--database-url",
        metavar="URL",
        help="A Postgres of your own (14 or later) in place of the embedded one.",
    ),
    click.option("--json", "as_json", is_flag=True, help="Print JSON, and nothing but JSON."),
)


class CommandGroup(click.Group):
    """A group whose help has the first sentence of each command whole, on as many lines as needed.

    Click would cut it to one line.
    """

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the table of commands."""
        rows = [
            (name, self.commands[name].get_short_help_str(limit=SENTENCE_MAX))
            for name in self.list_commands(ctx)
        ]
        with formatter.section("Commands"):
            formatter.write_dl(rows)


class Invocation:
    """One call of one command, with its common options."""

    def __init__(
        self,
        data_dir: str | None,
        config: str | None,
        database_url: str | None,
        *,
        as_json: bool,
    ) -> None:
        """Hold the options as they were given."""
        self.as_json = as_json
        self._config = config
        self._flags = {"data_dir": data_dir, "database_url": database_url}

    def load(self, **flags: str | None) -> Loaded:
        """Read the settings, with further flags of the command.

        Raises:
            ConfigError: a setting is unknown or wrong.
        """
        from greenroom.config import load

        return load({**self._flags, **flags}, config=self._config)

    def load_settings(self, **flags: str | None) -> Settings:
        """Return the settings of a command that is no server. It logs only warnings and errors.

        Raises:
            ConfigError: a setting is unknown or wrong.
        """
        from greenroom.logs import configure

        settings = self.load(**flags).settings
        configure(settings.log_format, max(settings.log_level, "warning", key=_severity))
        return settings

    def perform(self, operation: Operation[Result]) -> Result:
        """Carry out an operation, in the running server or without one.

        Raises the errors of `greenroom.cli.perform.perform`.
        """
        from greenroom.cli.perform import perform

        return perform(self.load_settings(), operation)

    def show(self, result: Any, text: str) -> None:
        """Print the result as JSON if `--json` was given, else the text."""
        if self.as_json:
            say_json(result)
        else:
            say(text)


def with_common_options(
    function: Callable[Concatenate[Invocation, Parameters], None],
) -> Callable[..., None]:
    """Add the common options to a command. Its first argument becomes an `Invocation`."""

    @functools.wraps(function)
    def command(
        *args: Any,
        data_dir: str | None,
        config: str | None,
        database_url: str | None,
        as_json: bool,
        **kwargs: Any,
    ) -> None:
        invocation = Invocation(data_dir, config, database_url, as_json=as_json)
        function(invocation, *args, **kwargs)

    wrapped: Callable[..., None] = command
    for option in reversed(_OPTIONS):
        wrapped = option(wrapped)
    return wrapped


def utf8(_: click.Context, __: click.Parameter, value: str) -> str:
    """Return a text if it is valid UTF-8, which bytes from a shell need not be.

    Without a locale of UTF-8, Python has taken its letters beyond ASCII for undecodable bytes.

    Raises:
        BadParameter: it is not.
    """
    try:
        value.encode()
        return value
    except UnicodeEncodeError:
        pass
    try:
        return os.fsencode(value).decode()
    except UnicodeError:
        raise click.BadParameter("not valid UTF-8") from None


_SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}


def seconds(_: click.Context, __: click.Parameter, value: str) -> int:
    """Return a length of time such as `90m`, `12h` or `7d` in seconds.

    Raises:
        BadParameter: it is none, or longer than a year.
    """
    found = re.fullmatch(r"([0-9]{1,9})([smhd])", value)
    length = int(found[1]) * _SECONDS[found[2]] if found else -1
    if not 0 <= length <= 365 * 86_400:
        raise click.BadParameter("give a time such as 90m, 12h or 7d, at most 365d")
    return length


def confirm(question: str, done: str = "deleted") -> None:
    """Ask a question and return if the answer is yes. No, end of input and ^C all mean no."""
    from greenroom.control.errors import OperationRefused

    try:
        agreed = click.confirm(question, err=True)
    except click.Abort:
        click.echo(err=True)
        agreed = False
    if not agreed:
        raise OperationRefused(f"Nothing was {done}. To go on without being asked, give --yes.")


def _severity(level: str) -> int:
    return ["debug", "info", "warning", "error"].index(level)
