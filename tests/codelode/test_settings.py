"""Invalid settings are rejected with a message that names the variable."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from codelode.errors import InvalidSettings
from codelode.settings import Settings, load, unknown_variables

WEB = {
    "WEAVIATE_URL": "http://127.0.0.1:8080",
    "OLLAMA_URL": "http://127.0.0.1:11434",
    "OPENAI_URL": "https://api.openai.com/v1",
}
REDIS = dict.fromkeys(("REDIS_URL", "CACHE_URL"), "redis://127.0.0.1:6379/0")


@pytest.mark.parametrize(("name", "example"), (WEB | REDIS).items())
@pytest.mark.parametrize(
    "url",
    [
        *("localhost", "localhost:8080", "//localhost:8080", "ftp://localhost", "http:localhost"),
        *("http://", "http://:8080", "http://localhost:99999", "http://localhost:x"),
        *("http://localhost:0", "http://local host", "http://localhost:8080 ", " "),
    ],
)
def test_a_mistyped_url_names_its_variable_and_a_right_example(monkeypatch, name, example, url):
    monkeypatch.setenv(f"CODELODE_{name}", url)

    with pytest.raises(InvalidSettings) as caught:
        load()

    said = f"CODELODE_{name}={url!r}: is not the URL of a server; for example {example}"
    assert str(caught.value) == said


@pytest.mark.parametrize(
    ("name", "url"),
    [
        *((name, example) for name, example in (WEB | REDIS).items()),
        ("WEAVIATE_URL", "https://user:pass@weaviate.example.com/behind/a/path"),
        ("OLLAMA_URL", "http://[::1]:11434"),
        ("REDIS_URL", "redis://:pass@broker:6379/0"),
        ("REDIS_URL", "rediss://broker"),
        ("REDIS_URL", "redis://"),
        ("REDIS_URL", "redis://:6380/1"),
        ("REDIS_URL", "unix:///run/redis.sock?db=1"),
        ("CACHE_URL", ""),
    ],
)
def test_a_valid_url_is_accepted_unchanged(monkeypatch, name, url):
    monkeypatch.setenv(f"CODELODE_{name}", url)

    assert getattr(load(), name.lower()) == url


def test_an_empty_gateway_address_does_not_prevent_a_start(monkeypatch):
    monkeypatch.setenv("CODELODE_SERVER", "")

    assert load().server == ""


@pytest.mark.parametrize("password", ["secret", "sec/ret", "sec@ret"])
@pytest.mark.parametrize("scheme", ["redis://", "", "redis:/", "redis//"])
def test_the_password_of_a_mistyped_url_is_not_shown(monkeypatch, scheme, password):
    monkeypatch.setenv("CODELODE_REDIS_URL", f"{scheme}:{password}@broker:99999/0")

    shown = "redis://" if scheme == "redis://" else ""
    with pytest.raises(InvalidSettings, match=f"CODELODE_REDIS_URL='{shown}…@broker") as caught:
        load()

    assert "ret" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("CODELODE_WINDOWS", "CODELODE_WINDOW"),
        ("CODELODE_WEAVIATE_UR", "CODELODE_WEAVIATE_URL"),
        ("CODELODE_EMBEDER", "CODELODE_EMBEDDER"),
        ("codelode_embeder", "CODELODE_EMBEDDER"),
        ("CODELODE_LOGLEVEL", "CODELODE_LOG_LEVEL"),
        ("CODELODE_COLOUR", ""),
    ],
)
def test_an_unknown_variable_is_reported_with_the_most_similar_setting(name, nearest):
    assert unknown_variables({name: "x", "HOME": "/", "CODELODE_WINDOW": "1"}) == {name: nearest}


def test_the_case_of_a_variable_does_not_matter():
    assert unknown_variables({f"codelode_{name}": "" for name in Settings.model_fields}) == {}


def test_variables_that_kubernetes_sets_are_not_reported_as_misspelt():
    said = ("CODELODE_SERVICE_HOST", "CODELODE_SERVICE_PORT_GRPC", "CODELODE_PORT_50051_TCP_ADDR")

    assert unknown_variables(dict.fromkeys(said, "")) == {}


def test_every_variable_that_the_project_names_is_read_somewhere():
    root = Path(__file__).parents[2]
    files = [
        *(root / "docker-compose.yml", root / "README.md", *(root / "docs").glob("*.md")),
        *(path for path in (root / "deploy").iterdir() if path.is_file()),
        *(root / "codelode").rglob("*.py"),
        *(root / "tests" / "deploy").glob("*.py"),
    ]
    named = set(re.findall(r"CODELODE_[A-Z_]*[A-Z]\b", "".join(map(Path.read_text, files))))

    assert unknown_variables(dict.fromkeys(named, "")) == {}


def test_a_process_logs_a_misspelt_setting_as_it_starts():
    ended = subprocess.run(
        [
            sys.executable,
            "-c",
            "from codelode import logs, settings; logs.configure(settings.load())",
        ],
        env={**os.environ, "CODELODE_WINDOWS": "1"},
        capture_output=True,
        check=True,
        text=True,
    )

    (line,) = map(json.loads, ended.stdout.splitlines())
    assert line["event"] == "setting_unknown"
    assert (line["name"], line["nearest"]) == ("CODELODE_WINDOWS", "CODELODE_WINDOW")
