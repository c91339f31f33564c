"""`codecall approvals`: calls that wait for a person's decision, and what has been allowed in advance."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from codecall.cli.arguments import AsJson
from codecall.errors import CodeCallError
from codecall.files import check_stays_inside

if TYPE_CHECKING:
    from codecall.approvals.folder import ApprovalFolder, Verdict

Action = Literal["list", "allow", "allow-session", "deny", "revoke"]


def approvals(
    action: Annotated[Action, Parameter(help="What to do; without it, list.")] = "list",
    /,
    *ids: Annotated[str, Parameter(help="Ids of calls, or of what has been allowed.")],
    folder: Annotated[
        Path | None,
        Parameter(name=("--folder", "-f"), help="The server's `approvals.folder`; else that of `codecall serve`."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List the calls that wait for a decision, and decide; or withdraw what has been allowed in advance.

    A call that is allowed may be made once, or with `allow-session` as often as the session makes it with that input,
    when the client sends the same request again: calls that completed are not made again.
    """
    from codecall.approvals.folder import shell_quoted
    from codecall.approvals.request import source_names
    from codecall.cli.output import Output

    folder = folder and folder.expanduser()
    output, decisions = Output(as_json=as_json), _approval_folder(folder)
    if action == "list":
        pending, grants = decisions.pending(), decisions.grants()
        if as_json:
            output.document({"pending": pending, "grants": grants})
            return
        for call in pending:
            output.row([str(call["id"]), f"{call['tool']} of {call['server']}", "waits"])
            line = f", line {call['line']} of its script" if "line" in call else ""
            output.note(f"Of run {call['runId']}{line}")
            if sources := call.get("sources"):
                output.note(f"It is given what these have returned: {source_names(sources)}")
            for shown in str(call["shown"]).split("\n"):
                output.note(shown, "")
        for grant in grants:
            left = "any number" if grant["calls"] is None else str(grant["calls"])
            output.row([str(grant["id"]), str(grant["tool"]), f"allowed in the {grant['lifetime']}: {left}"])
        if not pending and not grants:
            output.note("No call waits for a decision, and nothing is allowed in advance.")
        return
    if not ids:
        option = f" --folder {shell_quoted(str(folder))}" if folder is not None else ""
        raise CodeCallError(f"{action}: which? `codecall approvals{option}` lists the ids", code="USAGE")
    verdicts: dict[str, Verdict] = {"allow": "once", "allow-session": "session", "deny": "deny"}
    done: list[dict[str, Any]] = []
    for each in ids:
        found = decisions.revoke(each) if action == "revoke" else decisions.decide(each, verdicts[action])
        if not found:
            raise CodeCallError(f"There is no {each} to {action}", code="NOT_FOUND")
        done.append({"id": each, "action": action})
        output.note(f"{each}: {action}")
    if as_json:
        output.document({"done": done})


def _approval_folder(folder: Path | None) -> ApprovalFolder:
    """The folder that is named, or that of `codecall serve`.

    Raises:
        CodeCallError: there is none, or a link leads out of the working directory to it.
    """
    from codecall.approvals.folder import ApprovalFolder, default_folder

    if folder is None:
        return ApprovalFolder(default_folder())
    if not folder.is_dir():
        raise CodeCallError(
            f"There is no folder {folder}",
            code="CANNOT_READ",
            hint="Name the server's `approvals.folder`; it is made when the first call waits.",
        )
    try:
        check_stays_inside(folder)
    except OSError as failure:
        raise CodeCallError(f"Cannot read {folder}: {failure.strerror}", code="CANNOT_READ") from None
    return ApprovalFolder(folder)
