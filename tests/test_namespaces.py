"""How scripts write the names of tools."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codecall.namespaces import (
    MAX_DEPTH,
    MAX_LISTED,
    MAX_MISSING,
    MAX_NAME_CHARS,
    MAX_TABLE,
    Ambiguous,
    NamespaceLookup,
    NamespaceMember,
    Namespaces,
    fold_name,
    javascript_name,
    namespace_path,
)
from codecall.sandbox.agentscript.policy import NEVER_MEMBERS
from tests.work import python_steps


def anything(name: str) -> bool:
    del name
    return True


def near(name: str, names: object) -> list[str]:
    assert isinstance(names, list)
    return [other for other in names if other[:2] == name[:2]][:3]


def of(*names: str, app: str = "") -> Namespaces:
    return Namespaces.from_tools((name, app) for name in names)


@pytest.mark.parametrize(
    ("name", "path", "member"),
    [
        ("users:list", "users", "list"),
        ("users.list", "users", "list"),
        ("users/list", "users", "list"),
        ("github/issues/create", "github", "issues_create"),
        ("github/issues/create", "github", "issues/create"),
        ("github/issues/create", "github.issues", "create"),
        ("a.b:c/d", "a.b.c", "d"),
        ("my-server:list-all", "my_server", "list_all"),
        ("my-server:list-all", "my_server", "list-all"),
        ("2fa:send", "_2fa", "send"),
        ("users:2fa", "users", "_2fa"),
        ("größe:лист", "größe", "лист"),
        ("users:list:", "users", "list_"),
    ],
)
def test_a_separator_makes_a_namespace(name: str, path: str, member: str) -> None:
    assert of(name).resolve(path, member, anything) == name


@pytest.mark.parametrize(
    ("name", "app", "path", "member"),
    [
        ("github_create_issue", "github", "github", "create_issue"),
        ("github-create-issue", "github", "github", "create_issue"),
        ("my-app_list", "my-app", "my_app", "list"),
        ("github_create", "GitHub", "github", "create"),
        ("GitHub_create", "GitHub", "GitHub", "create"),
        ("acme/github_create", "acme/github", "acme.github", "create"),
        ("list_animals", "zoo", "zoo", "list_animals"),
        ("users:list", "crm", "crm", "users_list"),
        ("userslist", "users", "users", "userslist"),
        ("users_", "users", "users", "users_"),
        ("users", "users", "users", "users"),
    ],
)
def test_an_app_is_a_namespace_of_its_tools(name: str, app: str, path: str, member: str) -> None:
    assert of(name, app=app).resolve(path, member, anything) == name


@pytest.mark.parametrize(
    ("name", "app"),
    [
        ("list_users", ""),
        ("users-list", ""),
        (":list", ""),
        ("users:", ""),
        ("codecall:execute", ""),
        ("codecall_search", "codecall"),
        ("CodeCall.x", ""),
        ("x:" + "y" * MAX_NAME_CHARS, ""),
    ],
)
def test_other_names_make_none(name: str, app: str) -> None:
    assert of(name, app=app).roots() == []


def test_a_name_is_in_few_namespaces() -> None:
    spaces = of(":".join("abcdefghij"))
    assert spaces.roots() == ["a"]
    assert "a.b.c.d" in spaces
    assert len([depth for depth in range(1, 10) if ".".join("abcdefghij"[:depth]) in spaces]) == MAX_DEPTH


def test_the_separator_decides_between_tools_of_one_spelling() -> None:
    names = ["users_list", "users-list", "users/list", "users.list", "users:list"]
    spaces = of(*names, app="users")
    while names:
        assert spaces.resolve("users", "list", lambda name: name in names) == names.pop()
    assert spaces.resolve("users", "list", lambda name: False) == "users:list"


def test_a_tools_own_spelling_comes_first() -> None:
    spaces = of("users:list-all", "users.list_all")
    assert spaces.resolve("users", "list_all", anything) == "users.list_all"
    assert spaces.resolve("users", "list-all", anything) == "users:list-all"


def test_what_may_be_called_comes_first() -> None:
    spaces = of("users:a-b", "users:a.b")
    assert spaces.resolve("users", "a_b", anything) == Ambiguous(("users:a-b", "users:a.b"))
    assert spaces.resolve("users", "a_b", lambda name: name == "users:a.b") == "users:a.b"
    assert spaces.resolve("users", "a_c", anything) is None
    assert spaces.resolve("nobody", "a_b", anything) is None


def test_a_table_has_what_is_one_tool_and_may_be_called() -> None:
    spaces = of("u:list", "u:a-b", "u:a.b", "u:secret", "u:then", "u:toString", "u:find-all")
    assert spaces.table("u", lambda name: name != "u:secret") == {"list": "u:list", "find_all": "u:find-all"}
    assert len(of(*(f"u:m{n}" for n in range(500))).table("u", anything)) == MAX_TABLE


def test_names_the_engine_reads_are_no_members() -> None:
    spaces = of("u:list", *(f"u:{name}" for name in NEVER_MEMBERS))
    assert spaces.members("u") == ["list"]
    assert list(spaces.table("u", anything)) == ["list"]


def test_a_missing_member_is_explained() -> None:
    lookup = NamespaceLookup(anything, near)
    spaces = of("users:get", "users:create", "users:list")
    assert lookup.member(spaces, "users", "list") == NamespaceMember(tool="users:list")
    assert lookup.member(spaces, "users", "lst") == NamespaceMember(missing="users.lst")
    missing = lookup.missing("users.lst")
    assert missing == ("users has no tool 'lst'; it has: get, create, list", None)
    assert lookup.member(spaces, "users", "lister").as_dict() == {"missing": "users.lister"}
    missing = lookup.missing("users.lister")
    assert missing == ("users has no tool 'lister'; it has: list, get, create", "Did you mean users.list?")
    assert lookup.missing("users.other") is None


def test_a_path_that_is_no_namespace_is_looked_for_in_the_one_before() -> None:
    lookup = NamespaceLookup(anything, near)
    spaces = Namespaces(["clinic", "clinic_patients"])
    for name in ("clinic_staff:get", "clinic_staff:list", "clinic_patients_list"):
        spaces.add(name, "clinic", "clinic")
    spaces.add("clinic_patients:pay", "clinic_patients", "clinic_patients")
    assert lookup.member(spaces, "clinic.staff", "list") == NamespaceMember(missing="clinic.staff.list")
    missing = lookup.missing("clinic.staff.list")
    assert missing is not None
    assert missing.message.startswith("clinic.staff has no tool 'list'; clinic has: staff_list, staff_get")
    assert missing.hint == "Did you mean clinic.staff_list?"
    lookup.member(spaces, "clinic.patients", "pay")
    missing = lookup.missing("clinic.patients.pay")
    assert missing is not None
    assert "pay" not in missing.message.partition(";")[2]
    assert missing.hint == "Did you mean clinic.patients_list?"
    closed = NamespaceLookup(lambda name: False, near)
    closed.member(spaces, "clinic.staff", "list")
    assert closed.missing("clinic.staff.list") == ("clinic.staff has no tool 'list'", None)


def test_only_what_may_be_called_is_told() -> None:
    lookup = NamespaceLookup(lambda name: name.endswith("open"), near)
    spaces = of("u:shut", "u:open", "u:part.open", "u:part.shut")
    lookup.member(spaces, "u", "shot")
    missing = lookup.missing("u.shot")
    assert missing is not None
    assert missing.message == "u has no tool 'shot'; it has: open, part.open"
    closed = NamespaceLookup(lambda name: False, near)
    closed.member(spaces, "u", "shot")
    assert closed.missing("u.shot") == ("u has no tool 'shot'", None)


def test_long_lists_say_how_many_more_there_are() -> None:
    lookup = NamespaceLookup(anything, near)
    lookup.member(of(*(f"u:m{n}" for n in range(500))), "u", "x")
    missing = lookup.missing("u.x")
    assert missing is not None
    assert missing.message.endswith(f"m{MAX_LISTED - 1} and {500 - MAX_LISTED} more")


def test_few_missing_members_are_explained() -> None:
    lookup = NamespaceLookup(anything, near)
    spaces = of("u:list")
    for n in range(1000):
        assert lookup.member(spaces, "u", f"x{n}") == NamespaceMember(missing=f"u.x{n}")
    assert lookup.missing(f"u.x{MAX_MISSING - 1}") is not None
    assert lookup.missing(f"u.x{MAX_MISSING}") is None


def test_the_table_of_all_tools() -> None:
    lookup = NamespaceLookup(anything, near)
    spaces = of("users:list", "github/issues/create")
    assert lookup.member(spaces, "", "users:list", exists=True) == NamespaceMember(tool="users:list")
    assert lookup.member(spaces, "", "users") == NamespaceMember(namespace="users")
    assert lookup.member(spaces, "", "github/issues") == NamespaceMember(namespace="github.issues")
    assert lookup.member(spaces, "github", "issues") == NamespaceMember(namespace="github.issues")
    assert lookup.member(spaces, "", "nobody") == NamespaceMember(missing="nobody")
    assert lookup.missing("nobody") is None


def test_what_is_no_namespace_names_those_it_may_be() -> None:
    lookup = NamespaceLookup(lambda name: name != "github_secret", near)
    spaces = Namespaces.from_tools(
        [("users:list", ""), ("github_secret", ""), ("github_create", ""), ("github_more", "")]
    )
    assert lookup.namespace(spaces, "usr") == {"near": ["users"], "tools": []}
    assert lookup.namespace(spaces, "github") == {"near": [], "tools": ["github_create"]}
    assert lookup.namespace(spaces, "users") == {"members": {"list": "users:list"}}


def test_messages_show_names_as_they_are_told_to() -> None:
    lookup = NamespaceLookup(anything, near, lambda text: text.replace("\n", "\\n"))
    lookup.member(of("u:a\nb"), "u", "a\nc")
    assert "\n" not in str(lookup.missing("u.a\nc"))


names = st.text(st.sampled_from("ab1:./-_$é \n'"), max_size=12)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(names, st.sampled_from(["", "a", "ab", "a-b"])), max_size=6), names, names)
def test_whatever_is_found_is_a_tool(tools: list[tuple[str, str]], path: str, member: str) -> None:
    spaces = Namespaces.from_tools(tools)
    lookup = NamespaceLookup(anything, near)
    known = {name for name, _ in tools}
    found = lookup.member(spaces, path, member, exists=not path and member in known)
    assert sum(map(bool, found)) == 1 or found == NamespaceMember() == NamespaceMember(missing=member)
    assert not found.tool or found.tool in known
    assert not found.namespace or found.namespace in spaces
    for root in spaces.roots():
        assert all(tool in known for tool in spaces.table(root, anything).values())
        for name in spaces.members(root):
            inner, _, last = f"{root}.{name}".rpartition(".")
            assert spaces.resolve(inner, last, anything) is not None


@given(st.text(max_size=20))
def test_written_names_are_stable(text: str) -> None:
    assert javascript_name(javascript_name(text)) == javascript_name(text)
    assert namespace_path(namespace_path(text)) == namespace_path(text)


def test_steps_grow_with_the_number_of_tools_and_no_faster() -> None:
    def steps(count: int) -> int:
        tools = [(f"app{n % 100}_thing{n}_list", f"app{n % 100}") for n in range(count)]
        assert len(Namespaces.from_tools(tools).roots()) == 100
        return python_steps(lambda: Namespaces.from_tools(tools))

    assert steps(10_000) < 11 * steps(1_000)


def owned(*tools: tuple[str, str], servers: tuple[str, ...] = (), home: str = "") -> Namespaces:
    """The namespaces of tools given as server and full name."""
    namespaces = Namespaces(servers, home)
    for server, name in tools:
        namespaces.add(name, server, server)
    return namespaces


@pytest.mark.parametrize("bank", ["my_bank", "my-bank", "My.Bank"])
@pytest.mark.parametrize("separator", list(".:/-_"))
def test_a_namespace_belongs_to_the_server_that_is_called_so(bank: str, separator: str) -> None:
    hostile, path = f"my_bank{separator}pay", namespace_path(bank)
    spaces = owned(("my", hostile), (bank, f"{bank}_pay"))
    assert spaces.resolve(path, "pay", anything) == f"{bank}_pay"
    absent = owned(("my", hostile), servers=(bank,))
    assert not any(name in absent for name in ("my_bank", path))
    assert not absent.is_function(hostile)
    lookup = NamespaceLookup(anything, near)
    assert lookup.namespace(absent, "my_bank") == {"near": ["my"], "tools": []}
    assert lookup.member(absent, "my", "bank_pay").tool == hostile
    assert lookup.member(absent, "", hostile, exists=True).tool == hostile


def test_a_spelling_of_two_servers_leads_to_neither() -> None:
    spaces = owned(("my-bank", "my-bank_pay"), ("my@bank", "my@bank_a"), ("my_shop", "my_shop_a"), ("my-shop", "b"))
    assert "my_bank" not in spaces
    assert spaces.resolve("my_shop", "a", anything) == "my_shop_a"
    assert spaces.resolve("my_shop", "b", anything) is None
    lookup = NamespaceLookup(anything, near)
    assert lookup.member(spaces, "", "my_shop").namespace == "my_shop"
    assert lookup.member(spaces, "", "my-shop").missing == "my-shop"


def test_only_the_tools_of_the_server_itself_say_which_app_they_are_of() -> None:
    spaces = Namespaces(["users", "other"], "main")
    spaces.add("own", "users", "main")
    spaces.add("other_theirs", "users", "other")
    spaces.add("remote", "users", "")
    assert spaces.resolve("users", "own", anything) == "own"
    assert spaces.members("users") == ["own"]
    assert [spaces.is_function(name) for name in ("own", "other_theirs", "remote", "none")] == [True, True, True, False]


_WORDS = st.lists(st.sampled_from(["my", "bank", "My", "eu", "pay"]), min_size=1, max_size=3)
_TEXTS = st.builds(
    lambda words, separators: "".join(f"{word}{mark}" for word, mark in zip(words, separators, strict=False))[:-1],
    _WORDS,
    st.lists(st.sampled_from(":./-_"), min_size=3, max_size=3),
)


@settings(max_examples=600, deadline=None)
@given(servers=st.lists(_TEXTS, min_size=1, max_size=4, unique=True), data=st.data())
def test_a_call_that_is_written_for_one_server_never_reaches_another(servers: list[str], data: st.DataObject) -> None:
    tools = data.draw(st.lists(st.tuples(st.sampled_from(servers), _TEXTS), max_size=12))
    spaces, owners = Namespaces(servers), dict[str, str]()
    for server, tool in tools:
        prefix = data.draw(st.sampled_from([f"{server}_", ""]))
        if prefix + tool not in owners:
            owners[prefix + tool] = server
            spaces.add(prefix + tool, data.draw(st.sampled_from(servers)), server)
    lookup, member = NamespaceLookup(anything, near), data.draw(_TEXTS)

    def reached(path: str) -> set[str]:
        found = {lookup.member(spaces, path, member).tool, *spaces.table(path, anything).values()}
        return {owners[name] for name in found if name}

    for server in servers:
        if space := lookup.member(spaces, "", server).namespace:
            assert reached(space) <= {server}
        for path in {server, javascript_name(server), namespace_path(server), fold_name(server)}:
            alike = {other for other in servers if fold_name(other) == fold_name(path)}
            assert reached(path) <= ({path} if path in servers else alike)
            assert len(reached(path)) <= 1
    for name, owner in owners.items():
        if spaces.is_function(name):
            heads = {other for other in servers if name.startswith(f"{other}_")}
            assert not heads or owner in heads
