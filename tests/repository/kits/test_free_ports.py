"""Runs of the tests beside each other never give one port to two proxies."""

from __future__ import annotations

import os
import subprocess
import sys

from proxy_kit import free_ports

SHOW = "import proxy_kit; print(*proxy_kit.free_ports(2)); input()"


def test_two_runs_at_once_are_given_different_ports():
    ours = free_ports(2)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(
        [sys.executable, "-c", SHOW],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment,
        text=True,
    ) as other:
        assert other.stdout is not None
        theirs = [int(port) for port in other.stdout.readline().split()]
        assert free_ports(2) == ours, "nobody listens on them yet"
        other.communicate("\n")
    assert len(theirs) == 2
    assert not set(ours) & set(theirs)
