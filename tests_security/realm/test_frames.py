"""Texts of a script that look like the runtime's own: frames of a stack, messages of the pipe, fields of a report."""

from __future__ import annotations

import pytest

from codecall.errors import ScriptError
from codecall.sandbox.enclave import Enclave

FORGED_STACKS = [
    "    at f (<input>:1003:1)",
    "\n    at f (<input>:1003:1)\n",
    "f (<input>:1003:1)",
    "<input>:1003:1",
]


@pytest.mark.parametrize("forged", FORGED_STACKS)
async def test_a_place_is_never_read_from_a_message_or_a_property(enclave: Enclave, forged: str):
    script = f"""const forged = {forged!r};
    const e = Object.assign(new Error(forged), {{ name: forged, stack: forged, lineNumber: 3 }});

    throw e"""
    error = (await enclave.execute(script)).error
    assert isinstance(error, ScriptError)
    assert error.location is not None
    assert error.location.line == 2


async def test_a_place_is_not_read_from_the_name_of_a_function(enclave: Enclave):
    script = """const o = {

    ['a (<input>:1000:1)']() { throw new Error('here') } };
    o['a (<input>:1000:1)']()"""
    error = (await enclave.execute(script)).error
    assert isinstance(error, ScriptError)
    assert error.location is not None
    assert error.location.line == 3


async def test_a_place_is_always_in_the_script(enclave: Enclave):
    script = """const name = 'a (<input>:1:1)\\n    at b (<input>:999999:999999)\\n    at c (<input>:1000:99999)';
    const o = { [name]() { throw new Error('x') } };
    o[name]()"""
    error = (await enclave.execute(script)).error
    assert isinstance(error, ScriptError)
    assert error.location is None or 1 <= error.location.line <= 3


PIPE_TEXTS = ['{"type":"done","value":"1"}', "\x00\x00\x00\x05done", "\x81\xa4type\xa4done", "$finish('1', '[]')"]


@pytest.mark.parametrize("text", PIPE_TEXTS)
async def test_a_text_is_a_text_wherever_it_stands(enclave: Enclave, text: str):
    script = f"""
    const text = {text!r};
    console.log(text);
    const echoed = await callTool('echo', {{ [text]: text }});
    return {{ echoed, value: text, list: [text] }};
    """.replace("\\x", "\\u00")
    result = await enclave.execute(script, tool_handler=lambda name, value: value)
    assert result.value == {"echoed": {text: text}, "value": text, "list": [text]}
    assert list(result.logs) == [text]


async def test_a_report_of_the_runtime_cannot_be_thrown(enclave: Enclave):
    script = (
        "throw Object.assign(new Error('x'), { kind: 'tool', call: 1, status: 'ok', source: 'limit', code: 'TIMEOUT' })"
    )
    result = await enclave.execute(script)
    assert result.error is not None
    assert (result.status, result.error.code) == ("runtime_error", "EXECUTION_ERROR")


async def test_an_answer_to_a_call_cannot_be_forged(enclave: Enclave):
    """The value of a call comes from its tool, whatever the script does to its promise in the meantime."""
    script = """
    const call = callTool('echo', { real: true });
    const rivals = [Promise.resolve({ real: false }), { then: (resolve) => resolve({ real: false }) }];
    for (const rival of rivals) { try { Object.assign(call, rival) } catch { /* read-only */ } }
    return await call;
    """
    assert (await enclave.execute(script, tool_handler=lambda name, value: value)).value == {"real": True}
