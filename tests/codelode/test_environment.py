"""A client reads the environment as the settings do."""

from __future__ import annotations

import pytest

from codelode.environment import MARKER, client_settings, without_settings, without_token
from codelode.settings import Settings


@pytest.mark.parametrize(
    "environment",
    [
        {},
        {
            "CODELODE_SERVER": "host:1",
            "CODELODE_TOKEN": "secret",
            "CODELODE_TOKEN_FILE": "~/token",
            "CODELODE_TOKEN_WITHOUT_TLS": "Yes",
            "CODELODE_TLS_CA": "ca.pem",
            "CODELODE_TLS_CLIENT_CERTIFICATE": "own.crt",
            "CODELODE_TLS_CLIENT_KEY": "own.key",
            "CODELODE_DATA": "~/data",
        },
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
    assert found.token_file == settings.token_file
    assert found.token_without_tls == settings.token_without_tls
    assert found.tls_ca == settings.tls_ca
    assert found.tls_client == (settings.tls_client_certificate, settings.tls_client_key)
    assert found.data == settings.data_dir


def test_other_programs_get_none_of_the_settings_and_only_the_gateway_the_token():
    environment = {"PATH": "/bin", "CODELODE_TOKEN": "a", "codelode_token": "b", MARKER: "/data"}
    environment["CODELODE_WEAVIATE_API_KEY"] = "c"
    assert without_settings(environment) == {"PATH": "/bin", MARKER: "/data"}
    assert set(without_token(environment)) == {"PATH", MARKER, "CODELODE_WEAVIATE_API_KEY"}
