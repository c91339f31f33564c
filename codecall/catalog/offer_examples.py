"""Usage examples of resources, templates and prompts: the author's own, then one that is made.

A made script is valid AgentScript under every preset, whatever URIs, names and schemas hold.
"""

from __future__ import annotations

import re

from codecall.catalog.entries import CatalogEntry, Example
from codecall.catalog.literals import literal, member, quoted
from codecall.catalog.samples import Sampler
from codecall.catalog.schema import Schema

_VARIABLE = re.compile(r"\{([^{}]+)\}")


def offer_examples(entry: CatalogEntry, *, limit: int = 5) -> list[Example]:
    """Up to `limit` examples of what is no tool: the author's as they are, then a made one if there is a place left."""
    found = list(entry.examples[: max(0, limit)])
    if len(found) < limit:
        found.append(_MAKERS[entry.kind](entry))
    return found


def _resource(entry: CatalogEntry) -> Example:
    return Example("Read it", f"return await readResource({quoted(entry.name)});")


def _template(entry: CatalogEntry) -> Example:
    arguments = _sampled(entry)
    uri: list[str] = []
    for place, part in enumerate(_VARIABLE.split(entry.name)):
        if place % 2 == 0:
            uri += [quoted(part)] if part else []
        elif not part.startswith("?"):  # what stands in the query may be left out
            name = part.removesuffix("*").replace("-", "_")
            arguments.setdefault(name, "example")
            encode = "encodeURI" if part.endswith("*") else "encodeURIComponent"
            uri.append(f"{encode}({member('values', name)})")
    lines = (f"const values = {literal(arguments)};", f"return await readResource({' + '.join(uri)});")
    return Example("Spell a URI that fits, and read it", "\n".join(lines))


def _prompt(entry: CatalogEntry) -> Example:
    lines = (
        f"const {{ messages }} = await getPrompt({quoted(entry.name)}, {literal(_sampled(entry))});",
        "return messages.map((message) => message.content);",
    )
    return Example("Get the texts of its messages", "\n".join(lines))


def _sampled(entry: CatalogEntry) -> dict[str, object]:
    schema = Schema(entry.input_schema)
    return dict(Sampler().object(schema, schema.required))


_MAKERS = {"resource": _resource, "template": _template, "prompt": _prompt}
