"""A relay: nothing is overridden, so a room does what the API says, and not a thing besides.

    greenroom serve --behaviours-dir examples --behaviours '*/relay=relay:Relay'

The host's client decides. Actions wait for it until it completes or fails them. Updates are stored
for their targets, and realtime messages reach their targets as they were sent. The server looks
into none of them, and writes no result. So a cheater only needs to be the host.

So this is where a behaviour begins. Each hook that is overridden here takes one decision from the
host's machine and gives it to the server; see `race.py` for the first such step. A room that needs
none needs no behaviour either: without any, it does the very same.
"""

from __future__ import annotations

from greenroom.behaviour import RoomBehaviour


class Relay(RoomBehaviour[None]):
    """Passes on."""
