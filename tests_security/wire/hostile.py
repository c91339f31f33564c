"""Workers that have been taken over: real processes in a worker's place that say what they like.

They start in some twenty milliseconds, because they load little and write MessagePack by themselves (`PREAMBLE`). What
follows, a program of one or two lines, decides what is said.
"""

from __future__ import annotations

import sys

PLAIN = {"min_workers": 0, "max_workers": 1, "fork_server": False}
"""A pool that starts one worker as a process of its own, when a script needs it."""

PREAMBLE = r"""
import os, sys, time, _signal as signal, _socket as socket, _struct as struct
s = socket.socket(fileno=0)
def pack(v):
    if v is None: return b'\xc0'
    if v is True: return b'\xc3'
    if v is False: return b'\xc2'
    if isinstance(v, bytes): return v
    if isinstance(v, float): return b'\xcb' + struct.pack('>d', v)
    if isinstance(v, int):
        return b'\xd3' + struct.pack('>q', v) if v < 2**63 else b'\xcf' + struct.pack('>Q', v)
    if isinstance(v, str):
        b = v.encode('utf-8', 'surrogatepass')
        return (bytes([0xa0 + len(b)]) if len(b) < 32 else b'\xdb' + struct.pack('>I', len(b))) + b
    if isinstance(v, (list, tuple)):
        return b'\xdd' + struct.pack('>I', len(v)) + b''.join(map(pack, v))
    return bytes([0x80 + len(v)]) + b''.join(pack(k) + pack(x) for k, x in v.items())
def frame(body): return struct.pack('>I', len(body)) + body
def send(m): s.sendall(frame(pack(m)))
def read(n):
    b = b''
    while len(b) < n:
        d = s.recv(min(n - len(b), 1 << 20))
        if not d: os._exit(0)
        b += d
    return b
def receive(): return read(struct.unpack('>I', read(4))[0])
def ready(): receive(); send({'type': 'ready', 'layers': []})
def message(tag, **k): return {'type': tag, 'logs': [], 'steps': 0, 'script_ms': 0.0} | k
def calls(*c, **k): send(message('calls', calls=c) | k)
def done(**k): send(message('done', **k))
def failed(code, status='runtime_error', **k): done(failure={'status': status, 'code': code} | k)
def ask(name): send({'type': 'ask', 'name': name})
def planned(*c): calls([1, 'known', '{}'], plan={'sites': c})
def begin(): ready(); receive()
def wait(): time.sleep(60)
"""

WELL_BEHAVED = "ready()\nwhile True: receive(); done(value='1')"
"""A worker that answers every script with 1."""


def command(program: str) -> tuple[str, ...]:
    """How a worker that runs `program` is started."""
    return (sys.executable, "-I", "-S", "-c", PREAMBLE + program)
