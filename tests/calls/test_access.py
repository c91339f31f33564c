"""Who may call what."""

from __future__ import annotations

import pytest

from codecall.calls.access import BY_NAME, MAX_LISTED_NAMES, AccessPolicy
from codecall.catalog.entries import CatalogEntry, JsonObject
from codecall.errors import AccessDeniedError, SelfReferenceError, ToolNotFoundError
from codecall.globs import MAX_DISPLAY_NAME, MAX_NAME_CHARS

USABLE = ("users:list", "users:get", "orders:list", "a[b]")
VISIBLE = (*USABLE, "payroll")


class Shelf:
    """A catalog of fixed names."""

    async def find(self, name: str) -> CatalogEntry | None:
        return CatalogEntry(name, "crm", "", {}) if name in USABLE else None

    async def exists(self, name: str) -> bool:
        return name in VISIBLE

    async def retry_lookup(self, name: str) -> bool:
        return False

    def unlisted(self, name: str | None = None) -> list[str]:
        return []

    async def suggest(self, name: str) -> list[str]:
        return [usable for usable in USABLE if usable[0] == name[:1]]

    async def describe(self, name: str) -> JsonObject | None:
        return {"name": name} if name in USABLE else None


def policy(*allowed: str) -> AccessPolicy:
    return AccessPolicy(Shelf(), allowed or None)


async def test_an_allowed_tool_is_given() -> None:
    for allowed in (
        (),
        ("users:list",),
        ("users:*",),
        ("*",),
        ("users:l?st",),
        ("users:[kl]ist",),
        ("x", "users:list"),
    ):
        assert (await policy(*allowed).admit("users:list")).name == "users:list"


async def test_an_exact_name_may_look_like_a_glob() -> None:
    assert (await policy("a[b]").admit("a[b]")).name == "a[b]"


@pytest.mark.parametrize(
    "name",
    ["system:x", "SYSTEM:x", " system:x", "internal:x", "Internal:users:list", "__x", "__", " __x "],
)
async def test_reserved_names_are_denied_whether_or_not_they_exist(name: str) -> None:
    with pytest.raises(AccessDeniedError, match="is reserved") as raised:
        await policy(name, "*").admit(name)
    assert raised.value.as_dict()["code"] == "ACCESS_DENIED"


@pytest.mark.parametrize("name", ["codecall:execute", "CODECALL_EXECUTE", " codecall:invoke\t", "codecall:anything"])
async def test_meta_tools_are_self_references_whatever_is_allowed(name: str) -> None:
    for allowed in ((), ("users:*",), (name,)):
        with pytest.raises(SelfReferenceError):
            await policy(*allowed).admit(name)


async def test_outside_allowed_tools_says_what_is_allowed() -> None:
    with pytest.raises(AccessDeniedError) as raised:
        await policy("orders:*", "users:get").admit("users:list")
    assert raised.value.message == "Tool 'users:list' is not in allowedTools"
    assert raised.value.hint == "Allowed here: orders:*, users:get."


async def test_the_hint_is_bounded() -> None:
    with pytest.raises(AccessDeniedError) as raised:
        await policy(*(f"tool{n}" + "x" * 500 for n in range(40))).admit("users:list")
    assert raised.value.hint is not None
    assert f"and {40 - MAX_LISTED_NAMES} more" in raised.value.hint
    assert len(raised.value.hint) < MAX_LISTED_NAMES * (MAX_DISPLAY_NAME + 60)


async def test_an_empty_list_allows_nothing() -> None:
    with pytest.raises(AccessDeniedError) as raised:
        await AccessPolicy(Shelf(), []).admit("users:list")
    assert raised.value.hint == "allowedTools is empty: no tool may be called here."


async def test_letter_case_counts() -> None:
    with pytest.raises(AccessDeniedError):
        await policy("Users:*").admit("users:list")
    with pytest.raises(ToolNotFoundError):
        await policy().admit("Users:list")


async def test_outside_allowed_tools_says_the_same_of_tools_that_do_not_exist() -> None:
    answers: list[str] = []
    for name in ("payroll", "nothing"):
        with pytest.raises(AccessDeniedError) as raised:
            await policy("users:*").admit(name)
        answers.append(str(raised.value.as_dict()).replace(name, "x"))
    assert answers[0] == answers[1]


async def test_out_of_reach_is_denied_and_unknown_is_not_found() -> None:
    with pytest.raises(AccessDeniedError, match="'payroll' is not available to CodeCall"):
        await policy().admit("payroll")
    with pytest.raises(ToolNotFoundError) as raised:
        await policy().admit("users:lst")
    assert raised.value.message == "Tool 'users:lst' was not found"
    assert raised.value.hint == "Did you mean 'users:list' or 'users:get'?"
    with pytest.raises(ToolNotFoundError) as raised:
        await policy().admit("zzz")
    assert raised.value.hint == "codecall:search finds tools by what they do."


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("getResult", "In JavaScript it is a function of the script, not a tool: write `await getResult('res_…')`."),
        ("emit", "In JavaScript it is a function of the script, not a tool: write `emit(block)`."),
        ("try_call", 'In Starlark it is a function of the script, not a tool: write `try_call("name", key=value)`.'),
    ],
)
async def test_a_function_of_scripts_is_no_tool(name: str, hint: str) -> None:
    with pytest.raises(ToolNotFoundError) as raised:
        await policy().admit(name)
    assert raised.value.hint == hint


async def test_a_reserved_function_of_scripts_is_no_tool() -> None:
    with pytest.raises(AccessDeniedError) as raised:
        await policy().admit("__safe_parallel")
    assert "write `await __safe_parallel([" in (raised.value.hint or "")


async def test_a_function_of_scripts_that_a_tool_is_called_like_is_that_tool() -> None:
    class WithEmit(Shelf):
        async def find(self, name: str) -> CatalogEntry | None:
            return CatalogEntry(name, "crm", "", {}) if name == "emit" else await super().find(name)

    assert (await AccessPolicy(WithEmit(), None).admit("emit")).name == "emit"


async def test_a_tool_out_of_reach_is_refused_by_name_alone() -> None:
    refused = await policy().refusal("payroll")
    assert refused is not None
    assert refused.message == "Tool 'payroll' is not available to CodeCall"
    assert [await policy().refusal(name) for name in ("users:list", "nothing", "codecall:execute")] == [None] * 3
    assert await policy("users:*").refusal("payroll") is None


async def test_near_names_are_ones_that_may_be_called() -> None:
    with pytest.raises(ToolNotFoundError) as raised:
        await policy("users:l*", "u*x").admit("users:lst")
    assert raised.value.hint == "Did you mean 'users:list'?"


async def test_describe_agrees_with_admit() -> None:
    allowed = policy("users:*")
    for name in (*VISIBLE, "codecall:execute", "system:x", "nothing"):
        try:
            await allowed.admit(name)
        except (AccessDeniedError, SelfReferenceError, ToolNotFoundError):
            assert await allowed.describe(name) is None
        else:
            assert await allowed.describe(name) == {"name": name}


def test_every_rule_says_what_it_is_about() -> None:
    assert [rule.description for rule in BY_NAME] == [
        "longer than MAX_NAME_CHARS, a URI than MAX_URI_CHARS",
        "a CodeCall meta-tool",
        "system:*, internal:*, __* in any letter case",
        "outside allowedTools",
    ]


@pytest.mark.parametrize("start", ["a", "codecall:execute", "system:"])
async def test_a_name_too_long_for_any_tool_is_not_found_before_any_rule(start: str) -> None:
    name = start + " " * (MAX_NAME_CHARS + 1 - len(start))
    for allowed in ((), ("x",), (name,)):
        with pytest.raises(ToolNotFoundError) as raised:
            await policy(*allowed).admit(name)
        assert raised.value.tool_name.startswith(start)
        assert "…[truncated 129 characters]" in raised.value.tool_name
        assert raised.value.hint == "No tool has a name of 257 characters; 256 are the most."
        assert await policy(*allowed).describe(name) is None
    assert len(name[:-1]) > MAX_DISPLAY_NAME
    with pytest.raises((ToolNotFoundError, AccessDeniedError, SelfReferenceError)) as refused:
        await policy().admit(name[:-1])
    assert "are the most" not in str(refused.value.hint)


async def test_every_error_of_an_unknown_name_says_what_is_not_known_yet() -> None:
    class Starting(Shelf):
        def unlisted(self, name: str | None = None) -> list[str]:
            return ["Server 'mail' is still starting."]

    access = AccessPolicy(Starting(), None)
    for suggest in (True, False):
        with pytest.raises(ToolNotFoundError) as raised:
            await access.admit("nothing", suggest=suggest)
        # A tool that may not be called is said to be missing in these words, too.
        said = await access.not_found("tool", "nothing", suggest=suggest)
        assert raised.value.as_dict() == said.as_dict()
        assert str(said.hint).startswith("Server 'mail' is still starting.")
