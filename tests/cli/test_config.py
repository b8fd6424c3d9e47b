"""Settings: where they come from, what is refused, what is never shown."""

from __future__ import annotations

import os
import re
from pathlib import Path

import msgspec
import pytest

from greenroom.config import FIELDS, ConfigError, Settings, load
from greenroom.setting_masks import mask_url, masked

URL = "postgresql://anna:s3cret@db.example:5432/greenroom"


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_later_places_win_over_earlier_ones(tmp_path: Path) -> None:
    write(tmp_path / "greenroom.toml", "port = 1\nrealtime_port = 2\nudp_port = 3\n")
    environ = {"GREENROOM_REALTIME_PORT": "20", "GREENROOM_UDP_PORT": "30"}
    loaded = load({"data_dir": str(tmp_path), "udp_port": "300"}, environ=environ)
    settings = loaded.settings
    assert (settings.port, settings.realtime_port, settings.udp_port) == (1, 20, 300)
    assert settings.host == "127.0.0.1"
    assert loaded.file == tmp_path / "greenroom.toml"
    assert [loaded.sources[name] for name in ("port", "realtime_port", "udp_port", "host")] == [
        str(tmp_path / "greenroom.toml"),
        "GREENROOM_REALTIME_PORT",
        "--udp-port",
        "default",
    ]


def test_the_file_of_the_data_directory_is_read_only_where_there_is_one(tmp_path: Path) -> None:
    assert load({"data_dir": str(tmp_path)}, environ={}).file is None


def test_a_file_named_by_the_environment_is_read(tmp_path: Path) -> None:
    file = write(tmp_path / "x.toml", 'host = "::1"')
    assert load(environ={"GREENROOM_CONFIG": str(file)}).settings.host == "::1"


def test_a_file_found_in_the_data_directory_may_not_name_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("greenroom.config.default_data_dir", lambda: tmp_path)
    file = write(tmp_path / "greenroom.toml", 'data_dir = "elsewhere"')
    with pytest.raises(ConfigError, match="yet it names another one"):
        load(environ={})
    assert load(config=file, environ={}).settings.data_dir == tmp_path / "elsewhere"
    flags = {"data_dir": str(tmp_path)}
    assert load(flags, environ={}).settings.data_dir == tmp_path, "the flag wins"


def test_paths_in_a_file_are_relative_to_it(tmp_path: Path) -> None:
    file = write(tmp_path / "x.toml", 'ready_file = "run/ready"\ndata_dir = "data"')
    settings = load(config=file, environ={}).settings
    assert settings.ready_file == tmp_path / "run" / "ready"
    assert settings.data_dir == tmp_path / "data"


def test_paths_of_flags_are_relative_to_where_one_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/home/anna")
    assert load({"data_dir": "d"}, environ={}).settings.data_dir == tmp_path / "d"
    assert load({"data_dir": "~/d"}, environ={}).settings.data_dir == Path("/home/anna/d")


@pytest.mark.parametrize(
    ("environ", "text"),
    [
        ({"GREENROOM_PROT": "1"}, "unknown environment variable GREENROOM_PROT; did you mean"),
        ({"GREENROOM_port": "1"}, "unknown environment variable GREENROOM_port"),
        ({"GREENROOM_PORT_FILE": "/x"}, "unknown environment variable GREENROOM_PORT_FILE"),
        ({"GREENROOM_PORT": "x"}, "port (GREENROOM_PORT): expected a port number from 0 to 65535"),
        ({"GREENROOM_PORT": "65536"}, "not '65536'"),
        ({"GREENROOM_PORT": "1.5"}, "not '1.5'"),
        ({"GREENROOM_HOST": "a b"}, "host (GREENROOM_HOST): expected a host name"),
        ({"GREENROOM_SERVER": "apache"}, "expected one of greenroom, hypercorn, not 'apache'"),
        ({"GREENROOM_RATE_LIMIT_FACTOR": "0"}, "expected a number above 0"),
        ({"GREENROOM_RATE_LIMIT_FACTOR": "nan"}, "expected a number above 0"),
        ({"GREENROOM_ADDRESS_SHARE_MAX": "0.01"}, "expected a number from 0.05 to 1000000000"),
        ({"GREENROOM_ADDRESS_SHARE_MAX": "nan"}, "expected a number from 0.05 to 1000000000"),
        ({"GREENROOM_STALE_SECONDS": "-1"}, "stale_seconds (GREENROOM_STALE_SECONDS): expected"),
        ({"GREENROOM_TRUSTED_PROXIES": "10.0.0.0/8,all"}, "trusted_proxies"),
        ({"GREENROOM_CONNECTIONS_MAX": "0"}, "connections_max"),
        ({"GREENROOM_PORT": "5", "GREENROOM_REALTIME_PORT": "5"}, "both 5: they must differ"),
        ({"GREENROOM_PORT": "tcp://somewhere:1"}, "not 'tcp://somewhere:1'"),
        ({"GREENROOM_PORT": "tcp://10.0.0.1"}, "not 'tcp://10.0.0.1'"),
        ({"GREENROOM_PORT": "http://10.0.0.1:80"}, "not 'http://10.0.0.1:80'"),
        ({"GREENROOM_PORT": "tcp://10.0.0.1:80/x"}, "not 'tcp://10.0.0.1:80/x'"),
        ({"GREENROOM_HOST": "tcp://10.0.0.1:80"}, "host (GREENROOM_HOST): expected a host name"),
        ({"GREENROOM_SERVICE_HOST": "anna"}, "variable GREENROOM_SERVICE_HOST"),
        ({"GREENROOM_SERVICE_PORT": "0x10"}, "variable GREENROOM_SERVICE_PORT"),
        ({"GREENROOM_PORT_80_TCP_PROTO": "http"}, "variable GREENROOM_PORT_80_TCP_PROTO"),
        ({"GREENROOM_PORT_TCP": "tcp://10.0.0.1:80"}, "variable GREENROOM_PORT_TCP"),
        ({"GREENROOM_TLS_KEY_FILE": "/k"}, "tls_certificate_file is not given"),
        ({"GREENROOM_CONFIG": "/does/not/exist"}, "cannot read /does/not/exist"),
    ],
)
def test_what_is_wrong_in_the_environment_is_refused_by_name(
    environ: dict[str, str], text: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        load({"data_dir": "/d"}, environ=environ)
    assert text in str(refused.value)
    assert "\n" not in str(refused.value)


SERVICE_LINKS = {
    "GREENROOM_PORT": "tcp://10.0.0.1:8080",
    "GREENROOM_PORT_8080_TCP": "tcp://10.0.0.1:8080",
    "GREENROOM_PORT_8080_TCP_ADDR": "10.0.0.1",
    "GREENROOM_PORT_8080_TCP_PORT": "8080",
    "GREENROOM_PORT_8080_TCP_PROTO": "tcp",
    "GREENROOM_REALTIME_PORT": "tcp://[fd00::1]:8081",
    "GREENROOM_SERVICE_HOST": "10.0.0.1",
    "GREENROOM_SERVICE_PORT": "8080",
    "GREENROOM_SERVICE_PORT_HTTP": "8080",
    "GREENROOM_UDP_PORT": "udp://10.0.0.1:8082",
    "GREENROOM_UDP_PORT_8082_UDP_PROTO": "udp",
    "GREENROOM_UDP_SERVICE_HOST": "fd00::1",
}
"""Variables in every pod beside services named greenroom, greenroom-realtime and greenroom-udp."""


def test_service_links_of_kubernetes_are_left_out_and_named() -> None:
    environ = SERVICE_LINKS | {"GREENROOM_HOST": "0.0.0.0", "KUBERNETES_PORT": "tcp://10.0.0.1:1"}
    loaded = load({"data_dir": "/d"}, environ=environ)
    assert loaded.service_links == sorted(SERVICE_LINKS)
    assert (loaded.settings.port, loaded.sources["port"]) == (8080, "default")
    assert loaded.settings.host == "0.0.0.0"
    own = SERVICE_LINKS | {"GREENROOM_PORT": "9000"}
    loaded = load({"data_dir": "/d"}, environ=own)
    assert (loaded.settings.port, "GREENROOM_PORT" in loaded.service_links) == (9000, False)


@pytest.mark.parametrize(
    ("toml", "text"),
    [
        ("prot = 1", "unknown setting 'prot' in "),
        ("[server]\nx = 1", "server ("),
        ("[limits]\nx = 1", "unknown setting 'limits'"),
        ('port = "8080"', "port ("),
        ("port = true", "port ("),
        ("stale_seconds = true", "stale_seconds ("),
        ("host = 5", "host ("),
        ('trusted_proxies = "10.0.0.0/8"', "trusted_proxies ("),
        ('database_url = "mysql://a:hush@b"', "database_url ("),
        ('ready_file = ""', "expected a path"),
        ("ready_file = 5", "expected a path"),
        ('ready_file = "a\\u0000b"', "expected a path"),
        ("port = ", "is not valid TOML"),
        ("port = 1\nport = 2", "is not valid TOML"),
        ("x = " + "[" * 5000, "is not valid TOML"),
    ],
)
def test_what_is_wrong_in_the_file_is_refused_by_name(tmp_path: Path, toml: str, text: str) -> None:
    file = write(tmp_path / "x.toml", toml)
    with pytest.raises(ConfigError) as refused:
        load(config=file, environ={})
    assert text in str(refused.value)
    assert str(file) in str(refused.value)
    assert "hush" not in str(refused.value)


def test_a_file_that_is_not_text_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "x.toml"
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="is not UTF-8 text"):
        load(config=file, environ={})
    file.write_bytes(b"#" * ((1 << 20) + 1))
    with pytest.raises(ConfigError, match="larger than 1 MiB"):
        load(config=file, environ={})


def test_empty_variables_count_as_not_set() -> None:
    environ = {"GREENROOM_PORT": "", "DATABASE_URL": "", "GREENROOM_CONFIG": ""}
    settings = load({"data_dir": "/d"}, environ=environ).settings
    assert settings.port == 8080
    assert settings.database_url is None


def test_the_usual_database_variable_counts_unless_ours_is_given() -> None:
    loaded = load({"data_dir": "/d"}, environ={"DATABASE_URL": URL})
    assert loaded.settings.database_url == URL
    assert loaded.sources["database_url"] == "DATABASE_URL"
    other = "postgres:///other"
    environ = {"DATABASE_URL": URL, "GREENROOM_DATABASE_URL": other}
    assert load({"data_dir": "/d"}, environ=environ).settings.database_url == other


def test_secrets_may_stand_in_files(tmp_path: Path) -> None:
    file = write(tmp_path / "secret", f"{URL}\n")
    environ = {"GREENROOM_DATABASE_URL_FILE": str(file)}
    assert load({"data_dir": "/d"}, environ=environ).settings.database_url == URL
    with pytest.raises(ConfigError, match="keep one"):
        load({"data_dir": "/d"}, environ={**environ, "GREENROOM_DATABASE_URL": URL})
    write(file, " \n")
    with pytest.raises(ConfigError, match="is empty"):
        load({"data_dir": "/d"}, environ=environ)
    file.unlink()
    with pytest.raises(ConfigError, match="cannot read"):
        load({"data_dir": "/d"}, environ=environ)


def test_proxies_are_separated_by_commas() -> None:
    environ = {"GREENROOM_TRUSTED_PROXIES": "10.0.0.0/8, ::1"}
    assert load({"data_dir": "/d"}, environ=environ).settings.trusted_proxies == [
        "10.0.0.0/8",
        "::1",
    ]


@pytest.mark.parametrize(
    "url",
    [
        URL,
        "postgresql://anna:p@s3cret@db/x",
        "postgresql://anna:p/s3cret@db/x",
        "postgresql://db/x?user=anna&password=s3cret",
        "postgresql://db/x?sslpassword=s3cret&user=anna",
        "host=db password=s3cret user=anna",
        "host=db password = 's3cret s3cret' user=anna",
        r"host=db password='it\'s s3cret' user=anna",
        "user=anna host=db PASSWORD='s3cret",
    ],
)
def test_no_password_of_a_database_address_is_ever_shown(url: str) -> None:
    settings = Settings(data_dir=Path("/d"), database_url=url, metrics_token="s3cret")
    for shown in (
        mask_url(url),
        repr(settings),
        str(settings),
        msgspec.json.encode(masked(settings)).decode(),
    ):
        assert "s3cret" not in shown
    assert "db" in mask_url(url)
    assert "anna" in mask_url(url)


def test_an_address_without_a_password_is_shown_as_it_is() -> None:
    for url in ("postgresql://anna@db:5432/x", "postgresql:///x?host=/run/db", "host=db"):
        assert mask_url(url) == url


def test_root_and_others_keep_data_where_the_system_expects_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 0)
    assert load(environ={}).settings.data_dir == Path("/var/lib/greenroom")
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    monkeypatch.setenv("HOME", "/home/anna")
    assert load(environ={}).settings.data_dir == Path("/home/anna/.local/share/greenroom")


def test_the_page_about_settings_names_each_of_them() -> None:
    page = Path(__file__).parents[2] / "docs" / "reference" / "settings.md"
    documented = set(re.findall(r"`([a-z0-9_]+)`", page.read_text(encoding="utf-8")))
    assert set(FIELDS) <= documented


def test_the_file_of_the_current_directory_is_read_where_no_data_directory_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project, data = tmp_path / "project", tmp_path / "data"
    project.mkdir()
    data.mkdir()
    monkeypatch.setattr("greenroom.config.default_data_dir", lambda: data)
    monkeypatch.chdir(project)
    write(data / "greenroom.toml", 'port = 1\ndata_dir = "."')
    assert load(environ={}).settings.port == 1
    file = write(project / "greenroom.toml", 'port = 2\ndata_dir = "data"')
    loaded = load(environ={})
    assert (loaded.settings.port, loaded.settings.data_dir) == (2, project / "data")
    assert loaded.file == file
    assert load(environ={"GREENROOM_DATA_DIR": str(data)}).settings.port == 1
    assert load(environ={"GREENROOM_CONFIG": str(data / "greenroom.toml")}).settings.port == 1


def test_a_file_of_somebody_else_is_not_read_by_chance(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    file = write(tmp_path / "greenroom.toml", "port = 2")
    monkeypatch.setattr("os.geteuid", lambda: 4242)
    if file.stat().st_uid == 0:
        assert load(environ={}).settings.port == 2, "root's is"
        os.chown(file, 4243, -1)
    with pytest.raises(ConfigError, match="belongs to another user"):
        load(environ={})
    assert load(config=file, environ={}).settings.port == 2
