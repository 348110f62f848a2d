"""The Compose files are valid, pin their images, require credentials, and match the code."""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml
from celery.beat import PersistentScheduler
from redis.exceptions import AuthenticationError, NoPermissionError

from codelode.backends.redis.connection import connect
from codelode.cli import redis_server
from codelode.errors import InvalidSettings
from codelode.listeners import require_secure_listeners
from codelode.settings import Settings, load
from codelode.stages import STAGES
from tests.authorities import Authority

ROOT = Path(__file__).parents[2]
FILES = ("docker-compose.yml", "deploy/services.compose.yml")

STAGE_NAMES = tuple(stage.name for stage in STAGES)

#: compose-spec/compose-go, schema/compose-spec.json, Apache-2.0.
SCHEMA = json.loads((Path(__file__).parent / "compose-spec.json").read_text())


@pytest.fixture(scope="module")
def cluster():
    return yaml.safe_load((ROOT / "docker-compose.yml").read_text())


@pytest.fixture(scope="module")
def services(cluster):
    return cluster["services"]


@pytest.mark.parametrize("file", FILES)
def test_compose_file_conforms_to_the_specification(file):
    jsonschema = pytest.importorskip("jsonschema")
    document = yaml.safe_load((ROOT / file).read_text())

    jsonschema.Draft202012Validator(SCHEMA).validate(document)


@pytest.mark.parametrize("file", FILES)
def test_every_image_is_pinned(file):
    document = yaml.safe_load((ROOT / file).read_text())
    images = [service["image"] for service in document["services"].values()]

    assert all(re.search(r":(\d+\.\d+|\$\{\w+_VERSION:)", image) for image in images)
    assert not any("latest" in image for image in images)


def test_services_are_one_worker_per_stage_beat_and_the_servers(services):
    workers = {stage.name for stage in STAGES} | {"beat"}
    servers = {"weaviate", "broker", "cache", "ollama", "gateway", "flower"}
    assert set(services) == workers | servers
    for name in workers:
        assert services[name]["command"] == ["python", "-m", "workers", name]


def test_health_check_of_a_stage_asks_its_own_worker(services):
    for stage in STAGES:
        assert services[stage.name]["environment"]["WORKER"] == stage.name
        assert "$${WORKER}@" in services[stage.name]["healthcheck"]["test"][1]


def test_health_check_of_the_gateway_uses_the_separate_probe_address(services):
    gateway = services["gateway"]
    probed = gateway["environment"]["CODELODE_HEALTH_LISTEN"]
    assert f"Client('{probed}').is_serving()" in gateway["healthcheck"]["test"][-1]
    assert probed != gateway["environment"]["CODELODE_LISTEN"]


def test_every_service_has_limits_a_health_check_and_a_restart_policy(services):
    for name, service in services.items():
        assert set(service["deploy"]["resources"]["limits"]) == {"cpus", "memory"}, name
        assert service["healthcheck"]["test"][0] in ("CMD", "CMD-SHELL"), name
        assert "disable" not in service["healthcheck"], name
        assert service["restart"] == "unless-stopped", name


def test_beat_is_healthy_while_it_keeps_writing_its_schedule(services, tmp_path):
    from workers.delivery.configuration import configured

    def succeeds(command):
        argv = [word.replace("/data", str(tmp_path)).replace("$$", "$") for word in command]
        return subprocess.run(argv, check=False).returncode == 0

    def is_healthy():
        return succeeds(["sh", "-c", check])

    beat, app = services["beat"], configured(load(data=tmp_path))
    file = app.conf.beat_schedule_filename
    kind, check = beat["healthcheck"]["test"]
    assert kind == "CMD-SHELL"
    assert not is_healthy()
    Path(file).parent.mkdir()
    scheduler = PersistentScheduler(app=app, schedule_filename=file)
    assert is_healthy()
    set_age(file, PersistentScheduler.sync_every + highest("reap_interval_s"))
    assert is_healthy()
    set_age(file, 3600)
    assert not is_healthy()
    scheduler.reserve(scheduler.schedule["reap"])
    scheduler.sync()
    assert is_healthy()
    scheduler.close()


def highest(name):
    """Return the highest value that a setting accepts."""
    [most] = [rule.le for rule in Settings.model_fields[name].metadata if hasattr(rule, "le")]
    return most


def set_age(file, seconds_ago):
    """Set how long ago the files of a schedule were written."""
    then = time.time() - seconds_ago
    for path in Path(file).parent.iterdir():
        os.utime(path, (then, then))


def test_variables_of_services_are_known_settings(services):
    named = {
        variable
        for service in services.values()
        for variable in service.get("environment", {})
        if variable.startswith("CODELODE_")
    }
    assert named
    assert {variable.removeprefix("CODELODE_").lower() for variable in named} <= set(
        Settings.model_fields
    )


def test_every_setting_can_be_set_in_the_environment_file(services):
    """Compose gives some settings a value; the others take theirs from `.env`."""
    # Settings of the command line and of `codelode up`; Compose passes the token, not its file.
    decided_elsewhere = {
        *("server", "tls_ca", "tls_client_certificate", "tls_client_key", "token_without_tls"),
        *("redis_bin", "redis_memory_mb", "token_file", "share_ports"),
    }
    of_the_gateway = {
        *("listen", "http_listen", "http_hosts", "listen_mtls", "health_listen"),
        *("token", "access_file", "scopes"),
        *("tls_certificate", "tls_key", "tls_client_ca", "tls_terminated_by_proxy"),
        *("published_host", "session_hours"),
        *(name for name in Settings.model_fields if name.startswith("oidc_")),
    }
    for name in set(Settings.model_fields) - decided_elsewhere:
        served_by = ["gateway"] if name in of_the_gateway else [*STAGE_NAMES, "beat", "gateway"]
        for service in served_by:
            assert f"CODELODE_{name.upper()}" in services[service]["environment"], (service, name)


def test_only_the_pull_worker_mounts_the_credentials_folder_read_only(services):
    home, folder, mode = services["pull"]["volumes"][-1].rsplit(":", 2)
    assert (home, folder, mode) == ("${GIT_HOME:-git-home}", "/home/codelode", "ro")
    assert not any(folder in str(services[name]["volumes"]) for name in ("parse", "gateway"))


@pytest.mark.parametrize(
    "name",
    [
        *("embedder", "embedding_model", "embedding_dim", "language_model", "summary_model"),
        *("ollama_url", "openai_url", "openai_api_key"),
    ],
)
def test_models_and_their_servers_can_be_set_in_the_environment_file(services, name):
    assert name in Settings.model_fields
    variable = f"CODELODE_{name.upper()}"
    assert f"\n{variable}=" in (ROOT / "deploy/env.example").read_text()
    for service in ("pull", "enrich", "embed", "store", "gateway"):
        assert services[service]["environment"][variable].startswith(f"${{{variable}:-")
        assert "outside" in services[service]["networks"]


def test_weaviate_requires_a_key_and_stores_its_data_in_a_volume(services):
    weaviate = services["weaviate"]
    assert weaviate["environment"]["AUTHENTICATION_ANONYMOUS_ACCESS_ENABLED"] == "false"
    assert weaviate["environment"]["AUTHENTICATION_APIKEY_ENABLED"] == "true"
    assert "weaviate:/var/lib/weaviate" in weaviate["volumes"]
    assert "ports" not in weaviate


def test_broker_never_evicts_jobs_and_cache_evicts_old_entries(services):
    broker, cache = (" ".join(services[name]["command"]) for name in ("broker", "cache"))
    assert "--maxmemory-policy noeviction" in broker
    assert "--appendonly yes" in broker
    assert "--maxmemory-policy allkeys-lru" in cache
    assert "--save 300 1" in cache
    assert services["cache"]["volumes"] == ["cache:/data"]


@pytest.fixture
def redis_of(cluster, services, tmp_path):
    """`with redis_of("broker") as url`: a real server with the service's command and settings."""
    socket, file = tmp_path / "redis.sock", tmp_path / "redis.conf"

    @contextmanager
    def run(name):
        (given,) = services[name]["configs"]
        content = cluster["configs"][given["source"]]["content"]
        file.write_text(content.replace("${REDIS_PASSWORD}", "sesame"))
        program, target, *options = services[name]["command"]
        assert (program, target) == ("redis-server", given["target"])
        options = [re.sub(r"\$\{\w+:-(.*)\}", r"\1", word) for word in options]
        place = ("--port", "0", "--unixsocket", str(socket), "--dir", str(tmp_path))
        command = [redis_server.locate(), file, *options, *place]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
            try:
                url = f"unix://:sesame@{socket}"
                redis_server.wait_ready(url, is_alive=lambda: process.poll() is None)
                yield url
            finally:
                process.kill()

    return run


@pytest.mark.parametrize("name", ["broker", "cache"])
def test_redis_requires_the_password_and_denies_administrative_commands(
    real_servers, redis_of, name
):
    with redis_of(name) as url:
        with connect(url) as client:
            assert client.set("key", "value")
            for order in ("CONFIG SET dir /tmp", "MODULE LIST", "REPLICAOF x 1", "SCRIPT FLUSH"):
                with pytest.raises(NoPermissionError):
                    client.execute_command(*order.split())
        with connect(url.replace(":sesame@", "")) as stranger, pytest.raises(AuthenticationError):
            stranger.get("key")


def test_redis_rights_equal_those_of_the_embedded_server(cluster, services):
    _, name, state, _password, *rights = cluster["configs"]["redis"]["content"].split()
    assert (name, state, tuple(rights)) == ("default", "on", redis_server.RIGHTS)
    (file,) = services["broker"]["configs"]
    assert services["cache"]["configs"] == [file]
    assert file["mode"] == 0o400


def test_no_command_line_contains_a_secret(services):
    for name, service in services.items():
        words = " ".join([*service.get("command", ()), *service["healthcheck"]["test"]])
        assert not re.search(r"PASSWORD|TOKEN|API_KEY", words), name


def test_only_gateway_and_flower_publish_ports_and_both_require_credentials(services):
    published = {name: service["ports"] for name, service in services.items() if "ports" in service}
    assert set(published) == {"gateway", "flower"}
    for ports in published.values():
        assert all(port.startswith("${CODELODE_BIND:-127.0.0.1}:") for port in ports)
    assert services["gateway"]["environment"]["CODELODE_TOKEN"].startswith("${CODELODE_TOKEN:?")
    assert services["flower"]["environment"]["FLOWER_BASIC_AUTH"].endswith(
        "${FLOWER_PASSWORD:?set FLOWER_PASSWORD in .env}"
    )
    assert services["flower"]["command"][:3] == ["python", "-m", "workers.flower"]


@pytest.fixture
def settings_in(services, monkeypatch):
    """Return the settings of the gateway's container, given the variables of `.env`."""

    def rendered(**env):
        for name, value in services["gateway"]["environment"].items():
            if not name.startswith("CODELODE_"):
                continue
            given = env.get(name, "") if value is None else _interpolated(value, env)
            if value is None and not given:
                monkeypatch.delenv(name, raising=False)
            else:
                monkeypatch.setenv(name, given)
        return load()

    return rendered


def _interpolated(text, env):
    """Replace `${NAME:-default}` and `${NAME:?error}` as Compose does."""
    return re.sub(
        r"\$\{(\w+)(?::([-?])([^}]*))?\}",
        lambda found: env.get(found[1]) or (found[3] or "" if found[2] == "-" else "sesame"),
        str(text),
    )


def test_gateway_needs_no_tls_on_loopback(settings_in):
    require_secure_listeners(settings_in())
    require_secure_listeners(settings_in(CODELODE_BIND="[::1]"))


LONG = "sesame-of-16-chr"
BEHIND_PROXY = {"CODELODE_TLS_TERMINATED_BY_PROXY": "true"}


@pytest.mark.parametrize("bind", ["0.0.0.0", "[::]", "10.0.0.7"])
def test_gateway_beyond_loopback_needs_tls_or_a_proxy_that_terminates_it(
    settings_in, services, tmp_path, bind
):
    with pytest.raises(
        InvalidSettings, match=r"without TLS.*CODELODE_TLS_TERMINATED_BY_PROXY=true"
    ):
        require_secure_listeners(settings_in(CODELODE_BIND=bind, CODELODE_TOKEN=LONG))
    require_secure_listeners(settings_in(CODELODE_BIND=bind, CODELODE_TOKEN=LONG, **BEHIND_PROXY))
    with pytest.raises(InvalidSettings, match="a shared token of fewer than 16 characters"):
        require_secure_listeners(
            settings_in(CODELODE_BIND=bind, CODELODE_TOKEN="sesame", **BEHIND_PROXY)
        )
    assert "${TLS_FOLDER:-tls}:/tls:ro" in services["gateway"]["volumes"]
    files = Authority(tmp_path).issue("search.example").settings
    env = {f"CODELODE_{name.upper()}": value for name, value in files.items()}
    require_secure_listeners(settings_in(CODELODE_BIND=bind, CODELODE_TOKEN=LONG, **env))


def test_required_secrets_are_listed_in_the_example_environment_file():
    text = (ROOT / "docker-compose.yml").read_text()
    example = (ROOT / "deploy/env.example").read_text()
    required = set(re.findall(r"\$\{(\w+):\?", text))

    assert {"REDIS_PASSWORD", "WEAVIATE_API_KEY", "FLOWER_PASSWORD"} <= required
    assert all(f"\n{variable}=\n" in example for variable in required)


def test_example_environment_file_lists_every_variable_with_its_default():
    text = (ROOT / "docker-compose.yml").read_text()
    example = (ROOT / "deploy/env.example").read_text()
    given = dict(re.findall(r"^(\w+)=(.*)$", example, re.MULTILINE))

    assert set(given) == set(re.findall(r"(?<!\$)\$\{(\w+)", text))
    for variable, default in re.findall(r"\$\{(\w+):-([^}]*)\}", text):
        assert given[variable] == default


def test_services_script_takes_its_versions_from_the_compose_file(services):
    listed = subprocess.run(
        [ROOT / "deploy/services.sh", "versions"], capture_output=True, text=True, check=True
    ).stdout
    versions = dict(line.split() for line in listed.splitlines())

    assert set(versions) == {"weaviate", "ollama"}
    for server, version in versions.items():
        assert services[server]["image"].endswith(f"/{server}:{version}")
