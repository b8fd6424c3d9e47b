"""The pages below /demo: what they are served, and to whom the address for phones is shown."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from greenroom.config import Settings
from greenroom.control.first_game import FILE_NAME
from greenroom.control.ready import FirstGame, Ready
from greenroom.demo import site
from greenroom.demo.site import NO_GAME, DemoSite
from greenroom.http.request import Answer, Request

HERE = "http://127.0.0.1:8080"
GAME = {
    "game_id": 1,
    "name": "first-game",
    "owner": "local",
    "api_token": "gr_api_x",
    "api_private_token": "gr_adm_x",
}


def ask(pages: DemoSite, path: str, **headers: str) -> Answer:
    request = Request("GET", path, "", headers, b"", "127.0.0.1")
    answer = pages.make_pages()[path](request)
    assert isinstance(answer, Answer)
    return answer


def make_site(data_dir: Path, **settings: object) -> DemoSite:
    return DemoSite(Settings(data_dir=data_dir, **settings), "now")  # type: ignore[arg-type]


def test_every_file_of_the_page_is_served_with_its_type_and_a_policy(tmp_path: Path) -> None:
    pages = make_site(tmp_path)
    kinds = {}
    for path in set(pages.make_pages()) - {"/demo/about.json"}:
        answer = ask(pages, path)
        headers = dict(answer.headers)
        assert answer.status == 200
        assert "default-src 'none'" in headers["Content-Security-Policy"]
        kinds[path] = answer.content_type.partition(";")[0]
    assert kinds["/demo"] == "text/html"
    assert kinds["/demo/style.css"] == "text/css"
    assert kinds["/demo/main.js"] == kinds["/demo/qrcode.mjs"] == "text/javascript"
    assert "/demo/sdk/generated/player-calls.js" in kinds
    assert not [path for path in kinds if "LICENSE" in path or "admin" in path]


def test_a_compressed_file_is_served_to_everybody(tmp_path: Path) -> None:
    pages = make_site(tmp_path)
    plain = ask(pages, "/demo/qrcode.mjs")
    assert b"Kazuhiko Arase" in plain.body
    packed = ask(pages, "/demo/qrcode.mjs", **{"accept-encoding": "gzip"})
    assert len(packed.body) < len(plain.body)


def test_the_page_is_told_the_project_key_and_no_other(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_text(json.dumps(GAME))
    answer = ask(make_site(tmp_path), "/demo/about.json", host="127.0.0.1:8080")
    about = json.loads(answer.body)
    assert about == {"key": "gr_api_x", "start": "now", "phone": None}
    assert dict(answer.headers)["Cache-Control"] == "no-store"


def test_without_a_first_game_the_page_is_told_what_to_do(tmp_path: Path) -> None:
    answer = ask(make_site(tmp_path), "/demo/about.json")
    assert (answer.status, json.loads(answer.body)["error"]) == (503, NO_GAME)


@pytest.mark.parametrize(
    ("settings", "address"),
    [
        ({"host": "127.0.0.1"}, None),
        ({"host": "0.0.0.0"}, "http://192.168.1.5:8080/demo"),
        ({"host": "::"}, "http://192.168.1.5:8080/demo"),
        ({"host": "0.0.0.0", "public_host": "play.example"}, "http://play.example:8080/demo"),
    ],
)
def test_phones_are_told_an_address_that_they_can_reach(
    settings: dict[str, str],
    address: str | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(site, "_own_address", lambda: "192.168.1.5")
    assert make_site(tmp_path, **settings).find_phone_address(HERE) == address


def test_a_machine_without_a_network_tells_phones_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(site, "_own_address", lambda: None)
    assert make_site(tmp_path, host="0.0.0.0").find_phone_address(HERE) is None


def test_an_address_has_no_port_where_it_needs_none(tmp_path: Path) -> None:
    demo = make_site(tmp_path, host="192.168.1.9")
    assert demo.find_phone_address("https://192.168.1.9") == "https://192.168.1.9/demo"
    assert demo.find_phone_address("http://[fd00::1]:80") == "http://[fd00::1]:80/demo"


def test_the_ready_file_names_the_page_and_holds_no_key() -> None:
    ready = Ready(
        http=HERE,
        realtime="ws://127.0.0.1:8081",
        udp_port=8082,
        pid=1,
        demo=f"{HERE}/demo",
        first_game=FirstGame(**GAME),  # type: ignore[arg-type]
    )
    assert json.loads(ready.encode_line())["demo"] == f"{HERE}/demo"
    assert b"gr_a" not in ready.encode_line()


def test_the_page_believes_only_the_server(tmp_path: Path) -> None:
    pages = make_site(tmp_path)
    own = [path for path in pages.make_pages() if path.endswith(".js") and "/sdk/" not in path]
    sources = [ask(pages, path).body.decode() for path in own]
    hearing = [source for source in sources if 'room.on("message"' in source]
    assert hearing
    assert all("sender.isServer" in source for source in hearing)
