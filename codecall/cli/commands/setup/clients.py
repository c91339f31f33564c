"""`codecall clients`: the MCP clients of this machine, and the gateway in their configurations."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, cast

from cyclopts import Parameter

from codecall.cli import exit_codes as exits
from codecall.cli.arguments import AsJson, EditedConfig
from codecall.errors import CodeCallError

if TYPE_CHECKING:
    from codecall.cli.commands.setup.config_file import EditedFile
    from codecall.cli.output import Output
    from codecall.gateway.config.mcp_clients import Client, Snippet

JsonObject = dict[str, Any]


def clients(
    action: Annotated[Literal["list", "write"], Parameter(help="What is done; list, if left out.")] = "list",
    names: Annotated[tuple[str, ...], Parameter(help="Only these: claude-desktop, claude-code, cursor, vscode.")] = (),
    /,
    *,
    config: EditedConfig = None,
    yes: Annotated[bool, Parameter(name=("--yes", "-y"), negative="", help="Ask nothing.")] = False,
    as_json: AsJson = False,
) -> int:
    """Show which other clients keep servers here; or write the gateway into their configurations.

    Each file is shown and asked for before it is written, and what it was before is kept beside it.
    """
    from codecall.cli.commands.setup.client_files import find_clients
    from codecall.cli.output import Column, Output, count_of
    from codecall.gateway.config.mcp_clients import TITLES, parse_client

    output = Output(as_json=as_json)
    wanted: list[Client] = [parse_client(name) for name in names]
    found = [client for client in find_clients() if not wanted or client.client in wanted]
    if action == "write":
        return _write_all(output, list(dict.fromkeys([*wanted] or [client.name for client in found])), config, yes=yes)
    if as_json:
        rows = [
            {
                "client": client.name,
                "files": [str(file) for file in client.files],
                "servers": list(client.servers),
                "hasGateway": client.has_gateway,
                "error": client.error or None,
            }
            for client in found
        ]
        output.document({"clients": rows})
    elif not found:
        titles = ", ".join(TITLES[client] for client in wanted)
        output.note(f"{f'There is no file of {titles}' if wanted else 'No other client keeps servers'} here")
    else:
        output.table(
            [Column("client", "bold"), Column("servers"), Column("gateway"), Column("file")],
            [
                (
                    TITLES[client.client] if client.client else client.name,
                    client.error or count_of(len(client.servers), "server"),
                    "yes" if client.has_gateway else "no",
                    ", ".join(map(str, client.files)),
                )
                for client in found
            ],
        )
    return exits.OK


def _write_all(output: Output, names: list[str], config: Path | None, *, yes: bool) -> int:
    from codecall.cli.commands.setup.config_file import edited_file, replace_file, written_file
    from codecall.cli.commands.setup.init import gateway_snippets

    file = edited_file(config)
    if not file.text:
        raise CodeCallError(
            f"There is no {file.path}, which clients would start the gateway with",
            code="NO_CONFIGURATION",
            hint="Write it with `codecall init` or `codecall add`.",
        )
    if not names:
        raise CodeCallError(
            "No other client keeps servers here",
            code="NOTHING_FOUND",
            hint="Name one: `codecall clients write cursor`.",
        )
    written: list[JsonObject] = []
    left: list[JsonObject] = []
    declined = False
    for snippet in gateway_snippets(names, file.path, file.text):
        where = {"client": snippet.client, "path": str(snippet.path)}
        is_users = snippet.scope == "user"
        try:
            written_file(snippet.path, is_users=is_users)
            edit = _edit(snippet)
            if edit.is_change and not (yes or _confirm(output, snippet, file)):
                output.note(f"{snippet.path} stays as it is")
                declined = True
                continue
            backup = replace_file(snippet.path, edit.text, is_users=is_users) if edit.is_change else None
        except CodeCallError as failure:
            if failure.code == "USAGE":
                raise
            left.append({**where, "error": failure.message, "text": snippet.text})
            output.note(f"{snippet.path} stays as it is: {failure.message}", "red")
            output.note(f"Put this into it with an editor:\n{snippet.text}", "")
            continue
        if edit.is_change:
            written.append({**where, "backup": backup and str(backup)})
            if not output.as_json:
                output.line(f"wrote {snippet.path}" + (f"; what it was is in {backup}" if backup else ""))
        else:
            output.note(f"{snippet.path} has the gateway already")
        if edit.to_fill_in:
            output.note(f"In place of … write the values there: {', '.join(edit.to_fill_in)}", "yellow")
    if output.as_json:
        output.document({"written": written, "left": left})
    elif written:
        output.note("Restart these clients. Servers that stand beside the gateway there are listed twice.")
    return exits.FAILED if left or (declined and not written) else exits.OK


class _Edit(NamedTuple):
    """A client's file with the gateway in it."""

    text: str
    is_change: bool
    to_fill_in: Sequence[str]
    """The variables whose values are still to be written into it."""


def _edit(snippet: Snippet) -> _Edit:
    """The client's file with the gateway in it. Of an entry that starts the gateway only how it is started is set, and
    places for values that it lacks: what a person or the client wrote there stays.

    Raises:
        CodeCallError: the file cannot be read, or has no place for the gateway.
    """
    from codecall.jsonio.documents import read_document, read_text
    from codecall.jsonio.edit import set_member

    (servers_key, named), *_ = cast("dict[str, dict[str, JsonObject]]", json.loads(snippet.text)).items()
    (name, entry), *_ = named.items()
    exists = snippet.path.exists()
    before = read_text(snippet.path) if exists else ""
    found: object = (read_document(snippet.path) if exists else JsonObject()).get(servers_key, JsonObject())
    if not isinstance(found, dict):
        raise CodeCallError(f"{servers_key} in it is no object", code="CANNOT_WRITE")
    listed = cast("JsonObject", found)
    same = [
        key for key, each in listed.items() if isinstance(each, dict) and _starts_as(cast("JsonObject", each), entry)
    ]
    name = name if name in listed else (*same, name)[0]
    text = before
    try:
        for path, value in _changes(listed, name, entry):
            text = set_member(text, (servers_key, *path), value)
    except ValueError:
        raise CodeCallError("it cannot be changed without changing more of it", code="CANNOT_WRITE") from None
    present: JsonObject = listed.get(name) or {}
    env = cast("JsonObject", present["env"]) if isinstance(present.get("env"), dict) else JsonObject()
    open_values = [key for key, value in entry.get("env", {}).items() if env.get(key, value) == value]
    return _Edit(text, text != before, open_values)


def _changes(listed: JsonObject, name: str, entry: JsonObject) -> Iterator[tuple[tuple[str, ...], object]]:
    """What is to be set among a client's servers for it to start the gateway as `entry` says.

    Raises:
        CodeCallError: another server has the name.
    """
    from codecall.gateway.config.mcp_servers import starts_codecall

    known = listed.get(name)
    if known is None:
        yield (name,), entry
        return
    if not isinstance(known, dict) or not starts_codecall(cast("JsonObject", known)):
        raise CodeCallError(f"it has another server that is called {name}", code="EXISTS_ALREADY")
    present = cast("JsonObject", known)
    for key, value in entry.items():
        if key == "env" and isinstance(present.get("env"), dict):
            for variable in value:
                if variable not in present["env"]:
                    yield (name, "env", variable), value[variable]
        elif key == "args" and _starts_as(present, {**entry, "command": present.get("command")}):
            pass
        elif present.get(key) != value:
            yield (name, key), value


def _starts_as(present: JsonObject, entry: JsonObject) -> bool:
    """Whether an entry starts what another does, perhaps with more arguments, which may be a person's."""
    args: object = present.get("args")
    begins = isinstance(args, list) and args[: len(entry["args"])] == entry["args"]
    return begins and present.get("command") == entry["command"]


def _confirm(output: Output, snippet: Snippet, file: EditedFile) -> bool:
    """Show what is written and what is started by it, and ask the person at the terminal."""
    from codecall.cli.prompts import confirm
    from codecall.cli.trust import describe_started

    output.note(f"{snippet.path} gets:\n{snippet.text}", "")
    output.note(f"The gateway starts what {file.path} says: {describe_started(file.options)}", "")
    return confirm(output, "Write it?", hint="Say --yes.")
