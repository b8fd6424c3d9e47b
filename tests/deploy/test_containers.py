"""The files for Docker: what the image copies, its health check, and the compose file."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest
import yaml
from certificate_kit import Authority
from server_kit import ServerProcess

from greenroom.config import Settings, load

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
DOCKERFILE = (DEPLOY / "Dockerfile").read_text().replace("\\\n", " ")


def ignored(path: str) -> bool:
    """Return whether `.dockerignore` keeps a file out, by the last pattern that fits."""
    out = False
    for line in (ROOT / ".dockerignore").read_text().splitlines():
        pattern = line.strip().removeprefix("!")
        if not pattern or pattern.startswith("#"):
            continue
        deep = pattern.removeprefix("**/")
        parts = [path, *map(str, Path(path).parents)]
        names = Path(path).parts if deep != pattern else ()
        if any(fnmatch(part, pattern) for part in parts) or deep in names:
            out = not line.startswith("!")
    return out


def test_the_image_gets_what_it_copies_and_nothing_else():
    sources = re.findall(r"^COPY (\S+) ", DOCKERFILE, re.MULTILINE)
    assert sorted(sources) == ["deploy/healthcheck.py", "greenroom", "requirements.txt"]
    for source in sources:
        assert (ROOT / source).exists()
        assert not ignored(source)
    assert not ignored("greenroom/cli/starter/greenroom.toml")
    for kept_out in (
        *(".git/config", ".venv/bin/python", "tests/conftest.py", "deploy/secrets/database_url"),
        *("greenroom/__pycache__/app.cpython-311.pyc", "greenroom.toml", ".env"),
    ):
        assert ignored(kept_out), kept_out


def test_the_images_settings_are_settings():
    given = dict(re.findall(r"\b(GREENROOM_[A-Z_]+)=(\S+)", DOCKERFILE))
    assert load(environ=given).sources["ready_file"] == "GREENROOM_READY_FILE"


def healthcheck(server: ServerProcess) -> tuple[int, str]:
    environment = os.environ | {"GREENROOM_READY_FILE": str(server.data_dir / "ready.json")}
    ended = subprocess.run(
        [sys.executable, "-I", str(DEPLOY / "healthcheck.py")],
        env=environment,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    return ended.returncode, ended.stdout + ended.stderr


@pytest.mark.parametrize("has_tls", [False, True])
def test_the_health_check_tells_whether_the_server_answers(
    data_dir: Path, database_url: str, tmp_path: Path, has_tls: bool
):
    environment = {}
    if has_tls:
        authority = Authority(tmp_path)
        authority.issue()
        environment = {
            "GREENROOM_TLS_CERTIFICATE_FILE": str(authority.certificate),
            "GREENROOM_TLS_KEY_FILE": str(authority.key),
        }
    server = ServerProcess(data_dir, "--database-url", database_url, **environment)
    assert healthcheck(server)[0] == 1  # not started yet
    try:
        server.start()
        assert healthcheck(server) == (0, "200\n")
        server.kill()  # its ready file stays
        status, told = healthcheck(server)
        assert status == 1
        assert "refused" in told
    finally:
        server.kill()
    for rubbish in ("", "{}", "[", '{"http": 5}', '{"http": "nonsense"}', '["http"]'):
        (server.data_dir / "ready.json").write_text(rubbish)
        status, told = healthcheck(server)
        assert (status, len(told.splitlines())) == (1, 1), told


@pytest.fixture(scope="module")
def compose() -> Any:
    return yaml.safe_load((DEPLOY / "compose.yaml").read_text())


def test_the_compose_file_starts_the_server_behind_a_healthy_postgres(compose: Any):
    postgres, greenroom = compose["services"]["postgres"], compose["services"]["greenroom"]
    assert greenroom["depends_on"]["postgres"]["condition"] == "service_healthy"
    assert postgres["healthcheck"]["test"][:2] == ["CMD", "pg_isready"]
    assert "HEALTHCHECK" in DOCKERFILE
    build = greenroom["build"]
    assert (DEPLOY / build["context"] / build["dockerfile"]).resolve() == DEPLOY / "Dockerfile"
    ports = {mapping.rpartition(":")[2] for mapping in greenroom["ports"]}
    exposed = re.search(r"^EXPOSE (.*)$", DOCKERFILE, re.MULTILINE)
    assert exposed is not None
    assert ports == set(exposed[1].split())
    assert greenroom["volumes"] == ["greenroom:/var/lib/greenroom"]
    assert {"greenroom", "postgres"} == set(compose["volumes"])


def test_the_compose_file_has_its_secrets_in_files_alone(compose: Any):
    for service in compose["services"].values():
        for name, value in service["environment"].items():
            if re.search("PASSWORD|DATABASE_URL|TOKEN", name):
                assert name.endswith("_FILE")
                secret = Path(value)
                assert secret.parent == Path("/run/secrets")
                assert secret.name in service["secrets"]
        assert set(service["secrets"]) <= set(compose["secrets"])
    for secret in compose["secrets"].values():
        assert ignored(str(Path("deploy") / secret["file"]))
        assert "/deploy/secrets/" in (ROOT / ".gitignore").read_text().split()


def test_the_compose_file_gives_the_server_the_time_that_it_takes_to_stop(compose: Any):
    given = compose["services"]["greenroom"]["stop_grace_period"]
    settings = Settings(data_dir=Path("/nowhere"))
    assert int(given.removesuffix("s")) >= 2 * settings.stop_seconds_max + 20
