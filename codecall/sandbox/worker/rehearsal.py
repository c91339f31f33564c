"""One script through every part of a worker before the jail is shut: nothing can be loaded afterwards."""

from __future__ import annotations

from codecall.sandbox import wire
from codecall.sandbox.agentscript.guard import Refused
from codecall.sandbox.agentscript.instrument import instrument
from codecall.sandbox.agentscript.outlining import plan_of, report_of
from codecall.sandbox.agentscript.policy import Rules
from codecall.sandbox.agentscript.realm import Realm
from codecall.sandbox.agentscript.sources import read
from codecall.sandbox.agentscript.spaces import About, spaces_of

LIMITS = wire.Limits(
    timeout_ms=10_000,
    max_iterations=100,
    max_steps=10_000,
    max_tool_calls=10,
    memory_mb=16,
    max_result_bytes=65_536,
    allow_console=True,
    max_console_calls=10,
    max_console_bytes=1_000,
    allow_loops=True,
    allow_regex=True,
    allow_clock=True,
    sanitize_max_depth=10,
    sanitize_max_properties=100,
    sanitize_max_string=1_000,
    sanitize_max_array=100,
)
"""Everything on, everything small."""

SCRIPTS = (
    """
    const { a = 1, ...rest } = codecallContext;
    class Point { x = a; get twice() { return this.x * 2 } }
    console.log(`point ${new Point().twice}`, /\\d+/.exec('12')?.[0], getTool('t'), rest);
    for (const name of ['x', 'y']) { try { await callTool(name, { at: new Date(0) }) } catch (e) { console.warn(e) } }
    return { items: [1, 2.5, 'é😀'].map((item) => item), map: new Map([[1, 2]]) };
    """,
    "return [await things.list({}), 'x' in things, await tools.x({ at: 1 })]",
    """```ts
    interface Item<T> { value?: T }
    const items: Item<number>[] = [<Item<number>>{ value: 1 }];
    return items.map((item): number => item.value!) as readonly unknown[];
    ```""",
    "enum Color { Red }",
    "throw new TypeError('thrown')",
    "const x = {",
    "eval('1'); while (true) {}",
    "return (() => { for (;;) {} })()",
    "const dive = () => dive(); return dive()",
)
"""What a script can do, be refused for and fail with."""


_ANSWERS: dict[About, str] = {
    "tool": '{"name": "t"}',
    "space": '{"members": {"list": "x"}}',
    "member": '{"tool": "x"}',
}


def _answer(name: str, about: About = "tool", member: str = "") -> str:
    del name, member
    return _ANSWERS[about]


def rehearse() -> None:
    """Check and run SCRIPTS, and pack and read what comes of it; the outcomes do not matter."""
    for script in SCRIPTS:
        try:
            text, checked = read(script, Rules.of(LIMITS), spaces=spaces_of(_answer))
        except Refused as refused:
            report_of(refused.outline, refused.findings)
            continue
        report_of(checked.outline)
        if (plan := plan_of(checked.outline, dry_run=True)) is not None:
            wire.pack(plan)
        realm = Realm(LIMITS, _answer, lambda: 0.0)
        program = instrument(text, checked, max_iterations=100)
        realm.start(program, form=checked.form, context='{"b": 1}', spaces=checked.spaces)
        while realm.outcome is None and realm.pending:
            calls = realm.take_calls(1)
            wire.pack(wire.Calls(calls, realm.logs, realm.count_steps(), 0.0))
            answers = [wire.Answer(call.call, ok=call.name == "x", payload='{"message": "m"}') for call in calls]
            body = wire.pack(wire.Answers(answers))[wire.HEADER.size :]
            message = wire.decode_server_message(body)
            if isinstance(message, wire.Answers):
                realm.resume(message.answers)
        if realm.outcome is not None:
            outcome = realm.outcome
            wire.pack(wire.Done(realm.logs, realm.steps, 0.0, outcome.value, outcome.failure, outcome.warnings))
        realm.close()
