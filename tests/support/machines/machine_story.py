"""A story: calls told one after the other, with all checks after each."""

from __future__ import annotations

from typing import Any

import pytest
from machine_calls import Calls
from machine_checks import WorldChecks
from machine_world import Call, MachineWorld

from greenroom.actors.kernel.errors import Refused


class MachineStory:
    """Tells calls to a machine, and checks its world after each."""

    def __init__(self, machine: MachineWorld) -> None:
        self.machine = machine
        self.calls = Calls(machine)
        self.checks = WorldChecks(machine)

    def done(self, call: Call) -> Any:
        """Wait for a call to be answered; return the reply."""
        reply = self.machine.finish(call)
        self.checks.moment()
        return reply

    def refused(self, call: Call, error: type[Exception] = Refused) -> None:
        """Wait for a call to be refused."""
        with pytest.raises(error):
            self.done(call)
