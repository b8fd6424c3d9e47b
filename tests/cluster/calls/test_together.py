"""Calls of one pass that are sent on as their bodies leave in one frame, if the owner takes it."""

from __future__ import annotations

from collections import Counter

import msgspec
import trio
from cluster_kit import Cluster
from trio.testing import MockClock

from greenroom.bus import frames
from greenroom.cluster.calls.messages import Forwarded
from greenroom.cluster.messenger import BusMessage, pack
from greenroom.http.request import Notes

STORE = ("PUT", "/api/store.php")
Caller = tuple[str, Notes]


async def know_callers(cluster: Cluster, count: int) -> list[Caller]:
    """Return the tokens of players, whose calls are known to both nodes."""
    callers: list[Caller] = []
    for _ in range(count):
        _, token = await cluster.owner.register()
        notes = Notes()
        for _ in range(2):
            answer = await cluster.ingress.answer(*STORE, b'{"a": 0}', token=token, notes=notes)
            assert answer.status == 200
        assert notes.away is not None
        callers.append((token, notes))
    return callers


async def store_all(cluster: Cluster, callers: list[Caller]) -> Counter[int]:
    """Have all callers change something in one pass; count the frames by their kinds."""
    kinds = Counter[int]()
    network = cluster.network
    send = network.send

    def see(sender: int, receiver: int, frame: bytes) -> None:
        kinds[frames.read_head(frame)[0]] += 1
        send(sender, receiver, frame)

    network.send = see  # type: ignore[method-assign]
    answers: dict[int, bytes] = {}

    async def store(number: int, token: str, notes: Notes) -> None:
        body = b'{"a": %d}' % number
        answer = await cluster.ingress.answer(*STORE, body, token=token, notes=notes)
        assert answer.status == 200
        assert answer.answered_by == cluster.owner.wire.node_id
        answers[number] = answer.body

    async with trio.open_nursery() as nursery:
        for number, (token, notes) in enumerate(callers):
            nursery.start_soon(store, number, token, notes)
    network.send = send  # type: ignore[method-assign]
    assert sorted(answers) == [*range(len(callers))]
    return kinds


async def test_calls_of_one_pass_leave_in_one_frame(
    autojump_clock: MockClock, cluster: Cluster
) -> None:
    callers = await know_callers(cluster, 5)
    assert (await store_all(cluster, callers))[frames.ASKS] == 1
    kinds = await store_all(cluster, callers[:1])
    assert (kinds[frames.ASK], kinds[frames.ASKS]) == (1, 0)


async def test_an_owner_of_an_older_version_is_sent_each_alone(
    autojump_clock: MockClock, cluster: Cluster
) -> None:
    callers = await know_callers(cluster, 5)
    for _, notes in callers:
        assert notes.away.leaves_together
        notes.away = msgspec.structs.replace(notes.away, leaves_together=False)
    kinds = await store_all(cluster, callers)
    assert (kinds[frames.ASK], kinds[frames.ASKS]) == (5, 0)


def test_answers_are_read_by_older_versions_and_read_from_them() -> None:
    class Older(BusMessage, frozen=True, tag="Forwarded"):
        status: int
        body: bytes
        headers: tuple[tuple[str, str], ...] = ()
        content_type: str = ""
        has_failed_token: bool = False
        parts: int = 0
        size: int = 0
        like: int = 0

    new, old = Forwarded(200, b"{}", like=4, takes_together=True), Older(200, b"{}", like=4)
    assert msgspec.msgpack.decode(pack(new)[1:], type=Older) == old
    assert msgspec.msgpack.decode(pack(old)[1:], type=Forwarded) == Forwarded(200, b"{}", like=4)
