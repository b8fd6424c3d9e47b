"""A certificate that is renewed while servers use it, over real sockets."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest
import trio
from certificate_kit import Authority, shown
from http_kit import serving
from realtime_kit import open_stage
from waiting import until

from greenroom.network.certificate import Certificate
from greenroom.network.tls import TlsError

GET = b"GET /api/x HTTP/1.1\r\nHost: a\r\n\r\n"
POLL_SECONDS = 0.02


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    made = Authority(tmp_path)
    made.issue()
    return made


def certificate_of(authority: Authority, poll_seconds: float = POLL_SECONDS) -> Certificate:
    return Certificate(authority.certificate, authority.key, poll_seconds)


async def ask(stream: trio.SSLStream[trio.SocketStream]) -> None:
    """Make a request and read its answer, which is JSON and good."""
    await stream.send_all(GET)
    data = bytearray()
    while not data.endswith(b"}"):
        data += await stream.receive_some()
    assert data.startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize("server", ["greenroom", "hypercorn"])
async def test_new_connections_get_a_renewed_certificate_and_the_others_go_on(
    authority: Authority, server: str, nursery: trio.Nursery
) -> None:
    certificate = certificate_of(authority)
    await nursery.start(certificate.run)
    async with (
        serving(tls=certificate.get_http_context, server=server) as running,
        open_stage(tls=certificate.get_realtime_context) as stage,
    ):
        plain = await trio.open_tcp_stream("127.0.0.1", running.port)
        kept = trio.SSLStream(plain, authority.trusting(), server_hostname="localhost")
        await ask(kept)
        number = authority.issue()
        for port in (running.port, stage.port.port):

            async def is_renewed(port: int = port) -> bool:
                return await shown(port) == number

            await until(is_renewed)
        await ask(kept)
        await trio.aclose_forcefully(kept)
    nursery.cancel_scope.cancel()


async def test_a_pair_that_does_not_match_keeps_the_old_one_and_is_told_once(
    authority: Authority, nursery: trio.Nursery, caplog: pytest.LogCaptureFixture
) -> None:
    certificate = certificate_of(authority)
    before, content = certificate.get_http_context(), authority.certificate.read_bytes()
    await nursery.start(certificate.run)
    authority.certificate.write_bytes(authority.make()[0])
    with trio.fail_after(10):
        await until(lambda: certificate.is_outdated)
    assert certificate.get_http_context() is before
    authority.certificate.write_bytes(b"nonsense")
    with trio.fail_after(10):
        await until(lambda: "PEM" in caplog.text)
    assert certificate.get_http_context() is before
    told = [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]
    assert len(told) == 2, told
    assert "does not belong to the first certificate" in told[0]
    assert all("stays in use" in line for line in told)
    authority.certificate.write_bytes(content)
    with trio.fail_after(10):
        await until(lambda: not certificate.is_outdated)
    nursery.cancel_scope.cancel()


async def test_a_reload_that_is_asked_for_waits_for_no_poll(
    authority: Authority, nursery: trio.Nursery
) -> None:
    certificate = certificate_of(authority, poll_seconds=3_600)
    await nursery.start(certificate.run)
    before = certificate.get_http_context()
    authority.issue()
    certificate.reload()
    with trio.fail_after(10):
        await until(lambda: certificate.get_http_context() is not before)
    nursery.cancel_scope.cancel()


async def test_files_that_are_gone_keep_the_certificate(
    authority: Authority, nursery: trio.Nursery, caplog: pytest.LogCaptureFixture
) -> None:
    certificate = certificate_of(authority)
    await nursery.start(certificate.run)
    authority.key.unlink()
    with trio.fail_after(10):
        await until(lambda: certificate.is_outdated)
    assert f"{authority.key} cannot be read: No such file" in caplog.text
    authority.issue()
    with trio.fail_after(10):
        await until(lambda: not certificate.is_outdated)
    nursery.cancel_scope.cancel()


STATES = {
    "valid": ((-1, 90), logging.INFO, "is valid until"),
    "expiring": ((-1, 29), logging.WARNING, "is valid only until"),
    "expired": ((-3, -1), logging.ERROR, "expired at"),
    "early": ((1, 90), logging.ERROR, "is not valid before"),
}


@pytest.mark.parametrize("state", STATES)
async def test_the_start_tells_how_long_it_is_valid(
    authority: Authority, nursery: trio.Nursery, caplog: pytest.LogCaptureFixture, state: str
) -> None:
    caplog.set_level(logging.INFO)
    (begins_in_days, days), level, text = STATES[state]
    authority.issue(days=days, begins_in_days=begins_in_days)
    await nursery.start(certificate_of(authority).run)
    (told,) = caplog.records
    assert told.levelno == level
    assert text in told.getMessage()
    nursery.cancel_scope.cancel()


async def test_a_key_that_others_may_read_is_told(
    authority: Authority, nursery: trio.Nursery, caplog: pytest.LogCaptureFixture
) -> None:
    authority.key.chmod(0o644)
    await nursery.start(certificate_of(authority).run)
    assert f"chmod g-w,o= {authority.key}" in caplog.text
    nursery.cancel_scope.cancel()


def test_a_path_that_never_ends_is_refused(authority: Authority) -> None:
    pipe = authority.directory / "pipe"
    os.mkfifo(pipe)
    for path in (pipe, Path("/dev/zero")):
        with pytest.raises(TlsError, match="is not a file"):
            Certificate(path, authority.key)
    large = authority.directory / "large.pem"
    large.write_bytes(b"x" * (1 << 21))
    with pytest.raises(TlsError, match="larger than 1 MiB"):
        Certificate(authority.certificate, large)


async def test_it_tells_what_it_shows(authority: Authority) -> None:
    certificate = certificate_of(authority)
    async with open_stage(tls=certificate.get_realtime_context) as stage:
        plain = await trio.open_tcp_stream("127.0.0.1", stage.port.port)
        stream = trio.SSLStream(plain, authority.trusting(), server_hostname="localhost")
        await stream.do_handshake()
        assert stream.getpeercert(binary_form=True) == certificate.der
        await trio.aclose_forcefully(stream)
