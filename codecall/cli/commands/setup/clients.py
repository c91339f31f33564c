"""`codecall clients`: the MCP clients of this machine, and the gateway in their configurations."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

from cyclopts import Parameter

from codecall.cli import exit_codes as exits
from codecall.cli.arguments import AsJson, EditedConfig
from codecall.errors import CodeCallError

if TYPE_CHECKING:
    from codecall.cli.commands.setup.config_file import EditedFile
    from codecall.cli.output import Output
    from codecall.gateway.config.mcp_clients import Snippet

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
    wanted = [parse_client(name) for name in names]
    found = [client for client in find_clients() if not wanted or client.client in wanted]
    if action == "write":
        return _write_all(output, list(dict.fromkeys(wanted or [client.name for client in found])), config, yes=yes)
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
    return exits.OK if found else exits.FAILED


def _write_all(output: Output, names: list[str], config: Path | None, *, yes: bool) -> int:
    from codecall.cli.commands.setup.config_file import edited_file
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
    for snippet in gateway_snippets(names, file.path, file.text):
        document, before = _merged(snippet)
        if before is not None and json.loads(before) == document:
            output.note(f"{snippet.path} has the gateway already")
            continue
        if not (yes or _confirm(output, snippet, file)):
            output.note(f"{snippet.path} stays as it is")
            continue
        backup = _write(snippet.path, json.dumps(document, indent=2, ensure_ascii=False) + "\n", before)
        written.append({"client": snippet.client, "path": str(snippet.path), "backup": backup and str(backup)})
        if not output.as_json:
            output.line(f"wrote {snippet.path}" + (f"; what it was is in {backup}" if backup else ""))
            if "…" in snippet.text:
                output.note("In place of … write the values there.", "yellow")
    if output.as_json:
        output.document({"written": written})
    elif written:
        output.note("Restart these clients. Servers that stand beside the gateway there are listed twice.")
    return exits.OK if written or yes else exits.FAILED


def _merged(snippet: Snippet) -> tuple[JsonObject, str | None]:
    """The client's file with the gateway in it, and its text before; None if there is no file.

    Raises:
        CodeCallError: it cannot be read, or holds comments, which would be lost.
    """
    entry = cast("JsonObject", json.loads(snippet.text))
    servers_key, before = next(iter(entry)), ""
    try:
        before = snippet.path.read_text(encoding="utf-8-sig") if snippet.path.exists() else ""
        document = cast("object", json.loads(before)) if before.strip() else dict[str, object]()
    except OSError as failure:
        raise CodeCallError(f"Cannot read {snippet.path}: {failure.strerror}", code="CANNOT_READ") from None
    except ValueError:
        document = None
    known = cast("JsonObject", document) if isinstance(document, dict) else {servers_key: None}
    if not isinstance(known.get(servers_key, JsonObject()), dict):
        raise CodeCallError(
            f"{snippet.path} is not plain JSON, and would lose its comments",
            code="CANNOT_WRITE",
            hint=f"Put this into it with an editor: {json.dumps(entry[servers_key], ensure_ascii=False)}",
        )
    listed = cast("JsonObject", known.get(servers_key, JsonObject()))
    return {**known, servers_key: {**listed, **entry[servers_key]}}, before or None


def _confirm(output: Output, snippet: Snippet, file: EditedFile) -> bool:
    """Show what is written and what is started by it, and ask the person at the terminal."""
    from codecall.cli.prompts import confirm
    from codecall.cli.trust import describe_started

    output.note(f"{snippet.path} gets:", "bold")
    output.note(snippet.text, "")
    output.note(f"The gateway starts what {file.path} says: {describe_started(file.options)}", "")
    return confirm(output, "Write it?", hint="Say --yes.")


def _write(path: Path, text: str, before: str | None) -> Path | None:
    """Write the file; where what it was before is kept, under a name that nothing has."""
    from codecall.files import write_private_file

    path = path.resolve()  # a link, as people have who keep such files elsewhere, stays one
    backup: Path | None = None
    try:
        mode = path.stat().st_mode if before is not None else None
        if before is not None:
            number = next(n for n in range(1, 10_000) if not path.with_name(f"{path.name}.backup-{n}").exists())
            backup = path.with_name(f"{path.name}.backup-{number}")
            write_private_file(backup, before)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_private_file(path, text)
        if mode is not None:
            path.chmod(mode)
    except OSError as failure:
        raise CodeCallError(f"Cannot write {path}: {failure.strerror}", code="CANNOT_WRITE") from None
    return backup
