"""Stubs and recordings answer calls with `{ reference: true }`, and get the values of references."""

from __future__ import annotations

from codecall.options import SanitizationOptions
from codecall.sandbox.callbacks import CallbackBroker
from codecall.sandbox.enclave import Enclave
from codecall.testing import ScriptEnclave, Stubs
from codecall.testing.recording.brokers import RecordingBroker, ReplayBroker
from codecall.testing.recording.cassette import RecordedCall, Replay, format_recording

ROWS = [{"id": number, "text": "x" * 40} for number in range(50)]

PASS_ON = """
const rows = await callTool('rows', {}, { reference: true });
return [rows.type, rows.length, await callTool('take', { rows })];
"""


def test_stubs(codecall_enclave: ScriptEnclave, tool_stub: Stubs) -> None:
    tool_stub("rows", returns=ROWS)
    tool_stub("take", returns=50)
    assert codecall_enclave.run(PASS_ON).value == ["array", 50, 50]
    assert tool_stub.calls.of("take").inputs == [{"rows": ROWS}]


async def test_recordings() -> None:
    """A recording has values, so that it answers a run whose tokens are others."""

    def handler(name: str, arguments: dict[str, object]) -> object:
        return ROWS if name == "rows" else 7

    entries: list[RecordedCall] = []
    live = CallbackBroker(handler, None, None, SanitizationOptions())
    surplus: list[RecordedCall] = []
    async with Enclave("secure", pool={"max_workers": 1}) as enclave:
        recorded = await enclave.run(PASS_ON, RecordingBroker(live, entries))
        replayed = await enclave.run(PASS_ON, ReplayBroker(Replay(entries), surplus.append))
    assert recorded.value == replayed.value == ["array", 50, 7]
    assert surplus == []
    assert "ref_" not in format_recording(entries)
