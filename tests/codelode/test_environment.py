"""A client reads the environment as the settings do."""

from __future__ import annotations

import pytest

from codelode.environment import client_settings
from codelode.settings import Settings


@pytest.mark.parametrize(
    "environment",
    [
        {},
        {"CODELODE_SERVER": "host:1", "CODELODE_TOKEN": "secret", "CODELODE_DATA": "~/data"},
        {"codelode_server": "host:2"},
        {"CODELODE_SERVER": ""},
    ],
    ids=["nothing set", "everything set", "lower case", "empty"],
)
def test_a_client_finds_what_the_settings_find(monkeypatch, environment):
    for name, value in environment.items():
        monkeypatch.setenv(name, value)

    found, settings = client_settings(), Settings()

    assert (found.server is not None) == ("server" in settings.model_fields_set)
    assert found.server in (None, settings.server)
    assert found.token == settings.token.get_secret_value()
    assert found.data == settings.data_dir
