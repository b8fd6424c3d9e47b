"""Bans, tokens and log-outs, which say who may come in, and who is there.

Each is checked as a register, every read of which must be current.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import trio
from history_bounds import staleness
from history_clients import (
    DATA,
    FRIENDS,
    PLAYERS,
    SERVICE,
    Client,
    Scene,
    Told,
    at_once,
    nothing,
)

CALLS = 12


async def share_ban(scene: Scene, name: str, *, calls: int = CALLS) -> None:
    """Ban a player and lift the ban, while their clients knock; then check."""
    owner = Client(scene, name)
    await owner.register()
    service = Client(scene, f"{name} service", SERVICE)
    key = ("ban", owner.player_id)

    async def change(is_banned: bool) -> None:
        word = "ban" if is_banned else "unban"
        body = {"player_id": owner.player_id}
        told: Told = (key, "write", is_banned, nothing)
        await service.call(
            "POST",
            f"{PLAYERS}/{word}",
            body | ({"ban_duration": "forever"} if is_banned else {}),
            told,
        )

    async def read(number: int) -> None:
        client = Client(scene, f"{name} {number}", owner.token)
        history = scene.book.history
        operation = history.begin(client.name, key, "read", None, trio.current_time())
        status, _ = await client.call("GET", f"{DATA}/get")
        if status in {200, 403}:
            history.finish(operation, status == 403, trio.current_time())
        else:
            assert status in {0, 429, 500}, f"{status} to a player who may be banned"
            history.drop(operation)

    await _switch(scene, change, read, calls)
    _check(scene, key, initial=False)


async def share_token(scene: Scene, name: str, *, calls: int = CALLS) -> None:
    """Replace a player's token, while clients knock with it and with the one before; then check.

    The tokens are counted. Which one is current is the register: each that opens something was read
    as the current one.
    """
    player = Client(scene, name)
    await player.register()
    key = ("token", player.player_id)
    tokens = [player.token]

    async def rotate() -> None:
        number = len(tokens)
        tokens.append(None)  # nobody knows it before it is told
        told: Told = (key, "write", number, nothing)
        status, answer = await player.call("POST", f"{PLAYERS}/rotate", None, told)
        if status == 200:
            tokens[number] = player.token = str(answer["private_key"])
        elif status == 429:
            tokens.pop()

    async def knock(client_number: int, number: int) -> None:
        client = Client(scene, f"{name} {client_number}", tokens[number])
        history, was_last = scene.book.history, number == len(tokens) - 1
        operation = history.begin(client.name, key, "read", None, trio.current_time())
        status, _ = await client.call("GET", f"{DATA}/get")
        if status == 200:
            history.finish(operation, number, trio.current_time())
            return
        history.drop(operation)
        is_good = was_last and number == len(tokens) - 1
        told = f"{status} to a token that is {'good' if is_good else 'old'}"
        assert status in {0, 429, 500} or (status == 401 and not is_good), told

    for _ in range(calls):
        last = len(tokens) - 1
        if scene.is_over or tokens[last] is None:
            break
        await at_once(rotate, partial(knock, 1, last), partial(knock, 2, max(last - 1, 0)))
        if tokens[-1] is not None:
            await at_once(partial(knock, 1, len(tokens) - 1), partial(knock, 2, last))
    _check(scene, key, initial=0)


async def share_presence(
    scene: Scene, name: str, *, calls: int = CALLS, is_silence_told: bool = False
) -> None:
    """Log a player out and in, while others look whether they are there; then check.

    Args:
        scene: where.
        name: of the player.
        calls: how many changes are made.
        is_silence_told: True if a player may be shown as gone who has not logged out: signs of life
            are lost, or a clock has jumped. Then only what shows them as there is checked.
    """
    player, onlooker = Client(scene, name), Client(scene, f"{name} onlooker")
    await player.register()
    await onlooker.register()
    key = ("presence", player.player_id)

    async def change(is_gone: bool) -> None:
        method, word = ("POST", "logout") if is_gone else ("PUT", "login")
        told: Told = (key, "write", is_gone, nothing)
        history = scene.book.history
        alive = history.begin(player.name, key, "write", False, trio.current_time())
        status, _ = await player.call(method, f"{PLAYERS}/{word}", None, told)
        if status == 200:
            history.drop(alive)
        else:  # the good token that came with it is a sign of life, whatever the answer
            history.leave_open(alive, "a sign of life")

    async def read(number: int) -> None:
        client = Client(scene, f"{name} {number}", onlooker.token)
        told: Told = (key, "read", None, lambda answer: not answer["player"]["is_online"])
        await client.call("POST", f"{FRIENDS}/lookup", {"player_id": player.player_id}, told)

    await _switch(scene, change, read, calls)
    _check(scene, key, initial=False, unchecked=True if is_silence_told else None)


async def _switch(
    scene: Scene,
    change: Callable[[bool], Awaitable[None]],
    read: Callable[[int], Awaitable[None]],
    calls: int,
) -> None:
    """Switch something on and off, and have it read meanwhile, and again before it changes."""
    for number in range(calls):
        if scene.is_over:
            return
        is_on = number % 2 == 0
        await at_once(partial(change, is_on), partial(read, 1))
        await at_once(partial(read, 1), partial(read, 2))


def _check(scene: Scene, key: tuple[str, int], *, initial: Any, unchecked: Any = None) -> None:
    """Check that every read of something was current, but those of one value; forget it."""
    book = scene.book
    operations = [
        each
        for each in book.history.forget(key)
        if each.action != "read" or unchecked is None or each.result != unchecked
    ]
    wrong = staleness(operations, 0.0, initial)
    assert not wrong, f"{key} is older than promised: {wrong[0]}"
    book.checked[key[0]] += len(operations)
    book.open[key[0]] += sum(each.is_open for each in operations)
    book.subjects += 1
