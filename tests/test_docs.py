"""The documentation, run: every code block is executed or read, every table and link compared with what exists.

The word after the opening fence decides what happens to a block; one that is not listed here fails.

    python      runs as a program of its own and must end well; output beginning `# ->` in its last lines must match
    js          AgentScript, run in an enclave against the tools of `TOOLS` below; must end with status `ok`
    ts          the same, with types
    js refused  AgentScript that must be refused, with the text after `// refused: ` in the message
    console     commands after `$ `: each must name a make target, a module or a file that exists; one of `codecall`
                must have the options and words that it takes
    json, toml  must parse
    … gateway   behind json, toml or yaml: a configuration of the gateway, its own or a client's; must be read as one
    … composite behind yaml: a definition of a composite tool; must be read, and run against tools that answer nothing
    yaml        manifests of Kubernetes: must parse, and fit `examples/production/server.py`
    text        is not checked

A block `… file=name` is a file of a small project, one for each page, whose tests pytest must pass. In one with `fails`
behind the name every test must fail, and the lines of the next block, `text output`, are in what pytest says then.

The README has at most 900 words, a page at most 1,500 unless it is a page of tables in `docs/reference/`.
"""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import tomllib
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml

from benchmarks.jobs import jobs
from codecall import Enclave
from codecall.options import PluginOptions
from codecall.presets import PRESET_NAMES, Preset, presets_folder
from tests.loaded_python import LoadedPython

REPOSITORY = Path(__file__).parent.parent
DOCS = REPOSITORY / "docs"
FOLDERS = ("guide", "reference", "operations", "internals")
PAGES = [REPOSITORY / "README.md", REPOSITORY / "CHANGELOG.md", *sorted(DOCS.rglob("*.md"))]
FENCE = re.compile(r"^(?P<fence>```+)(?P<info>[^\n`]*)\n(?P<text>.*?)^(?P=fence)\s*$", re.MULTILINE | re.DOTALL)
MENTION = re.compile(r"`((?:codecall|tests|tests_security|benchmarks|examples|docs|presets)/[\w./*-]+)`")
CODE = re.compile(r"`[^`\n]+`")
LINK = re.compile(r"\]\((?!https?:)(?P<file>[^)#\s]*)(?:#(?P<anchor>[^)\s]*))?\)")
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)

USERS = [{"id": f"u{number}", "name": f"User {number}", "active": number % 2 == 0} for number in range(1, 7)]
TOOLS = {
    "users:list": lambda value: {"users": USERS[: value.get("limit", 100)]},
    "users:get": lambda value: next(user for user in USERS if user["id"] == value["id"]),
    "orders:list": lambda value: {
        "orders": [{"id": n, "user": value["user"], "total": n * 10} for n in range(1, 4)],
    },
    "reports:export": lambda value: [{"day": n, "year": value["year"], "total": n * 10} for n in range(365)],
    "mail:send": lambda value: len(value["attachment"]["rows"]),
}
"""What scripts in the documentation can call."""

RESOURCES = {"shop://menu": {"dishes": ["soup", "bread"]}}
"""What they can read."""


def name_of(page: Path) -> str:
    """How tests call a page."""
    return str(page.relative_to(REPOSITORY))


class Block(NamedTuple):
    """One fenced block of a page."""

    page: Path
    line: int
    info: str
    text: str

    def __str__(self) -> str:
        return f"{name_of(self.page)}:{self.line}"


def blocks_of(page: Path) -> list[Block]:
    """The fenced blocks of a page, in order."""
    content = page.read_text(encoding="utf-8")
    return [
        Block(page, content.count("\n", 0, match.start()) + 1, match["info"].strip(), match["text"])
        for match in FENCE.finditer(content)
    ]


BLOCKS = list(chain.from_iterable(map(blocks_of, PAGES)))


def tagged(*infos: str) -> list[Block]:
    """The blocks with one of those behind the fence."""
    return [block for block in BLOCKS if block.info in infos]


def handler(name: str, value: dict[str, object]) -> object:
    """The tools of the documentation's scripts."""
    return TOOLS[name](value)


def prompt(name: str, arguments: dict[str, object]) -> object:
    """The prompts of the documentation's scripts."""
    return {"messages": [{"role": "user", "content": f"{name}: {arguments}"}]}


FILE = re.compile(r"(?:js|python|json|toml) file=(?P<name>[\w./]+)(?P<fails> fails)?")


KINDS = {
    *("python", "js", "ts", "js refused", "console", "json", "toml", "yaml", "text", "text output"),
    *(f"{language} gateway" for language in ("json", "toml", "yaml")),
    "yaml composite",
}
"""What stands behind a fence, but for files of projects."""


def test_every_block_says_what_it_is():
    assert [
        f"{block}: {block.info!r}" for block in BLOCKS if block.info not in KINDS and not FILE.fullmatch(block.info)
    ] == []


class Project(NamedTuple):
    """The files that a page shows."""

    page: Path
    passing: dict[str, Block]
    failing: list[tuple[str, Block, Block]]
    """Name, test file, and what pytest says of it."""

    def __str__(self) -> str:
        return name_of(self.page)

    def build(self, folder: Path) -> None:
        for name, block in self.passing.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(block.text, encoding="utf-8")


def project_of(page: Path) -> Project:
    """The files of a page; each name once."""
    blocks = [block for block in BLOCKS if block.page == page]
    project = Project(page, {}, [])
    for block, following in zip(blocks, [*blocks[1:], None], strict=False):
        match = FILE.fullmatch(block.info)
        if match is None:
            continue
        assert match["name"] not in project.passing, block
        if match["fails"]:
            assert following is not None, block
            assert following.info == "text output", block
            project.failing.append((match["name"], block, following))
        else:
            project.passing[match["name"]] = block
    return project


PROJECTS = [project for project in map(project_of, PAGES) if project.passing]


def pytest_in(python: LoadedPython, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [python.executable, "-m", "pytest", "-W", "error", "--rootdir", str(folder), "-p", "no:cacheprovider"]
    command += ["-W", "ignore:Module already imported"]  # by the loaded Python
    command += ["-p", "no:langsmith_plugin", "-p", "no:hypothesispytest"]  # take half a second and a second to load
    return subprocess.run([*command, *arguments], cwd=folder, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.parametrize("project", PROJECTS, ids=str)
def test_the_project_of_a_page_passes(project: Project, tmp_path: Path, loaded_python: LoadedPython):
    project.build(tmp_path)
    process = pytest_in(loaded_python, tmp_path)
    assert process.returncode == 0, process.stdout
    tests = sum(len(re.findall(r"^(?:async )?def test_|^--- ", block.text, re.M)) for block in project.passing.values())
    summary = re.search(r"(\d+) passed", process.stdout)
    assert summary is not None
    assert int(summary[1]) >= tests > 0


@pytest.mark.parametrize("project", [project for project in PROJECTS if project.failing], ids=str)
def test_failures_look_as_shown(project: Project, tmp_path: Path, loaded_python: LoadedPython):
    project.build(tmp_path)
    for name, block, _ in project.failing:
        (tmp_path / name).write_text(block.text, encoding="utf-8")
    process = pytest_in(loaded_python, tmp_path, *(name for name, _, _ in project.failing))
    assert process.returncode == 1, process.stdout
    assert "passed" not in process.stdout
    lines = [line.removeprefix("E").strip() for line in process.stdout.splitlines()]
    for _, _, output in project.failing:
        missing = [line for line in output.text.splitlines() if not any(line.strip() in printed for printed in lines)]
        assert missing == [], process.stdout


@pytest.mark.parametrize("block", tagged("python"), ids=str)
def test_python_blocks_run(block: Block, tmp_path: Path, loaded_python: LoadedPython):
    program = tmp_path / "block.py"
    program.write_text(block.text, encoding="utf-8")
    process = loaded_python.run(program, cwd=tmp_path)
    assert process.returncode == 0, process.stderr
    expected = re.findall(r"^# -> (.*)$", block.text, re.MULTILINE)
    assert process.stdout.splitlines() == expected


@pytest.mark.parametrize("block", [*tagged("js"), *tagged("ts")], ids=str)
async def test_scripts_run(block: Block):
    async with Enclave(preset="secure") as enclave:
        result = await enclave.execute(
            block.text,
            tool_handler=handler,
            resource_handler=RESOURCES.__getitem__,
            prompt_handler=prompt,
            context={"limit": 3},
        )
    assert result.status == "ok", result.error


@pytest.mark.parametrize("block", tagged("js refused"), ids=str)
async def test_refused_scripts_are_refused(block: Block):
    async with Enclave(preset="secure") as enclave:
        result = await enclave.execute(block.text, tool_handler=handler)
    (expected,) = re.findall(r"// refused: (.*)", block.text)
    assert result.status == "illegal_access"
    assert result.error is not None
    assert expected in result.error.message


def test_data_blocks_parse():
    for block in tagged("json"):
        json.loads(block.text)
    for block in tagged("toml"):
        tomllib.loads(block.text)


@pytest.mark.parametrize("block", tagged("yaml"), ids=str)
def test_manifests_fit_the_server_of_the_example(block: Block):
    server = (REPOSITORY / "examples" / "production" / "server.py").read_text(encoding="utf-8")
    grace = re.search(r'"grace_s": (\d+)', server)
    assert grace is not None
    deployments = [item for item in yaml.safe_load_all(block.text) if item["kind"] == "Deployment"]
    assert deployments
    for deployment in deployments:
        pod = deployment["spec"]["template"]["spec"]
        (container,) = pod["containers"]
        variables = {item["name"]: item.get("value") for item in container["env"]}
        assert [name for name in variables if name not in server] == []
        modules = [
            words[2]
            for words in (each["command"] for each in (*pod["initContainers"], container))
            if words[:2] == ["python", "-m"]
        ]
        assert [name for name in modules if find_spec(name) is None] == []
        probes = [container[name]["httpGet"]["path"] for name in container if name.endswith("Probe")]
        assert [path for path in probes if f'"{path}"' not in server] == []
        stop = container.get("lifecycle", {}).get("preStop", {"exec": {"command": ["sleep", "0"]}})
        wait = int(stop["exec"]["command"][1])
        redelivery = int(re.fullmatch(r"PT(\d+)S", variables["FASTMCP_DOCKET_REDELIVERY_TIMEOUT"])[1])
        assert wait + int(grace[1]) < pod["terminationGracePeriodSeconds"] < redelivery


@pytest.mark.parametrize("block", tagged("json gateway", "toml gateway", "yaml gateway"), ids=str)
def test_configurations_are_read(block: Block, tmp_path: Path):
    from codecall.gateway.config.load import read_config

    file = tmp_path / f"mcp.{block.info.split()[0]}"
    file.write_text(block.text, encoding="utf-8")
    assert read_config(file).options.servers


@pytest.mark.parametrize("block", tagged("yaml composite"), ids=str)
async def test_definitions_of_composite_tools_run(block: Block, tmp_path: Path):
    from tests.composite.documents import Stubs, run_with_samples

    file = tmp_path / "definition.yaml"
    file.write_text(block.text, encoding="utf-8")
    result = await run_with_samples(Stubs(), file)
    assert not result.is_error, result.content


@pytest.mark.parametrize("block", tagged("console"), ids=str)
def test_commands_exist(block: Block):
    targets = set(re.findall(r"^([a-z-]+):", (REPOSITORY / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    commands = [line.removeprefix("$ ") for line in block.text.splitlines() if line.startswith("$ ")]
    assert commands
    if any(command.startswith("codecall ") for command in commands):
        from codecall.cli.app import app
    for command in commands:
        words = shlex.split(command, comments=True)
        while re.match(r"[A-Z_]+=", words[0]):
            del words[0]
        if words[0] == "codecall":
            app.parse_args(words[1:], print_error=False, exit_on_error=False)
            continue
        if words[0] == "make":
            assert set(words[1:]) <= targets, command
        if words[:2] == ["python", "-m"]:
            assert find_spec(words[2]) is not None, command
        for word in words[1:]:
            if word.endswith((".py", ".toml", ".md")):
                assert (REPOSITORY / word).is_file(), command


def anchors_of(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    headings = HEADING.findall(FENCE.sub("", page.read_text(encoding="utf-8")))
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_and_mentioned_files_exist(page: Path):
    content = page.read_text(encoding="utf-8")
    wrong: list[str] = []
    for link in LINK.finditer(CODE.sub("", FENCE.sub("", content))):
        target = (page.parent / link["file"]).resolve() if link["file"] else page
        if not target.exists() or (link["anchor"] and link["anchor"] not in anchors_of(target)):
            wrong.append(link[0])
    mentions = [path for path in MENTION.findall(content) if not list(REPOSITORY.glob(path.rstrip("/")))]
    assert wrong == []
    assert mentions == []


MENTIONING = ("codecall", "tests", "tests_security", "benchmarks", "examples", "presets", "Makefile")
"""Where files mention pages of the documentation."""
SAMPLES = {"docs/readme.md"}
"""Values in examples that look like our pages."""


def test_pages_that_other_files_mention_exist():
    missing: list[str] = []
    for file in chain.from_iterable([REPOSITORY / name, *(REPOSITORY / name).rglob("*")] for name in MENTIONING):
        if "node_modules" not in file.parts and file.is_file() and file.suffix in {"", ".py", ".toml", ".yml"}:
            mentioned = set(re.findall(r"docs/[\w/-]+\.md", file.read_text(encoding="utf-8"))) - SAMPLES
            missing += [f"{name_of(file)}: {page}" for page in mentioned if not (REPOSITORY / page).exists()]
    assert missing == []


def test_pages_stand_in_four_folders_and_in_the_index():
    pages = [page for page in sorted(DOCS.rglob("*.md")) if page != DOCS / "README.md"]
    assert {str(page.parent.relative_to(DOCS)) for page in pages} == set(FOLDERS)
    listed = [link["file"] for link in LINK.finditer((DOCS / "README.md").read_text(encoding="utf-8"))]
    assert sorted(listed) == sorted(["../README.md", *(str(page.relative_to(DOCS)) for page in pages)])


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_pages_are_short(page: Path):
    words = len(page.read_text(encoding="utf-8").split())
    if page == REPOSITORY / "README.md":
        assert words <= 900
    elif page != REPOSITORY / "CHANGELOG.md" and page.parent != DOCS / "reference":
        assert words <= 1500


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_no_block_is_lost(page: Path):
    # One that is not found, or has no word behind the fence, has no test.
    fences = re.findall(r"^[ \t>]*(?:```|~~~).*$", page.read_text(encoding="utf-8"), re.MULTILINE)
    words = [fence.strip(" \t>`~") for fence in fences[::2]]
    assert all(words)
    assert words == [block.info for block in blocks_of(page)]
    assert len(fences) == 2 * len(words)


def test_there_are_blocks_of_each_kind():
    infos = {"file" if FILE.fullmatch(block.info) else block.info for block in BLOCKS}
    assert infos == KINDS | {"file"}


def rows_after(heading: str, page: Path) -> list[list[str]]:
    """The cells of the first table below a heading, without its head."""
    content = f"\n{page.read_text(encoding='utf-8')}".partition(f"\n{heading}\n")[2]
    lines = re.search(r"(?:^\|.*\n)+", content, re.MULTILINE)
    assert lines is not None, f"{page.name} has no table below {heading!r}"
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[0].splitlines()][2:]


def test_the_table_of_presets_is_what_the_files_say():
    presets = [tomllib.loads((presets_folder() / f"{name}.toml").read_text(encoding="utf-8")) for name in PRESET_NAMES]

    def cell(value: object) -> str:
        match value:
            case bool():
                return "yes" if value else "no"
            case int():
                return f"{value:,}"
            case _:
                return f"`{value}`"

    expected = {field: [cell(preset[field]) for preset in presets] for field in Preset.model_fields}
    table = {row[0].strip("`"): row[2:] for row in rows_after("# Presets", DOCS / "reference" / "presets.md")}
    assert table == expected


def test_the_page_on_the_plugin_names_every_keyword():
    rows = rows_after("## Options", DOCS / "guide" / "plugin.md")
    named = [name for row in rows for name in re.findall(r"`(\w+)`", row[0])]
    assert sorted(named) == sorted(PluginOptions.names())


def test_every_dependency_is_explained():
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = chain.from_iterable(project["optional-dependencies"].values())
    names = {re.split(r"[\[<>=~]", name)[0] for name in (*project["dependencies"], *extras)}
    page = (DOCS / "internals" / "dependencies.md").read_text(encoding="utf-8")
    assert [name for name in sorted(names) if f"`{name}`" not in page] == []


def test_the_page_on_performance_shows_the_whole_benchmark():
    content = (DOCS / "operations" / "performance.md").read_text(encoding="utf-8")
    table = content.partition("<!-- benchmark -->")[2].partition("<!-- end of benchmark -->")[0]
    names = [row[0] for row in re.findall(r"^\| ([^|]+?) \|(.*)\|$", table, re.MULTILINE)]
    assert names == ["job", *(job.name for job in jobs()), *(job.name for job in jobs() if job.small)]


def test_the_changelog_has_the_version():
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    changelog = (REPOSITORY / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.search(rf"^## \[{re.escape(project['version'])}\]", changelog, re.MULTILINE)
