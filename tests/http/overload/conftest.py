"""Fixtures for tests of overload."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a certificate for 127.0.0.1, its key, and its authority."""
    trustme = pytest.importorskip("trustme")
    directory = tmp_path_factory.mktemp("tls")
    authority = trustme.CA()
    issued = authority.issue_cert("127.0.0.1")
    issued.private_key_pem.write_to_path(directory / "key.pem")
    issued.cert_chain_pems[0].write_to_path(directory / "cert.pem")
    authority.cert_pem.write_to_path(directory / "ca.pem")
    return directory
