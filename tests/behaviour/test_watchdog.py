"""A hook that loops is interrupted; one that ends in time is left alone."""

import threading
import traceback
from collections.abc import Iterator

import pytest

from greenroom.behaviour import Room, RoomBehaviour
from greenroom.behaviour.errors import HookTooSlow
from greenroom.behaviour.room import RoomFacts
from greenroom.behaviour.runner import Runner
from greenroom.behaviour.watchdog import Watchdog


class Looping(RoomBehaviour[dict[str, int]]):
    def on_tick(self, room: Room[dict[str, int]], dt: float) -> None:
        room.state["ticks"] = 1
        while True:
            try:
                sum(range(100))
            except Exception:  # noqa: BLE001 - the worst that a studio may write
                continue


@pytest.fixture
def watchdog() -> Iterator[Watchdog]:
    with Watchdog(0.02) as watchdog:
        yield watchdog


def test_a_loop_is_interrupted_with_its_stack_and_undone(watchdog: Watchdog):
    facts = RoomFacts(room_id="ab" * 16, game_id=1, rules={})
    runner = Runner.create(Looping(), facts, 1, watchdog.watch)
    runner.begin(0.0)
    saved = runner.save()
    with pytest.raises(HookTooSlow, match="on_tick was interrupted after") as caught:
        runner.call_hook("on_tick", 0.1)
    runner.load(saved)
    assert runner.room.state == {}
    assert "in on_tick" in "".join(traceback.format_tb(caught.value.__traceback__))


@pytest.mark.parametrize("instead", [GeneratorExit, ValueError])
def test_a_loop_was_interrupted_whatever_it_makes_of_that(
    watchdog: Watchdog, instead: type[BaseException]
):
    def loop() -> None:
        try:
            while True:
                pass
        except BaseException:  # noqa: BLE001 - a studio may write it
            raise instead from None

    with pytest.raises(HookTooSlow), watchdog.watch("on_tick"):
        loop()
    with pytest.raises(ZeroDivisionError), watchdog.watch("on_tick"):
        1 / 0  # noqa: B018


def test_nothing_runs_beside_a_server_that_has_no_hooks():
    before = threading.active_count()
    with Watchdog(0.02) as watchdog:
        assert threading.active_count() == before
        with watchdog.watch("on_tick"):
            assert threading.active_count() == before + 1
    assert threading.active_count() == before


def test_nothing_is_watched_that_is_not_open():
    before = threading.active_count()
    watchdog = Watchdog(0.02)
    with watchdog.watch("on_create"):
        assert threading.active_count() == before
    with watchdog, watchdog.watch("on_tick"):
        assert threading.active_count() == before + 1
    with watchdog.watch("on_stop"):
        assert threading.active_count() == before


def test_hooks_that_end_in_time_are_left_alone_however_many(watchdog: Watchdog):
    for _ in range(50_000):
        with watchdog.watch("on_tick"):
            pass
    assert watchdog.running is None
