"""CodeCall in front of a server somebody else wrote: the published `mcp-server-git`, over stdio.

    python examples/git_insights.py [REPOSITORY]

Its tools answer with text for people. One script calls the log, every commit, both diffs and the status, takes the
texts apart, and answers with the few numbers that were wanted. Without REPOSITORY a small one is made to look at.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TextIO

from fastmcp import Client, FastMCP
from fastmcp.client.transports import StdioTransport
from fastmcp.server import create_proxy

from codecall import CodeCallPlugin

SCRIPT = r"""
const { repository, commits } = codecallContext;
const git = (tool, input = {}) => callTool(`git_${tool}`, { repo_path: repository, ...input });
const lines = (text, mark) => text.split('\n').filter(line => line[0] === mark && line.slice(0, 3) !== mark.repeat(3));
const files = text => [...text.matchAll(/^--- (?:a\/)?(.+)\n\+\+\+ (?:b\/)?(.+)$/gm)]
  .map(([, before, after]) => (after === '/dev/null' ? before : after));

// The log, the status and what is not committed yet do not depend on each other.
const [log, status, staged, unstaged] = await Promise.all([
  git('log', { max_count: commits }),
  git('status'),
  git('diff_staged', { context_lines: 0 }),
  git('diff_unstaged', { context_lines: 0 }),
]);
const history = [...log.matchAll(/^Commit: ([0-9a-f]{40})\nAuthor: (.*)\nDate: (\S+).*\nMessage: (.*)$/gm)]
  .map(([, sha, author, day, subject]) => ({ sha, author, day, subject }));

// What each commit changed, ten commits at a time.
const patches = await __safe_parallel(history.map(({ sha }) => () => git('show', { revision: sha })));

const authors = new Map(), touched = new Map();
history.forEach(({ author }, i) => {
  const sum = authors.get(author) ?? { author, commits: 0, added: 0, removed: 0 };
  authors.set(author, {
    author,
    commits: sum.commits + 1,
    added: sum.added + lines(patches[i], '+').length,
    removed: sum.removed + lines(patches[i], '-').length,
  });
  for (const file of new Set(files(patches[i]))) touched.set(file, (touched.get(file) ?? 0) + 1);
});
const untracked = status.split('Untracked files:\n')[1] ?? '';

return {
  branch: status.match(/On branch (\S+)/)?.[1] ?? '(detached)',
  commits: history.length,
  since: history.at(-1)?.day ?? null,
  until: history[0]?.day ?? null,
  authors: [...authors.values()].sort((a, b) => b.commits - a.commits),
  busiest: [...touched].sort((a, b) => b[1] - a[1]).slice(0, 5).map(([file, count]) => ({ file, commits: count })),
  pending: {
    staged: files(staged),
    unstaged: files(unstaged),
    untracked: untracked.split('\n').filter(line => line.startsWith('\t')).map(line => line.trim()),
    linesAdded: lines(staged, '+').length + lines(unstaged, '+').length,
  },
};
""".strip()
"""The script, as a language model would send it."""

COMMITS = 40
"""Commits to look at: with the four other calls, well below the 100 tool calls of the default preset."""

_AUTHORS = ("Ada Adler", "Bea Costa", "Chen Lind")
_FILES = ("README.md", "src/app.py", "src/models.py", "src/api.py", "tests/test_app.py")


class GitMissingError(Exception):
    """There is no `git` on the PATH."""


def _git(folder: Path, *arguments: str, **environment: str) -> str:
    # None of the user's settings or of a surrounding repository: signing keys, hooks and GIT_DIR would all matter here.
    clean = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    settled = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    done = subprocess.run(
        ["git", *arguments], cwd=folder, env=clean | settled | environment, capture_output=True, text=True, check=True
    )
    return done.stdout


def require_git() -> None:
    """Make sure that `git` can be run.

    Raises:
        GitMissingError: it is not on the PATH.
    """
    if shutil.which("git") is None:
        raise GitMissingError("mcp-server-git needs the program `git`, and there is none on the PATH")


def make_repository(folder: Path) -> None:
    """Make a git repository in `folder`: 20 commits by three authors, and changes that are not committed yet."""
    require_git()
    _git(folder, "init", "--quiet")
    _git(folder, "symbolic-ref", "HEAD", "refs/heads/main")
    for number in range(20):
        file = folder / _FILES[number * 7 % 11 % len(_FILES)]
        file.parent.mkdir(exist_ok=True)
        kept = file.read_text(encoding="utf-8").splitlines()[number % 3 :] if file.exists() else []
        added = [f"line {number}.{line}" for line in range(1 + number % 4)]
        file.write_text("\n".join([*kept, *added, ""]), encoding="utf-8")
        author = _AUTHORS[(0, 1, 0, 2, 0, 1)[number % 6]]
        who = {
            "NAME": author,
            "EMAIL": f"{author.split()[0].lower()}@git.example",
            "DATE": f"{1_767_600_000 + number * 86_400} +0000",
        }
        environment = {f"GIT_{role}_{key}": value for role in ("AUTHOR", "COMMITTER") for key, value in who.items()}
        _git(folder, "add", "--all")
        _git(folder, "commit", "--quiet", "--message", f"Change {file.name}, step {number + 1}", **environment)
    for name, text in {"src/app.py": "staged\n", "README.md": "not staged\n", "notes.txt": "new\n"}.items():
        with (folder / name).open("a", encoding="utf-8") as file:
            file.write(text)
    _git(folder, "add", "src/app.py")


def git_process(repository: Path, *, log: TextIO | None = None) -> StdioTransport:
    """`mcp-server-git`, confined to `repository`, as a process of its own; `log` takes what it writes to stderr."""
    command = ["-m", "mcp_server_git", "--repository", str(repository)]
    return StdioTransport(sys.executable, command, log_file=log)


@asynccontextmanager
async def codecall_git(repository: Path, *, log: TextIO | None = None) -> AsyncGenerator[FastMCP]:
    """A proxy of `mcp-server-git` with CodeCall in front; the process ends with the block."""
    process = git_process(repository, log=log)
    proxy = create_proxy(process, name="git")
    CodeCallPlugin.init().install(proxy)
    try:
        yield proxy
    finally:
        await process.close()


async def insights(client: Client[Any], repository: Path) -> dict[str, Any]:
    """The envelope of the script above, run on `repository` by a client of `codecall_git`."""
    context = {"repository": str(repository), "commits": COMMITS}
    answer = await client.call_tool("codecall:execute", {"script": SCRIPT, "context": context})
    return answer.structured_content or {}


async def _report(repository: Path) -> int:
    async with codecall_git(repository) as server, Client(server) as client:
        envelope = await insights(client, repository)
    print(json.dumps(envelope.get("result", envelope), indent=2))
    return 0 if envelope["status"] == "ok" else 1


def main() -> int:
    """Read the command line, run the script, print its answer."""
    parser = argparse.ArgumentParser(description="Who did what in a git repository, by one script over mcp-server-git.")
    parser.add_argument("repository", nargs="?", type=Path, help="default: a small repository made for the occasion")
    chosen = parser.parse_args()
    try:
        require_git()
    except GitMissingError as missing:
        parser.error(str(missing))
    if chosen.repository is not None:
        repository = chosen.repository.resolve()
        if not (repository / ".git").exists():
            parser.error(f"{repository} is not the top folder of a git repository")
        return asyncio.run(_report(repository))
    with tempfile.TemporaryDirectory(prefix="git-insights-") as folder:
        repository = Path(folder).resolve()
        make_repository(repository)
        return asyncio.run(_report(repository))


if __name__ == "__main__":
    sys.exit(main())
