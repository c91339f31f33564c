"""Who may use a gateway over HTTP: FastMCP's auth providers, by name and options.

    auth = { provider = "static", tokens = { alice = "${ALICE_TOKEN}" } }
    auth = { provider = "jwt", jwks_uri = "https://…/jwks.json", issuer = "https://…", audience = "codecall" }

Options are those of FastMCP's class; one that takes a verifier of tokens gets it the same way, by name and options.
Errors name the option and never hold a value.
"""

from __future__ import annotations

import hmac
import inspect
from collections.abc import Callable, Mapping
from hashlib import sha256
from importlib import import_module
from typing import Any, Final, cast

from fastmcp.server.auth import AccessToken, AuthProvider, TokenVerifier

from codecall.errors import OptionsError
from codecall.gateway.config.variables import resolve_values
from codecall.redaction.matching import SecretMatcher

MIN_TOKEN_CHARS: Final = 16
"""Characters a static token has at least."""

_PROVIDERS: Final = "fastmcp.server.auth.providers"
PROVIDERS: Final[dict[str, tuple[str, str]]] = {
    "jwt": (f"{_PROVIDERS}.jwt", "JWTVerifier"),
    "static": (__name__, "StaticTokens"),
    "introspection": (f"{_PROVIDERS}.introspection", "IntrospectionTokenVerifier"),
    "remote": ("fastmcp.server.auth", "RemoteAuthProvider"),
    "oauth_proxy": ("fastmcp.server.auth", "OAuthProxy"),
    "oidc_proxy": ("fastmcp.server.auth.oidc_proxy", "OIDCProxy"),
    "auth0": (f"{_PROVIDERS}.auth0", "Auth0Provider"),
    "authkit": (f"{_PROVIDERS}.workos", "AuthKitProvider"),
    "aws_cognito": (f"{_PROVIDERS}.aws", "AWSCognitoProvider"),
    "azure": (f"{_PROVIDERS}.azure", "AzureProvider"),
    "clerk": (f"{_PROVIDERS}.clerk", "ClerkProvider"),
    "descope": (f"{_PROVIDERS}.descope", "DescopeProvider"),
    "discord": (f"{_PROVIDERS}.discord", "DiscordProvider"),
    "github": (f"{_PROVIDERS}.github", "GitHubProvider"),
    "google": (f"{_PROVIDERS}.google", "GoogleProvider"),
    "huggingface": (f"{_PROVIDERS}.huggingface", "HuggingFaceProvider"),
    "keycloak": (f"{_PROVIDERS}.keycloak", "KeycloakAuthProvider"),
    "oci": (f"{_PROVIDERS}.oci", "OCIProvider"),
    "propelauth": (f"{_PROVIDERS}.propelauth", "PropelAuthProvider"),
    "scalekit": (f"{_PROVIDERS}.scalekit", "ScalekitProvider"),
    "supabase": (f"{_PROVIDERS}.supabase", "SupabaseProvider"),
    "workos": (f"{_PROVIDERS}.workos", "WorkOSProvider"),
}
"""Names of providers, and where their classes are."""

_URLS: Final = ("authorization_servers",)
"""Options whose texts FastMCP wants as URL objects."""


class StaticTokens(TokenVerifier):
    """Bearer tokens that are written down: one for each client.

    Args:
        tokens: Token by name of its client.
        scopes: Scopes that all of them have.

    Raises:
        ValueError: there are none, one is too short, or two clients have the same.
    """

    def __init__(self, tokens: Mapping[str, str], scopes: list[str] | None = None) -> None:
        super().__init__()
        if not tokens:
            raise ValueError("tokens is empty")
        for client, token in tokens.items():
            if not isinstance(token, str) or len(token) < MIN_TOKEN_CHARS:  # pyright: ignore[reportUnnecessaryIsInstance]
                raise ValueError(f"tokens.{client} must be a text of at least {MIN_TOKEN_CHARS} characters")
        self._clients = {sha256(token.encode()).digest(): client for client, token in tokens.items()}
        if len(self._clients) < len(tokens):
            raise ValueError("tokens: two clients have the same token, and could not be told apart")
        self._scopes = scopes or []

    async def verify_token(self, token: str) -> AccessToken | None:
        """The client whose token it is; None: it is none."""
        digest = sha256(token.encode()).digest()
        owner = None
        for token_digest, client in self._clients.items():  # all of them, so that the time reveals nothing
            if hmac.compare_digest(token_digest, digest):
                owner = client
        if owner is None:
            return None
        return AccessToken(token=token, client_id=owner, subject=owner, scopes=self._scopes)


def create_auth_provider(auth: Mapping[str, object], *, where: str = "serve.auth") -> AuthProvider:
    """Create the provider that these options name; `${VAR}` in them is replaced.

    Raises:
        OptionsError: a variable is not set, or the provider, one of its options or a value is not what it must be.
    """
    return _build(resolve_values(auth, where=where), where)


def _build(options: Mapping[str, object], where: str) -> AuthProvider:
    name = options.get("provider")
    if not isinstance(name, str) or name not in PROVIDERS:
        raise OptionsError(f"{where}.provider: must be one of {', '.join(PROVIDERS)}")
    module, kind = PROVIDERS[name]
    make = cast("Callable[..., AuthProvider]", getattr(import_module(module), kind))
    parameters = [parameter for parameter in inspect.signature(make).parameters if parameter != "self"]
    arguments: dict[str, Any] = {}
    for option, value in options.items():
        if option == "provider":
            continue
        if option not in parameters:
            raise OptionsError(f"{where}.{option}: unknown option of {name}; known here: {', '.join(parameters)}")
        arguments[option] = _value(option, value, f"{where}.{option}")
    required = [
        parameter.name
        for parameter in inspect.signature(make).parameters.values()
        if parameter.default is parameter.empty and parameter.kind is not parameter.VAR_KEYWORD
    ]
    if missing := [option for option in required if option not in arguments]:
        raise OptionsError(f"{where}: {name} needs {', '.join(missing)}")
    try:
        return make(**arguments)
    except Exception as failure:
        # Whatever it is, it may quote a secret, and so may what caused it.
        raise OptionsError(f"{where}: {name} refuses its options: {_redact(_reason(failure), options)}") from None


def _value(option: str, value: object, where: str) -> object:
    """Convert an option to what FastMCP takes."""
    if isinstance(value, Mapping) and "provider" in value:
        return _build(cast("Mapping[str, object]", value), where)
    if option not in _URLS:
        return cast("object", value)
    from pydantic import AnyHttpUrl, ValidationError

    try:
        return [AnyHttpUrl(str(url)) for url in cast("list[object]", value)]
    except (TypeError, ValidationError):
        raise OptionsError(f"{where}: must be a list of URLs") from None


def _reason(failure: Exception) -> str:
    """What a failure says, but for the values that pydantic quotes, of which it shows the ends alone."""
    from pydantic import ValidationError

    if not isinstance(failure, ValidationError):
        return str(failure)
    mistakes = failure.errors(include_url=False, include_context=False, include_input=False)
    return "; ".join(mistake["msg"] for mistake in mistakes)


def _redact(text: str, values: object) -> str:
    """Replace in `text` every string among the values, in every spelling, but for names of providers and the
    shortest."""
    return " ".join(SecretMatcher(_strings(values)).replace(text, lambda _: "…").split())[:500]


def _strings(values: object) -> list[str]:
    match values:
        case str():
            return [values] if len(values) > 3 and values not in PROVIDERS else []
        case Mapping():
            return [text for value in cast("Mapping[str, object]", values).values() for text in _strings(value)]
        case list() | tuple():
            return [text for value in cast("list[object]", values) for text in _strings(value)]
        case _:
            return []
