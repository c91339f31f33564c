"""What a run leaves in files: the pictures, sounds and files that it shows, and its page."""

from __future__ import annotations

import base64
import binascii
import mimetypes
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio.to_thread

from codecall.errors import CodeCallError
from codecall.files import check_plain_file, check_stays_inside, write_private_file

if TYPE_CHECKING:
    from codecall.traces.model import Trace

JsonObject = dict[str, Any]


def check_page_path(path: Path | None) -> None:
    """See before a run that its page can be written to `path`, if it is to have one.

    Raises:
        CodeCallError: there is no such folder, a link leads elsewhere, or it is no plain file.
    """
    if path is None:
        return
    folder = path.absolute().parent
    if not folder.is_dir():
        raise CodeCallError(f"Cannot write {path}: there is no folder {folder}", code="CANNOT_WRITE")
    try:
        check_stays_inside(path.parent)
        with suppress(FileNotFoundError):
            check_plain_file(path, path.lstat())
    except OSError as failure:
        raise CodeCallError(f"Cannot write {path}: {failure.strerror}", code="CANNOT_WRITE") from None


async def write_page(trace: Trace | None, path: Path | None) -> CodeCallError | None:
    """Write the page of a run, if both are there. Returns an error instead of raising it, since the result of the run
    is printed all the same."""
    from codecall.cli.render import write_trace_page

    if trace is None or path is None:
        return None
    try:
        await anyio.to_thread.run_sync(write_trace_page, trace, path)
    except CodeCallError as failure:
        return failure
    return None


def describe_blocks(blocks: Sequence[Any]) -> list[JsonObject]:
    """What each content block is: `type`, `mimeType`, `bytes`, or the `uri` of a link."""
    return [_description(block) for block in blocks]


def write_blocks(blocks: Sequence[Any], folder: Path) -> list[JsonObject]:
    """Write content blocks to numbered files in `folder`, which is created; what each is, with its `file`, or the
    `error` why there is none. Links have none."""
    described = describe_blocks(blocks)
    for number, (block, body) in enumerate(zip(blocks, described, strict=True), start=1):
        if "bytes" not in body:
            continue
        file = folder / f"{number}{mimetypes.guess_extension(body['mimeType']) or '.bin'}"
        try:
            check_stays_inside(folder)
            folder.mkdir(parents=True, exist_ok=True)
            write_private_file(file, _data(block))
        except OSError as failure:
            body["error"] = f"cannot write {file}: {failure.strerror}"
        except binascii.Error:
            body["error"] = "the tool sent what is no base64"
        else:
            body["file"] = str(file)
    return described


def block_note(body: JsonObject) -> str:
    """One line about a content block."""
    what = f"{body['type']} {body.get('uri') or ''}".rstrip()
    size = f", {body['bytes']:,} bytes" if "bytes" in body else ""
    kind = f" ({body['mimeType']}{size})" if "mimeType" in body else ""
    outcome = body.get("file") or body.get("error")
    return f"{what}{kind}{f': {outcome}' if outcome else ''}"


def _description(block: Any) -> JsonObject:
    content = getattr(block, "resource", block)
    body: JsonObject = {"type": block.type}
    if (uri := getattr(content, "uri", None)) is not None:
        body["uri"] = str(uri)
    mime_type = getattr(content, "mime_type", None) or ("text/plain" if hasattr(content, "text") else None)
    encoded = getattr(content, "data", None) or getattr(content, "blob", None)
    text = getattr(content, "text", None)
    if encoded is not None:
        body |= {"mimeType": mime_type or "application/octet-stream", "bytes": len(encoded.rstrip("=")) * 3 // 4}
    elif text is not None:
        body |= {"mimeType": mime_type, "bytes": len(text.encode(errors="replace"))}
    return body


def _data(block: Any) -> bytes:
    """The bytes of a block that is no link."""
    content = getattr(block, "resource", block)
    encoded = getattr(content, "data", None) or getattr(content, "blob", None)
    if encoded is not None:
        return base64.b64decode(encoded)
    return content.text.encode(errors="replace")
