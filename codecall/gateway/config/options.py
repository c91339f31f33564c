"""What a gateway is told: the servers behind it, what of them may be used, how it is exposed and served.

`reading` makes it of the files that people already have, of our own TOML or YAML, or of the command line. Texts may
name environment variables (`${TOKEN}`, `${TOKEN:-default}`, `${env:TOKEN}`); they are replaced when a server is started
and stay as written everywhere else. What may hold a secret is left out when options are shown (`repr`).
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Final, Literal, Self, cast

from pydantic import AfterValidator, BeforeValidator, Field, PrivateAttr, model_validator

from codecall.approvals.options import ApprovalRule, read_approvals
from codecall.errors import OptionsError
from codecall.gateway.config.urls import explain_url, is_url
from codecall.meta_tools.starlark.options import ToolFilesOptions, read_tool_files
from codecall.option_base import Options
from codecall.options import StarlarkOptions

TABLE_EXAMPLES: Final[Mapping[str, str]] = {
    "access": "access = { read_only = true }",
    "expose": 'expose = { mode = "always" }',
    "serve": 'serve = { transport = "http", port = 8000 }',
    "composite_tools": 'composite_tools = { paths = ["tools"] }',
    "codecall": 'codecall = { vm = { preset = "secure" } }',
    "rate_limits": 'rate_limits = { rules = [{ tool = "*", rate = "10/minute" }] }',
}
"""The options that are tables, each with an example."""

Globs = Annotated[tuple[Annotated[str, Field(min_length=1, max_length=256)], ...], Field(strict=False)]
"""Names of tools as their server writes them or as clients see them (`<server>_<tool>`), or globs (`*`, `?`)."""

Text = Annotated[str, Field(min_length=1, max_length=32_768)]
Seconds = Annotated[float, Field(gt=0, le=86_400, strict=False)]
"""Seconds, up to a day."""


def _plain_url(value: str) -> str:
    if (reason := explain_url(value)) is not None:
        raise ValueError(reason)
    return value


def _path_or_url(value: str) -> str:
    return _plain_url(value) if is_url(value) else value


ServerName = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_-]{0,63}$")]
"""Name of a server, which is its namespace and its app: tools are called `<name>_<tool>`."""


class AccessOptions(Options):
    """Which tools of a server may be used. What may not be is neither listed, nor found, nor called."""

    allow: Globs | None = None
    """Only these; None: all."""
    deny: Globs = ()
    """Not these, whatever `allow` says."""
    read_only: bool = False
    """Only tools that say they change nothing (`readOnlyHint`)."""
    destructive: bool | Literal["ask"] | Globs = "ask"
    """Tools that say they may destroy something (`destructiveHint` is given and true): all, those named, or none.
    `ask`: clients whose person can be asked see them, and each call is asked for; from others they are hidden."""


def _server_rules(value: object) -> object:
    """Expands a short form of `approvals` in the table of a server."""
    if not isinstance(value, str | list | tuple):
        return value
    try:
        return cast("Mapping[str, object]", read_approvals(cast("object", value)))["rules"]
    except OptionsError as failure:
        raise ValueError(failure.message.removeprefix("approvals: ")) from None


class ServerOptions(Options):
    """What all servers share."""

    enabled: bool = True
    """False leaves the server out."""
    description: str | None = Field(default=None, max_length=4_000)
    """What it is for, told to models that search."""
    access: AccessOptions | None = None
    """Which of its tools may be used; None: what the gateway says for all."""
    approvals: Annotated[
        tuple[ApprovalRule, ...], Field(strict=False, max_length=1_000), BeforeValidator(_server_rules)
    ] = ()
    """Which calls of its tools a person has to allow: rules, or a short form of them, as the option of the plugin has
    them. Tools have their names on the server, or those that clients see. They count before the rules in `codecall`."""
    expose: Literal["tools", "meta_tools"] | None = None
    """`tools`: clients list its tools themselves, whatever the others cost; `meta_tools`: they find them with
    CodeCall's four alone; None: as `expose.mode` of the gateway says. Scripts reach them in any case."""
    code_mode: bool | None = None
    """True: models reach its tools through meta-tools and scripts alone; False: clients list its tools themselves, and
    neither search nor any script, nor a composite tool, reaches them; None: as `expose` says."""
    tools_to_execute: Globs | None = None
    """Tools of it that `executeToolCode` may call; None: all. Needs `tool_files`."""
    tools_to_auto_execute: Globs | None = None
    """Tools of it that `executeToolCode` may call without a person, once any server has such a list; needs
    `tool_files`."""
    start_timeout_s: Seconds = 30.0
    """Seconds it may take to start and to answer its first request."""
    call_timeout_s: Seconds = 120.0
    """Seconds one call may take that has told of no progress; each progress notification begins them anew."""
    idle_s: Annotated[float, Field(ge=0, le=86_400, strict=False)] = 300.0
    """Seconds without a call after which it is stopped; 0: never."""
    sampling: bool = False
    """Let it use the models of clients that offer theirs (MCP sampling); False: it is refused."""
    per_client: bool = False
    """Give each client of the gateway a connection, and so a process, of its own. False: all share one. What clients
    see of it is listed over the gateway's own connection."""

    @model_validator(mode="after")
    def _listed_in_one_way(self) -> Self:
        if self.expose is not None and self.code_mode is not None:
            raise ValueError("give expose or code_mode, not both")
        return self

    @model_validator(mode="after")
    def _has_rules_of_its_own(self) -> Self:
        if any(rule.servers is not None or rule.apps is not None for rule in self.approvals):
            raise ValueError("approvals: a rule here is about this server; leave out servers and apps")
        return self

    @property
    def exposed(self) -> Literal["tools", "meta_tools"] | None:
        """What clients list of it; None: as `expose.mode` of the gateway says."""
        return self.expose if self.code_mode is None else "meta_tools" if self.code_mode else "tools"


class StdioServer(ServerOptions):
    """A server that is a program, spoken to over its standard input and output."""

    command: Text
    """The program: a path, or a name on the PATH."""
    args: Annotated[tuple[str, ...], Field(strict=False, repr=False)] = ()
    """Its arguments."""
    env: Mapping[str, str] = Field(default_factory=dict[str, str], repr=False)
    """Environment variables beside the few that every program gets (PATH, HOME and the like)."""
    env_file: str | None = Field(default=None, min_length=1)
    """A file with more of them, `NAME=value` a line; `env` counts before it. Read when the server starts."""
    cwd: str | None = None
    """The folder it is started in; None: the gateway's."""
    _env_file_digest: str | None = PrivateAttr(default=None)
    handshake: bool = False
    """Speak a version before 2026-07-28 with it, though it knows newer ones: for a server that asks clients questions
    while a call is under way. False: the newest that it knows."""

    @property
    def env_file_digest(self) -> str | None:
        """SHA-256 of the only content of `env_file` with which it may be started; None: with any."""
        return self._env_file_digest

    def pin_env_file(self, digest: str | None) -> None:
        """Start it with this content of `env_file` alone; None: with any."""
        self._env_file_digest = digest


class HttpServer(ServerOptions):
    """A server behind a URL."""

    url: Annotated[Text, AfterValidator(_plain_url)] = Field(repr=False)
    """Where it is."""
    transport: Literal["http", "sse"] | None = None
    """Streamable HTTP or the older SSE; None: SSE where the path ends in `/sse`."""
    headers: Mapping[str, str] = Field(default_factory=dict[str, str], repr=False)
    """Headers of every request."""
    auth: str | None = Field(default=None, min_length=1, repr=False)
    """`oauth`: signs in with a browser, tokens are kept by FastMCP; any other text is a bearer token."""
    auth_hosts: Annotated[tuple[str, ...], Field(strict=False)] = ()
    """Hosts to which requests of the sign-in may go though their addresses are not public; the server's own always."""


class OpenApiServer(ServerOptions):
    """A REST API described by an OpenAPI document; its operations are tools."""

    openapi: Annotated[Text, AfterValidator(_path_or_url)] = Field(repr=False)
    """Path or URL of the document, JSON or YAML."""
    base_url: Annotated[str, Field(min_length=1), AfterValidator(_plain_url)] | None = Field(default=None, repr=False)
    """Where the API is; None: the first server that the document names."""
    headers: Mapping[str, str] = Field(default_factory=dict[str, str], repr=False)
    """Headers of every request."""


AnyServer = StdioServer | HttpServer | OpenApiServer

RULES: Final = frozenset(
    {*AccessOptions.names(), "access", "approvals", "expose", "code_mode", "per_client"}
    | {"tools_to_execute", "tools_to_auto_execute"}
)
"""Options of a server that say who may use what of it. They are read or refused, wherever they stand."""


class ExposeOptions(Options):
    """Whether clients list the servers' tools or CodeCall's four."""

    mode: Literal["auto", "always", "never"] = "auto"
    """`always`: the four meta-tools; `never`: the tools themselves; `auto`: the tools while their definitions are small
    enough, above that the meta-tools."""
    share: Annotated[float, Field(gt=0, le=1, strict=False)] = 0.02
    """Share of the context that definitions may take before `auto` switches."""
    context_tokens: int = Field(default=200_000, ge=1_000, le=100_000_000)
    """Tokens of the model's context."""


class ServeOptions(Options):
    """How clients reach the gateway."""

    transport: Literal["stdio", "http"] = "stdio"
    """Standard input and output, or streamable HTTP."""
    host: str = "127.0.0.1"
    """Address to listen on."""
    port: int = Field(default=8000, ge=0, le=65_535)
    """Port to listen on; 0: any that is free."""
    path: str = Field(default="/mcp", pattern=r"^/[\w./-]*$")
    """Path of the endpoint."""
    auth: Mapping[str, object] | None = Field(default=None, repr=False)
    """A FastMCP auth provider: `{"provider": "jwt", …}`; docs/guide/gateway-http.md lists them.
    None: everybody who reaches the port."""
    allowed_hosts: Annotated[tuple[str, ...], Field(strict=False)] = ()
    """Names under which clients may reach it (`Host`), beside `localhost` and the address it is reached at; globs are
    allowed. None: no others; any where clients sign in and it is not reached over the loopback address."""
    allowed_origins: Annotated[tuple[str, ...], Field(strict=False)] = ()
    """Origins of web pages that may use it (`Origin`), beside its own; globs are allowed."""
    max_sessions: int = Field(default=1_000, ge=1, le=1_000_000)
    """Sessions that may be open at once; a client that would open another gets 503. So does one who signs in and has a
    quarter of them open, and at least ten."""
    session_idle_s: Seconds = 900.0
    """Seconds without a request or an open stream after which a session ends."""


class CompositeToolsOptions(Options):
    """Workflows over the servers' tools that are served as tools."""

    paths: Annotated[tuple[Text, ...], Field(strict=False)] = ()
    """Files of definitions, and folders of them; relative to the folder of this file."""


def _switched(value: object) -> object:
    """A bool stands for the defaults, or for none."""
    return (StarlarkOptions() if value else None) if isinstance(value, bool) else value


class GatewayOptions(Options):
    """Everything `codecall serve` takes."""

    name: str = Field(default="codecall", min_length=1, max_length=100)
    """The server's name, as clients see it."""
    servers: Mapping[ServerName, AnyServer] = Field(default_factory=dict[str, AnyServer])
    """The servers behind it by name."""
    access: AccessOptions = AccessOptions()
    """Which tools may be used, for servers that do not say."""
    expose: ExposeOptions = ExposeOptions()
    """What clients list."""
    serve: ServeOptions = ServeOptions()
    """How clients reach it."""
    composite_tools: CompositeToolsOptions = CompositeToolsOptions()
    """Workflows that are served as tools."""
    cache_dir: str | Path | Literal[False] | None = None
    """Where catalogs of servers are kept from one start to the next; None: `codecall` in the user's cache folder,
    False: nowhere."""
    codecall: Mapping[str, object] = Field(default_factory=dict[str, object], repr=False)
    """Options of the plugin, as `CodeCallPlugin.init` takes them: `vm`, `top_k`, `audit` and the rest."""
    starlark: Annotated[StarlarkOptions | None, BeforeValidator(_switched)] = None
    """Scripts in Starlark with `execute_tool_script` (extra `starlark`), as the plugin's option of that name takes
    them; `true` switches it on. Clients list it whatever `expose` says. None: there is no such tool."""
    tool_files: Annotated[ToolFilesOptions | None, BeforeValidator(read_tool_files)] = None
    """Tools as `.pyi` files with `executeToolCode` (extra `starlark`), as the plugin's option of that name takes them;
    `true` switches it on. Clients list the four whatever `expose` says. None: there are no such tools."""
    rate_limits: Mapping[str, object] | None = Field(default=None, repr=False)
    """Options of `RateLimitPlugin.init`; None: no limits."""
    _files: Mapping[str, str] = PrivateAttr(default_factory=dict[str, str])

    def read_from(self, files: Mapping[str, str]) -> Self:
        """Returns these options with the file of each, for messages about what is checked only when they are used."""
        copy = self.model_copy()
        copy._files = files
        return copy

    def __eq__(self, other: object) -> bool:
        """Whether the options are the same, wherever they are from."""
        return isinstance(other, GatewayOptions) and self.__dict__ == other.__dict__

    __hash__ = None  # pyright: ignore[reportAssignmentType] - mappings have no hash

    @contextmanager
    def naming(self, table: str, hint: str | None = None) -> Generator[None]:
        """Within this context, errors of options begin with the file and the table that is read; `hint` is for those
        that have none."""
        try:
            yield
        except OptionsError as failure:
            file = self._files.get(table.partition(".")[0])
            place = f"{file}: " if file is not None else ""
            message = f"{place}[{table}] {failure.message}"
            raise OptionsError(message, code=failure.code, hint=failure.hint or hint) from None
