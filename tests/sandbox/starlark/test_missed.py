"""Keys that a script asks an answer for with `get` in vain: a warning where another one was meant."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from starlark.eval.mutability import Mutability
from starlark.eval.values import Dict

from codecall.sandbox.agentscript.validator.names import AskTopic
from codecall.sandbox.starlark import missed
from codecall.sandbox.starlark.failures import KeysOfDict, keys_in
from codecall.sandbox.starlark.values import from_json
from tests.sandbox.starlark.test_engine import Host, value


class Shop(Host):
    """A host with tools that give pages and orders; one of them says what its answers may have."""

    def __init__(self) -> None:
        super().__init__(
            items_list=lambda cursor=None: {"items": [1, 2]} | ({} if cursor else {"next_cursor": "2"}),
            orders_list=lambda: {"data": [1], "page": 1},
            user=lambda: {"id": 1, "tags": ["a"]},
            names=lambda: {f"user-{number:06}": "a" for number in range(200)},
            wards=lambda: [{"name": "a", "occupied": 3}, {"name": "b", "occupied": 4, "note": "x"}],
            beds=lambda page=1: {"beds": [{"bed_id": page} | ({"beds_id": 1} if page > 1 else {})], "page": page},
            many=lambda: [{"notes": 1}] * 300 + [{"note": 1}],
            repos=lambda: {"edges": [{"node": {"stars": 2, "owner": {"login": "a"}}}, {"node": {"stars": 5}}]},
            page=lambda: {"data": {"rows": [{"a": 1}, {"a": 2}], "meta": {"cursor": "x"}}, "ok": True},
            one=lambda: [{"name": "a"}],
            rooms=lambda: [{"name": "a", "beds": 3}, {"name": "b", "beds": 4}],
            floors=lambda: [{"name": "a"}, {"name": "b"}, {"name": "c"}],
            pairs=lambda: [{"a": {"x": 1}, "b": {"x": 2}}, {"a": {"x": 1}}],
            typed=lambda: [{"name": "a"}, {"name": "b"}],
            paged=lambda page=1: [{"id": page}, {"id": -page} | ({"email": "e"} if page == 1 else {})],
            vast=lambda: [{"name": "a"}] * 3_000,
            basins=lambda: {
                "Ems": {"stations": {"active": ["e1", "e2"]}, "area": 1},
                "Elbe": {"stations": {"active": ["l1"], "retired": ["l2"]}, "area": 2, "note": "x"},
            },
            valleys=lambda: {
                f"v{n}": {"stations": {"active": [1]} | ({"retired": [2]} if n == 149 else {})} for n in range(150)
            },
            usage=lambda: {"series": {"2026-11-03": [{"l": 2}], "2026-11-05": [{"l": 4}]}, "meters": {"EMS-0012": 3}},
            counts=lambda: {"by_state": {"active": 3, "assigned": 4}},
            by_state=lambda: {"active": [{"id": 1}]},
            seats=lambda: [{"price_cents": cents, "paid": 0, "category": "box"} for cents in (4500, 2500, 900)],
            offers=lambda: [{"price_cents": cents, "offer": {"price": 9}} for cents in (4500, 2500)],
            users_list=lambda: {"users_count": 1, "data": [{"id": 1}]},
            batch=lambda: {"rows_count": 2, "batch": {"rows": [{"id": 1}]}},
            alarms=lambda: {"events": [{"id": 1}], "page": 1},
        )

    def ask(self, name: str, about: AskTopic = "tool", member: str = "") -> str | None:
        if about == "answers" and name == "user":
            return json.dumps({"outputSchema": {"properties": {"tag": {}, "items": {}}}})
        if about == "answers" and name == "typed":
            return json.dumps({"outputSchema": {"type": "array", "items": {"properties": {"email": {}}}}})
        return super().ask(name, about, member) if about != "answers" else None


@pytest.mark.parametrize(
    ("script", "warning"),
    [
        (
            'p = items_list()\nreturn p.get("nextCursor")',
            'The answer of items_list has no key "nextCursor", which line 2 asks for. The keys are "items", '
            '"next_cursor". Did you mean value["next_cursor"]?',
        ),
        (
            'return len(orders_list().get("orders", []))',
            'The answer of orders_list has no key "orders", which line 1 asks for. The keys are "data", "page". '
            'The list is value["data"].',
        ),
        (
            'r = try_call("orders_list")\nreturn r["value"].get("rows", [])',
            'The answer of orders_list has no key "rows"',
        ),
        ('return orders_list().get("orders") or []', 'The answer of orders_list has no key "orders"'),
        ('r = orders_list()\nreturn len(r.get("items") or [])', 'The answer of orders_list has no key "items"'),
        (
            'r = orders_list()\nfor x in r.get("items") or []:\n    print(x)',
            'The answer of orders_list has no key "items"',
        ),
        (
            "return sum([x.get('occupid', 0) for x in wards()])",
            'An item of the list in the answer of wards has no key "occupid", which line 1 asks for. The keys are '
            '"name", "occupied". Did you mean value["occupied"]?',
        ),
        (
            "return [x.get('bedid') for x in beds()['beds']]",
            'An item of value["beds"] in the answer of beds has no key "bedid", which line 1 asks for.',
        ),
        (
            'r = try_call("wards")\nreturn [x.get("nam") for x in r["value"]]',
            'An item of the list in the answer of wards has no key "nam"',
        ),
        (
            "w = rooms()\nreturn [x.get('email') for x in w]",
            'No item of the list in the answer of rooms has a key "email", which line 2 asks for. The keys are "name", '
            '"beds".',
        ),
        (
            "return [x for x in floors() if x.get('kind') == 'b']",
            "No item of the list in the answer of floors has a key",
        ),
        ("return [x for x in floors() if x.get('active')]", "No item of the list in the answer of floors has a key"),
        ("return sum([x.get('amount', 0) for x in rooms()])", "No item of the list in the answer of rooms has a key"),
        (
            "t = 0\nfor x in rooms():\n    t += x.get('amount') or 0\nreturn t",
            'No item of the list in the answer of rooms has a key "amount", which line 3 asks for.',
        ),
        (
            "out = {}\nfor x in rooms():\n    kind = x.get('kind')\n    out[kind] = x\nreturn len(out)",
            'No item of the list in the answer of rooms has a key "kind", which line 3 asks for.',
        ),
        (
            "return [x.get('b') for x in page()['data']['rows']]",
            'No item of value["data"]["rows"] in the answer of page has a key "b", which line 1 asks for.',
        ),
        (
            "return [e.get('stars', 0) for e in repos()['edges']]",
            'An item of value["edges"] in the answer of repos has no key "stars", which line 1 asks for. The keys are '
            '"node". Did you mean value["node"]["stars"]?',
        ),
        (
            "return [e.get('login') for e in repos()['edges']]",
            'An item of value["edges"] in the answer of repos has no key "login", which line 1 asks for. The keys are '
            '"node". Did you mean value["node"]["owner"]["login"]?',
        ),
        (
            'return len(page().get("rows", []))',
            'The answer of page has no key "rows", which line 1 asks for. The keys are "data", "ok". '
            'Did you mean value["data"]["rows"]?',
        ),
        (
            'return page()["data"].get("cursor")',
            'value["data"] in the answer of page has no key "cursor", which line 1 asks for. The keys are "rows", '
            '"meta". Did you mean value["meta"]["cursor"]?',
        ),
        (
            'r = try_call("page")\nreturn r.get("data", {})',
            'What try_call gives for page has no key "data", which line 2 asks for. Its keys are "ok" and "value": '
            'write value["value"]["data"].',
        ),
        (
            'return try_call("orders_list").get("rows", [])',
            'What try_call gives for orders_list has no key "rows", which line 1 asks for. Its keys are "ok" and '
            '"value": the answer is value["value"].',
        ),
        ('return try_call("wards").get("items") or []', 'What try_call gives for wards has no key "items"'),
        (
            'return alarms().get("notices", [])',
            'The answer of alarms has no key "notices", which line 1 asks for. The keys are "events", "page". '
            'The list is value["events"].',
        ),
        (
            "return sum([s.get('price', 0) for s in seats()])",
            'No item of the list in the answer of seats has a key "price", which line 1 asks for. The keys are '
            '"price_cents", "paid", "category". Did you mean value["price_cents"]?',
        ),
        (
            "t = 0\nfor s in seats():\n    t += s.get('cents') or 0\nreturn t",
            'No item of the list in the answer of seats has a key "cents", which line 3 asks for.',
        ),
        (
            "return sum([s.get('price', 0) for s in offers()])",
            'An item of the list in the answer of offers has no key "price", which line 1 asks for. The keys are '
            '"price_cents", "offer". Did you mean value["offer"]["price"]?',
        ),
        (
            'return len(users_list().get("users", []))',
            'The answer of users_list has no key "users", which line 1 asks for. The keys are "users_count", "data". '
            'The list is value["data"].',
        ),
        (
            'return len(batch().get("rows", []))',
            'The answer of batch has no key "rows", which line 1 asks for. The keys are "rows_count", "batch". '
            'Did you mean value["batch"]["rows"]?',
        ),
        (
            'return basins()["Ems"].get("statons", {})',
            'value["Ems"] in the answer of basins has no key "statons", which line 1 asks for. The keys are '
            '"stations", "area". Did you mean value["stations"]?',
        ),
        (
            'return try_call("no").get("data")',
            'What try_call gives for no has no key "data", which line 1 asks for. The call failed, so there is no '
            'value: look at value["ok"] first; value["error"]["message"] says why.',
        ),
    ],
)
def test_a_key_that_no_answer_has_is_named(script: str, warning: str) -> None:
    engine = Shop().run(script)
    value(engine)
    assert engine.outcome is not None
    assert len(engine.outcome.warnings) == 1
    assert engine.outcome.warnings[0].startswith(warning)


class Rows(Host):
    """A host with one tool, which gives three rows that all have this key, and nothing like another one."""

    def __init__(self, key: str) -> None:
        super().__init__(rows=lambda: [{key: number, "zz": 1} for number in range(3)])

    def ask(self, name: str, about: AskTopic = "tool", member: str = "") -> str | None:
        return super().ask(name, about, member) if about != "answers" else None


_words = st.text(st.sampled_from("abdeilnoprstux"), min_size=2, max_size=9)


@given(
    key=_words, other=st.sampled_from(["cents", "eur", "total", "code"]), gap=st.sampled_from(["", "_"]), use=st.data()
)
@settings(max_examples=60, deadline=None)
def test_a_similar_key_silences_no_warning(key: str, other: str, gap: str, use: st.DataObject) -> None:
    near = use.draw(st.sampled_from([f"{key}{gap}{other}", f"{other}{gap}{key}", key.capitalize(), f"{key}s"]))
    script = f"return sum([x.get('{key}', 0) for x in rows()])"
    outcomes = [Rows(there).run(script).outcome for there in (near, "qq")]
    assert [bool(outcome and outcome.warnings) for outcome in outcomes] in ([True, True], [False, False])


@pytest.mark.parametrize(
    "script",
    [
        'r = orders_list()\nreturn r.get("orders") or r.get("data")',
        'r = orders_list()\nreturn r.get("orders", r["data"])',
        'r = orders_list()\nreturn r.get("items") or r.get("data") or []',
        'r = orders_list()\nreturn r.get("items") or "none"',
        'r = orders_list()\nreturn r.get("note")',
        'return orders_list().get("note", "none")',
        'return user().get("items", [])',
        'return user().get("tag")',
        'a = items_list()\nb = items_list(cursor=a.get("next_cursor"))\nreturn b.get("next_cursor")',
        'return {"data": [1]}.get("orders", [])',
        'return orders_list().get("page")',
        "return [x.get('note') for x in wards()]",
        "return [x.get('rows', []) for x in wards()]",
        "return [x.get('occupid', x['occupied']) for x in wards()]",
        "return [x.get('beds_id') for n in (1, 2) for x in beds(page=n)['beds']]",
        "return [x.get('note') for x in many()]",
        'return names().get("user-00001", "none")',
        f'return orders_list().get("{"k" * 5_000}", [])',
        "return [x.get('email', 'none') for x in rooms()]",
        "return [x.get('email') or 'none' for x in rooms()]",
        "return [x for x in rooms() if not x.get('hidden')]",
        "return [x for x in rooms() if x.get('active')]",
        "return [x for x in rooms() if x.get('kind') == 'b']",
        "return [x for x in rooms() if x.get('status') == 'failed']",
        "return [x['name'] for x in rooms() if x.get('email') != None]",
        "out = []\nfor x in rooms():\n    if x.get('email'):\n        out.append(x.get('email'))\nreturn out",
        "out = []\nfor x in rooms():\n    mail = x.get('email')\n    if mail:\n        out.append(mail)\nreturn out",
        "return [x.get('email') if 'email' in x else 'none' for x in rooms()]",
        "return [type(x.get('email')) for x in rooms()]",
        "return [x.get('email', 0) > 3 for x in rooms()]",
        "return sum([x.get('discount', 0) for x in rooms()])",
        "return [x.get('errors') for x in rooms()]",
        "return [x.get('email') for x in wards()]",
        "return [x.get('email') for x in one()]",
        "return [x.get('email') for x in typed()]",
        "return [x.get('email') for n in (1, 2) for x in paged(page=n) if n == 2]",
        "return [x.get('email') for n in range(1, 30) for x in paged(page=n) if n == 29]",
        "return [x.get('email') for x in vast()]",
        "def read(x, key):\n    return x.get(key)\nreturn [read(x, 'email') for x in rooms()]",
        "return [x.get('x', 0) for x in pairs()]",
        "return [e.get('stars') or e['node']['stars'] for e in repos()['edges']]",
        "return [e.get('stars') if e.get('stars') else 0 for e in repos()['edges']]",
        'return page().get("cursor", "none")',
        'r = try_call("page")\nreturn [r.get("ok"), r.get("error"), r.get("value")]',
        'r = try_call("no")\nreturn [r.get("ok"), r.get("error"), r.get("value", {})]',
        'r = try_call("page")\nreturn r.get("data") or r["value"]["data"]',
        'r = try_call("page")\nreturn r["value"].get("ok")',
        'return {"a": [{"b": 1}, {"b": 2}]}["a"][0].get("c")',
        'return [s for b in basins().values() for s in b["stations"].get("maintenance", [])]',
        'return [s for b in basins().values() for s in b["stations"].get("maintenance") or []]',
        'return {k: len(b["stations"].get("retired", [])) for k, b in basins().items()}',
        'return basins()["Ems"]["stations"].get("retired", [])',
        'return basins()["Ems"].get("note")',
        'return len(valleys()["v0"]["stations"].get("retired", []))',
        'return usage()["series"].get("2026-11-04", [])',
        'return usage()["series"].get("2026-11-04")',
        'return usage()["meters"].get("EMS-0011")',
        'return usage().get("serial", 0)',
        'return counts()["by_state"].get("inactive", 0)',
        'return counts()["by_state"].get("unassigned", 0)',
        'c = counts()["by_state"]\nreturn [c.get(s, 0) for s in ("activ", "assigned")]',
        'return by_state().get("retired", [])',
        "return sum([s.get('price', s['price_cents']) for s in seats()])",
        "return sum([s.get('price', 0) + s['price_cents'] / 100 for s in seats()])",
        "t = 0\nfor s in seats():\n    t += s.get('price', 0)\n    t += s['price_cents'] / 100\nreturn t",
        "return sum([s.get('unpaid', 0) for s in seats()])",
        "return [s.get('price', 'none') for s in seats()]",
        "return [s.get('price', 0) for s in offers() if s['price_cents'] > 9]",
    ],
)
def test_a_key_that_may_be_missing_is_not_warned_of(script: str) -> None:
    engine = Shop().run(script)
    value(engine)
    assert engine.outcome is not None
    assert engine.outcome.warnings == []


@pytest.mark.parametrize(
    ("script", "times"),
    [
        ('r = names()\nreturn len([1 for n in range(300) if r.get("user-" + str(n)) == None])', 0),
        ('r = orders_list()\nreturn len([1 for n in range(300) if r.get("orders", []) == []])', 1),
        ('r = orders_list()\nreturn len([1 for n in range(300) if r.get("o" + str(n), []) == []])', 100),
    ],
)
def test_only_so_many_missing_keys_are_looked_at(script: str, times: int, monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at: list[object] = []

    def counted(owner: Dict, key: object) -> KeysOfDict:
        looked_at.append(key)
        return keys_in(owner, key)

    monkeypatch.setattr(missed, "keys_in", counted)
    assert value(Shop().run(script)) == 300
    assert len(looked_at) == times


def test_what_a_script_has_made_of_an_answer_is_looked_up_all_the_same() -> None:
    engine = Shop().run('r = try_call("no")\nr.pop("ok")\nr.pop("error")\nreturn r.get("rows")')
    assert value(engine) is None


def test_what_stands_deeper_is_looked_for_in_so_many_values(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(missed, "_MAX_HOLDERS", 3)
    engine = Shop().run("return [e.get('login', 0) for e in repos()['edges']]")
    assert engine.outcome is not None
    assert engine.outcome.warnings == []


def test_only_so_many_answers_and_items_are_kept() -> None:
    keys = missed.MissedKeys()
    for number in range(3 * missed.MAX_ANSWERS):
        keys.add_answer(f"tool{number}", from_json(json.dumps([{"a": 1}] * 1_000), Mutability()))
    assert len(keys._answers) == missed.MAX_ANSWERS
    assert len(keys._places) == missed.MAX_ANSWERS * missed._MAX_PLACES
