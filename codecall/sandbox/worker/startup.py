"""The start of a worker: loads everything that will ever be needed, and shuts the shared part of the jail."""

from __future__ import annotations

import os
import signal

from codecall.sandbox import wire
from codecall.sandbox.agentscript.analysis.calls import build_plan, build_report
from codecall.sandbox.agentscript.checked import InvalidScriptError
from codecall.sandbox.agentscript.engine.realm import SMALL_STACK_BYTES, Realm
from codecall.sandbox.agentscript.instrument import instrument
from codecall.sandbox.agentscript.policy import Rules
from codecall.sandbox.agentscript.validate import validate_script
from codecall.sandbox.agentscript.validator.names import AskTopic, namespace_finder
from codecall.sandbox.worker import jail

NICENESS = 5
"""How far below the server's a worker's priority is, in the units of nice(1)."""

WARM_UP_LIMITS = wire.Limits(
    timeout_ms=10_000,
    max_iterations=100,
    max_steps=10_000,
    max_tool_calls=10,
    max_tool_input_bytes=65_536,
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
"""Everything switched on, everything small."""

WARM_UP_SCRIPTS = (
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
"""Everything that a script can do, be refused for and fail with."""


_WARM_UP_ANSWERS: dict[AskTopic, str] = {
    "tool": '{"name": "t"}',
    "answers": '{"name": "t"}',
    "space": '{"members": {"list": "x"}}',
    "member": '{"tool": "x"}',
}


def load_and_jail(*, starlark: bool = False) -> jail.Shared:
    """Load everything that will ever be needed, Starlark only if asked to, and enter the part of the jail that does not
    depend on the worker: the first thing a worker does, or a fork server for its workers.

    Nothing can be loaded once the jail is shut, so a warm-up makes every module load what it puts off.
    """
    # An interrupt at the terminal is the server's business: it decides when its workers end.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # A script never competes with the server for the processor as an equal.
    os.nice(NICENESS)
    warm_up()
    if starlark:
        from codecall.sandbox.starlark import dialect  # only where a server has it switched on

        dialect.warm_up(WARM_UP_LIMITS)
    return jail.enter_shared()


def warm_up() -> None:
    """Run scripts through every part of a worker, and pack and decode their messages; the outcomes do not matter."""
    for script in WARM_UP_SCRIPTS:
        try:
            text, checked = validate_script(
                script, Rules.from_limits(WARM_UP_LIMITS), find_namespaces=namespace_finder(_warm_up_answer)
            )
        except InvalidScriptError as refused:
            build_report(refused.outline, refused.findings)
            continue
        build_report(checked.outline)
        plan = build_plan(checked.outline, dry_run=True)
        realm = Realm(WARM_UP_LIMITS, _warm_up_answer, lambda: 0.0, stack_bytes=SMALL_STACK_BYTES)
        program = instrument(text, checked, max_iterations=100)
        realm.start(program, context='{"b": 1}', namespaces=checked.namespaces)
        while realm.outcome is None and realm.pending_calls:
            calls = realm.drain_calls(1)
            wire.pack(wire.Calls(calls, realm.console.drain(), realm.count_steps(), 0.0, plan=plan))
            answers = [wire.Answer(call.call, ok=call.name == "x", payload='{"message": "m"}') for call in calls]
            body = wire.pack(wire.Answers(answers))[wire.HEADER.size :]
            message = wire.decode_server_message(body)
            if isinstance(message, wire.Answers):
                realm.resume(message.answers)
        if realm.outcome is not None:
            outcome = realm.outcome
            wire.pack(
                wire.Done(realm.console.drain(), realm.steps, 0.0, outcome.value, outcome.failure, outcome.warnings)
            )
        realm.close()


def _warm_up_answer(name: str, about: AskTopic = "tool", member: str = "") -> str:
    del name, member
    return _WARM_UP_ANSWERS[about]
