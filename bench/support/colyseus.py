"""The peer Colyseus: how it is started, and how the generator takes seats and speaks there."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path

import node
import processes
import seats
from scenario import Run

PAYLOAD_BYTES = 100
ROOM_DATA, SAID, STRING_8 = 13, 1, 0xD9
MESSAGE = bytes([ROOM_DATA, SAID, STRING_8, PAYLOAD_BYTES]) + b"{{payload}}"
"""A message of Colyseus' protocol: its type as a number, and a string in MessagePack."""
SEAT = r'"sessionId":"([^"]+)","roomId":"([^"]+)","processId":"([^"]+)"'
"""The patterns by which the matchmaker's answer is read."""
JOINED = "\n"
"""The client's answer to the server's first message: byte 10."""


def start() -> AbstractContextManager[processes.Target]:
    """Run it."""
    return processes.peer(*node.command("colyseus.mjs"))


def greet(target: processes.Target, room: str, session: str) -> list[str]:
    """Return the generator's arguments that connect to a seat and wait for the first message."""
    url = f"{target.realtime_url}{room}?sessionId={session}"
    return ["-url", url, "-binary", "-hello", JOINED, "-hello-reply", r"^\n"]


def enter(
    run: Run,
    target: processes.Target,
    folder: Path,
    rooms: int,
    members: int,
    *,
    kind: str = "relay",
) -> list[str]:
    """Reserve the seats of so many rooms; return the generator's arguments to connect to them."""
    found = seats.call(
        run,
        target,
        folder,
        path=f"matchmake/create/{kind}",
        body=f'{{"members":{members}}}',
        wanted=SEAT,
        count=rooms,
    )
    found += seats.call(
        run,
        target,
        folder,
        path="matchmake/joinById/{{cred}}",
        body="{}",
        wanted=SEAT,
        callers=[seat.split("\t")[1] for seat in found] * (members - 1),
    )
    by_room = sorted(seat.split("\t")[::-1] for seat in found)
    file = folder / "seats"
    file.write_text("".join(f"{process}/{room}\t{one}\n" for process, room, one in by_room))
    return [*greet(target, "{{cred1}}", "{{cred2}}"), "-creds", str(file)]
