"""A stand-in for `@modelcontextprotocol/server-memory`, with those of its tools that the workflow calls: for machines
without Node."""

from __future__ import annotations

from fastmcp import FastMCP
from pydantic import BaseModel


class Entity(BaseModel):
    """A node of the graph."""

    name: str
    entityType: str  # noqa: N815 - the server's spelling
    observations: list[str]


class Relation(BaseModel):
    """An edge of the graph, in active voice."""

    from_: str
    to: str
    relationType: str  # noqa: N815

    model_config = {"alias_generator": lambda name: name.rstrip("_"), "populate_by_name": True}


mcp = FastMCP("memory")
_entities: dict[str, Entity] = {}
_relations: list[Relation] = []


@mcp.tool
def create_entities(entities: list[Entity]) -> dict[str, list[Entity]]:
    """Create multiple new entities in the knowledge graph."""
    new = [entity for entity in entities if entity.name not in _entities]
    _entities.update((entity.name, entity) for entity in new)
    return {"entities": new}


@mcp.tool
def create_relations(relations: list[Relation]) -> dict[str, int]:
    """Create multiple new relations between entities in the knowledge graph."""
    _relations.extend(relations)
    return {"created": len(relations)}


@mcp.tool
def open_nodes(names: list[str]) -> dict[str, object]:
    """Open specific nodes in the knowledge graph by their names."""
    return {
        "entities": [_entities[name] for name in names if name in _entities],
        "relations": [each for each in _relations if each.from_ in names or each.to in names],
    }


if __name__ == "__main__":
    mcp.run(show_banner=False)
