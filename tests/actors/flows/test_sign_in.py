"""Signing in with a platform's ticket, over a platform that a test can shape."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import trio
from trio.testing import MockClock
from world_kit import Arena, Memory, add_game, identify, open_world

from greenroom.actors.flows.bans import ban_player, unban_player
from greenroom.actors.flows.refusals import NameMissing
from greenroom.actors.flows.sign_in import SignedIn, Ticket, sign_in
from greenroom.actors.game.messages import ReplaceGameDocument
from greenroom.actors.game.settings import GameSettings
from greenroom.actors.kernel.errors import StorageUnavailable
from greenroom.actors.player.refusals import InvalidPlayerToken, PlayerIsBanned
from greenroom.actors.text.refusals import NameRefused
from greenroom.actors.world.platform import SIGN_INS_MAX, Platforms, PlatformUser
from greenroom.actors.world.refusals import (
    InvalidPlatformTicket,
    PlatformDisabled,
    PlatformUnavailable,
)
from greenroom.config import DEFAULTS


class Fake:
    """A platform whose tickets are `<user>…` in hexadecimal digits: the first byte is the user."""

    def __init__(self) -> None:
        self.personas: dict[str, str] = {}
        self.asked: list[tuple[bytes, str | None]] = []
        self.is_enabled = True
        self.is_away = False
        self.gate = trio.Event()
        self.gate.set()

    def find_platform(self, settings: GameSettings) -> Fake | None:
        return self if self.is_enabled else None

    async def authenticate(self, ticket: bytes, identity: str | None) -> PlatformUser:
        self.asked.append((ticket, identity))
        await self.gate.wait()
        if self.is_away:
            raise PlatformUnavailable
        return PlatformUser("fake", str(ticket[0]))

    async def fetch_persona_name(self, user: PlatformUser) -> str | None:
        return self.personas.get(user.platform_id)


@pytest.fixture
def fake() -> Fake:
    return Fake()


@pytest.fixture
async def arena(fake: Fake) -> AsyncIterator[Arena]:
    memory = Memory()
    async with open_world(memory, providers=[fake]) as world:
        game, keys = await add_game(world)
        yield Arena(world, memory, game, keys)


async def enter(
    arena: Arena,
    ticket: str,
    name: str | None = "Ada",
    data: bytes = b"{}",
    *,
    address: str = "192.0.2.1",
):
    wanted = Ticket(ticket, None, name, data)
    return await sign_in(arena.world, arena.game.game, wanted, address)


async def test_the_first_ticket_opens_an_account_and_the_next_one_logs_in(arena: Arena):
    first = await enter(arena, "0701", data=b'{"gold":1}')
    second = await enter(arena, "0702", name="Other", data=b'{"gold":9}')

    assert (first.is_new, second.is_new) == (True, False)
    assert first.platform_id == second.platform_id == "7"
    assert second.player.player_id == first.player.player_id
    assert second.player.player_name == "Ada"
    player = await identify(arena, second.player.token)
    record = arena.memory.players[player.player_id]
    assert (record.platform, record.platform_id) == ("fake", "7")
    assert record.player_data == b'{"gold":1}'
    assert record.last_login is not None
    with pytest.raises(InvalidPlayerToken):
        await identify(arena, first.player.token)


async def test_a_ticket_is_good_for_one_time_however_its_digits_are_written(
    arena: Arena, fake: Fake
):
    await enter(arena, "07ab")
    for ticket in ("07ab", "07AB", "07Ab"):
        with pytest.raises(InvalidPlatformTicket):
            await enter(arena, ticket)


async def test_of_two_who_show_one_ticket_at_once_one_gets_in(arena: Arena, fake: Fake):
    fake.gate = trio.Event()
    results: list[object] = []

    async def try_it() -> None:
        try:
            results.append(await enter(arena, "0701"))
        except InvalidPlatformTicket as error:
            results.append(error)

    async with trio.open_nursery() as nursery:
        for _ in range(5):
            nursery.start_soon(try_it)
        await trio.testing.wait_all_tasks_blocked()
        fake.gate.set()

    assert sorted(type(result).__name__ for result in results) == [
        *["InvalidPlatformTicket"] * 4,
        "SignedIn",
    ]


async def test_first_calls_of_one_user_at_once_make_one_account(
    arena: Arena, fake: Fake, autojump_clock: object
):
    fake.gate = trio.Event()
    arena.memory.read_seconds = 0.1
    results: list[SignedIn] = []

    async def try_it(number: int) -> None:
        results.append(await enter(arena, f"07{number:02}", address=f"192.0.2.{number}"))

    async with trio.open_nursery() as nursery:
        for number in range(20):
            nursery.start_soon(try_it, number)
        await trio.testing.wait_all_tasks_blocked()
        fake.gate.set()

    assert sum(result.is_new for result in results) == 1
    assert len({result.player.player_id for result in results}) == 1
    assert len(arena.memory.players) == 1
    good = 0
    for result in results:
        try:
            await identify(arena, result.player.token)
            good += 1
        except InvalidPlayerToken:
            continue
    assert good == 1


async def test_whoever_is_banned_stays_banned_and_keeps_their_token(arena: Arena):
    first = await enter(arena, "0701")
    player_id = first.player.player_id
    await ban_player(arena.world, arena.game.game_id, player_id, "hour", None)

    with pytest.raises(PlayerIsBanned):
        await enter(arena, "0702")
    await unban_player(arena.world, arena.game.game_id, player_id)
    await identify(arena, first.player.token)
    assert not (await enter(arena, "0703")).is_new


@pytest.mark.parametrize(
    "ticket", ["7", "0g", "07 01", "0x07", "07" * 4097, "\u0660\u0667", "\N{DIGIT ONE}\0"]
)
async def test_what_is_no_ticket_is_not_even_shown_to_the_platform(
    arena: Arena, fake: Fake, ticket: str
):
    with pytest.raises(InvalidPlatformTicket):
        await enter(arena, ticket)
    assert fake.asked == []


async def test_an_identity_beyond_all_measure_is_none(arena: Arena, fake: Fake):
    wanted = Ticket("07", "x" * 257, "Ada", b"{}")
    with pytest.raises(InvalidPlatformTicket):
        await sign_in(arena.world, arena.game.game, wanted, "192.0.2.1")
    assert fake.asked == []


async def test_a_platform_that_is_away_signs_nobody_in_and_costs_no_ticket(
    arena: Arena, fake: Fake
):
    fake.is_away = True
    with pytest.raises(PlatformUnavailable):
        await enter(arena, "0701")
    assert arena.memory.players == {}
    fake.is_away = False
    assert (await enter(arena, "0701")).is_new


async def test_a_database_that_is_away_signs_nobody_in(arena: Arena):
    arena.memory.away = True
    with pytest.raises(StorageUnavailable):
        await enter(arena, "0701")


async def test_a_sign_in_that_is_not_durable_in_time_can_be_made_again(
    autojump_clock: MockClock, arena: Arena
):
    first = await enter(arena, "0701")
    arena.memory.automatic = False
    with pytest.raises(StorageUnavailable):
        await enter(arena, "0702")
    arena.memory.automatic = True
    arena.memory.commit()
    again = await enter(arena, "0703")
    assert (again.player.player_id, again.is_new) == (first.player.player_id, False)
    assert (await identify(arena, again.player.token)).player_id == first.player.player_id


async def test_a_game_without_a_platform_says_so(arena: Arena, fake: Fake):
    fake.is_enabled = False
    with pytest.raises(PlatformDisabled):
        await enter(arena, "junk")


async def test_without_a_name_a_player_is_called_as_on_the_platform_if_the_rules_let_that_pass(
    arena: Arena, fake: Fake
):
    fake.personas |= {"1": "  Gabe ", "2": "x", "3": "a\u202eb"}
    names = [(await enter(arena, f"0{n}", name=None)).player.player_name for n in range(1, 5)]
    assert names == ["Gabe", "Player", "Player", "Player"]

    rules = b'{"name_rules":{"scripts":["Cyrillic"]}}'
    await arena.game.game.ask(ReplaceGameDocument(rules))
    with pytest.raises(NameMissing):
        await enter(arena, "05", name=None)
    with pytest.raises(NameRefused):
        await enter(arena, "0501", name="Ada")
    assert (await enter(arena, "0101", name="Ada")).player.player_name == "Gabe"


async def test_a_user_of_two_games_has_an_account_in_each(arena: Arena):
    other, _ = await add_game(arena.world, "Other")
    first = await enter(arena, "0701")
    second = await sign_in(arena.world, other.game, Ticket("0702", None, "Ada", b"{}"), "192.0.2.1")
    assert second.is_new
    assert second.player.player_id != first.player.player_id


async def test_sign_ins_of_one_address_that_wait_leave_room_for_others(arena: Arena, fake: Fake):
    fake.gate = trio.Event()
    refused: list[PlatformUnavailable] = []

    async def try_it(number: int, address: str) -> None:
        try:
            await enter(arena, f"07{number:02}", address=address)
        except PlatformUnavailable as error:
            refused.append(error)

    async with trio.open_nursery() as nursery:
        for number in range(SIGN_INS_MAX):
            nursery.start_soon(try_it, number, f"2001:db8::{number:x}")
        await trio.testing.wait_all_tasks_blocked()
        assert len(refused) == SIGN_INS_MAX // 2
        for number in range(5):
            nursery.start_soon(try_it, 50 + number, "192.0.2.2")
        await trio.testing.wait_all_tasks_blocked()
        assert len(refused) == SIGN_INS_MAX // 2
        fake.gate.set()


async def test_no_turn_is_kept_once_nobody_wants_it():
    platforms = Platforms([], DEFAULTS.address_share_max)
    user = PlatformUser("fake", "1")
    async with trio.open_nursery() as nursery:

        async def take() -> None:
            async with platforms.turn(1, user):
                await trio.lowlevel.checkpoint()

        for _ in range(3):
            nursery.start_soon(take)
        async with platforms.turn(1, user):
            with trio.move_on_after(0):
                async with platforms.turn(1, user):
                    raise AssertionError
            assert len(platforms._turns) == 1
    assert platforms._turns == {}


def test_a_ticket_is_shown_in_no_repr():
    assert "07" not in repr(Ticket("0701", None, "Ada", b"{}"))
