"""What `make demo` prints: a real client, a CRM server in a process of its own, and what CodeCall changes.

    python -m examples.demo

Everything shown is measured while it runs. It ends with an error as soon as something is not as expected, so that
it also serves as a smoke test.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
import time
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TextIO

from fastmcp import Client
from fastmcp.client.logging import LogMessage
from fastmcp.client.transports import StdioTransport

from examples import demo_scripts as scripts
from examples import tool_by_tool
from examples.git_insights import (
    SCRIPT,
    GitMissingError,
    codecall_git,
    git_process,
    insights,
    make_repository,
    require_git,
)
from examples.transcript import Transcript

Server = Client[Any]
Json = dict[str, Any]
"""Answers of tools; the demo looks into them freely, and a wrong shape ends it."""

BYTES_A_TOKEN = 4
"""Rule of thumb for English and JSON; the exact number depends on the model."""


class UnexpectedError(Exception):
    """Something was not as the demo says it is."""


def expect(condition: object, text: str) -> None:
    """Go on only if `condition` holds.

    Raises:
        UnexpectedError: it does not.
    """
    if not condition:
        raise UnexpectedError(text)


def crm_process(log: TextIO, *options: str) -> StdioTransport:
    """The CRM server as a process of its own; `log` takes what it writes to stderr."""
    folder = Path(__file__).resolve().parent / "crm"
    return StdioTransport(sys.executable, [str(folder), *options], keep_alive=False, log_file=log)


def tokens(size: int) -> str:
    """An estimate, marked as one."""
    return f"~{size // BYTES_A_TOKEN:,}"


class Caller:
    """Calls the meta-tools of one server and writes each call down."""

    def __init__(self, client: Server, transcript: Transcript) -> None:
        self.client = client
        self.transcript = transcript
        self.requests = 0
        self.bytes = 0
        """What a model wrote and read in these requests: arguments and answers as JSON text."""

    async def ask(self, tool: str, arguments: Mapping[str, object], shown: str) -> Json:
        """The structured answer of a meta-tool, after its call and its time were written down."""
        started = time.perf_counter()
        answer = await self.client.call_tool(tool, dict(arguments), raise_on_error=False)
        self.transcript.call(tool, shown, time.perf_counter() - started)
        self.requests += 1
        self.bytes += tool_by_tool.exchanged(arguments, answer.content)
        expect(not answer.is_error, f"{tool} failed: {answer.content}")
        expect(answer.structured_content, f"{tool} gave no structured answer: {answer.content}")
        return answer.structured_content or {}

    async def run(self, script: str, status: str = "ok", **context: object) -> Json:
        """The envelope of one script, which is written down and must end with `status`."""
        self.transcript.script(script)
        envelope = await self.ask("codecall:execute", {"script": script, "context": context}, "")
        expect(envelope["status"] == status, f"the script should have ended with {status}: {json.dumps(envelope)}")
        return envelope


async def list_cost(client: Server) -> tuple[int, int]:
    """Tools in a server's answer to `tools/list`, and the bytes of what a model reads of them."""
    tools = [
        {"name": tool.name, "description": tool.description, "inputSchema": tool.input_schema}
        for tool in await client.list_tools()
    ]
    return len(tools), len(json.dumps(tools, separators=(",", ":"), ensure_ascii=False).encode())


async def show_list_cost(transcript: Transcript, plain: Server, codecall: Server) -> None:
    """What a client reads before the first question is asked."""
    without, reduced = await list_cost(plain), await list_cost(codecall)
    rows = [
        ("without CodeCall", *without, tokens(without[1])),
        ("with CodeCall", *reduced, tokens(reduced[1])),
    ]
    transcript.table(("tools/list", "tools", "bytes", "tokens (bytes / 4)"), rows)
    expect(reduced[0] == 4, f"CodeCall should list four meta-tools, not {reduced[0]}")


async def find_tools(caller: Caller, transcript: Transcript) -> None:
    """Search, then describe: what a model does before it writes a script."""
    transcript.section("Search: which tools would answer the question?")
    transcript.say('The question: "Which customers brought in the most since 2025, and what is still open with them?"')
    query = ["list orders", "get a company", "list deals"]
    found = await caller.ask("codecall:search", {"query": query, "topK": 5}, json.dumps(query))
    hits = [(f"{hit['score']:.2f}", hit["name"], hit["description"]) for hit in found["tools"]]
    transcript.table(("score", "tool", "description"), hits)
    transcript.say("(The first search of a server also builds its index.)")
    names = {hit["name"] for hit in found["tools"]}
    expect({"orders_list", "companies_get"} <= names, f"search should find orders_list and companies_get: {names}")

    transcript.section("Describe: how are they called, what do they answer?")
    described = await caller.ask("codecall:describe", {"toolNames": ["orders_list"]}, '["orders_list"]')
    (tool,) = described["tools"]
    required = tool["inputSchema"].get("required", [])
    inputs = ", ".join(name if name in required else f"{name}?" for name in tool["inputSchema"]["properties"])
    transcript.answer(f"{tool['name']}({{ {inputs} }})\n  → {{ {', '.join(tool['outputSchema']['properties'])} }}")
    transcript.say("with both JSON schemas, its effects, and scripts to start from, such as:")
    expect(tool["usageExamples"], f"a description should come with usage examples: {tool}")
    transcript.script(tool["usageExamples"][0]["code"])


async def run_scripts(caller: Caller, transcript: Transcript, plain: Server) -> None:
    """Scripts that work, wait, are refused, and recover."""
    transcript.section("Execute: page, join and add up, in one call")
    envelope = await caller.run(scripts.BEST_CUSTOMERS, since=scripts.SINCE)
    result = envelope["result"]
    transcript.table(
        ("customer", "looked after by", "paid, euros", "in the pipeline, euros"),
        [(row["company"], row["owner"], row["euros"], row["pipeline"]) for row in result["best"]],
    )
    made = envelope["stats"]["toolCalls"]
    transcript.say(
        f"{result['orders']:,} orders went through the script; {made} tool calls, one request of the client."
    )
    requests, exchange = caller.requests, caller.bytes
    started = time.perf_counter()
    same, calls, size = await tool_by_tool.best_customers(plain)
    took = time.perf_counter() - started
    expect(same == result, "direct calls should give the same answer as the script")
    expect(calls == made, f"direct calls should be as many as the script made: {calls}, {made}")
    transcript.say("The same answer tool by tool, as without CodeCall, beside all that it took so far with it:")
    transcript.table(
        ("", "requests", "bytes through the model", "tokens (bytes / 4)"),
        [
            ("tool by tool", calls, size, tokens(size)),
            ("search, describe, one script", requests, exchange, tokens(exchange)),
        ],
    )
    transcript.say(f"Tool by tool took {took * 1000:.0f} ms, not counting the model's own time for {calls} turns.")

    transcript.section("A slow tool, five times at once")
    envelope = await caller.run(scripts.FORECASTS)
    rows = [(row["country"], *(month["total"] for month in row["forecast"])) for row in envelope["result"]]
    expect(len(rows) == 5, f"five forecasts are expected: {rows}")
    transcript.table(("country", *(month["month"] for month in envelope["result"][0]["forecast"])), rows)
    transcript.say("Each forecast takes 1.5 s; side by side they take little longer than one.")
    expect(envelope["stats"]["durationMs"] < 4_500, f"the forecasts should overlap: {envelope['stats']}")

    transcript.section("A script that is refused, and how to mend it")
    await _refused(caller, transcript, scripts.WHILE)
    transcript.say("Mended as the hint says:")
    envelope = await caller.run(scripts.FOR)
    transcript.answer(json.dumps(envelope["result"]))
    expect(envelope["result"] == 2_400, "all 2,400 orders should have been read")
    transcript.say("And one that tries to carry data away:")
    await _refused(caller, transcript, scripts.FETCH)

    transcript.section("A tool fails; the script recovers")
    envelope = await caller.run(scripts.RECOVER)
    transcript.answer(json.dumps(envelope["result"], indent=2))
    for line in envelope.get("logs", []):
        transcript.answer(f"log: {line}")
    expect(envelope["result"]["source"] == "stored activities", "the script should have fallen back to what is stored")


async def _refused(caller: Caller, transcript: Transcript, script: str) -> None:
    error = (await caller.run(script, status="illegal_access"))["error"]
    place = error["location"]
    transcript.answer(
        f"{error['code']} at line {place['line']}, column {place['column']}: {error['message']}", good=False
    )
    expect(error.get("hint"), f"a refusal should come with a hint: {error}")
    transcript.answer(f"hint: {error['hint']}", good=False)


class Person:
    """Allows the first call that is asked for, denies the others, and writes the questions down."""

    def __init__(self, transcript: Transcript) -> None:
        self.transcript = transcript
        self.questions = 0

    async def answer(self, message: str, *_: object) -> dict[str, str]:
        """The answer to one question."""
        self.questions += 1
        decision = "allow this call" if self.questions == 1 else "deny"
        self.transcript.answer("\n".join(line for line in message.splitlines() if line.strip()))
        self.transcript.answer(f"the person: {decision}", good=self.questions == 1)
        return {"decision": decision}


async def ask_a_person(caller: Caller, transcript: Transcript, person: Person) -> None:
    """A script that destroys, and a person who decides."""
    transcript.section("A person stays in charge of calls that destroy")
    envelope = await caller.run(scripts.CLEAN_UP)
    transcript.answer(json.dumps(envelope["result"], indent=2))
    expect(person.questions == 2, f"a person should have been asked twice, not {person.questions} times")
    first, second = envelope["result"]
    expect("deleted" in first and "APPROVAL_DENIED" in second, f"one company should be left: {envelope['result']}")


async def keep_quiet(message: LogMessage) -> None:
    """Console lines of scripts stand in the answers; FastMCP would log each in the middle of the transcript."""
    del message


async def crm_part(transcript: Transcript, log: TextIO) -> None:
    """The CRM: a server of 25 tools."""
    transcript.title("CodeCall in front of a CRM: 25 tools, a process of its own, over stdio")
    started, person = time.perf_counter(), Person(transcript)
    crm = crm_process(log, "--approvals", "destructive")
    async with (
        Client(crm, log_handler=keep_quiet, elicitation_handler=person.answer) as client,
        Client(crm_process(log, "--plain")) as plain,
    ):
        transcript.say(f"Started it twice, with CodeCall and without, in {time.perf_counter() - started:.1f} s.")
        transcript.section("What a model reads before the first question")
        await show_list_cost(transcript, plain, client)
        caller = Caller(client, transcript)
        await find_tools(caller, transcript)
        await run_scripts(caller, transcript, plain)
        await ask_a_person(caller, transcript, person)


async def git_part(transcript: Transcript, log: TextIO, folder: Path) -> None:
    """mcp-server-git: a server that somebody else published."""
    transcript.title("CodeCall in front of mcp-server-git, as published, over stdio")
    try:
        require_git()
    except GitMissingError as missing:
        transcript.say(f"Left out: {missing}.")
        return
    make_repository(folder)
    process = git_process(folder, log=log)
    async with codecall_git(folder, log=log) as server, Client(server) as client, Client(process) as plain:
        transcript.section("What a model reads before the first question")
        await show_list_cost(transcript, plain, client)
        transcript.say("For a dozen small tools the list is not where the gain is; it is in what comes back.")

        transcript.section("Log, every commit, both diffs and the status, joined into one answer")
        transcript.say("The tools answer with text for people; the script (examples/git_insights.py) reads it.")
        started = time.perf_counter()
        envelope = await insights(client, folder)
        transcript.call("codecall:execute", "", time.perf_counter() - started)
        expect(envelope["status"] == "ok", f"the script should have worked: {json.dumps(envelope)}")
        _show_insights(transcript, envelope)

        calls, size = await tool_by_tool.git_insights(plain, folder)
        expect(
            calls == envelope["stats"]["toolCalls"], f"the script should have made {calls} calls: {envelope['stats']}"
        )
        exchange = len(SCRIPT.encode()) + len(json.dumps(envelope).encode())
        transcript.table(
            ("", "requests", "bytes through the model", "tokens (bytes / 4)"),
            [("tool by tool", calls, size, tokens(size)), ("one script", 1, exchange, tokens(exchange))],
        )
    await process.close()


def _show_insights(transcript: Transcript, envelope: Json) -> None:
    result, stats = envelope["result"], envelope["stats"]
    expect(result["commits"] == 20, f"20 commits are expected: {result}")
    pending = [name for kind in ("staged", "unstaged", "untracked") for name in result["pending"][kind]]
    transcript.say(f"{result['commits']} commits on {result['branch']}, {result['since']} to {result['until']}.")
    transcript.say(f"Not committed yet: {', '.join(pending)}. {stats['toolCalls']} tool calls, one request.")
    authors = [(row["author"], row["commits"], row["added"], row["removed"]) for row in result["authors"]]
    transcript.table(("author", "commits", "lines added", "lines removed"), authors)
    transcript.table(("file", "commits"), [(row["file"], row["commits"]) for row in result["busiest"]])


async def demo(log: TextIO, folder: Path) -> None:
    """The whole transcript."""
    transcript = Transcript()
    started = time.perf_counter()
    await crm_part(transcript, log)
    await git_part(transcript, log, folder)
    transcript.end(f"Done in {time.perf_counter() - started:.1f} s. Next: examples/quickstart.py is the whole set-up.")


def main() -> int:
    """Print the transcript; 1 when something was not as expected."""
    with tempfile.TemporaryDirectory(prefix="codecall-demo-") as name:
        folder, errors = Path(name).resolve() / "repository", Path(name, "servers.log")
        folder.mkdir()
        with errors.open("w", encoding="utf-8") as log:
            try:
                asyncio.run(demo(log, folder))
            except UnexpectedError as failure:
                print(f"\nThe demo went wrong: {failure}", file=sys.stderr)
            except Exception:  # whatever it was, the servers' own words belong beside it
                traceback.print_exc()
            else:
                return 0
        print(f"What the servers wrote:\n{errors.read_text(encoding='utf-8')}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
