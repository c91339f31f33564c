"""`codecall remove`: a server less in the configuration."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from codecall.cli import exit_codes as exits
from codecall.cli.arguments import AsJson, EditedConfig
from codecall.errors import CodeCallError


def remove(
    name: Annotated[str, Parameter(help="The server.")],
    /,
    *,
    config: EditedConfig = None,
    as_json: AsJson = False,
) -> int:
    """Take a server out of the configuration, with the comments on it. The rest of the file stays as it is."""
    from codecall.cli.commands.setup.config_file import edited_file, save_edit
    from codecall.cli.output import Output
    from codecall.gateway.config.codecall_toml import remove_server

    output = Output(as_json=as_json)
    file = edited_file(config)
    if name not in file.options.servers:
        known = ", ".join(file.options.servers) or "none"
        raise CodeCallError(f"{file.path} has no server {name}; it has: {known}", code="NOT_FOUND")
    text = remove_server(file.text, name)
    if text is None:
        hint = f"Take {name} out of {file.path} with an editor."
        raise CodeCallError(f"{name} has no table [servers.{name}] of its own", code="CANNOT_WRITE", hint=hint)
    save_edit(file, text)
    if as_json:
        output.document({"path": str(file.path), "removed": name})
    else:
        output.line(f"removed {name} from {file.path}")
    return exits.OK
