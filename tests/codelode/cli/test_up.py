"""`codelode up` starts the right processes, and refuses invalid settings before it starts any."""

from __future__ import annotations

import os
import socket
import stat
import sys
from pathlib import Path

import pytest

from codelode.backends import registry
from codelode.backends.local import published, signature
from codelode.cli import children, data_folder, redis_server
from codelode.cli.children import BROKER, FRONT, WORK
from codelode.errors import Unavailable
from codelode.settings import Settings, load
from tests.authorities import Authority

#: Where a server would run that no test starts.
PLACE = redis_server.Place(Path("folder"), Path("socket"), "sesame")


@pytest.fixture
def settings(tmp_path):
    return load(data=tmp_path, listen="127.0.0.1:50051")


@pytest.fixture
def taken_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def worker(settings, name):
    (found,) = [
        child for child in children.worker_children(settings, parsers=3) if child.name == name
    ]
    return found


def all_children(settings):
    return (
        children.redis_child(settings, PLACE),
        *children.worker_children(settings, parsers=3),
        *children.gateway_children(settings),
        children.flower_child(settings, "127.0.0.1:8080"),
    )


def test_the_cluster_is_one_broker_five_workers_one_gateway_and_flower(settings):
    assert {child.name for child in all_children(settings)} == {
        *("redis", "pull", "parse", "embed", "store", "beat", "gateway", "flower"),
    }


def test_models_are_ready_without_a_language_model_that_is_away(settings, free_address):
    away = settings.model_copy(
        update={"language_model": "ollama", "ollama_url": f"http://{free_address}"}
    )
    told = []
    registry.prepare_models(away, tell=told.append)
    (line,) = told
    assert line.startswith(
        "no summaries until the language model answers; then run `codelode enrich`:"
    )


def test_models_are_not_ready_without_the_embedder(settings, free_address):
    away = settings.model_copy(
        update={"embedder": "ollama", "ollama_url": f"http://{free_address}"}
    )
    with pytest.raises(Unavailable, match="Ollama"):
        registry.prepare_models(away)


def test_producers_stop_before_workers_and_the_broker_stops_last(settings):
    phases = {child.name: child.stop_phase for child in all_children(settings)}

    assert phases["gateway"] == phases["beat"] == FRONT
    assert {phases[name] for name in ("pull", "parse", "embed", "store")} == {WORK}
    assert phases["redis"] == BROKER
    assert FRONT < WORK < BROKER


def test_all_stop_timeouts_together_stay_near_ten_seconds(settings):
    longest: dict[int, float] = {}
    for child in all_children(settings):
        patience_s = sum(seconds for _, seconds in child.stop)
        longest[child.stop_phase] = max(longest.get(child.stop_phase, 0.0), patience_s)

    assert sum(longest.values()) <= 11.0


def test_the_number_of_workers_is_the_size_of_the_parse_pool(settings):
    parse = worker(settings, "parse")

    assert parse.command == (
        *(sys.executable, "-P", "-m", "workers", "parse"),
        *("--concurrency", "3"),
    )


def test_flower_is_read_only_and_listens_on_loopback(settings):
    command = children.flower_child(settings, "127.0.0.1:8080").command

    assert {"--address=127.0.0.1", "--port=8080", "--read_only=True"} <= set(command)


@pytest.mark.parametrize(
    ("log_level", "output", "is_ready"),
    [
        ("info", '{"event": "parse@host starting"}', False),
        ("info", '{"event": "parse@host ready."}', True),
        ("error", "", True),  # the line is never written
    ],
)
def test_a_worker_is_ready_when_its_log_says_so(settings, log_level, output, is_ready):
    parse, *_ = children.worker_children(
        settings.model_copy(update={"log_level": log_level}), parsers=1
    )

    assert parse.is_ready(output) is is_ready


def test_the_gateway_is_ready_when_its_health_service_reports_it(settings, gateway, free_address):
    (serving,) = children.gateway_children(settings.model_copy(update={"listen": gateway.address}))
    (absent,) = children.gateway_children(settings.model_copy(update={"listen": free_address}))

    assert serving.is_ready("")
    assert not absent.is_ready("")


def test_the_first_of_several_gateways_is_ready_when_its_log_says_so(settings, gateway):
    """Another one may answer at the address."""
    first, _ = children.gateway_children(settings.model_copy(update={"listen": gateway.address}), 2)

    assert not first.is_ready("")
    assert first.is_ready("gateway_started")


def test_further_gateways_have_names_probes_and_an_audit_log_of_their_own(settings):
    given = {"CODELODE_HEALTH_LISTEN": "127.0.0.1:1", "CODELODE_AUDIT_LOG": "/log/audit.jsonl"}
    logged = settings.model_copy(update={"audit_log": "/log/audit.jsonl"})
    first, *others = children.gateway_children(logged, 3)

    assert [first.name, *(one.name for one in others)] == ["gateway", "gateway-2", "gateway-3"]
    assert first.environment(given) == given
    assert [one.environment(given) for one in others] == [
        {"CODELODE_HEALTH_LISTEN": "", "CODELODE_AUDIT_LOG": f"/log/audit-{number}.jsonl"}
        for number in (2, 3)
    ]
    assert [one.is_ready("gateway_started") for one in others] == [True, True]
    assert not others[0].is_ready("")


def test_further_gateways_without_an_audit_log_have_none(settings):
    _, further = children.gateway_children(settings, 2)

    assert further.environment({})["CODELODE_AUDIT_LOG"] == ""


def test_redis_is_ready_when_it_answers(settings, redis_url, free_address):
    present = children.redis_child(settings.model_copy(update={"redis_url": redis_url}), PLACE)
    nobody = f"redis://{free_address}/0"
    absent = children.redis_child(settings.model_copy(update={"redis_url": nobody}), PLACE)

    assert present.is_ready("")
    assert not absent.is_ready("")
    assert redis_server.locate().exists()


@pytest.mark.parametrize("option", ["--port", "--api-port", "--http-port"])
def test_a_taken_port_is_named_with_its_option_before_anything_starts(
    codelode, tmp_path, taken_port, option
):
    ports = {"--port": "0", "--http-port": "0", option: str(taken_port)}

    answer = codelode("up", *(word for pair in ports.items() for word in pair))

    assert answer.status == 2
    assert answer.err.startswith(f"codelode: cannot listen on 127.0.0.1:{taken_port}: ")
    assert f"choose another port with {option}" in answer.err
    assert list((tmp_path / "data" / "logs").iterdir()) == []


@pytest.mark.parametrize("name", ["CODELODE_LISTEN_MTLS", "CODELODE_HEALTH_LISTEN"])
def test_a_taken_port_is_named_with_its_setting_before_anything_starts(
    codelode, monkeypatch, tmp_path, taken_port, name
):
    clients = Authority(tmp_path / "clients")
    own = Authority(tmp_path / "tls").issue("localhost").settings
    given = {"tls_client_ca": str(clients.root), "listen_mtls": "127.0.0.1:0", **own}
    for setting, value in given.items():
        monkeypatch.setenv(f"CODELODE_{setting.upper()}", value)
    monkeypatch.setenv(name, f"127.0.0.1:{taken_port}")

    answer = codelode("up", "--port", "0", "--http-port", "0")

    assert answer.status == 2
    assert answer.err.startswith(f"codelode: cannot listen on 127.0.0.1:{taken_port}: ")
    assert f"choose another port in {name}" in answer.err
    assert list((tmp_path / "data" / "logs").iterdir()) == []


def test_a_data_folder_in_use_is_refused_with_the_process_that_uses_it(codelode, tmp_path):
    with data_folder.locked(tmp_path / "data"):
        answer = codelode("up", "--port", "0", "--http-port", "0")

    assert answer.status == 2
    assert f"(process {os.getpid()})" in answer.err


def test_a_model_server_that_is_away_is_named_before_anything_starts(
    codelode, monkeypatch, tmp_path, free_address
):
    monkeypatch.setenv("CODELODE_EMBEDDER", "ollama")
    monkeypatch.setenv("CODELODE_OLLAMA_URL", f"http://{free_address}")

    answer = codelode("up", "--port", "0", "--http-port", "0")

    assert answer.status == 2
    assert f"Ollama at http://{free_address} does not answer; is it running?" in answer.err
    assert list((tmp_path / "data" / "logs").iterdir()) == []


def test_an_index_of_another_embedder_or_schema_is_named_before_anything_starts(codelode, tmp_path):
    index = published.read(tmp_path / "data" / "index").folder
    index.mkdir(parents=True)
    signature.sign(index, dim=256, identity="of another model")

    answer = codelode("up", "--port", "0", "--http-port", "0")

    assert answer.status == 2
    assert "was written with" in answer.err
    assert "of another model" in answer.err
    assert "codelode reindex" in answer.err
    assert list((tmp_path / "data" / "logs").iterdir()) == []


def test_a_misspelt_setting_is_reported_at_startup(codelode, monkeypatch):
    monkeypatch.setenv("CODELODE_WINDOWS", "1")
    monkeypatch.setenv("CODELODE_COLOUR", "1")
    monkeypatch.setenv("CODELODE_LISTEN", "0.0.0.0:0")  # so that it ends at once

    answer = codelode("up", "--api-port", "0", "--http-port", "0")

    assert answer.err.startswith(
        "CODELODE_COLOUR is not a setting and has no effect; `codelode settings` lists all\n"
        "CODELODE_WINDOWS is not a setting and has no effect; did you mean CODELODE_WINDOW?\n"
    )


def test_an_invalid_sources_file_is_reported_at_startup(codelode, monkeypatch, tmp_path):
    file = tmp_path / "sources.yaml"
    file.write_text("connections:\n  - name: work\n    kind: gitty\n")
    monkeypatch.setenv("CODELODE_SOURCES", str(file))
    monkeypatch.setenv("CODELODE_LISTEN", "0.0.0.0:0")  # so that it ends at once

    answer = codelode("up", "--api-port", "0", "--http-port", "0")

    assert answer.err.startswith(f"{file}:3: there is no kind 'gitty'")
    assert "; until it is corrected, no repositories of code hosts are followed\n" in answer.err


@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o770])
def test_a_data_folder_that_others_can_write_to_is_reported_at_startup(
    codelode, monkeypatch, tmp_path, mode
):
    assert reported(codelode, monkeypatch, tmp_path, mode)


@pytest.mark.parametrize("mode", [0o700, 0o755, 0o1755])
def test_a_data_folder_that_only_its_owner_can_write_to_is_not_reported(
    codelode, monkeypatch, tmp_path, mode
):
    assert not reported(codelode, monkeypatch, tmp_path, mode)


def reported(codelode, monkeypatch, tmp_path, mode):
    data = tmp_path / "data"
    data.mkdir()
    data.chmod(mode)
    monkeypatch.setenv("CODELODE_LISTEN", "0.0.0.0:0")  # so that it ends at once

    answer = codelode("up", "--api-port", "0", "--http-port", "0")

    assert answer.status == 2
    assert stat.S_IMODE(data.stat().st_mode) == mode
    return f"other users can write to the data folder {data}, " in answer.err and (
        f"`chmod 700 {data}`" in answer.err
    )


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder to another user")
@pytest.mark.parametrize("name", ["", "run", "logs", "redis"])
def test_a_data_folder_of_another_user_is_refused(codelode, monkeypatch, tmp_path, name):
    monkeypatch.setenv("CODELODE_LISTEN", "0.0.0.0:0")  # so that it ends at once
    folder = tmp_path / "data" / name
    folder.mkdir(parents=True)
    os.chown(folder, 65534, 65534)

    answer = codelode("up", "--api-port", "0", "--http-port", "0")

    assert answer.status == 2
    assert f"the folder {folder} belongs to another user" in answer.err
    assert f"`chown -R 0 {tmp_path / 'data'}`" in answer.err
    assert list(folder.iterdir()) == []


def test_an_address_that_others_reach_is_refused_without_a_token(codelode, monkeypatch, tmp_path):
    monkeypatch.setenv("CODELODE_LISTEN", "0.0.0.0:0")

    answer = codelode("up", "--api-port", "0", "--http-port", "0")

    assert answer.status == 2
    assert "set CODELODE_TOKEN" in answer.err
    assert list((tmp_path / "data" / "logs").iterdir()) == []


def test_an_address_that_others_reach_is_refused_with_a_short_token(codelode, monkeypatch):
    monkeypatch.setenv("CODELODE_LISTEN", "0.0.0.0:0")
    monkeypatch.setenv("CODELODE_TOKEN", "a")

    answer = codelode("up", "--api-port", "0", "--http-port", "0", "--tls-terminated-by-proxy")

    assert answer.status == 2
    assert "with a shared token of fewer than 16 characters" in answer.err


def test_an_address_that_others_reach_is_refused_without_tls(codelode, monkeypatch, tmp_path):
    monkeypatch.setenv("CODELODE_LISTEN", "0.0.0.0:0")
    monkeypatch.setenv("CODELODE_TOKEN", "sesame-of-this-test")

    answer = codelode("up", "--api-port", "0", "--http-port", "0")

    assert answer.status == 2
    assert "give --tls-terminated-by-proxy" in answer.err
    assert list((tmp_path / "data" / "logs").iterdir()) == []


def test_a_certificate_that_cannot_be_used_is_named_before_anything_starts(
    codelode, monkeypatch, tmp_path
):
    issued = Authority(tmp_path / "tls").issue("search.example", days=(-9, -1))
    for name, value in issued.settings.items():
        monkeypatch.setenv(f"CODELODE_{name.upper()}", value)

    answer = codelode("up", "--port", "0", "--http-port", "0")

    assert answer.status == 2
    assert f"the certificate in {issued.certificate} expired" in answer.err
    assert list((tmp_path / "data" / "logs").iterdir()) == []


@pytest.mark.parametrize("listen", ["everywhere", "127.0.0.1:99999", "http://127.0.0.1:50051"])
def test_a_malformed_listen_address_is_named(codelode, monkeypatch, listen):
    monkeypatch.setenv("CODELODE_LISTEN", listen)

    answer = codelode("up")

    assert answer.status == 2
    assert (
        f"CODELODE_LISTEN={listen!r} must have the form HOST:PORT, such as 127.0.0.1:50051"
        in answer.err
    )


@pytest.mark.parametrize(
    ("listen", "address"),
    [
        ("127.0.0.1:1", "127.0.0.1:1"),
        ("0.0.0.0:2", "127.0.0.1:2"),
        ("[::1]:3", "[::1]:3"),
        ("[::]:4", "127.0.0.1:4"),
    ],
)
def test_a_client_of_this_machine_finds_the_gateway(listen, address):
    assert children.reachable(Settings(listen=listen)) == address
