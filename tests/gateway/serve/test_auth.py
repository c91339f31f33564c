"""Auth providers by name and options."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from importlib import import_module

import pytest
from fastmcp.server.auth import AuthProvider, RemoteAuthProvider
from fastmcp.server.auth.providers.jwt import JWTVerifier

from codecall.errors import OptionsError
from codecall.gateway.serve.auth import PROVIDERS, create_auth_provider

SECRET = "correct horse battery staple"


@pytest.mark.parametrize("name", PROVIDERS)
def test_every_provider_is_there(name: str):
    module, kind = PROVIDERS[name]
    assert issubclass(getattr(import_module(module), kind), AuthProvider)
    assert not [each for each in inspect.signature(getattr(import_module(module), kind)).parameters if each == "args"]


async def test_static_tokens_tell_clients_apart(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("ALICE", SECRET)
    tokens = {"alice": "${ALICE}", "bob": "x" * 16}
    provider = create_auth_provider({"provider": "static", "tokens": tokens, "scopes": ["read"]})
    alice, bob = await provider.verify_token(SECRET), await provider.verify_token("x" * 16)
    assert alice is not None
    assert bob is not None
    assert (alice.client_id, alice.scopes, bob.client_id) == ("alice", ["read"], "bob")
    assert await provider.verify_token("${ALICE}") is None


def test_a_verifier_inside_another_provider():
    verifier = {"provider": "jwt", "jwks_uri": "https://id.example.com/jwks.json", "issuer": "https://id.example.com"}
    provider = create_auth_provider(
        {
            "provider": "remote",
            "token_verifier": verifier,
            "authorization_servers": ["https://id.example.com"],
            "base_url": "https://gate.example.com",
        }
    )
    assert isinstance(provider, RemoteAuthProvider)
    assert isinstance(provider.token_verifier, JWTVerifier)


@pytest.mark.parametrize(
    ("auth", "said"),
    [
        ({}, "serve.auth.provider: must be one of jwt, static"),
        ({"provider": "ldap"}, "serve.auth.provider: must be one of"),
        ({"provider": "jwt", "secret": SECRET}, "serve.auth.secret: unknown option of jwt; known here: public_key"),
        ({"provider": "jwt"}, "serve.auth: jwt refuses its options: Either public_key or jwks_uri must be provided"),
        ({"provider": "introspection", "client_secret": SECRET}, "introspection needs introspection_url, client_id"),
        ({"provider": "static", "tokens": {"a": "short"}}, "tokens.a must be a text of at least 16 characters"),
        ({"provider": "static", "tokens": {"a": SECRET, "b": SECRET}}, "two clients have the same token"),
        ({"provider": "static", "tokens": {}}, "tokens is empty"),
        ({"provider": "static", "tokens": {"a": "${NOT_SET_ANYWHERE}"}}, "NOT_SET_ANYWHERE"),
        ({"provider": "jwt", "public_key": SECRET, "algorithm": SECRET}, "serve.auth: jwt refuses its options"),
        ({"provider": "remote", "token_verifier": {"provider": "no"}}, "serve.auth.token_verifier.provider: must be"),
        (
            {"provider": "github", "client_id": "a", "client_secret": "b", "base_url": f"{SECRET}\n{'x' * 60}"},
            "serve.auth: github refuses its options: Input should be a valid URL",
        ),
    ],
)
def test_errors_name_the_option_and_no_value(auth: Mapping[str, object], said: str):
    with pytest.raises(OptionsError) as failure:
        create_auth_provider(auth)
    assert said in str(failure.value)
    assert SECRET[:8] not in str(failure.value)
    assert failure.value.__cause__ is None
