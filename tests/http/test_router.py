"""The router: exact paths, templates, methods."""

from __future__ import annotations

import pytest

from greenroom.http.router import Router


@pytest.fixture
def router() -> Router[str]:
    router: Router[str] = Router()
    router.add("GET", "/api/a", "get a")
    router.add("POST", "/api/a", "post a")
    router.add("POST", "/api/{x}/b/{y}", "template")
    router.add("GET", "/api/{x}/b/{y}", "get template")
    router.add("POST", "/api/own/b/c", "exact")
    return router


@pytest.mark.parametrize(
    ("method", "path", "found"),
    [
        ("GET", "/api/a", ("get a", ())),
        ("HEAD", "/api/a/", ("get a", ())),
        ("POST", "/api/a", ("post a", ())),
        ("PUT", "/api/a", (None, ())),
        ("POST", "/api/1/b/2", ("template", ("1", "2"))),
        ("HEAD", "/api/1/b/2/", ("get template", ("1", "2"))),
        ("POST", "/api/own/b/c/", ("exact", ())),
        ("POST", "/api/own/b/d", ("template", ("own", "d"))),
        ("POST", "/api//b/2", (None, ())),
        ("POST", "/api/1/c/2", (None, ())),
        ("POST", "/", (None, ())),
    ],
)
def test_rows_are_found(
    router: Router[str], method: str, path: str, found: tuple[str | None, tuple[str, ...]]
) -> None:
    row, arguments = router.find(method, path)

    assert row == found[0]
    assert row is None or arguments == found[1]


@pytest.mark.parametrize("path", ["/api/a", "/api/a/", "/api/{z}/b/{w}"])
def test_a_row_that_is_there_already_is_a_mistake_of_ours(router: Router[str], path: str) -> None:
    with pytest.raises(ValueError, match="twice"):
        router.add("GET", path, "again")
