"""The content blocks that the calls of one request have returned: pictures, sounds, files, links.

Their bytes stay in the server process, untouched. A script gets a small object in place of each, with its `ref`; where
that object stands in the input of a later call, the tool gets the content, and blocks that the script returns or shows
become blocks of the answer. A reference is a keyed hash of its block: the same in every run of the same caller, so that
`resumeFrom` knows a call by its input, and of use only while the run that got the block lasts. What looks like one and
names no block of this run is data like any other.
"""

from __future__ import annotations

import asyncio
import binascii
import hashlib
import re
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from copy import copy
from functools import partial
from typing import Final, NamedTuple, Self, TypeAlias, cast

import anyio.to_thread
from mcp_types import (
    AudioContent,
    BlobResourceContents,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
)

from codecall.calls.interfaces import ResolvedInput
from codecall.catalog.entries import CatalogEntry, JsonObject
from codecall.concurrency import Pauses, ThreadLimit
from codecall.jsonio.decode import estimate_size
from codecall.presets import Preset
from codecall.quota import text_bytes
from codecall.sandbox.interfaces import BLOCK_REFERENCE
from codecall.schema.model import SchemaNode

MAX_NAMED: Final = 5
"""Tools that one warning names."""

MAX_INLINE_BYTES: Final = 128 * 1024
"""Size of a block that is hashed and written on the event loop, in about a millisecond; a larger one is in a thread."""

BYTES_PER_VALUE: Final = 64
"""What each value and each name in a block's `_meta` counts, besides its characters: an empty object in memory is no
less."""

WINDOW: Final = 64 * 1024
"""Characters of a result that are searched for references in one go."""

_PIECE_CHARS: Final = 4 * 64 * 1024
"""Characters of base64 that are decoded in one call, with what those bytes become."""

_SUMMARIZING: Final = ThreadLimit("codecall_block_summaries", 1)

_DEFAULT_MIME_TYPE: Final = "application/octet-stream"
_MIME_NAME: Final = r"[A-Za-z0-9][A-Za-z0-9!#$&^_.+-]{0,126}"
_MIME_TYPE: Final = re.compile(rf"{_MIME_NAME}/{_MIME_NAME}")
"""The form of a type (RFC 6838), in which no sentence fits."""
_MIME_PARAMETERS: Final = re.compile(r"(;[A-Za-z0-9_-]{1,20}=[A-Za-z0-9_.+-]{1,40}){0,4}")
"""Parameters of one that need no quotes, and in which no digest fits."""
_MIME_CHARS: Final = 1_000
"""More than one of that form has."""
_REFERENCE_CHARS: Final = 46
_HANDLE_KEYS: Final = frozenset({"type", "mimeType", "bytes", "uri", "name", "text", "ref"})
_DATA_URI_END: Final = ";base64,"
_URI_FORMATS: Final = ("uri", "uri-reference", "iri")


class BlockLimits(NamedTuple):
    """How much one request may hold; the first two fields are those of a preset."""

    max_content_blocks: int
    max_content_bytes: int
    passed_bytes: int

    @classmethod
    def from_preset(cls, preset: Preset) -> Self:
        """The limits that a preset states."""
        return cls(preset.max_content_blocks, preset.max_content_bytes, preset.reference_passed_bytes)


class BlocksTooLargeError(Exception):
    """A result has more content blocks, or larger ones, than there is room for; the text says so after "returned"."""


class BlockInputError(Exception):
    """The input of a call has content blocks where or as often as they may not be; the text says so after "input"."""


class BlockKeeper:
    """Keeps the content blocks of one result, all that are no text, for the answer of `codecall:invoke`.

    Args:
        limits: how much there may be.
    """

    def __init__(self, limits: BlockLimits) -> None:
        self.limits = limits
        self.size = 0
        """Size of all that is kept."""
        self.blocks: list[ContentBlock] = []

    async def keep(self, blocks: Sequence[ContentBlock]) -> list[str | None]:
        """Keep the blocks of a result; their references, of which there are none.

        Raises:
            BlocksTooLargeError: there is no room for one.
        """
        for block in blocks:
            if not isinstance(block, TextContent):
                await self._append(block)
        return [None] * len(blocks)

    async def add_unreferenced(self, blocks: Sequence[ContentBlock], entry: CatalogEntry) -> None:  # noqa: ARG002
        """Add the blocks that a tool's result has beside structured content, texts too: nothing refers to them.

        Raises:
            BlocksTooLargeError: there is no room for one.
        """
        for block in blocks:
            await self._append(block)

    async def resolve(self, arguments: dict[str, object], schema: JsonObject) -> ResolvedInput:  # noqa: ARG002
        """The input as it is: one of `codecall:invoke` has no references."""
        return ResolvedInput(arguments, arguments)

    async def _append(self, block: ContentBlock) -> None:
        self._admit(block, await self._measure(block), len(self.blocks))
        self.blocks.append(block)

    async def _measure(self, block: ContentBlock) -> int:
        """The size of a block with all that it carries.

        Raises:
            BlocksTooLargeError: there is no room for it even if it is the only one.
        """
        limit, quick_limit = self.limits.max_content_bytes, len(_payload(block)) + MAX_INLINE_BYTES
        size = _size(block, min(limit, quick_limit))
        if quick_limit < size <= limit:  # of more than the limit it is some number above
            size = await anyio.to_thread.run_sync(_size, block, limit)
        if size > limit:
            raise self._no_room_error(block, size)
        return size

    def _admit(self, block: ContentBlock, size: int, count: int) -> None:
        if count >= self.limits.max_content_blocks:
            raise BlocksTooLargeError(f"more than {self.limits.max_content_blocks} content blocks, which is the limit")
        if self.size + size > self.limits.max_content_bytes:
            raise self._no_room_error(block, size)
        self.size += size

    def _no_room_error(self, block: ContentBlock, size: int) -> BlocksTooLargeError:
        return BlocksTooLargeError(
            f"a content block ({block.type}) of at least {size} bytes with all that it carries; all together may "
            f"have {self.limits.max_content_bytes}, of which {self.size} are used"
        )


def _names(tools: Iterable[str]) -> str:
    named = list(tools)
    more = f" and {len(named) - MAX_NAMED} more" if len(named) > MAX_NAMED else ""
    return f"{', '.join(named[:MAX_NAMED])}{more}"


def _advice(tools: Mapping[str, bool], purpose: str) -> str:
    """How to get what a script did not get: a second call of a tool that changes something would do so twice."""
    reading = [name for name, only_reads in tools.items() if only_reads]
    changing = [name for name, only_reads in tools.items() if not only_reads]
    advice = f"Call {_names(reading)} without a script {purpose}." if reading else ""
    if changing:
        advice += f"{' ' * bool(reading)}Do not call {_names(changing)} again for it: that may do its work twice."
    return advice


class BlockStore(BlockKeeper):
    """The content blocks that one script has got, by reference.

    Args:
        limits: how much there may be.
        key: of the caller; part of each reference.
    """

    def __init__(self, limits: BlockLimits, key: str) -> None:
        super().__init__(limits)
        self._key = key.encode()[:64]
        self._blocks: dict[str, ContentBlock] = {}
        self._sizes: dict[str, int] = {}
        self._summaries: dict[str, str] = {}
        """What a person is shown in place of the data of each block that was passed on."""
        self._passed_bytes = 0
        self._unreferenced = 0
        """Blocks with data that no script has seen, since they stood beside structured content."""
        self._tools_with_unreferenced: dict[str, bool] = {}
        """The tools that have returned those, and whether they change nothing."""
        self._tools_with_unreferenced_texts: dict[str, bool] = {}
        """The same of texts that say something of their own."""

    # ------------------------------------------------------------------------------------------------- storing

    async def keep(self, blocks: Sequence[ContentBlock]) -> list[str | None]:
        """Keep the blocks of a result; their references. None of a text or a link that there is no room for: what the
        script sees of it is all of it.

        Raises:
            BlocksTooLargeError: there is no room for a block with data.
        """
        references: list[str | None] = []
        pauses = Pauses(every=10)
        for block in blocks:
            await pauses.count()
            references.append(await self._keep(block))
        return references

    async def add_unreferenced(self, blocks: Sequence[ContentBlock], entry: CatalogEntry) -> None:
        """Count the blocks that a result has beside structured content, which is its value for scripts."""
        only_reads = entry.annotations.get("readOnlyHint") is True
        if data := sum(map(is_data, blocks)):
            self._unreferenced += data
            self._tools_with_unreferenced[entry.name] = only_reads
        if any(isinstance(block, TextContent) for block in blocks):
            self._tools_with_unreferenced_texts[entry.name] = only_reads

    def warnings(self) -> list[str]:
        """The warnings for a script about blocks that it did not get."""
        warnings: list[str] = []
        if count := self._unreferenced:
            blocks = "1 picture, sound or file" if count == 1 else f"{count} pictures, sounds or files"
            advice = _advice(self._tools_with_unreferenced, "for both")
            warnings.append(f"Tools returned {blocks} beside structured values; scripts get the value alone. {advice}")
        if self._tools_with_unreferenced_texts:
            advice = _advice(self._tools_with_unreferenced_texts, "to read it")
            warnings.append(
                "Text that says more than the structured value beside it did not reach the script: "
                f"of {_names(self._tools_with_unreferenced_texts)}. {advice}"
            )
        return warnings

    async def _keep(self, block: ContentBlock) -> str | None:
        try:
            size = await self._measure(block)
            if size > MAX_INLINE_BYTES:
                reference = await anyio.to_thread.run_sync(self._reference, block)
            else:
                reference = self._reference(block)
            if reference not in self._blocks:
                self._admit(block, size, len(self._blocks))
                self._blocks[reference], self._sizes[reference] = block, size
        except BlocksTooLargeError:
            if is_data(block):
                raise
            return None
        return reference

    def _reference(self, block: ContentBlock) -> str:
        """The reference of a block: a hash of all that it is made of."""
        hashed = hashlib.blake2b(_without_payload(block), digest_size=20, key=self._key)
        hashed.update(_payload(block).encode("utf-8", "surrogatepass"))
        return f"block:{hashed.hexdigest()}"

    # ------------------------------------------------------------------------------------------------- looking up

    def knows(self, reference: str) -> bool:
        """See `BlockStorage.knows`."""
        return reference in self._blocks

    def data(self, reference: str) -> str | None:
        """The base64 of the block with this reference; None where it has none, or there is none."""
        block = self._blocks.get(reference)
        return _payload(block) if block is not None and is_data(block) else None

    async def in_result(self, text: str) -> list[str]:
        """See `BlockStorage.in_result`."""
        found = {
            reference: None
            async for reference in _references(text)
            if (block := self._blocks.get(reference)) is not None
            and (is_data(block) or isinstance(block, ResourceLink))
        }
        return list(found)

    def content(self, references: Iterable[str]) -> list[ContentBlock]:
        """The blocks with these references, as they are."""
        return [self._blocks[reference] for reference in references if reference in self._blocks]

    # ------------------------------------------------------------------------------------------------- passing on

    async def resolve(self, arguments: dict[str, object], schema: JsonObject) -> ResolvedInput:
        """The input of a call with the content of blocks in place of what stands for them. What a place gets is
        decided by the tool's schema: the block itself where it asks for an object or says nothing, a `data:` URI where
        it asks for a URI, else the text or base64 of the block.

        Args:
            arguments: the input, which is not changed.
            schema: the tool's input schema.

        Raises:
            BlockInputError: there may not be so many, or not like that.
        """
        size, pauses = 0, Pauses()
        slots: list[tuple[_Slot, _Found]] = []
        pending: list[tuple[object, _Path]] = [(arguments, ())]
        while pending:
            container, path = pending.pop()
            for slot in _slots(container, path):
                if (found := self._find(slot.value)) is not None:
                    slots.append((slot, found))
                    size += self._sizes[found.reference]
                    if size > self.limits.max_content_bytes:
                        limit = self.limits.max_content_bytes
                        raise BlockInputError(f"has content blocks of more than {limit} bytes")
                elif isinstance(slot.value, dict | list):
                    pending.append((cast("object", slot.value), slot.path))
                await pauses.count()
        if self._passed_bytes + size > self.limits.passed_bytes:
            raise BlockInputError(
                f"has content blocks of {size} bytes; all calls of a script together may have "
                f"{self.limits.passed_bytes}, of which {self._passed_bytes} are used"
            )
        self._passed_bytes += size
        return await self._with_content(arguments, slots, SchemaNode(schema))

    async def _with_content(
        self, arguments: dict[str, object], slots: Sequence[tuple[_Slot, _Found]], root: SchemaNode
    ) -> ResolvedInput:
        """The input with the content of blocks in these slots."""
        if not slots:
            return ResolvedInput(arguments, arguments)
        sent, shown, data = _PartCopy(arguments), _PartCopy(arguments), list[tuple[str, str]]()
        objects: dict[str, JsonObject] = {}
        """Each block as an object, written once however many places have it."""
        pauses = Pauses()
        for slot, found in slots:
            place, visible = _place(root, slot.path), None
            if is_data(found.block):
                visible = await self._summarized(found)
                data.append((repr(slot.path), found.reference))
            if found.prefix is None and place.kind != "string" and found.reference not in objects:
                objects[found.reference] = await self._written(found)
            for target, text in ((sent, None), (shown, visible)):
                written = objects.get(found.reference, {})
                target.put(slot.path, _as_schema_asks(found, written, place, slot.path, text))
            await pauses.count()
        return ResolvedInput(sent.root, shown.root, tuple(data))

    async def _written(self, found: _Found) -> JsonObject:
        """A block as an object."""
        write = partial(found.block.model_dump, mode="json", by_alias=True, exclude_none=True)
        if self._sizes[found.reference] > MAX_INLINE_BYTES:
            return await anyio.to_thread.run_sync(write)
        await asyncio.sleep(0)
        return write()

    async def _summarized(self, found: _Found) -> str:
        """What a person is shown in place of a block's data."""
        reference = found.reference

        def summarize() -> None:
            if reference not in self._summaries:  # another call may have waited for the thread with the same block
                self._summaries[reference] = _summary(found.block)

        if self._sizes[reference] <= MAX_INLINE_BYTES:
            summarize()
        elif reference not in self._summaries:
            await anyio.to_thread.run_sync(summarize, limiter=_SUMMARIZING.limiter())
        return self._summaries[reference]

    def _find(self, value: object) -> _Found | None:
        """The block that a value of an input stands for, if it does."""
        if isinstance(value, str):
            if "block:" not in value or not any(match[0] in self._blocks for match in BLOCK_REFERENCE.finditer(value)):
                return None
            prefix, block = value[:-_REFERENCE_CHARS], self._blocks.get(value[-_REFERENCE_CHARS:])
            if block is not None and (not prefix or (prefix.startswith("data:") and prefix.endswith(_DATA_URI_END))):
                return _Found(block, prefix, value[-_REFERENCE_CHARS:])
            raise BlockInputError("has the reference of a content block inside a longer text, where it means nothing")
        if not isinstance(value, dict):
            return None
        members = cast("dict[str, object]", value)
        reference = members.get("ref")
        block = self._blocks.get(reference) if isinstance(reference, str) else None
        if block is None or not isinstance(reference, str):
            return None
        if own := members.keys() - _HANDLE_KEYS:
            raise BlockInputError(f"has a content block with a member of its own, '{min(own):.100}'")
        return _Found(block, None, reference)


class _Found(NamedTuple):
    block: ContentBlock
    prefix: str | None
    """What stands before its content in a text; None for an object, of which the schema decides."""
    reference: str


_Path: TypeAlias = tuple[str | int, ...]


class _Slot(NamedTuple):
    """Where a value stands in an input."""

    value: object
    path: _Path


def _slots(container: object, path: _Path) -> Iterator[_Slot]:
    """The values in a part of an input."""
    items = cast("dict[str | int, object]", container)
    pairs = items.items() if isinstance(container, dict) else enumerate(cast("list[object]", container))
    for key, value in pairs:
        yield _Slot(value, (*path, key))


class _PartCopy:
    """A copy of an input of which only what is changed is copied.

    Args:
        arguments: The input.
    """

    def __init__(self, arguments: dict[str, object]) -> None:
        self.root = dict(arguments)
        self._copies: dict[_Path, dict[str | int, object]] = {(): cast("dict[str | int, object]", self.root)}
        """An array is written to by number as an object is by name."""

    def put(self, path: _Path, value: object) -> None:
        """Put a value where `path` leads."""
        container = self._copies[()]
        for length in range(1, len(path)):
            inner = self._copies.get(path[:length])
            if inner is None:
                inner = copy(cast("dict[str | int, object]", container[path[length - 1]]))
                self._copies[path[:length]] = container[path[length - 1]] = inner
            container = inner
        container[path[-1]] = value


async def _references(text: str) -> AsyncIterator[str]:
    """What looks like a reference in `text`, each as often as it is there."""
    for start in range(0, len(text), WINDOW):
        if start:
            await asyncio.sleep(0)
        for match in BLOCK_REFERENCE.finditer(text, start, start + WINDOW + _REFERENCE_CHARS - 1):
            yield match[0]


def is_data(block: ContentBlock) -> bool:
    """Whether a block has bytes that its description does not have."""
    if isinstance(block, EmbeddedResource):
        return isinstance(block.resource, BlobResourceContents)
    return isinstance(block, ImageContent | AudioContent)


def _payload(block: ContentBlock) -> str:
    """What a block is about: its base64, its text, or its URI."""
    if isinstance(block, ImageContent | AudioContent):
        return block.data
    if isinstance(block, ResourceLink):
        return str(block.uri)
    if isinstance(block, TextContent):
        return block.text
    return block.resource.blob if isinstance(block.resource, BlobResourceContents) else block.resource.text


def _size(block: ContentBlock, limit: int) -> int:
    """What a block has with all that it carries, at least; of more than `limit`, some number above."""
    return estimate_size(block, limit, BYTES_PER_VALUE, _text_size)


def _text_size(text: str) -> int:
    return len(text) if text.isascii() else text_bytes(text)


def _without_payload(block: ContentBlock) -> bytes:
    """All of a block but its content; all of a link."""
    return repr(_with_payload(block, "").model_dump(mode="json", exclude_none=True)).encode("utf-8", "surrogatepass")


def _with_payload(block: ContentBlock, payload: str) -> ContentBlock:
    """A block with other content; a link as it is."""
    if isinstance(block, ImageContent | AudioContent):
        return block.model_copy(update={"data": payload})
    if isinstance(block, TextContent):
        return block.model_copy(update={"text": payload})
    if isinstance(block, EmbeddedResource):
        field = "blob" if isinstance(block.resource, BlobResourceContents) else "text"
        return block.model_copy(update={"resource": block.resource.model_copy(update={field: payload})})
    return block


def _summary(block: ContentBlock) -> str:
    """What a person is shown in place of a block's data."""
    payload = _payload(block)
    try:
        size, digest = _digest(_decoded(payload))
    except ValueError:  # no base64
        size, digest = _digest(piece.encode("utf-8", "surrogatepass") for piece in _pieces(payload))
    return f"{_shown_type(block)}, {size:,} bytes, SHA-256 {digest}"


def _digest(pieces: Iterable[bytes]) -> tuple[int, str]:
    hashed, size = hashlib.sha256(), 0
    for piece in pieces:
        hashed.update(piece)
        size += len(piece)
    return size, hashed.hexdigest()


def _pieces(text: str) -> Iterator[str]:
    """A text in pieces, each of which is base64 where the text is."""
    return (text[start : start + _PIECE_CHARS] for start in range(0, len(text), _PIECE_CHARS))


def _decoded(payload: str) -> Iterator[bytes]:
    """The bytes of base64.

    Raises:
        ValueError: it is none.
    """
    padding = payload.find("=")
    if 0 <= padding < len(payload) - 2:
        raise ValueError("there is something behind the padding")
    return (binascii.a2b_base64(piece, strict_mode=True) for piece in _pieces(payload))


def _mime_type(block: ContentBlock) -> str:
    """The type of a block's bytes."""
    found = block.resource.mime_type if isinstance(block, EmbeddedResource) else getattr(block, "mime_type", None)
    return str(found or _DEFAULT_MIME_TYPE)


def _shown_type(block: ContentBlock) -> str:
    """The same for a person: the server has written it, and may have written anything."""
    name, *parameters = _mime_type(block).split(";", 1)
    return f"{name}{' with parameters' * len(parameters)}" if _MIME_TYPE.fullmatch(name) else "no valid MIME type"


def _uri_type(block: ContentBlock) -> str:
    """The same for a URI, of which it is one part: without what has not the form of it."""
    name, *parameters = re.sub(r"\s", "", _mime_type(block)[:_MIME_CHARS]).split(";", 1)
    if not _MIME_TYPE.fullmatch(name):
        return _DEFAULT_MIME_TYPE
    behind = "".join(f";{each}" for each in parameters)
    return f"{name}{behind}" if _MIME_PARAMETERS.fullmatch(behind) else name


def _place(node: SchemaNode, path: _Path) -> SchemaNode:
    """The schema of the value at `path`."""
    for step in path:
        if isinstance(step, int):
            node = node.items
        else:
            node = node.properties.get(step) or node.at(node.body.get("additionalProperties"))
    return node


def _as_schema_asks(found: _Found, written: JsonObject, node: SchemaNode, path: _Path, text: str | None) -> object:
    """The content of a block in the form that its place in the input asks for.

    Args:
        found: the block.
        written: the same as an object, where the place asks for that.
        node: the schema of the place.
        path: of the place.
        text: stands in place of its data, if given.
    """
    block, payload = found.block, _payload(found.block) if text is None else text
    if found.prefix is not None:
        return found.prefix + payload
    if node.kind != "string":
        return _with_data(written, payload) if is_data(block) else dict(written)
    name = next((step for step in reversed(path) if isinstance(step, str)), "").lower()
    wants_uri = node.body.get("format") in _URI_FORMATS or name.endswith(("url", "uri"))
    if wants_uri and is_data(block):
        return f"data:{_uri_type(block)}{_DATA_URI_END}{payload}"
    return payload


def _with_data(written: JsonObject, data: str) -> JsonObject:
    """A copy of a block that is written as an object, with this data. What else it holds is the same."""
    if "resource" in written:
        return {**written, "resource": {**cast("JsonObject", written["resource"]), "blob": data}}
    return {**written, "data": data}
