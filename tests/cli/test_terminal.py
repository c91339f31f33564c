"""Every command on a terminal of 80 columns: nothing is wider, no word is broken, and nothing is said twice."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from fastmcp import Client, FastMCP
from fastmcp.exceptions import ToolError
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from codecall import CodeCallPlugin, JsonLinesSink
from codecall.cli.app import COMMANDS
from codecall.cli.layout import break_command, break_text, format_typescript
from tests.cli.conftest import LISTED
from tests.cli.terminal import on_terminal

WIDE = 600
DRAWN = re.compile(r"[…│├└─╭╮╰╯█▏▎▍▌▋▊▉✓✗!→^\\]+")

RUN = f"run_{'0123456789abcdef' * 2}"
SAID = [
    ("trust",),
    ("doctor",),
    ("tools",),
    ("tools", "--all"),
    ("tools", "nosuch"),
    ("tools", "--config", "no-such-file.toml"),
    ("search", "list of orders"),
    ("search",),
    ("search", "--detail", "full", "orders"),
    ("search", "--detail", "typescript", "orders"),
    ("describe", "shop_list_orders", "nosuch"),
    ("describe", "--typescript", "shop_list_orders"),
    ("savings",),
    ("refresh",),
    ("run", "good.js"),
    ("run", "any.js"),
    ("run", "bad.js"),
    ("run", "--nonsense"),
    ("check", "good.js", "bad.js"),
    ("policy",),
    ("policy", "while"),
    ("presets",),
    ("presets", "secure", "balanced", "--differing"),
    ("init",),
    ("init", "--dry-run"),
    ("init", "--yes", "--force", "-o", "other.toml"),
    ("trust", "--list"),
    ("trace", "nothing.jsonl"),
    ("approvals",),
    ("approvals", "allow", "nosuch"),
    ("composite", "list"),
    ("composite", "check"),
    ("composite", "run", "tell_a_person", "--dry-run", "--param", "text=a"),
    ("composite", "run", "tell_a_person"),
    ("composite", "run", "nosuch"),
    ("trace", "runs.jsonl"),
    ("trace", "runs.jsonl", "--run", RUN),
    ("promote", RUN, "--records", "runs.jsonl", "--name", "all_orders", "--parameter", "text=the orders"),
    ("promote", RUN, "--records", "runs.jsonl", "--name", "other_orders", "--parameter", "text=nosuch"),
    ("clients",),
    ("clients", "write", "--yes"),
    # These change the configuration: last.
    ("add", "more", "--", "uvx", "a-server", "--with", "an-extension-of-it", "--repository", "a/folder/of/some/length"),
    ("add", "more", "https://example.com/mcp"),
    ("add", "some.thing", "nothing"),
    ("remove", "more"),
    ("remove", "nosuch"),
    # It sets up logging, which no other command does.
    ("serve", "--transport", "http", "--host", "192.0.2.1", "--no-cache"),
]
COMMANDS_SHOWN = [*SAID, ("--help",), *((name, "--help") for name, _, _ in COMMANDS)]
FLOW = """
name: tell_a_person
description: Looks for all orders of a person, and then for the history of the first one, which it tells
parameters:
  type: object
  properties: { text: { type: string, description: What is to be looked for, in the words of whoever looks } }
  required: [text]
steps:
  - id: orders
    tool: shop_list_orders
    arguments: { text: '{{.params.text}}' }
  - id: history
    tool: shop_get_the_whole_history_of_an_order
    arguments: { text: '{{.params.text}}', another_parameter: 3 }
    dependsOn: [orders]
"""
ONCE = {("tools",), ("tools", "--all"), ("savings",), ("refresh",), ("doctor",), ("run", "any.js"), ("search",)}


def tool(name: str, **more: Any) -> dict[str, Any]:
    """A tool with a long name, a long description and a parameter that is described at length."""
    properties = {
        "text": {"type": "string", "description": "What is to be done, in the words of whoever wants it to be done."},
        "another_parameter": {"type": "integer"},
    }
    description = (
        f"Do {name.replace('_', ' ')} for whoever asks, with all that belongs to it and a good deal more.\nYes."
    )
    return {
        "name": name,
        "description": description,
        "inputSchema": {"type": "object", "properties": properties},
        **more,
    }


def record(file: Path) -> str:
    """The record of a run that ended badly, under the id `RUN`."""
    shop: FastMCP[Any] = FastMCP("shop")

    @shop.tool(name="shop_list_orders")
    def list_orders(text: str) -> list[str]:
        if "all" in text:
            raise ToolError("There are far too many orders to list all of them, or any large part of them, at once")
        return [text]

    CodeCallPlugin.init(
        audit={"sinks": [JsonLinesSink(file)], "include_arguments": True, "include_results": True}
    ).install(shop)
    script = (
        "const some = await callTool('shop_list_orders', { text: 'the orders of whoever asks' });\n"
        "return { some, all: await callTool('shop_list_orders', { text: 'every order of all the years' }) };"
    )

    async def main() -> None:
        async with Client(shop) as client:
            await client.call_tool("codecall:execute", {"script": script})

    asyncio.run(main())
    return re.sub(r"run_[0-9a-f]{32}", RUN, file.read_text())


def furnish(folder: Path, runs: str) -> None:
    """Servers, one of which cannot be started, scripts and workflows, one of which is wrong, and a record."""
    destructive = {"annotations": {"destructiveHint": True}}
    servers = {
        "shop": [tool("list_orders"), tool("get_the_whole_history_of_an_order"), tool("delete_all", **destructive)],
        "files": [tool("read")],
    }
    lines: list[str] = []
    for name, tools in servers.items():
        listing = folder / f"{name}.json"
        listing.write_text(json.dumps({"name": name, "version": "1.5", "tools": tools}))
        args = json.dumps([str(LISTED), str(listing)])
        lines.append(f"[servers.{name}]\ncommand = {json.dumps(sys.executable)}\nargs = {args}\n")
    lines.append('[servers.gone]\ncommand = "no-such-program"\n')
    lines.append('[composite_tools]\npaths = ["flows"]\n')
    (folder / "flows").mkdir()
    (folder / "flows" / "tell.yaml").write_text(FLOW)
    (folder / "flows" / "wrong.yaml").write_text(FLOW.replace("tell_a_person", "wrong").replace("shop_list", "shop"))
    (folder / "runs.jsonl").write_text(runs)
    (folder / "codecall.toml").write_text("\n".join(lines))
    (folder / ".mcp.json").write_text(json.dumps({"mcpServers": {"git": {"command": "no-such-git", "args": ["-v"]}}}))
    (folder / "good.js").write_text("return await callTool('shop_list_orders', { text: 'a' });\n")
    # Any server may have the tool: all are asked.
    (folder / "any.js").write_text("const [name] = ['shop_list_orders']; return callTool(name, { text: 'a' });\n")
    long = "a rather long text, so that this line of the script is longer than any terminal is wide"
    script = f"const rows = await callTool('shop_list_orderz', {{ text: '{long}' }}); eval('1');"
    (folder / "bad.js").write_text(script)


def read_words(shown: str) -> set[str]:
    """The words of what a terminal shows; numbers and times, which differ from run to run, are all alike."""
    words = DRAWN.sub(" ", re.sub(r"[0-9][0-9.,]*( m?s\b)?", "0", shown)).split()
    return {word.strip(";:") for word in words}


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> dict[int, dict[tuple[str, ...], str]]:
    """What each command shows on a narrow and on a wide terminal."""
    by_width: dict[int, dict[tuple[str, ...], str]] = {}
    base = tmp_path_factory.mktemp("t")
    runs = record(base / "runs.jsonl")
    for columns in (80, WIDE):
        # The same path both times: it is part of what is shown.
        (base / "work").mkdir()
        (base / "home").mkdir()
        furnish(base / "work", runs)
        environment = {"HOME": str(base / "home"), "PATH": os.environ["PATH"], "LANG": "C.UTF-8"}
        texts = on_terminal(COMMANDS_SHOWN, columns, base / "work", environment)
        by_width[columns] = dict(zip(COMMANDS_SHOWN, texts, strict=True))
        base = base.rename(base.with_name(f"{base.name}-{columns}"))
        base = base.with_name(base.name.removesuffix(f"-{columns}"))
        base.mkdir()
    return by_width


@pytest.mark.parametrize("command", COMMANDS_SHOWN, ids=" ".join)
def test_a_command_fits_eighty_columns(command: tuple[str, ...], shown: dict[int, dict[tuple[str, ...], str]]) -> None:
    narrow, wide = shown[80][command], shown[WIDE][command]
    assert narrow
    too_wide = [line for line in narrow.split("\n") if cell_len(line.rstrip()) > 80 and len(line.split()) > 1]
    assert too_wide == []
    assert read_words(narrow) - read_words(wide) == set()


@pytest.mark.parametrize("command", sorted(ONCE), ids=" ".join)
def test_a_server_that_fails_is_reported_once(
    command: tuple[str, ...], shown: dict[int, dict[tuple[str, ...], str]]
) -> None:
    text = shown[80][command]
    assert len(re.findall(r"\bgone\b", text)) == 1, text
    assert "next try" not in text


def test_text_is_broken_at_blanks_only() -> None:
    assert break_text("one two three", 7) == "one two\nthree"
    assert break_text("  one two-and-a-half", 8) == "  one\ntwo-and-a-half"
    assert break_text("  one two three", 9, indent="    ") == "  one two\n      three"
    assert break_text("short\n\nlines", 80) == "short\n\nlines"


@given(st.lists(st.text(st.sampled_from("ab/ '\\\n$"), max_size=30), min_size=1), st.integers(10, 80))
@pytest.mark.skipif(sys.platform == "win32", reason="its shells join no lines")
def test_a_command_that_is_broken_is_the_same_command(words: list[str], width: int) -> None:
    broken = break_command(shlex.join(words), width)
    # A shell, as Python's reader of its words does not, drops a backslash before the end of a line.
    shell = ["sh", "-c", f"set -- {broken}\nfor word; do printf '%s\\0' \"$word\"; done"]
    assert subprocess.run(shell, capture_output=True, text=True, check=True).stdout.split("\0")[:-1] == words


def test_lines_of_a_command_fit_the_width_but_for_a_word_that_does_not() -> None:
    command = f"claude mcp add --scope user codecall -- /{'x' * 30}/codecall serve"
    assert break_command(command, 200) == command
    assert break_command(command, 50).split("\n") == [
        "claude mcp add --scope user codecall -- \\",
        f"  /{'x' * 30}/codecall serve",
    ]
    assert break_command(command, 20).split("\n")[2:5] == [
        "  codecall -- \\",
        f"  /{'x' * 30}/codecall \\",
        "  serve",
    ]


def test_a_declaration_that_is_too_wide_has_a_line_for_each_member() -> None:
    assert format_typescript("type A = { a: string; b: number };") == "type A = { a: string; b: number };"
    members = '/** One; "two" { */ text: "{;}" | "b"; rows: { id: string; at?: number }[]'
    wide = f"declare function f(input: {{ {members} }}): Promise<X>;"
    assert format_typescript(wide).split("\n") == [
        "declare function f(input: {",
        '  /** One; "two" { */',
        '  text: "{;}" | "b";',
        "  rows: {",
        "    id: string;",
        "    at?: number",
        "  }[]",
        "}): Promise<X>;",
    ]
