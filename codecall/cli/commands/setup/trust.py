"""`codecall trust`: which configurations of folders may decide what is started."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from codecall.cli import exit_codes as exits
from codecall.cli.arguments import CONFIG_FILES, AsJson
from codecall.errors import CodeCallError

if TYPE_CHECKING:
    from codecall.cli.output import Output


def trust(
    path: Annotated[Path, Parameter(help="A configuration, or a folder with one; this folder.")] = Path(),
    /,
    *,
    list_: Annotated[bool, Parameter(name="--list", negative="", help="Show what is trusted.")] = False,
    remove: Annotated[bool, Parameter(negative="", help="Trust it no longer.")] = False,
    as_json: AsJson = False,
) -> int:
    """Trust the configuration of a folder: commands then use it without --config, until it changes.

    A configuration decides which programs are started and which secrets go where; look at it first.
    """
    from codecall.cli.output import Output
    from codecall.cli.trust import describe_started, remove_trust
    from codecall.cli.trust import trust as trust_file
    from codecall.gateway.config.load import read_config

    output = Output(as_json=as_json)
    if list_:
        _list(output)
        return exits.OK
    file = _file(path)
    try:
        if remove:
            if not remove_trust(file):
                raise CodeCallError(f"{file} is not trusted", code="NOT_FOUND", hint="`codecall trust --list`")
            detail = "is not trusted any more"
        else:
            configuration = read_config(file, discovered=True)
            trust_file(file, configuration)
            detail = f"is trusted: {describe_started(configuration.options)}"
    except OSError as failure:
        raise CodeCallError(f"Cannot record it: {failure.strerror or failure}", code="CANNOT_WRITE") from None
    if as_json:
        output.document({"path": str(file), "trusted": not remove})
    else:
        output.line(f"{file} {detail}")
    return exits.OK


def _file(path: Path) -> Path:
    """The configuration that is meant by a file or folder. One that is gone may still be named, to be removed."""
    path = path.expanduser().absolute()
    if not path.is_dir():
        return path
    for name in CONFIG_FILES:
        if (path / name).is_file():
            return path / name
    raise CodeCallError(
        f"There is no {CONFIG_FILES[0]} in {path}", code="NO_CONFIGURATION", hint="Name the file itself."
    )


def _list(output: Output) -> None:
    from codecall.cli.output import Column
    from codecall.cli.trust import trust_records

    records = [*trust_records()]
    if output.as_json:
        output.document({"trusted": [{"path": str(record.file), "state": record.state} for record in records]})
    else:
        output.table([Column("file"), Column("state")], [(str(record.file), record.state) for record in records])
