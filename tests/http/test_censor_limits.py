"""How often a text may be checked: by game and address, after the key and before the text."""

from __future__ import annotations

import msgspec
from world_kit import add_game, open_arena

from greenroom.http.dispatch import Dispatcher
from greenroom.http.endpoints import ENDPOINTS
from greenroom.http.limits import CallLimits
from greenroom.http.metrics import Metrics
from greenroom.http.request import Answer, Request


class Censor:
    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher

    async def __call__(self, key: str, address: str, body: bytes = b'{"text":"shit"}') -> Answer:
        headers = {"x-api-token": key}
        return await self._dispatcher.answer(
            Request("POST", "/api/censor.php", "", headers, body, address)
        )


async def test_a_game_is_censored_as_often_as_its_rate_allows_an_address():
    async with open_arena() as arena:
        _, other = await add_game(arena.world, "Other")
        key = arena.keys.api_token
        seconds = 0.0
        censor = Censor(
            Dispatcher(
                arena.world,
                ENDPOINTS,
                limits=CallLimits(),
                metrics=Metrics(),
                requests_in_flight_max=10,
                monotonic=lambda: seconds,
            )
        )
        for _ in range(400):
            assert (await censor(key, "a")).status == 200

        refused = await censor(key, "a", b"no JSON")
        assert (refused.status, refused.headers) == (429, (("Retry-After", "1"),))
        assert msgspec.json.decode(refused.body) == {
            "success": False,
            "error": "Too many requests",
            "retry_after": 1,
        }
        assert (await censor("nonsense", "a")).status == 401
        assert (await censor(other.api_token, "a")).status == 200
        assert (await censor(key, "b")).status == 200
        seconds = 1.0
        assert (await censor(key, "a")).status == 200
