"""What a worker that has been taken over may say, and the code it ends in. Read by test_hostile_workers.py.

A program runs after `hostile.PREAMBLE`. `begin()` has played by the rules up to the script; what follows does not.
"""

from __future__ import annotations

from typing import NamedTuple

INVALID = "MESSAGE_INVALID"
LARGE = "MESSAGE_TOO_LARGE"
FLOOD = "MESSAGE_FLOOD"
CRASHED = "WORKER_CRASHED"
STARTUP = "WORKER_STARTUP_FAILED"
TIMEOUT = "WORKER_TIMEOUT"


class Violation(NamedTuple):
    """One way of breaking the protocol."""

    title: str
    program: str
    code: str


STARTING = [
    Violation("ends before it is ready", "os._exit(7)", STARTUP),
    Violation("ends by a signal before it is ready", "os.kill(os.getpid(), signal.SIGKILL)", STARTUP),
    Violation("is asked to end before it is ready", "os.kill(os.getpid(), signal.SIGTERM)", STARTUP),
    Violation("speaks of calls before it is ready", "calls([1, 'a', '{}']); wait()", STARTUP),
    Violation("is done before it is ready", "done(value='1'); wait()", STARTUP),
    Violation("garbage before it is ready", "s.sendall(b'GET / HTTP/1.1\\r\\n\\r\\n'); wait()", STARTUP),
    Violation(
        "says a lot before it is ready",
        "send({'type': 'ready', 'layers': [], 'failure': 'x' * 70000}); wait()",
        STARTUP,
    ),
    Violation(
        "has too many layers",
        "send({'type': 'ready', 'layers': [{'name': 'a', 'active': True, 'detail': ''}] * 33})",
        STARTUP,
    ),
    Violation("closes its pipe before it is ready", "s.close(); os.close(0) if 0 else wait()", STARTUP),
    Violation("never becomes ready", "wait()", STARTUP),
    Violation(
        "is ready twice",
        "receive(); f = frame(pack({'type': 'ready', 'layers': []})); s.sendall(f + f); wait()",
        INVALID,
    ),
    Violation(
        "is done before it has a script",
        "receive(); s.sendall(frame(pack({'type': 'ready', 'layers': []})) + frame(pack(message('done', "
        "value='1')))); wait()",
        INVALID,
    ),
]
"""Before there is a script."""

FRAMES = [
    Violation("tells lines that nobody asked for", "begin(); done(value='1', lines=[1]); wait()", INVALID),
    Violation("an empty frame", "begin(); s.sendall(frame(b''))", INVALID),
    Violation("four bytes of text", "begin(); s.sendall(frame(b'abcd'))", INVALID),
    Violation("JSON instead of MessagePack", "begin(); s.sendall(frame(b'{\"type\":\"done\"}'))", INVALID),
    Violation("an unknown message", "begin(); send({'type': 'nonsense'})", INVALID),
    Violation("a message of the server", "begin(); send({'type': 'start', 'script': '1'})", INVALID),
    Violation("a message of another protocol", "begin(); send({'type': 'answers', 'answers': []})", INVALID),
    Violation("no tag", "begin(); send({'name': 'x'})", INVALID),
    Violation("the tag last", "begin(); send({'name': 'x', 'type': 'ask'})", INVALID),
    Violation("a tag that is a number", "begin(); send({'type': 7, 'name': 'x'})", INVALID),
    Violation(
        "a bomb before the tag",
        "begin(); send({'x': b'\\xdd\\0\\x2d\\0\\0' + b'\\xc0' * 0x2d0000, 'type': 'ask', 'name': 'x'})",
        INVALID,
    ),
    Violation("a list instead of a map", "begin(); send(['type', 'ask'])", INVALID),
    Violation(
        "bytes behind the message",
        "begin(); s.sendall(frame(pack(message('done', value='1')) + b'x'))",
        INVALID,
    ),
    Violation("an unknown field", "begin(); done(value='1', admin=True)", INVALID),
    Violation("a bomb in an unknown field", "begin(); done(value='1', x=b'\\x91' * 1000000 + b'\\xc0')", INVALID),
    Violation("text that is not UTF-8", "begin(); done(value=b'\\xa2\\xff\\xfe')", INVALID),
    Violation("a surrogate as UTF-8", "begin(); ask('\\ud800')", INVALID),
    Violation("an extension type", "begin(); done(value=b'\\xd4\\x01\\x01')", INVALID),
    Violation("a date", "begin(); done(value=b'\\xd6\\xff\\0\\0\\0\\0')", INVALID),
    Violation("binary data as text", "begin(); done(value=b'\\xc4\\x011')", INVALID),
    Violation("a list that says it is huge", "begin(); done(logs=b'\\xdd\\xff\\xff\\xff\\xff')", INVALID),
    Violation("a text that says it is huge", "begin(); done(value=b'\\xdb\\xff\\xff\\xff\\xff')", INVALID),
    Violation("4 GiB announced", "begin(); s.sendall(b'\\xff\\xff\\xff\\xff'); wait()", LARGE),
    Violation("64 MiB announced", "begin(); s.sendall(struct.pack('>I', 1 << 26)); wait()", LARGE),
    Violation("16 MiB sent", "begin(); done(value=b'\\xdb\\1\\0\\0\\0' + bytes(1 << 24))", LARGE),
    Violation("text instead of frames", "begin(); s.sendall(b'Traceback (most recent call last):\\n'); wait()", LARGE),
    Violation("half a header, then nothing", "begin(); s.sendall(b'\\0\\0'); wait()", TIMEOUT),
    Violation("half a header, then the end", "begin(); s.sendall(b'\\0\\0'); os._exit(0)", CRASHED),
    Violation("half a frame, then nothing", "begin(); s.sendall(b'\\0\\0\\1\\0abc'); wait()", TIMEOUT),
    Violation("half a frame, then the end", "begin(); s.sendall(b'\\0\\0\\1\\0abc'); os._exit(3)", CRASHED),
    Violation(
        "a frame in too many fragments",
        "begin()\nfor b in frame(pack(message('done', value=repr('x' * 9000)))): s.send(bytes([b])); "
        "time.sleep(0.00005)",
        FLOOD,
    ),
]  # fmt: skip
"""Frames that carry no message."""

ENDINGS = [
    Violation("ends well", "begin(); os._exit(0)", CRASHED),
    Violation("ends badly", "begin(); os._exit(3)", CRASHED),
    Violation("segmentation fault", "begin(); os.kill(os.getpid(), signal.SIGSEGV)", CRASHED),
    Violation("kill -9", "begin(); os.kill(os.getpid(), signal.SIGKILL)", CRASHED),
    Violation("a signal without a name", "begin(); os.kill(os.getpid(), 40)", CRASHED),
    Violation("kill -TERM", "begin(); os.kill(os.getpid(), signal.SIGTERM)", "EXECUTION_ABORTED"),
    Violation("closes its pipe and lives on", "begin(); s.shutdown(socket.SHUT_RDWR); wait()", CRASHED),
    Violation("closes one direction", "begin(); s.shutdown(socket.SHUT_WR); wait()", CRASHED),
    Violation("says nothing", "begin(); wait()", TIMEOUT),
    Violation("stops itself", "begin(); os.kill(os.getpid(), signal.SIGSTOP)", TIMEOUT),
    Violation("reads nothing", "ready(); wait()", TIMEOUT),
    Violation("reads slowly", "ready()\nwhile True: s.recv(1); time.sleep(0.001)", TIMEOUT),
    Violation("reads no answer", "begin()\nfor i in range(100): calls([i + 1, 'big', '{}']); time.sleep(0.1)", TIMEOUT),
]
"""Ways of not being there any more."""

TURNS = [
    Violation("ready again", "begin(); send({'type': 'ready', 'layers': []})", INVALID),
    Violation("waits for nothing", "begin(); calls()", INVALID),
    Violation("waits for nothing, twice", "begin(); calls([1, 'a', '{}']); receive(); calls()", INVALID),
    Violation(
        "asks twice at once",
        "begin(); f = frame(pack({'type': 'ask', 'name': 'a'})); s.sendall(f + f); wait()",
        INVALID,
    ),
    Violation(
        "calls and is done at once",
        "begin(); s.sendall(frame(pack(message('calls', calls=[[1, 'a', '{}']]))) + "
        "frame(pack(message('done', value='1')))); wait()",
        INVALID,
    ),
    Violation(
        "asks and calls at once",
        "begin(); s.sendall(frame(pack({'type': 'ask', 'name': 'a'})) + frame(pack(message('calls', "
        "calls=[[1, 'a', '{}']])))); wait()",
        INVALID,
    ),
    Violation(
        "half a frame while the server has the turn",
        "begin(); s.sendall(frame(pack(message('calls', calls=[[1, 'a', '{}']]))) + b'\\0'); wait()",
        INVALID,
    ),
    Violation("asks without end", "begin()\nwhile True: ask('a'); receive()", FLOOD),
    Violation("asks for a long name", "begin(); ask('a' * 257)", INVALID),
    Violation(
        "asks for a long member",
        "begin(); send({'type': 'ask', 'name': 'a', 'about': 'member', 'member': 'a' * 257})",
        INVALID,
    ),
    Violation("asks about what there is not", "begin(); send({'type': 'ask', 'name': 'a', 'about': 'x'})", INVALID),
    Violation(
        "asks for namespaces without end",
        "begin()\nwhile True: send({'type': 'ask', 'name': 'a', 'about': 'space'}); receive()",
        FLOOD,
    ),
    Violation("plans twice", "begin(); planned(); receive(); done(value='1', plan={'sites': []})", INVALID),
    Violation("plans when the script runs", "begin(); calls([1, 'a', '{}']); receive(); planned()", INVALID),
    Violation("plans before there is a script", "receive(); planned(); wait()", "WORKER_STARTUP_FAILED"),
    Violation("plans in a message of its own", "begin(); send({'type': 'plan', 'sites': []})", INVALID),
    Violation("plans 501 calls", "begin(); planned(*[['a', '[1,{}]', 0]] * 501)", INVALID),
    Violation("plans a place behind the script", "begin(); planned(['a', '[1,{}]', 9])", INVALID),
    Violation("plans a place before the script", "begin(); planned(['a', '[1,{}]', -1])", INVALID),
    Violation("plans a name of 257 characters", "begin(); planned(['a' * 257, '[1,{}]', 0])", INVALID),
    Violation("plans a call without a place", "begin(); planned(['a', '[1,{}]'])", INVALID),
    Violation("plans input that is no JSON", "begin(); planned(['a', '[1,', 0])", INVALID),
    Violation("plans input without its mark", "begin(); planned(['a', '{}', 0])", INVALID),
    Violation("plans input that is a list", "begin(); planned(['a', '[3,[]]', 0])", INVALID),
    Violation("plans a member without a place", "begin(); planned(['a', '[1,{\"a\":5}]', 0])", INVALID),
    Violation("plans input nested 80 deep", "begin(); planned(['a', '[3,[' * 80 + ']]' * 80, 0])", INVALID),
    Violation("plans input nested 5000 deep", "begin(); planned(['a', '[' * 5000 + ']' * 5000, 0])", INVALID),
    Violation("plans input of a megabyte", "begin(); planned(['a', '[1,{\"a\":[0,\"' + 'x' * (1 << 20) + '\"]}]', 0])",
              INVALID),
    Violation(
        "plans input of a megabyte in pieces",
        "begin(); planned(*[['a', '[1,{\"a\":[0,\"' + 'x' * 20000 + '\"]}]', 0]] * 50)",
        INVALID,
    ),
    Violation("asks for a huge name", "begin(); ask('a' * 3000000)", INVALID),
    Violation("the same call again", "begin(); calls([1, 'a', '{}']); receive(); calls([1, 'a', '{}'])", INVALID),
    Violation(
        "uses little time of each turn, and many turns",
        "begin()\nfor i in range(100): calls([i + 1, 'a', '{}']); receive(); time.sleep(0.2)",
        TIMEOUT,
    ),
    Violation(
        "says that all its time is used",
        "begin(); calls([1, 'a', '{}'], script_ms=9e9); receive(); wait()",
        TIMEOUT,
    ),
]  # fmt: skip
"""Messages that are well formed and out of turn."""

CALLS = [
    Violation("call 0", "begin(); calls([0, 'a', '{}'])", INVALID),
    Violation("call 2 first", "begin(); calls([2, 'a', '{}'])", INVALID),
    Violation("call -1", "begin(); calls([-1, 'a', '{}'])", INVALID),
    Violation("call 2 ** 64 - 1", "begin(); calls([2**64 - 1, 'a', '{}'])", INVALID),
    Violation("the same number twice", "begin(); calls([1, 'a', '{}'], [1, 'a', '{}'])", INVALID),
    Violation("a call without input", "begin(); calls([1, 'a'])", INVALID),
    Violation("a call with more than input", "begin(); calls([1, 'a', '{}', 'now'])", INVALID),
    Violation("a call of another kind", "begin(); calls([1, 'a', '{}', 'file'])", INVALID),
    Violation("a call whose kind is a number", "begin(); calls([1, 'a', '{}', 0])", INVALID),
    Violation("a call whose kind is nothing", "begin(); calls([1, 'a', '{}', None])", INVALID),
    Violation("a call with more than its kind", "begin(); calls([1, 'a', '{}', 'tool', 'now'])", INVALID),
    Violation("a template instead of a URI", "begin(); calls([1, 'a://{b}', '{}', 'template'])", INVALID),
    Violation("a resource with input", "begin(); calls([1, 'data://a', '{\"a\":1}', 'resource'])", INVALID),
    Violation("a resource without any", "begin(); calls([1, 'data://a', '', 'resource'])", INVALID),
    Violation("a URI of 1025 characters", "begin(); calls([1, 'a' * 1025, '{}', 'resource'])", INVALID),
    Violation("a URI as the name of a tool", "begin(); calls([1, 'a' * 1024, '{}', 'tool'])", INVALID),
    Violation("a URI as the name of a prompt", "begin(); calls([1, 'a' * 257, '{}', 'prompt'])", INVALID),
    Violation("a URI that is bytes", "begin(); calls([1, b'\\xc4\\x011', '{}', 'resource'])", INVALID),
    Violation("a URI that is a surrogate", "begin(); calls([1, 'data://\\ud800', '{}', 'resource'])", INVALID),
    Violation("a prompt whose input is a list", "begin(); calls([1, 'a', '[]', 'prompt'])", INVALID),
    Violation("101 reads of 100", "begin(); calls(*[[i + 1, 'a', '{}', 'resource'] for i in range(101)])", INVALID),
    Violation(
        "reads numbered on their own",
        "begin(); calls([1, 'a', '{}']); receive(); calls([1, 'data://a', '{}', 'resource'])",
        INVALID,
    ),
    Violation("a call that is a map", "begin(); calls({'call': 1, 'name': 'a', 'input': '{}'})", INVALID),
    Violation("a name of 257 characters", "begin(); calls([1, 'a' * 257, '{}'])", INVALID),
    Violation("a name that is a number", "begin(); calls([1, 5, '{}'])", INVALID),
    Violation("input that is no JSON", "begin(); calls([1, 'a', '['])", INVALID),
    Violation("input that is empty", "begin(); calls([1, 'a', ''])", INVALID),
    Violation("input that is a list", "begin(); calls([1, 'a', '[]'])", INVALID),
    Violation("input that is a number", "begin(); calls([1, 'a', '1'])", INVALID),
    Violation("two inputs in one", "begin(); calls([1, 'a', '{}{}'])", INVALID),
    Violation("input nested 60 deep", "begin(); calls([1, 'a', '{\"a\":' * 60 + '1' + '}' * 60])", INVALID),
    Violation("input nested 5000 deep", "begin(); calls([1, 'a', '{\"a\":' * 5000])", INVALID),
    Violation(
        "input beyond the preset's size",
        "begin(); calls([1, 'a', '{\"a\":\"' + 'x' * (1 << 20) + '\"}'])",
        INVALID,
    ),
    Violation(
        "an input kept back that has a size and is there",
        "begin(); calls([1, 'a', '{\"a\":1}', 'tool', False, None, None, 9999999])",
        INVALID,
    ),
    Violation("101 calls of 100", "begin(); calls(*[[i + 1, 'a', '{}'] for i in range(101)])", INVALID),
    Violation("101 calls one by one", "begin()\nfor i in range(101): calls([i + 1, 'a', '{}']); receive()", INVALID),
    Violation(
        "1001 calls at once",
        "begin(); calls(*[[i + 1, 'a', '{}'] for i in range(1001)])",
        "TOO_MANY_PENDING_CALLS",
    ),
    Violation(
        "a million calls at once",
        "begin(); send(message('calls', calls=b'\\xdd\\0\\x0f\\0\\0' + b'\\x93\\1\\xa0\\xa0' * 0xf0000))",
        INVALID,
    ),
]  # fmt: skip
"""Tool calls that no script makes."""

REPORTS = [
    Violation("logs that are no list", "begin(); done(value='1', logs='x')", INVALID),
    Violation("logs of numbers", "begin(); done(value='1', logs=[1])", INVALID),
    Violation("101 lines of 100", "begin(); done(value='1', logs=['x'] * 101)", FLOOD),
    Violation("64 KiB of lines and more", "begin(); done(value='1', logs=['x' * 65537])", FLOOD),
    Violation("64 KiB counted in bytes", "begin(); done(value='1', logs=['\\u20ac' * 22000])", FLOOD),
    Violation(
        "a million empty lines",
        "begin(); done(value='1', logs=b'\\xdd' + struct.pack('>I', 1000000) + b'\\xa0' * 1000000)",
        INVALID,
    ),
    Violation("steps below 0", "begin(); done(value='1', steps=-1)", INVALID),
    Violation("steps beyond 2 ** 53", "begin(); done(value='1', steps=2**60)", INVALID),
    Violation("half a step", "begin(); done(value='1', steps=1.5)", INVALID),
    Violation("time that is no number", "begin(); done(value='1', script_ms=float('nan'))", INVALID),
    Violation("endless time", "begin(); done(value='1', script_ms=float('inf'))", INVALID),
    Violation("time that runs backwards", "begin(); done(value='1', script_ms=-1.0)", INVALID),
    Violation("time as text", "begin(); done(value='1', script_ms='1')", INVALID),
    Violation("three thousand warnings", "begin(); done(value='1', warnings=['x'] * 3000)", INVALID),
]  # fmt: skip
"""Console lines and counters beyond belief."""

RESULTS = [
    Violation("no result and no failure", "begin(); done()", INVALID),
    Violation("a result that is no text", "begin(); done(value=1)", INVALID),
    Violation("a result that is no JSON", "begin(); done(value='{')", INVALID),
    Violation("an empty result", "begin(); done(value='')", INVALID),
    Violation("NaN", "begin(); done(value='NaN')", INVALID),
    Violation("a number beyond all bounds", "begin(); done(value='1e999')", INVALID),
    Violation("a number of a million digits", "begin(); done(value='1' * 1000000)", INVALID),
    Violation("half a surrogate pair", "begin(); done(value='\"\\\\ud800\"')", INVALID),
    Violation("nested 60 deep", "begin(); done(value='[' * 60 + ']' * 60)", INVALID),
    Violation(
        "nested 60 deep within strings and rows",
        "begin(); done(value='[\"[[[\",{\"a\":' + '[' * 60 + ']' * 60 + '}]')",
        INVALID,
    ),
    Violation("nested 500 deep", "begin(); done(value='[' * 500 + ']' * 500)", INVALID),
    Violation("nested 60000 deep", "begin(); done(value='[' * 60000)", INVALID),
    Violation("larger than the preset", "begin(); done(value='\"' + 'x' * (1 << 20) + '\"')", INVALID),
    Violation("larger, counted in bytes", "begin(); done(value='\"' + '\\u20ac' * 400000 + '\"')", INVALID),
    Violation("349000 empty lists", "begin(); done(value='[' + '[],' * 349000 + '[]]')", "OUTPUT_LIMIT"),
    Violation(
        "a bomb of lists among strings",
        "begin(); done(value='[\"\\\\\\\\\",' + '[],' * 300000 + '\"[\"]')",
        "OUTPUT_LIMIT",
    ),
]  # fmt: skip
"""Results that no runtime sends."""

FAILURES = [
    Violation("an unknown code", "begin(); failed('OK')", INVALID),
    Violation("a code of the server", "begin(); failed('POOL_DISPOSED')", INVALID),
    Violation("an unknown status", "begin(); failed('TIMEOUT', status='ok')", INVALID),
    Violation("an unknown kind", "begin(); failed('VALIDATION_ERROR', kind='Trust')", INVALID),
    Violation("a refusal without a kind", "begin(); failed('VALIDATION_ERROR')", INVALID),
    Violation("a failed call that was not made", "begin(); failed('TOOL', status='tool_error', call=1)", INVALID),
    Violation("a failed call without a number", "begin(); failed('TOOL', status='tool_error')", INVALID),
    Violation(
        "a failed call that worked",
        "begin(); calls([1, 'a', '{}']); receive(); failed('TOOL', call=1)",
        INVALID,
    ),
    Violation("another failure of a call that was not made", "begin(); failed('EXECUTION_ERROR', call=2**31)", INVALID),
    Violation(
        "another failure of a call that worked",
        "begin(); calls([1, 'a', '{}']); receive(); failed('EXECUTION_ERROR', call=1)",
        INVALID,
    ),
    Violation("line 0", "begin(); failed('EXECUTION_ERROR', line=0, column=1)", INVALID),
    Violation("line -1", "begin(); failed('EXECUTION_ERROR', line=-1, column=1)", INVALID),
    Violation("a line behind the script", "begin(); failed('EXECUTION_ERROR', line=1000, column=1)", INVALID),
    Violation("a column behind the script", "begin(); failed('SYNTAX_ERROR', line=1, column=2**40)", INVALID),
    Violation("half a line", "begin(); failed('SYNTAX_ERROR', line=1.5, column=1)", INVALID),
    Violation("a hint of 300000 characters", "begin(); failed('EXECUTION_ERROR', hint='x' * 300000)", INVALID),
    Violation(
        "a message of 16 MiB",
        "begin(); failed('EXECUTION_ERROR', message=b'\\xdb\\1\\0\\0\\0' + bytes(1 << 24))",
        LARGE,
    ),
    Violation("an unknown field of a failure", "begin(); failed('EXECUTION_ERROR', source='tool')", INVALID),
]  # fmt: skip
"""Failures that no runtime reports."""

LIES = [
    Violation("a syntax error that is none", "begin(); failed('SYNTAX_ERROR', status='tool_error')", "SYNTAX_ERROR"),
    Violation("a limit with another status", "begin(); failed('STEP_LIMIT', status='syntax_error')", "STEP_LIMIT"),
    Violation("a timeout that is none", "begin(); failed('TIMEOUT', status='illegal_access')", "TIMEOUT"),
    Violation("its own memory", "begin(); failed('WORKER_MEMORY_EXCEEDED')", "WORKER_MEMORY_EXCEEDED"),
    Violation(
        "an error",
        "begin(); failed('EXECUTION_ERROR', message='\\0\\u202e' + 'x' * 100000, name='N' * 900)",
        "EXECUTION_ERROR",
    ),
]  # fmt: skip
"""What a worker may say although it is not so: the same as any script can bring about by itself."""

VIOLATIONS = [*STARTING, *FRAMES, *ENDINGS, *TURNS, *CALLS, *REPORTS, *RESULTS, *FAILURES, *LIES]
