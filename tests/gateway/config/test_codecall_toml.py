"""Options as TOML: read back as they were, without the secrets."""

from __future__ import annotations

import tomllib
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codecall.approvals.options import ApprovalRule
from codecall.errors import OptionsError
from codecall.gateway.config.codecall_toml import parse_own_options, write_toml
from codecall.gateway.config.load import read_config
from codecall.gateway.config.names import describe_server
from codecall.gateway.config.options import (
    AccessOptions,
    ExposeOptions,
    GatewayOptions,
    HttpServer,
    OpenApiServer,
    ServeOptions,
    StdioServer,
)
from codecall.gateway.config.secrets import find_credentials
from codecall.gateway.config.urls import explain_url

TOKEN = "ghp_Zx81kQpLmN42vTrW90aBcDeFgHiJkLmNoPqR"

# Texts without what looks like a secret: those are not copied.
SIGNS = "ab\"'\\\n\r\t #=[]{},.é日😀\x00\x1f\x7f\x85\u2028"
TEXTS = st.text(alphabet=SIGNS, max_size=8)
SOME = st.text(alphabet=SIGNS, min_size=1, max_size=8)
NAMES = st.from_regex(r"[a-z][a-z0-9_-]{0,5}", fullmatch=True)
SECONDS = st.floats(min_value=0.001, max_value=86_400)
ACCESS = st.builds(
    AccessOptions,
    allow=st.none() | st.lists(SOME, max_size=2).map(tuple),
    deny=st.lists(SOME, max_size=2).map(tuple),
    read_only=st.booleans(),
    destructive=st.booleans() | st.lists(SOME, max_size=2).map(tuple),
)
RULES = st.builds(
    ApprovalRule,
    action=st.sampled_from(["allow", "ask", "deny"]),
    tools=st.none() | st.lists(SOME, min_size=1, max_size=2).map(tuple),
    read_only=st.none() | st.booleans(),
    input=st.none() | st.dictionaries(TEXTS, st.integers(0, 9) | TEXTS, max_size=2),
)
SHARED = {
    "approvals": st.lists(RULES, max_size=2).map(tuple),
    "enabled": st.booleans(),
    "description": st.none() | TEXTS,
    "access": st.none() | ACCESS,
    "call_timeout_s": SECONDS,
    "idle_s": st.just(0.0) | SECONDS,
    "per_client": st.booleans(),
}
PLAIN = st.dictionaries(TEXTS, TEXTS, max_size=2)
URLS = SOME.filter(lambda text: explain_url(text) is None)
SERVERS = st.one_of(
    st.builds(StdioServer, command=SOME, args=st.lists(TEXTS, max_size=3).map(tuple), env=PLAIN, **SHARED),
    st.builds(HttpServer, url=URLS, transport=st.sampled_from([None, "http", "sse"]), headers=PLAIN, **SHARED),
    st.builds(OpenApiServer, openapi=SOME.map(lambda text: f"/{text}"), headers=PLAIN, **SHARED),
)
VALUES = st.recursive(
    st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXTS, inner, max_size=2),
    max_leaves=4,
)
OPTIONS = st.builds(
    GatewayOptions,
    name=SOME,
    servers=st.dictionaries(NAMES, SERVERS, max_size=3),
    access=ACCESS,
    expose=st.builds(ExposeOptions, share=st.floats(0.001, 1), context_tokens=st.integers(1000, 10**6)),
    serve=st.builds(
        ServeOptions, port=st.integers(0, 65_535), auth=st.none() | st.dictionaries(TEXTS, VALUES, max_size=2)
    ),
    cache_dir=st.sampled_from([None, False, "/var/cache", "~/x"]),
    codecall=st.dictionaries(TEXTS, VALUES, max_size=2),
    rate_limits=st.none() | st.dictionaries(TEXTS, VALUES, max_size=2),
)


@settings(max_examples=80, deadline=None)
@given(OPTIONS)
def test_what_is_written_reads_back(options: GatewayOptions):
    text, notes = write_toml(options)
    assert notes == ()
    with TemporaryDirectory() as folder:
        file = Path(folder, "codecall.toml")
        file.write_text(text, encoding="utf-8", newline="")
        assert read_config(file).options == options


def test_only_what_differs_is_written():
    text, notes = write_toml(GatewayOptions(servers={"git": StdioServer(command="uvx", args=("mcp-server-git",))}))
    assert tomllib.loads(text) == {"servers": {"git": {"command": "uvx", "args": ["mcp-server-git"]}}}
    assert notes == ()
    assert tomllib.loads(write_toml(GatewayOptions()).text) == {}
    with pytest.raises(
        OptionsError, match=r"codecall\.audit\.sink: a value of type NoneType cannot be written as TOML"
    ):
        write_toml(GatewayOptions(codecall={"audit": {"sink": None}}))


def test_secrets_become_references():
    options = GatewayOptions(
        servers={
            "github": StdioServer(
                command="npx",
                args=(
                    *("-y", "server-github", "--api-key", TOKEN, f"--token={TOKEN}x", "--region", "eu"),
                    *("--header", f"Authorization: Bearer {TOKEN}y", "postgres://ada:Zx81kQpLmN@db/shop", "/a:b"),
                ),
                env={"GITHUB_TOKEN": TOKEN, "LOG": "debug", "API_KEY": "${API_KEY}", "MAX_TOKENS": "4000"},
            ),
            "second": StdioServer(command="x", env={"GITHUB_TOKEN": f"{TOKEN}z", "K_PASSWORD": "${P:-hunter2hunter}"}),
            "web": HttpServer(
                url=f"https://h.example/mcp?api_key={TOKEN}",
                headers={"Authorization": f"Bearer {TOKEN}w"},
                auth="oauth",
            ),
            "zap": HttpServer(url="https://z.example/api/mcp/s/Zx81kQpLmN42vTrW90aBcDeFgHiJkLmN/mcp", auth=TOKEN + "v"),
            "rest": OpenApiServer(openapi="/a.json", headers={"X-Api-Key": TOKEN, "Authorization": "Bearer ${A}"}),
        },
        serve=ServeOptions(auth={"provider": "github", "client_secret": TOKEN, "scopes": ["a"]}),
    )
    text, notes = write_toml(options)
    assert TOKEN not in text
    assert TOKEN not in "".join(notes)
    assert "hunter2hunter" not in text
    data = tomllib.loads(text)
    servers = data["servers"]
    assert servers["github"]["args"] == [
        *("-y", "server-github", "--api-key", "${GITHUB_API_KEY}", "--token=${GITHUB_TOKEN_2}", "--region", "eu"),
        *("--header", "Authorization: Bearer ${GITHUB_TOKEN_3}", "postgres://ada:${GITHUB_PASSWORD}@db/shop", "/a:b"),
    ]
    assert servers["github"]["env"] == {
        "GITHUB_TOKEN": "${GITHUB_TOKEN}",
        "LOG": "debug",
        "API_KEY": "${API_KEY}",
        "MAX_TOKENS": "4000",
    }
    assert servers["second"]["env"] == {"GITHUB_TOKEN": "${SECOND_GITHUB_TOKEN}", "K_PASSWORD": "${K_PASSWORD}"}
    assert servers["web"]["url"] == "https://h.example/mcp?api_key=${WEB_API_KEY}"
    assert servers["web"]["headers"] == {"Authorization": "Bearer ${WEB_TOKEN}"}
    assert servers["web"]["auth"] == "oauth"
    assert servers["zap"] == {"url": "${ZAP_URL}", "auth": "${ZAP_TOKEN}"}
    assert servers["rest"]["headers"] == {"X-Api-Key": "${REST_X_API_KEY}", "Authorization": "Bearer ${A}"}
    assert data["serve"]["auth"]["client_secret"] == "${SERVE_AUTH_CLIENT_SECRET}"
    assert len(notes) == 13
    assert (
        "servers.github.env.GITHUB_TOKEN: looks like a secret and was not copied: "
        "set the environment variable GITHUB_TOKEN" in notes
    )


def test_settings_with_names_of_secrets_become_references_whatever_the_shell_holds(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SHELL_TOKEN", "eu-central-1")
    secret = dict.fromkeys(("OPENAI_KEY", "X_KEY", "DB_PW", "apiKey", "MCP_AUTH", "DBPASS"), "hunter2") | {
        "PIN": "1234"
    }
    plain = {"REGION": "eu-central-1", "MAX_TOKENS": "4000", "PUBLIC_KEY": "hunter2", "A_KEY": "${A}"}
    args = (
        *("run", "-e", "X_KEY=hunter2", "--env=DB_PW=hunter2", "-eY_KEY=hunter2", "-p", "8080:80", "img"),
        *("--key", "hunter2", "-p", "hunter2", "-p", "/x", "--region", "eu-central-1", "--key", "${V}"),
    )
    docker = StdioServer(command="docker", args=args, env=secret | plain)
    web = HttpServer(url="https://h.example/mcp?key=hunter2", headers={"X-Key": "hunter2"})
    data = tomllib.loads(write_toml(GatewayOptions(servers={"s": docker, "web": web})).text)["servers"]
    assert data["s"]["env"] == {name: f"${{{name.upper()}}}" for name in secret} | plain
    assert data["s"]["args"] == [
        *("run", "-e", "X_KEY=${S_X_KEY}", "--env=DB_PW=${S_DB_PW}", "-eY_KEY=${S_Y_KEY}", "-p", "8080:80", "img"),
        *("--key", "${S_KEY}", "-p", "${S_PASSWORD}", "-p", "/x", "--region", "eu-central-1", "--key", "${V}"),
    ]
    assert data["web"] == {"url": "https://h.example/mcp?key=${WEB_KEY}", "headers": {"X-Key": "${WEB_X_KEY}"}}


@pytest.mark.parametrize(
    ("url", "written"),
    [
        (
            "https://h.example/mcp?a=1&api_key=s3cret/x@y&b=2",
            "https://h.example/mcp?a=1&api_key=${WEB_API_KEY}&b=2",
        ),
        ("https://ada:hunter2@h.example/mcp", "https://ada:${WEB_PASSWORD}@h.example/mcp"),
        ("https://h.example:8443/mcp?page=1", "https://h.example:8443/mcp?page=1"),
        ("https://h.example/mcp?api_key=${KEY}", "https://h.example/mcp?api_key=${KEY}"),
        (f"https://h.example/{TOKEN}/mcp?api_key=hunter2", "${WEB_URL}"),
        (f"https://{TOKEN}@h.example/mcp?token=hunter2x", "${WEB_URL}"),
        (
            "https://h.example/mcp?token=a1b2c3&secret=d4e5f6",
            "https://h.example/mcp?token=${WEB_TOKEN}&secret=${WEB_SECRET}",
        ),
    ],
)
def test_of_a_url_only_its_secrets_become_references(url: str, written: str):
    web = HttpServer(url=url)
    assert tomllib.loads(write_toml(GatewayOptions(servers={"web": web})).text)["servers"]["web"]["url"] == written


def test_what_a_program_was_given_is_not_read_in_what_it_writes():
    env = {
        "URL": "postgres://ada:a%20pass@db/shop",
        "H": '{"Authorization": "Bearer given"}',
        "SHORT": "on",
        "M": "a\nline2",
    }
    server = StdioServer(command="x", args=("--key", "secret", "--region", "west"), env=env)
    assert find_credentials(server) == {
        *env.values(),
        "a%20pass",
        "a pass",
        "Bearer given",
        "given",
        "line2",
        "secret",
    } - {"on"}


@pytest.mark.parametrize(
    ("server", "shown"),
    [
        (StdioServer(command="npx", args=("-y", "server-x", "--key", TOKEN)), "npx server-x"),
        (StdioServer(command="docker", args=("run", "-e", f"A={TOKEN}", "mcp/x")), "docker mcp/x"),
        (StdioServer(command="/bin/tool", args=(TOKEN,)), "/bin/tool"),
        (
            StdioServer(command="npx", args=("-y", f"git+https://u:{TOKEN}@h.example/o/r.git")),
            "npx git+https://h.example/…",
        ),
        (StdioServer(command="uvx", args=(f"https://h.example/t?token={TOKEN}",)), "uvx https://h.example/…"),
        (StdioServer(command="docker", args=("run", "--label", "k=secret", "mcp/x")), "docker mcp/x"),
        (StdioServer(command="uvx", args=("--token", "secret", "srv")), "uvx"),
        (StdioServer(command="uvx", args=(TOKEN,)), "uvx"),
        (StdioServer(command="uvx", args=("--index", "https://u:secret@h.example/simple", "srv")), "uvx srv"),
        (StdioServer(command="npx --token secret srv"), "npx"),
        (StdioServer(command="uvx", args=("-v", "srv", "secret")), "uvx"),
        (StdioServer(command="cmd", args=("/c", "set A_KEY=secret && npx srv")), "cmd"),
        (StdioServer(command="uv", args=("run", "python", "-c", "secret")), "uv"),
        (StdioServer(command="python", args=("-c", "token = 'secret'")), "python"),
        (StdioServer(command="node", args=("-e", "token = 'secret'", "secret")), "node"),
        (StdioServer(command="python3", args=("-u", "/srv/server.py")), "python3 /srv/server.py"),
        (HttpServer(url=f"https://u:{TOKEN}@h.example:1/mcp?key={TOKEN}"), "https://h.example:1/mcp"),
        (HttpServer(url=f"https://h.example/s/{TOKEN}/mcp"), "https://h.example/…"),
        (OpenApiServer(openapi="/srv/pets.json"), "OpenAPI /srv/pets.json"),
    ],
)
def test_labels_show_no_secret(server: StdioServer | HttpServer | OpenApiServer, shown: str):
    assert describe_server(server) == shown


def test_files_of_records_are_relative_to_the_folder(tmp_path: Path):
    file = tmp_path / "codecall.toml"
    file.write_text('[codecall.audit]\nsinks = ["a.jsonl", { file = "b.jsonl", backups = 2 }, "/c.jsonl"]\n')
    audit = parse_own_options(file, tomllib.loads(file.read_text())).codecall["audit"]
    assert audit == {"sinks": [f"{tmp_path}/a.jsonl", {"file": f"{tmp_path}/b.jsonl", "backups": 2}, "/c.jsonl"]}
