"""Coverage of scripts: what a run tells, and what coverage.py makes of it, alone, under pytest-cov and pytest-xdist."""

from __future__ import annotations

import json
import os
import subprocess
import warnings
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from typing import Any

import pytest
from coverage import Coverage, CoverageData

from codecall.sandbox.enclave import Enclave
from codecall.testing import coverage_data
from codecall.testing.coverage import AgentScripts, ScriptReporter
from codecall.testing.coverage_data import PLUGIN
from tests.loaded_python import LoadedPython

# ------------------------------------------------------------------------------------------------------------ one run


@pytest.fixture(scope="module")
async def enclave() -> AsyncGenerator[Enclave]:
    async with Enclave("balanced") as enclave:
        yield enclave


@pytest.mark.parametrize(
    ("script", "status", "lines"),
    [
        ("const a = 1;\nif (a > 1)\n  return 2;\nreturn 3;", "ok", (1, 2, 4)),
        ("const a = await callTool('a', {});\nreturn a;", "ok", (1, 2)),
        ("async () => {\n  const a = 1;\n  return a;\n}", "ok", (1, 2, 3)),
        ("throw new Error('x');\nreturn 1;", "runtime_error", (1,)),
        ("await callTool('none', {});\nreturn 1;", "tool_error", (1,)),
        ("const a = 1;\nfor (;;) {\n  a;\n}\nreturn 1;", "runtime_error", (1, 2, 3)),
        ("const a = 1;\n'x'.repeat(30000).match(/(x+x+)+y/);\nreturn 1;", "timeout", (1, 2)),
        ("await callTool('a', {});\nconst l = [];\nwhile (true) l.push('x'.repeat(1e6) + l.length);", None, (1, 2, 3)),
        ("function f() {\n  return f() + 1;\n}\nf();", "runtime_error", (2, 4)),
        ("const a: number = 1;\ninterface B {\n  c: string;\n}\nreturn a as number;", "ok", (1, 5)),
        ("```js\nconst a = 1;\nreturn a;\n```", "ok", (2, 3)),
        ("// nothing", "ok", ()),
        ("1 +", "syntax_error", ()),
        ("const a = 1;\nfetch('x')", "illegal_access", ()),
    ],
)
async def test_which_lines_ran(enclave: Enclave, script: str, status: str | None, lines: tuple[int, ...]) -> None:
    def answer(name: str, given: dict[str, Any]) -> object:
        assert name == "a"
        return 1

    config = {"timeout_ms": 700}
    result = await enclave.execute(script, tool_handler=answer, config=config, coverage=True)
    assert status in (result.status, None)
    assert result.lines == lines
    assert "lines" not in result.envelope()


async def test_nobody_asked(enclave: Enclave) -> None:
    assert (await enclave.execute("return 1")).lines == ()


# ----------------------------------------------------------------------------------------------------- what is reported


def reported(path: Path, text: str) -> tuple[list[int], list[int]]:
    path.write_text(text)
    reporter = ScriptReporter(str(path))
    return sorted(reporter.lines()), sorted(reporter.excluded_lines())


def test_what_is_left_out(tmp_path: Path) -> None:
    script = """\
const a = 1;
const b = 2; // pragma: no cover
if (a) { // pragma: no cover
  b;
  [1].map((x) => {
    return x;
  });
} else {
  b;
}
if (b) {
  a;
} else { //pragma:no cover
  b;
}
for (const x of [1]) // pragma: no cover
  b;
const f = (x) => { // pragma: no cover
  return x;
};
function g() { // Pragma: No Cover
  return 1;
}
switch (a) {
  case 1: // pragma: no cover
    b;
    break;
  default:
    a;
}
return a;
"""
    lines, excluded = reported(tmp_path / "a.js", script)
    assert lines == [1, 9, 11, 12, 24, 29, 31]
    assert excluded == [2, 3, 4, 5, 6, 14, 16, 17, 18, 19, 22, 26, 27]


def test_files_of_programs_and_of_other_things(tmp_path: Path) -> None:
    programs = (
        "// two\n\n--- one\nreturn 1;\n//= 1\n--- two\nconst a = 1;\n\nreturn a;\n--- refused\nfetch('x') //! X\n"
    )
    assert reported(tmp_path / "a.script.js", programs.replace("X", "IllegalBuiltinAccess")) == ([4, 7, 9], [])
    assert reported(tmp_path / "b.script.js", "no programs") == ([], [])
    assert reported(tmp_path / "c.js", "const users_of_nobody = await users.list({});\nreturn tools['x']({});") == (
        [1, 2],
        [],
    )
    assert reported(tmp_path / "d.ts", "type A = string;\nconst a: A = 'x';\nreturn a;") == ([2, 3], [])
    assert reported(tmp_path / "e.js", "document.title = ;") == ([], [])


def test_files_that_never_ran(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("scripts/a.js", "scripts/deep/b.js", "web/c.js", "scripts/d.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    monkeypatch.chdir(tmp_path)

    def matches(folder: str, *patterns: str) -> list[str]:
        files = AgentScripts(patterns).find_executable_files(str(tmp_path / folder))
        return sorted(str(Path(file).relative_to(tmp_path)) for file in files)

    assert matches("") == []
    assert matches("", "*.js") == ["scripts/a.js", "scripts/deep/b.js", "web/c.js"]
    assert matches("", "scripts/*.js") == ["scripts/a.js"]
    assert matches("", "scripts/**/*.js") == ["scripts/a.js", "scripts/deep/b.js"]
    assert matches("web", "scripts/*.js") == []


# ------------------------------------------------------------------------------------------------------- whole sessions

FILES = {
    "scripts/half.js": "const { n } = codecallContext;\nif (n > 1) {\n  return 'many';\n}\nreturn 'few';\n",
    "scripts/never.js": "return 1;\n",
    "scripts/sums.script.js": """\
--- adds
return 1 + 1;
//= 2
--- throws
throw new Error('x');
return 1;
//~ EXECUTION_ERROR
""",
    "scripts/left_out.js": "return 1;\n",
    "elsewhere/other.js": "return 1;\n",
    "helper.py": "def f():\n    return 1\n",
    "tests/test_half.py": """\
from helper import f

def test_many(script):
    assert script("half.js").run(context={"n": 2}).value == "many"

def test_others(script):
    assert script("other.js").run().value == script("left_out.js").run().value == f()

def test_other_many(script):
    assert script("half.js").run(context={"n": 3}).value == "many"
""",
    "pyproject.toml": """\
[tool.pytest.ini_options]
codecall_scripts = ["scripts", "elsewhere"]
pythonpath = ["."]
filterwarnings = ["error"]

[tool.coverage.run]
plugins = ["codecall.testing.coverage"]
omit = ["*/left_out.js"]

[tool.coverage.codecall.testing.coverage]
scripts = ["scripts/*.js"]
""",
}

SESSIONS = {
    "pytest-cov": (
        "pytest -n 2 --cov=scripts --cov=helper --cov-branch --cov-context=test --cov-report=json --cov-report=html "
        "--cov-report=xml",
        "",
    ),
    "coverage": ("coverage run --source=scripts,elsewhere -m pytest", "coverage json"),
}


@pytest.fixture(scope="module")
def sessions(tmp_path_factory: pytest.TempPathFactory, loaded_python: LoadedPython) -> dict[str, Path]:
    """Projects in which the tests have run, all at the same time."""
    folders: dict[str, Path] = {}
    running: list[subprocess.Popen[str]] = []
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("COV", "PYTEST"))}
    for name, (first, second) in SESSIONS.items():
        folders[name] = folder = tmp_path_factory.mktemp(name)
        for path, text in FILES.items():
            (folder / path).parent.mkdir(exist_ok=True)
            (folder / path).write_text(text)
        command = f"{loaded_python.executable} -m {first} -q"
        command += (
            " -p no:cacheprovider -p no:hypothesispytest -p no:langsmith_plugin -W 'ignore:Module already imported'"
        )
        if second:
            command += f" && {loaded_python.executable} -m {second} -q"
        running.append(
            subprocess.Popen(
                command,
                shell=True,
                cwd=folder,
                env=environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
        )
    outputs = [process.communicate(timeout=120)[0] for process in running]
    for message, process in zip(outputs, running, strict=True):
        assert process.returncode == 0, message
        assert "5 passed" in message, message
        assert "Warning" not in message, message
    return folders


def files_of(folder: Path) -> dict[str, tuple[list[int], list[int]]]:
    files = json.loads((folder / "coverage.json").read_text())["files"]
    return {name: (file["executed_lines"], file["missing_lines"]) for name, file in files.items()}


SCRIPTS = {
    "scripts/half.js": ([1, 2, 3], [5]),
    "scripts/never.js": ([], [1]),
    "scripts/sums.script.js": ([2, 5], [6]),
}


def test_branches_and_contexts_in_many_processes(sessions: dict[str, Path]) -> None:
    folder = sessions["pytest-cov"]
    assert files_of(folder) == {**SCRIPTS, "helper.py": ([1, 2], [])}
    assert 'half.js"' in (folder / "coverage.xml").read_text()
    html = next(folder.glob("htmlcov/*half_js.html")).read_text()
    assert 'class="mis show_mis"' in html
    assert "few" in html
    data = CoverageData(str(folder / ".coverage"))
    data.read()
    contexts = data.contexts_by_lineno(str((folder / "scripts/half.js").resolve()))
    assert {context.partition("|")[0] for context in contexts[3]} == {
        "tests/test_half.py::test_many",
        "tests/test_half.py::test_other_many",
    }


def test_without_pytest_cov(sessions: dict[str, Path]) -> None:
    assert files_of(sessions["coverage"]) == {**SCRIPTS, "elsewhere/other.js": ([1], [])}


# ----------------------------------------------------------------------------------------------------- what is measured


def measured(folder: Path, *files: str, plugins: Sequence[str] = (PLUGIN,), **settings: Any) -> list[str]:
    """Which of `files` are wanted by a coverage.py with these settings, and told to it."""
    measuring = Coverage(data_file=None, config_file=False)
    for name, value in {"plugins": list(plugins), **settings}.items():
        measuring.set_option(f"run:{name}", value)
    measuring.start()
    try:
        wanted = [file for file in files if coverage_data.is_measured(folder / file)]
        for file in files:
            coverage_data.add_lines(folder / file, [1, 3], first_line=5)
    finally:
        measuring.stop()
    with warnings.catch_warnings(action="ignore"):  # about modules that were never imported
        data = measuring.get_data()
    told = [file for file in files for name in (str(folder / file), file) if sorted(data.lines(name) or []) == [5, 7]]
    assert told == wanted
    return wanted


def test_what_is_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = ("a/x.js", "a/y.js", "b/x.js", "../outside.js")
    for file in files:
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).touch()
    (tmp_path / "b/__init__.py").touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    assert measured(tmp_path, *files, plugins=[]) == []
    assert measured(tmp_path, *files) == ["a/x.js", "a/y.js", "b/x.js"]
    assert measured(tmp_path, *files, source=["a"]) == ["a/x.js", "a/y.js"]
    assert measured(tmp_path, *files, source=["b", "sys", "not.there"]) == ["b/x.js"]
    assert measured(tmp_path, *files, include=["*/x.js"], branch=True) == ["a/x.js", "b/x.js"]
    assert measured(tmp_path, *files, omit=["a/*"], relative_files=True) == ["b/x.js"]
    assert not coverage_data.is_measured(tmp_path / "a/x.js")
