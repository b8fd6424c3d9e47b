"""Rate limits of each class of endpoints, and of requests outside the API.

Each class has an allowance for every client address, which is charged before any token is looked
at. It has one for every player, which is charged once their token is known to be good. Time is
an argument; `network.limiter` does the arithmetic, and tells what happens under overload.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import Final

import msgspec

from greenroom.config import DEFAULTS
from greenroom.http.overload.large_work import LargeWork
from greenroom.http.overload.turns import AddressTurns
from greenroom.network.addresses import address_key
from greenroom.network.limiter import KEYS_MAX, Limiter, Rate, rate_of
from greenroom.network.write_shares import COUNTED_BYTES, WriteShares

RATE_CLASSES: Final[dict[str, str]] = {
    "account": "sessions, names and tokens of a player, each a durable write",
    "register": "new accounts",
    "read": "whatever changes nothing, heartbeats, and the polling of rooms and lobbies",
    "write": "documents, rooms, lobbies and friends, actions and updates",
    "list": "lists that look through everything there is",
    "leaderboard": "rankings",
    "censor": "checks of texts",
    "admin": "what takes the admin key",
}
"""The classes of endpoints, and what is in each."""
WRITING_CLASSES: Final = frozenset({"account", "register", "write", "admin"})
"""Classes whose bodies are written down."""


class LimitSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of the limits; `config.Settings` has the same names."""

    rate_limit_factor: float = DEFAULTS.rate_limit_factor
    rate_burst_seconds: float = DEFAULTS.rate_burst_seconds
    account_calls_per_second_player: float = DEFAULTS.account_calls_per_second_player
    account_calls_per_second_address: float = DEFAULTS.account_calls_per_second_address
    register_calls_per_second_address: float = DEFAULTS.register_calls_per_second_address
    read_calls_per_second_player: float = DEFAULTS.read_calls_per_second_player
    read_calls_per_second_address: float = DEFAULTS.read_calls_per_second_address
    write_calls_per_second_player: float = DEFAULTS.write_calls_per_second_player
    write_calls_per_second_address: float = DEFAULTS.write_calls_per_second_address
    list_calls_per_second_address: float = DEFAULTS.list_calls_per_second_address
    leaderboard_calls_per_second_address: float = DEFAULTS.leaderboard_calls_per_second_address
    censor_calls_per_second_address: float = DEFAULTS.censor_calls_per_second_address
    censor_calls_per_second_game_address: float = DEFAULTS.censor_calls_per_second_game_address
    admin_calls_per_second_address: float = DEFAULTS.admin_calls_per_second_address
    pages_per_second_address: float = DEFAULTS.pages_per_second_address
    probes_per_second_address: float = DEFAULTS.probes_per_second_address
    failed_tokens_per_second_address: float = DEFAULTS.failed_tokens_per_second_address
    connections_per_second_address: float = DEFAULTS.connections_per_second_address
    http2_frames_per_second_address: float = DEFAULTS.http2_frames_per_second_address
    realtime_connections_per_second_address: float = (
        DEFAULTS.realtime_connections_per_second_address
    )


BODY_BYTES_PER_UNIT: Final = 16 << 10


def units_of(size: int) -> int:
    """Return how many calls one with a body of so many bytes counts for."""
    return 1 + size // BODY_BYTES_PER_UNIT


ANSWER_BYTES_PER_UNIT: Final = 16 << 10


def units_of_answer(size: int) -> int:
    """Return how many calls an answer of so many bytes counts for besides its own.

    A caller with the project key alone pays for the size of answers. Most answers are small, and
    cost nothing more.
    """
    return size // ANSWER_BYTES_PER_UNIT


REFUSALS: Final = rate_of(50.0, 20.0)
"""Refused calls of an address that are answered at once.

No setting changes it, and `rate_limit_factor` does not multiply it: refusing costs the same
whatever is allowed.
"""

DISK_RETRY_SECONDS: Final = 1.0

CONNECTIONS_A_BROKEN_ONE: Final = 9
"""New connections that a broken one counts for besides itself: reading and answering it costs as
much."""


class ClassLimits:
    """The limits of one class: by address, then by player or by address in a game."""

    __slots__ = ("_address", "_failed_tokens", "_game_address", "_name", "_player", "_refused")

    def __init__(
        self,
        name: str,
        *,
        address: Limiter,
        player: Limiter | None,
        game_address: Limiter | None,
        failed_tokens: Limiter,
        refused: Counter[str],
    ) -> None:
        """Put together the limiters of a class; the last two are shared by all classes."""
        self._name = name
        self._address = address
        self._player = player
        self._game_address = game_address
        self._failed_tokens = failed_tokens
        self._refused = refused

    @property
    def rates(self) -> tuple[Rate, Rate | None, Rate | None]:
        """Return what an address, a player, and an address of one game are allowed."""
        player, game_address = self._player, self._game_address
        return (
            self._address.rate,
            None if player is None else player.rate,
            None if game_address is None else game_address.rate,
        )

    def admit(self, key: str, now: float, units: int = 1) -> int:
        """Charge a call to its address; return 0, or after how many whole seconds to try again.

        Args:
            key: the client's address, as `address_key` says; nothing else is known yet.
            now: monotonic seconds.
            units: how many calls it counts for: see `units_of`.
        """
        if not self._failed_tokens.is_untouched:
            wait = self._failed_tokens.compute_wait_seconds(key, now)
            if wait:
                return _note_refusal(self._refused, "failed tokens by address", wait)
        wait = self._address.charge(key, now, units)
        return self._refuse("by address", wait) if wait else 0

    def may_call(self, address: str, now: float) -> bool:
        """Return whether `admit` would not refuse; nothing is charged."""
        key = address_key(address)
        waits = (
            limiter.compute_wait_seconds(key, now)
            for limiter in (self._failed_tokens, self._address)
        )
        return not any(waits)

    def admit_player(self, player_id: int, now: float, units: int = 1) -> int:
        """Charge a call to its player; return 0, or after how many whole seconds to try again."""
        if self._player is None:
            return 0
        wait = self._player.charge(player_id, now, units)
        return self._refuse("by player", wait) if wait else 0

    def owe(self, address: str | None, player_id: int | None, now: float, units: int) -> None:
        """Charge an answer to the address that it goes to, and to its player, if there is one.

        Args:
            address: the client's; None if another node charges it.
            player_id: whose token came with the call; None where none had to.
            now: monotonic seconds.
            units: see `units_of_answer`.
        """
        if address is not None:
            self._address.owe(address_key(address), now, units)
        if self._player is not None and player_id is not None:
            self._player.owe(player_id, now, units)

    def admit_game_address(self, game_id: int, address: str, now: float) -> int:
        """Charge one call to its address within a game; return 0, or seconds as `admit`."""
        if self._game_address is None:
            return 0
        wait = self._game_address.charge(f"{game_id} {address_key(address)}", now)
        return self._refuse("by game and address", wait) if wait else 0

    def _refuse(self, reason: str, wait: float) -> int:
        return _note_refusal(self._refused, f"{self._name} {reason}", wait)


def _note_refusal(refused: Counter[str], reason: str, wait: float) -> int:
    """Count a refusal; return after how many whole seconds to try again."""
    refused[reason] += 1
    return math.ceil(wait)


class CallLimits:
    """All limits of one server."""

    def __init__(
        self,
        settings: LimitSettings | None = None,
        keys_max: int = KEYS_MAX,
        write_shares: WriteShares | None = None,
    ) -> None:
        """Make all limits, with full allowances.

        Args:
            settings: the rates; the defaults if not given.
            keys_max: how many keys each limiter remembers at most.
            write_shares: the bytes that each address has on their way to the disk.
        """
        self.write_shares = write_shares or WriteShares()
        self._settings = settings or LimitSettings()
        self._keys_max = keys_max
        self.turns = AddressTurns()
        """Turns of addresses, while passes are slow. A server gives them."""
        self.large_work = LargeWork(self.turns)
        self.refused: Counter[str] = Counter()
        """How often each limit has refused; the names are few and fixed."""
        self._failed_tokens = self._require_limiter("failed_tokens_per_second_address")
        self._connections = self._require_limiter("connections_per_second_address")
        self._frames = self._require_limiter("http2_frames_per_second_address")
        self._realtime_connections = self._require_limiter(
            "realtime_connections_per_second_address"
        )
        self._pages = self._require_limiter("pages_per_second_address")
        self._refusals = Limiter(REFUSALS, keys_max)
        self._probes = self._require_limiter("probes_per_second_address")
        self._classes = {name: self._find_class(name) for name in RATE_CLASSES}

    def get_class(self, rate_class: str) -> ClassLimits:
        """Return the limits of a class of endpoints.

        Raises:
            KeyError: there is no such class.
        """
        return self._classes[rate_class]

    def admit_connection(self, address: str, now: float) -> int:
        """Charge a new connection to its address; return 0, or seconds as `ClassLimits.admit`."""
        wait = self._connections.charge(address_key(address), now)
        return self._refuse("connections by address", wait)

    def note_broken(self, address: str, now: float) -> None:
        """Charge an address for a connection without HTTP, as for several connections."""
        self._connections.owe(address_key(address), now, CONNECTIONS_A_BROKEN_ONE)

    def admit_page(self, address: str, now: float) -> int:
        """Charge a request outside the API to its address; wrong tokens do not count here."""
        wait = self._pages.charge(address_key(address), now)
        return self._refuse("pages by address", wait)

    def owe_page(self, address: str, now: float, units: int) -> None:
        """Charge an admitted address for the size of its answer."""
        if units:
            self._pages.owe(address_key(address), now, units)

    def admit_probe(self, address: str, now: float) -> int:
        """Charge a probe to its address; probes have an allowance of their own."""
        wait = self._probes.charge(address_key(address), now)
        return self._refuse("probes by address", wait)

    def must_wait(self, address: str, now: float) -> bool:
        """Charge a refused call to its address; return whether the refusal is to be held up.

        Args:
            address: the client's.
            now: monotonic seconds.
        """
        return self._refusals.charge(address_key(address), now) > 0.0

    def admit_frames(self, address: str, now: float, frames: int) -> int:
        """Charge HTTP/2 frames that no answer pays for; return 0, or seconds as for the others."""
        wait = self._frames.charge(address_key(address), now, frames)
        return self._refuse("HTTP/2 frames by address", wait)

    def admit_realtime(self, address: str, now: float) -> int:
        """Charge a new connection of the realtime port, likewise; each brings a token at once.

        An address that has sent too many wrong tokens, to either port, is refused as well.
        """
        key = address_key(address)
        wait = self._failed_tokens.compute_wait_seconds(key, now)
        if wait:
            return self._refuse("failed tokens by address", wait)
        wait = self._realtime_connections.charge(key, now)
        return self._refuse("realtime connections by address", wait)

    def admit_stored(self, address: str, player_id: int, size: int, now: float) -> int:
        """Charge a message that is to be stored as a call of the class `write`.

        Args:
            address: the client's.
            player_id: the sender.
            size: in bytes.
            now: monotonic seconds.

        Returns:
            0, or after how many whole seconds to try again.
        """
        limits, units, key = self._classes["write"], units_of(size), address_key(address)
        wait = limits.admit(key, now, units) or limits.admit_player(player_id, now, units)
        if wait or size < COUNTED_BYTES or self.write_shares.post(key, size):
            return wait
        return self.refuse_disk()

    def refuse_disk(self) -> int:
        """Count a change whose address has too much on its way; return seconds as the others."""
        return self._refuse("bytes on their way by address", DISK_RETRY_SECONDS)

    def note_failed_token(self, address: str, now: float) -> None:
        """Charge an address for a wrong key or token; it has been answered already."""
        self._failed_tokens.charge(address_key(address), now)

    def _refuse(self, reason: str, wait: float) -> int:
        return _note_refusal(self.refused, reason, wait) if wait else 0

    def _find_class(self, name: str) -> ClassLimits:
        return ClassLimits(
            name,
            address=self._require_limiter(f"{name}_calls_per_second_address"),
            player=self._find_limiter(f"{name}_calls_per_second_player"),
            game_address=self._find_limiter(f"{name}_calls_per_second_game_address"),
            failed_tokens=self._failed_tokens,
            refused=self.refused,
        )

    def _require_limiter(self, setting: str) -> Limiter:
        """Return the limiter of a setting that must exist."""
        limiter = self._find_limiter(setting)
        assert limiter is not None, f"there is no setting {setting}"
        return limiter

    def _find_limiter(self, setting: str) -> Limiter | None:
        """Return the limiter of a setting, None if there is no such setting."""
        per_second: float | None = getattr(self._settings, setting, None)
        if per_second is None:
            return None
        per_second *= self._settings.rate_limit_factor
        return Limiter(rate_of(per_second, self._settings.rate_burst_seconds), self._keys_max)
