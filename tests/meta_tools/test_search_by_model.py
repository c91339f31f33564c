"""`embedding={"strategy": "model"}`: candidates by words, chosen by the client's model; words alone where it cannot."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from fastmcp import Client, FastMCP
from mcp_types import InputRequiredResult

from codecall import CodeCallPlugin, OptionsError
from tests.approvals.conftest import Raw

pytestmark = pytest.mark.anyio

TOOLS = {
    "users:list": "List the users of the company.",
    "users:remove": "Remove a user.",
    "mail:send": "Send a letter to somebody.",
    "mail:read": "Read a letter.",
}
MODES = pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])


class Model:
    """Answers with the numbers of the tools of these names, or with a text."""

    def __init__(self, *answers: Sequence[str] | str) -> None:
        self.answers = answers
        self.prompts: list[str] = []

    async def answer(self, messages: Sequence[Any], _params: Any, _context: Any) -> str:
        """FastMCP's `sampling_handler`."""
        prompt = messages[0].content.text
        self.prompts.append(prompt)
        if isinstance(self.answers[0], str):
            return self.answers[0]
        listed = prompt.partition("Tools:\n")[2].splitlines()
        number_of = {
            json.loads(line.partition(" ")[2]).partition(": ")[0]: number for number, line in enumerate(listed, 1)
        }
        return json.dumps(
            {str(number): [number_of[name] for name in names] for number, names in enumerate(self.answers, 1)}
        )


def server(**more: Any) -> FastMCP[Any]:
    """A server that searches with the client's model."""
    made = FastMCP[Any]("office")
    for name, about in TOOLS.items():
        made.tool(lambda: None, name=name, description=about)
    options: dict[str, Any] = {"pool": {"min_workers": 0}, "embedding": {"strategy": "model"}}
    return CodeCallPlugin.init(**options | more).install(made)


async def search(model: Model | None, mode: str, query: Any, **arguments: Any) -> dict[str, Any]:
    """The answer of one search."""
    handler = model.answer if model is not None else None
    async with Client(server(), mode=mode, sampling_handler=handler) as client:
        result = await client.call_tool("codecall:search", {"query": query, **arguments})
    assert result.structured_content is not None
    return result.structured_content


def names(answer: dict[str, Any]) -> list[str]:
    """The tools of an answer."""
    return [tool["name"] for tool in answer["tools"]]


@MODES
async def test_the_clients_model_chooses(mode: str) -> None:
    model = Model(["mail:read", "users:list"])
    answer = await search(model, mode, "fire an employee")
    assert names(answer) == ["mail:read", "users:list"]
    assert "warnings" not in answer
    assert model.prompts[0].startswith('Tasks:\n1. "fire an employee"\n\nTools:\n1. ')


async def test_each_query_has_its_own_choice_and_filters_hold() -> None:
    model = Model(["users:remove"], ["mail:send"])
    query = ["fire somebody", "write to somebody"]
    answer = await search(model, "legacy", query, excludeToolNames=["mail:read"])
    assert sorted(names(answer)) == ["mail:send", "users:remove"]
    assert "mail:read" not in model.prompts[0]


@MODES
async def test_without_a_model_words_choose_with_a_warning(mode: str) -> None:
    answer = await search(None, mode, "read a letter")
    assert names(answer)[0] == "mail:read"
    assert answer["warnings"] == ["Chosen by words alone: this client does not offer its model (MCP sampling)."]


@pytest.mark.parametrize("said", ["I think number 3", "[1]", '{"1": "mail:read"}', '{"1": [99, 0, -1, "x"]}', "{}"])
async def test_an_answer_that_is_none_leaves_the_choice_to_words(said: str) -> None:
    answer = await search(Model(said), "legacy", "read a letter")
    assert names(answer)[0] == "mail:read"
    assert answer["warnings"][0].startswith("Chosen by words alone: the client's model ")


async def test_an_overview_asks_no_model() -> None:
    model = Model("{}")
    await search(model, "legacy", "")
    assert model.prompts == []


async def test_the_strategy_is_no_matter_of_a_reload() -> None:
    plugin = CodeCallPlugin.init(pool={"min_workers": 0})
    with pytest.raises(OptionsError, match="embedding: cannot be changed by a reload"):
        await plugin.reload(embedding={"strategy": "model"})


async def test_searches_that_wait_for_the_clients_model_share_the_bound_of_runs() -> None:
    office = server(approvals={"rules": [], "max_waiting": 2})
    async with Client(office, mode="2026-07-28", sampling_handler=Model("{}").answer) as client:
        raw = Raw(client, "codecall:search")
        asked = [await raw.ask({"query": f"letter {number}"}) for number in range(3)]
    assert [isinstance(answer, InputRequiredResult) for answer in asked] == [True, True, False]
    assert "Chosen by words alone: 2 runs wait for an answer already." in asked[2]["warnings"]
