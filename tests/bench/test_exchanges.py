"""Members of rooms who are connected to their worker, or to any."""

from __future__ import annotations

import exchanges


def test_members_who_are_scattered_take_all_workers_in_turn() -> None:
    lines = "a1\t8001\na2\t8001\na3\t8001\na4\t8001\nb1\t8002\nb2\t8002\n"
    assert exchanges.scatter(lines) == (
        "a1\t8001\na2\t8002\na3\t8001\na4\t8002\nb1\t8001\nb2\t8002\n"
    )


def test_of_one_process_all_stay_where_they_are() -> None:
    assert exchanges.scatter("a1\t8001\na2\t8001\n") == "a1\t8001\na2\t8001\n"
