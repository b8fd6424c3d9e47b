"""The base image is pinned to what the registry says, and to nothing else."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from pin_base import DOCKERFILE, FROM, check, is_pinned, pin

import greenroom

TAG = "3.11-slim-bookworm"
DIGEST = "sha256:" + "ab" * 32


class Registry(BaseHTTPRequestHandler):
    """Knows one tag of one image, and whom it has given a token to."""

    digest = DIGEST

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b'{"token":"t0ken"}')

    def do_HEAD(self) -> None:
        is_known = self.path == f"/v2/library/python/manifests/{TAG}"
        is_known = is_known and self.headers["Authorization"] == "Bearer t0ken"
        self.send_response(200 if is_known else 404)
        self.send_header("Docker-Content-Digest", self.digest)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def registry() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), Registry) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_the_base_is_pinned_and_pinned_anew(registry: str):
    text = DOCKERFILE.read_text()
    asked = partial(pin, registry=registry, tokens=f"{registry}/token?service=x")
    once = asked(text, TAG)
    assert f"FROM python:{TAG}@{DIGEST}\n" in once
    assert FROM.sub("", once) == FROM.sub("", text)
    assert asked(once) == once


def test_without_an_answer_nothing_is_pinned(registry: str, monkeypatch: pytest.MonkeyPatch):
    with pytest.raises(OSError, match="404"):
        pin("FROM python:0.0", registry=registry, tokens=f"{registry}/token?service=x")
    monkeypatch.setattr(Registry, "digest", "sha256:short")
    with pytest.raises(OSError, match="no digest"):
        pin(DOCKERFILE.read_text(), TAG, registry=registry, tokens=f"{registry}/token?service=x")


def test_whether_the_base_is_pinned_is_told(
    registry: str, capsys: pytest.CaptureFixture[str]
) -> None:
    tagged = FROM.sub(f"FROM python:{TAG}", DOCKERFILE.read_text())
    assert check(tagged) == 1
    assert "run scripts/lock --docker before a release" in capsys.readouterr().out
    pinned = pin(tagged, registry=registry, tokens=f"{registry}/token?service=x")
    assert check(pinned) == 0


def test_the_base_of_a_release_is_pinned() -> None:
    if ".dev" not in greenroom.__version__:
        assert is_pinned(DOCKERFILE.read_text()), "run scripts/lock --docker"
