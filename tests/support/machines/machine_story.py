"""A story: calls told one after the other, with all checks after each."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar, Self

import pytest
from machine_calls import Calls
from machine_checks import WorldChecks
from machine_world import Call, MachineWorld

from greenroom.actors.kernel.errors import Refused


class MachineStory(ABC):
    """Tells calls to a machine, and checks its world after each."""

    players: ClassVar[int]
    """How many there are."""

    def __init__(self, machine: MachineWorld) -> None:
        self.machine = machine
        self.calls = Calls(machine)
        self.checks = WorldChecks(machine)

    @classmethod
    @contextmanager
    def opened(cls) -> Iterator[Self]:
        """A story in a world of its own, which is closed afterwards."""
        machine = MachineWorld(cls.players)
        try:
            yield cls(machine)
        finally:
            machine.close()

    @classmethod
    def assert_fails(cls, text: str) -> None:
        """Tell it in a world that has a defect; a checker must find that, in such words."""
        with pytest.raises(AssertionError, match=text), cls.opened() as story:
            story.tell()

    @abstractmethod
    def tell(self) -> None:
        """Make the calls, from the first to the last."""

    def done(self, call: Call) -> Any:
        """Wait for a call to be answered; return the reply."""
        reply = self.machine.finish(call)
        self.checks.moment()
        return reply

    def refused(self, call: Call, error: type[Exception] = Refused) -> None:
        """Wait for a call to be refused."""
        with pytest.raises(error):
            self.done(call)
