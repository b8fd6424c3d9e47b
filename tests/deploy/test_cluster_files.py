"""The files for several machines: what they name exists, and the programs take what they say."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from balancer_kit import combined
from certificate_kit import Authority
from nats_kit import PROGRAM

from greenroom.config import Settings, load

ROOT = Path(__file__).resolve().parents[2]
CLUSTER = ROOT / "deploy" / "cluster"
SECRET = re.compile("PASSWORD|DATABASE_URL|TOKEN|BUS_FILE")
HAND_OVER_SECONDS_MAX = 40
STOP_SECONDS_MIN = (
    HAND_OVER_SECONDS_MAX + 2 * Settings(data_dir=Path("/nowhere")).stop_seconds_max + 20
)


def check_settings(environment: dict[str, str]) -> None:
    """Check that variables name settings, with values that these take; secrets are in files."""
    given = {name: value for name, value in environment.items() if not name.endswith("_FILE")}
    found = load(environ={"GREENROOM_DATA_DIR": "/nowhere"} | given)
    for name in environment:
        if name.endswith("_FILE"):
            assert name.removesuffix("_FILE").removeprefix("GREENROOM_").lower() in {
                "database_url",
                "bus",
            }
        else:
            assert not SECRET.search(name)
            assert found.sources[name.removeprefix("GREENROOM_").lower()] == name


@pytest.fixture(scope="module")
def compose() -> Any:
    return yaml.safe_load((CLUSTER / "compose.yaml").read_text())


def test_the_composed_machines_have_settings_of_their_own(compose: Any):
    services = compose["services"]
    for number in (1, 2, 3):
        machine = services[f"greenroom-{number}"]
        check_settings(machine["environment"])
        assert machine["environment"]["GREENROOM_ADVERTISE"] == machine["hostname"]
        assert machine["volumes"] == [f"greenroom-{number}:/var/lib/greenroom"]
        assert set(machine["depends_on"]) <= set(services)
        given = int(machine["stop_grace_period"].removesuffix("s"))
        drains = int(machine["environment"]["GREENROOM_DRAIN_SECONDS"])
        assert given >= STOP_SECONDS_MIN + drains
    nginx = services["nginx"]["networks"]["inside"]["ipv4_address"]
    trusted = services["greenroom-1"]["environment"]["GREENROOM_TRUSTED_PROXIES"]
    assert trusted == f"{nginx}/32"


def test_the_composed_machines_find_their_files(compose: Any):
    for kind in ("configs", "secrets"):
        for entry in compose[kind].values():
            file = (CLUSTER / entry["file"]).resolve()
            assert (
                file.parent == ROOT / "deploy" / "secrets" if kind == "secrets" else file.exists()
            )
        for service in compose["services"].values():
            names = [
                each if isinstance(each, str) else each["source"] for each in service.get(kind, ())
            ]
            assert set(names) <= set(compose[kind])
    build = compose["services"]["greenroom-1"]["build"]
    assert (
        CLUSTER / build["context"] / build["dockerfile"]
    ).resolve() == ROOT / "deploy/Dockerfile"


def test_the_composed_nginx_has_the_site_that_is_tested(compose: Any, tmp_path: Path):
    nginx = compose["services"]["nginx"]
    files = {each["source"]: each["target"] for each in nginx["configs"]}
    script = nginx["command"][2].replace("exec nginx -g 'daemon off;'", "true")
    for source, target in files.items():
        inside = tmp_path / Path(target).name
        shutil.copy(CLUSTER / compose["configs"][source]["file"], inside)
        script = script.replace(target, str(inside))
    site = tmp_path / "site.conf"
    script = script.replace("/etc/nginx/conf.d/default.conf", str(site))
    subprocess.run([*nginx["command"][:2], script], check=True)
    assert site.read_text() == combined("nginx-upstreams.conf")


@pytest.mark.parametrize("name", ["nats.conf", "nats-plain.conf"])
def test_nats_takes_its_configuration(name: str, tmp_path: Path):
    check_nats((CLUSTER / name).read_text(), tmp_path, "nats-password.conf")


def check_nats(text: str, folder: Path, password_file: str) -> None:
    """Check that the server would start with this, and that a wrong word in it would be told."""
    if PROGRAM is None:
        pytest.skip("no nats-server")
    authority = Authority(folder)
    authority.issue()
    paths = {"fullchain": authority.certificate, "key": authority.key}
    for name, path in paths.items():
        text = text.replace(f"/etc/nats/{name}.pem", str(path))
    text = text.replace("/etc/nats/authority.pem", str(authority.certificate))
    password = folder / password_file
    password.parent.mkdir(exist_ok=True)
    password.write_text('password: "2e5 is no number"\n')
    for config, is_good in (
        (text, True),
        (text.replace("max_payload: 2MB", "max_payload: x"), False),
    ):
        file = folder / "nats.conf"
        file.write_text(config)
        done = subprocess.run(
            [PROGRAM, "-t", "-c", str(file)], capture_output=True, text=True, check=False
        )
        assert (done.returncode == 0) is is_good, done.stderr
    assert "max_payload: 2MB" in text


@pytest.fixture(scope="module")
def manifests() -> dict[tuple[str, str], Any]:
    documents = yaml.safe_load_all((CLUSTER / "kubernetes.yaml").read_text())
    return {(each["kind"], each["metadata"]["name"]): each for each in documents}


def test_kubernetes_has_what_belongs_together(manifests: dict[tuple[str, str], Any]):
    for name in ("greenroom", "greenroom-nats"):
        spec = manifests["StatefulSet", name]["spec"]
        labels = spec["template"]["metadata"]["labels"]
        assert spec["selector"]["matchLabels"] == labels == {"app": name}
        assert manifests["PodDisruptionBudget", name]["spec"]["selector"]["matchLabels"] == labels
        headless = manifests["Service", spec["serviceName"]]["spec"]
        assert headless["clusterIP"] == "None"
        assert headless["selector"] == labels
        pod = spec["template"]["spec"]
        [container] = pod["containers"]
        mounted = {each["name"] for each in container["volumeMounts"]}
        assert mounted == {each["name"] for each in pod["volumes"]}
        ports = {each["name"] for each in container["ports"]}
        probes = [value for key, value in container.items() if key.endswith("Probe")]
        assert {probe["httpGet"]["port"] for probe in probes} <= ports


def test_the_pods_of_kubernetes_have_settings(manifests: dict[tuple[str, str], Any]):
    pod = manifests["StatefulSet", "greenroom"]["spec"]["template"]["spec"]
    [container] = pod["containers"]
    environment = {each["name"]: each.get("value", "10.1.2.3") for each in container["env"]}
    check_settings(environment)
    assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"
    drains = int(environment["GREENROOM_DRAIN_SECONDS"])
    assert pod["terminationGracePeriodSeconds"] >= STOP_SECONDS_MIN + drains
    secrets = next(each for each in pod["volumes"] if each["name"] == "secrets")
    kept = {each["path"] for each in secrets["secret"]["items"]}
    named = {Path(value).name for name, value in environment.items() if name.endswith("_FILE")}
    assert kept == named


def test_nats_takes_its_configuration_of_kubernetes(
    manifests: dict[tuple[str, str], Any], tmp_path: Path
):
    text = manifests["ConfigMap", "greenroom-nats"]["data"]["nats.conf"]
    check_nats(text, tmp_path, "secret/nats-password.conf")
    replicas = manifests["StatefulSet", "greenroom-nats"]["spec"]["replicas"]
    assert text.count("nats://greenroom-nats-") == replicas


def test_systemd_has_nothing_to_say_about_a_machine_of_several(tmp_path: Path):
    if shutil.which("systemd-analyze") is None:
        pytest.skip("no systemd-analyze")
    unit = tmp_path / "greenroom.service"
    text = (ROOT / "deploy" / "greenroom.service").read_text()
    unit.write_text(text.replace("/opt/greenroom", str(ROOT)))
    folder = tmp_path / "greenroom.service.d"
    folder.mkdir()
    drop_in = (CLUSTER / "greenroom-cluster.conf").read_text()
    (folder / "cluster.conf").write_text(drop_in)
    done = subprocess.run(
        ["systemd-analyze", "verify", str(unit)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
    named = dict(re.findall(r"\b(GREENROOM_[A-Z_]+)=(\S+)", drop_in))
    [stops] = re.findall(r"^TimeoutStopSec=(\d+)$", drop_in, re.MULTILINE)
    assert int(stops) >= STOP_SECONDS_MIN + int(named["GREENROOM_DRAIN_SECONDS"])
    check_settings(named)
    loaded = set(re.findall(r"^LoadCredential=(\w+):", drop_in, re.MULTILINE))
    assert {f"%d/{name}" for name in loaded} <= set(named.values())
