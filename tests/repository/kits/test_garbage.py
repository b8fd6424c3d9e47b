"""The kit that finds garbage finds that of the block alone."""

from __future__ import annotations

from typing import ClassVar

from garbage_kit import own_garbage

from greenroom.memory import trim as memory

MODULE = memory.__name__


class Cycle:
    """Needs the collector once nobody holds it."""

    __module__ = MODULE  # as if it were the server's

    def __init__(self) -> None:
        self.me = self


def test_a_cycle_of_the_block_is_found():
    with own_garbage() as found:
        Cycle()
        assert [type(each) for each in found()] == [Cycle]


def test_a_cycle_that_another_test_lets_go_of_meanwhile_is_not():
    strays = [Cycle() for _ in range(3)]
    with own_garbage() as found:
        strays.clear()
        assert found() == []


class Phoenix:
    """Is kept by its finalizer when it is collected for the first time."""

    __module__ = MODULE
    ashes: ClassVar[list[object]] = []

    def __init__(self) -> None:
        self.me = self

    def __del__(self) -> None:
        self.ashes.append(self)


def test_what_a_finalizer_kept_past_an_earlier_collection_is_not():
    Phoenix()
    with own_garbage() as found:
        assert Phoenix.ashes
        Phoenix.ashes.clear()
        assert found() == []
