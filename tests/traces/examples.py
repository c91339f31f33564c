"""Traces of every kind of part, with texts of choice in all places that strangers write to."""

from __future__ import annotations

from codecall.traces.model import ConsoleLine, LimitUsage, Trace, TraceCall, TraceError, TraceValue

ATTACKS = [
    "</script><script>window.stolen = 1</script>",
    "</style><img src='https://attacker.example/x.png' onerror='window.stolen = 1'>",
    "<svg onload=window.stolen=1><a href='javascript:window.stolen=1'>here</a></svg>",
    "</title></pre></code></details><iframe srcdoc='<script>parent.stolen=1</script>'></iframe>",
    "<!-- \"' onmouseover=window.stolen=1 x='",
    "<meta http-equiv=refresh content='0;url=https://attacker.example'>",
    "<link rel=stylesheet href=//attacker.example/x.css><base href=//attacker.example>",
    "\u202eevil\u2066 \x1b[31mred\x1b[0m \ud800 \x00 \ufeff \U000e0041",
    "&lt;b&gt; &#60;b&#62; ]]> {{x}} ${x}",
]


def written(text: str) -> Trace:
    """A trace with `text` wherever a script, a tool or a file can put one."""
    calls = (
        TraceCall(
            1,
            text,
            text,
            5.0,
            20.0,
            "ok",
            None,
            1,
            3,
            False,
            TraceValue({text: [text]}, True, 30),
            TraceValue(text, True, 9),
        ),
        TraceCall(2, "tool", text, 10.0, 18.0, "error", text, 2, None, False, TraceValue(text, True, 3), TraceValue()),
        TraceCall(3, "resource", text, 11.0, None, "unfinished", None, 99, 1),
        TraceCall(4, "tool", text, None, None, text, text),
        TraceCall(5, "tool", text, 2.0, 60.0, "ok", None, 2, 1, True, TraceValue(), TraceValue(chars=70)),
    )
    return Trace(
        run_id=text,
        when=1_790_000_000.0,
        caller=text,
        preset=text,
        status=text,
        script=f"{text}\n{text}",
        script_sha256=text,
        duration_ms=80.0,
        queue_ms=2.0,
        validation_ms=3.0,
        calls=calls,
        console=(ConsoleLine(text, 12.0), ConsoleLine(text)),
        result=TraceValue(text, True, 7),
        error=TraceError(text, text, text, text, 2, 4),
        warnings=(text,),
        limits=(
            LimitUsage("Steps", "", 10, 100),
            LimitUsage("Memory", "bytes", None, 100),
            LimitUsage("Result", "bytes", 5, None),
        ),
        resumed_from=text,
        notes=(text,),
    )


def many(calls: int, chars: int) -> Trace:
    """A run of so many calls, whose results have so many characters together, up to 50 at a time."""
    value = TraceValue({"rows": ["x" * 97] * max(1, chars // calls // 100)}, True, chars // calls)

    def call(number: int) -> TraceCall:
        start_ms = number // 50 * 10.0
        end_ms = start_ms + 5 + number % 5
        failed = ("error", "TOOL_EXECUTION_ERROR") if number % 997 == 0 else ("ok", None)
        place = (number % 30 + 1, 1)
        given = TraceValue({"n": number}, True, 8)
        return TraceCall(number, "tool", f"tool_{number % 40}", start_ms, end_ms, *failed, *place, False, given, value)

    made = tuple(map(call, range(1, calls + 1)))
    script = "\n".join(f"await callTool('tool_{n}')" for n in range(30))
    return Trace("run_many", 1_790_000_000.0, "c", "secure", "ok", script, duration_ms=calls / 5, calls=made)
