"""The fixture `recording` in test sessions: recording, replaying, and what each of them refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

SERVER = """
from fastmcp import FastMCP
from fastmcp.exceptions import ToolError

mcp = FastMCP("shop")
stock = {"tea": 4, "mug": 0}

@mcp.tool
def items() -> list[str]:
    return list(stock)

@mcp.tool
def units(item: str) -> int:
    if item not in stock:
        raise ToolError(f"no {item}")
    return stock[item]

def create() -> FastMCP:
    return mcp

async def create_later() -> FastMCP:
    return mcp
"""

SCRIPT = """
const names = await callTool('items', {});
const units = await Promise.all(names.map((item) => callTool('units', { item })));
return Object.fromEntries(names.map((name, i) => [name, units[i]]));
"""

TESTS = """
def test_stock(script, recording, tool_stub):
    recording("recorded/stock.json")
    assert script("stock.js").run().value == {"tea": 4, "mug": 0}
    assert tool_stub.calls.names == ["items", "units", "units"]
"""


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A project with a server, a script and a test of it; nothing is recorded yet."""
    monkeypatch.delenv("CI", raising=False)
    pytester.makepyfile(shop=SERVER, test_stock=TESTS)
    pytester.path.joinpath("stock.js").write_text(SCRIPT)
    pytester.makepyprojecttoml('[tool.pytest.ini_options]\npythonpath = ["."]\ncodecall_server = "shop:mcp"')
    return pytester


def recorded(project: pytest.Pytester) -> Path:
    return project.path / "recorded" / "stock.json"


def run(project: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    return project.runpytest_inprocess(
        "-p", "no:cacheprovider", "-p", "no:hypothesispytest", "-p", "no:langsmith_plugin", *arguments
    )


def record(project: pytest.Pytester) -> None:
    run(project, "--codecall-record").assert_outcomes(passed=1)


def test_record_once_and_replay_without_the_server(project: pytest.Pytester) -> None:
    result = run(project)
    result.assert_outcomes(failed=1)
    assert "During handling" not in result.stdout.str()
    result.stdout.fnmatch_lines(
        ["there is no recording recorded/stock.json", "*Make it: pytest --codecall-record test_stock.py::test_stock"]
    )
    assert not recorded(project).exists()

    result = run(project, "--codecall-record")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*recordings*", "recorded/stock.json: 3 calls; new: review it"])
    text = recorded(project).read_text()
    assert [(call["tool"], call["value"]) for call in json.loads(text)["calls"]] == [
        ("items", ["tea", "mug"]),
        ("units", 4),
        ("units", 0),
    ]

    (project.path / "shop.py").unlink()
    run(project).assert_outcomes(passed=1)
    assert recorded(project).read_text() == text


def test_recorded_again_without_a_change_it_is_the_same_file(project: pytest.Pytester) -> None:
    record(project)
    text = recorded(project).read_text()
    result = run(project, "--codecall-record")
    result.stdout.fnmatch_lines(["recorded/stock.json: 3 calls; as it was"])
    assert recorded(project).read_text() == text


@pytest.mark.parametrize("exists", [True, False])
def test_a_recording_is_written_through_no_link_and_keeps_its_rights(project: pytest.Pytester, exists: bool) -> None:
    record(project)
    recorded(project).chmod(0o640)
    record(project)
    assert recorded(project).stat().st_mode & 0o777 == 0o640
    elsewhere = project.path / "elsewhere.json"
    if exists:
        recorded(project).rename(elsewhere).write_text("{}")
    recorded(project).unlink(missing_ok=True)
    recorded(project).symlink_to(elsewhere)
    result = run(project, "--codecall-record")
    result.assert_outcomes(failed=1)
    assert "recorded/stock.json cannot be written: it is a link, to " in result.stdout.str()
    assert "During handling" not in result.stdout.str()
    assert (elsewhere.read_text() if elsewhere.exists() else None) == ("{}" if exists else None)


def test_a_mismatch_shows_a_diff_also_when_the_script_catches_it(project: pytest.Pytester) -> None:
    record(project)
    changed = SCRIPT.replace("{ item })", "{ item, store: 2 }).catch(() => 4)")
    (project.path / "stock.js").write_text(changed)
    result = run(project)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "*recorded/stock.json does not have this call",
            '*made:*units({"item": "tea", "store": 2})',
            '*recorded: units({"item": "tea"}), not made so far',
            "*--- recorded",
            "*+++ made",
            '*-  "item": "tea"',
            '*+  "item": "tea",',
            '*+  "store": 2',
            "*Others recorded and not made so far:",
            '*units({"item": "mug"})',
            "*Make it anew: pytest --codecall-record test_stock.py::test_stock",
        ]
    )


def test_a_stale_recording_fails(project: pytest.Pytester) -> None:
    record(project)
    (project.path / "stock.js").write_text("await callTool('items', {}); return { tea: 4, mug: 0 }")
    project.makepyfile(test_stock=TESTS.replace("    assert tool_stub", "    # assert tool_stub"))
    result = run(project)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "recorded/stock.json is stale",
            "Recorded, but the test no longer asks for:",
            '*units({"item": "tea"})',
            '*units({"item": "mug"})',
        ]
    )


def test_nothing_is_written_by_a_test_that_fails_nor_where_ci_is_set(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.makepyfile(test_stock=TESTS.replace("4", "5"))
    run(project, "--codecall-record").assert_outcomes(failed=1)
    assert not recorded(project).exists()
    monkeypatch.setenv("CI", "true")
    result = run(project, "--codecall-record")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*--codecall-record: the environment says CI*"])


def test_a_broken_file_says_so(project: pytest.Pytester) -> None:
    recorded(project).parent.mkdir()
    recorded(project).write_text("{}")
    result = run(project)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*stock.json: not a recording*", "*Make it anew: pytest --codecall-record *"])


@pytest.mark.parametrize(
    ("server", "message"),
    [
        ("", "--codecall-record: which server?*"),
        ("shop:mpc", "codecall_server: 'shop:mpc' cannot be imported: shop has no 'mpc'; did you mean shop:mcp[?]"),
        ("shoop:mcp", "cannot be imported: No module named 'shoop'; is its folder on `pythonpath`[?]"),
        ("broken:mcp", "'broken:mcp' cannot be imported: ZeroDivisionError: division by zero (broken.py:1)"),
        (
            "lacking:mcp",
            "'lacking:mcp' cannot be imported: ModuleNotFoundError: No module named 'absent' (lacking.py:1)",
        ),
        ("nowhere.py", "codecall_server: 'nowhere.py' is no `module:name`, no URL and no file"),
        ("http://127.0.0.1:9/mcp", "*the server to record, 'http://127.0.0.1:9/mcp', cannot be opened*"),
    ],
)
def test_a_server_that_is_none(project: pytest.Pytester, server: str, message: str) -> None:
    project.makepyfile(broken="mcp = 1 / 0", lacking="import absent")
    result = run(project, "--codecall-record", "-o", f"codecall_server={server}")
    assert "/codecall/" not in result.stdout.str(), "no traceback of ours"
    assert sum(result.parseoutcomes().get(word, 0) for word in ("failed", "errors")) == 1
    result.stdout.fnmatch_lines([f"*{message}"])
    assert not recorded(project).exists()


@pytest.mark.parametrize("server", ["shop:create", "shop:create_later", '"shop:mcp"', "'shop:mcp'"])
def test_a_server_from_a_function_or_in_quotes(project: pytest.Pytester, server: str) -> None:
    run(project, "--codecall-record", "-o", f"codecall_server={server}").assert_outcomes(passed=1)


def test_a_server_from_a_function_while_a_fixture_has_a_loop(project: pytest.Pytester) -> None:
    project.makeconftest(
        """
        import pytest

        @pytest.fixture(scope="session")
        def anyio_backend():
            return "asyncio"

        @pytest.fixture(scope="session", autouse=True)
        async def of_the_session(anyio_backend):
            yield
        """
    )
    run(project, "--codecall-record", "-o", "codecall_server=shop:create_later").assert_outcomes(passed=1)


def test_a_server_at_the_root_without_pythonpath(project: pytest.Pytester) -> None:
    (project.path / "pyproject.toml").unlink()
    project.makeini("[pytest]\ncodecall_server = shop:mcp\n")
    for name in ("tests", "tests/recorded"):
        project.mkdir(name)
    for name in ("test_stock.py", "stock.js"):
        (project.path / name).rename(project.path / "tests" / name)
    run(project, "--codecall-record").assert_outcomes(passed=1)
    assert (project.path / "tests" / "recorded" / "stock.json").exists()


@pytest.mark.parametrize(
    ("server", "expected"),
    [
        ("shop:mcp", ""),
        ("shop:nothing", "recording(server=…): 'shop:nothing' cannot be imported: shop has no 'nothing'"),
    ],
)
def test_a_server_of_one_recording(project: pytest.Pytester, server: str, expected: str) -> None:
    project.makepyfile(test_stock=TESTS.replace('stock.json"', f'stock.json", server="{server}"'))
    result = run(project, "--codecall-record", "-o", "codecall_server=")
    result.assert_outcomes(passed=not expected, failed=bool(expected))
    assert expected in result.stdout.str()
    assert recorded(project).exists() is not bool(expected)


def test_a_server_from_a_fixture_the_marker_stubs_and_masks(project: pytest.Pytester) -> None:
    project.makeconftest(
        """
        import pytest

        @pytest.fixture
        def codecall_server():
            from shop import create
            return create()
        """
    )
    project.makepyfile(
        test_stock="""
        import pytest

        pytestmark = pytest.mark.codecall(recording="recorded/stock.json")

        @pytest.mark.parametrize("n", [1, 2])
        def test_with_a_stub(script, tool_stub, n):
            tool_stub("units", when={"item": "mug"}, returns=9)
            assert script("stock.js").run().value["mug"] == 9

        async def test_in_a_coroutine(script, tool_stub, anyio_backend):
            tool_stub("units", when={"item": "mug"}, returns=9)
            assert (await script("stock.js").execute()).value["mug"] == 9
        """
    )
    settings = ("-o", "codecall_mask=item", "-o", "anyio_mode=auto")
    result = run(project, "--codecall-record", "-o", "codecall_server=", *settings)
    result.assert_outcomes(passed=3)
    result.stdout.fnmatch_lines(["recorded/stock.json: 2 calls, credentials masked in 1; new: review it"])
    assert '{"tool": "units", "input": {"item": "masked-credential-1"}, "value": 4' in recorded(project).read_text()
    run(project, *settings).assert_outcomes(passed=3)


def test_a_call_that_takes_too_long_is_recorded_as_that(project: pytest.Pytester) -> None:
    project.makepyfile(
        shop="""
        import anyio
        from fastmcp import FastMCP

        mcp = FastMCP("shop")

        @mcp.tool
        async def units(item: str) -> int:
            await anyio.sleep_forever()
        """,
        test_stock="""
        import pytest

        @pytest.mark.codecall(tool_call_timeout_ms=20)
        def test_slow(codecall_enclave, recording):
            recording("recorded/stock.json")
            assert codecall_enclave.run("return await callTool('units', { item: 'tea' })").code == "TOOL_TIMEOUT"
        """,
    )
    record(project)
    run(project).assert_outcomes(passed=1)


def test_schemas_of_the_server_beside_a_recording(project: pytest.Pytester) -> None:
    project.makepyfile(
        test_stock="""
        from shop import mcp

        def test_stock(script, recording, tool_stub):
            recording("recorded/stock.json")
            tool_stub.from_server(mcp)
            assert script("stock.js").run().value == {"tea": 4, "mug": 0}
        """
    )
    record(project)
    run(project).assert_outcomes(passed=1)


def test_two_tests_with_other_calls_cannot_share_a_file(project: pytest.Pytester) -> None:
    project.makepyfile(
        test_stock=TESTS
        + """
def test_items(codecall_enclave, recording):
    recording("recorded/stock.json")
    codecall_enclave.run("return await callTool('items', {})")
"""
    )
    result = run(project, "--codecall-record")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["recorded/stock.json was recorded by test_stock.py::test_stock with other calls*"])
    assert recorded(project).read_text().count('"tool"') == 3


def test_calls_in_order_and_one_recording_a_test(project: pytest.Pytester) -> None:
    project.makepyfile(
        test_stock="""
        import pytest

        def test_order(codecall_enclave, recording):
            recording("recorded/stock.json", ordered=True)
            for item in ORDER:
                codecall_enclave.run(f"return await callTool('units', {{ item: '{item}' }})")

        def test_two(recording):
            recording("recorded/stock.json", server=None)
            with pytest.raises(pytest.fail.Exception, match="a test has one recording"):
                recording("recorded/other.json")

        ORDER = ["tea", "mug"]
        """
    )
    run(project, "--codecall-record", "-k", "order").assert_outcomes(passed=1, deselected=1)
    run(project, "-k", "order").assert_outcomes(passed=1, deselected=1)
    file = project.path / "test_stock.py"
    file.write_text(file.read_text().replace('["tea", "mug"]', '["mug", "tea"]'))
    result = run(project)
    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines(['*made:*units({"item": "mug"})', '*recorded: units({"item": "tea"}), which is due'])
