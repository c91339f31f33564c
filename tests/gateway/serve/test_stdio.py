"""Standard input whose end can be brought about from within."""

from __future__ import annotations

import os
import threading
from pathlib import Path

from codecall.gateway.serve.serve import InterruptibleStdin


def test_input_is_read_until_its_end():
    reader, writer = os.pipe()
    stdin = InterruptibleStdin(reader)
    os.write(writer, b"one\ntwo")
    buffer = bytearray(5)
    assert (stdin.readinto(buffer), bytes(buffer)) == (5, b"one\nt")
    os.close(writer)
    assert (stdin.readinto(buffer), bytes(buffer[:2])) == (2, b"wo")
    assert stdin.readinto(buffer) == 0
    os.close(reader)


def test_a_stop_ends_a_read_that_waits_and_all_later_ones():
    reader, writer = os.pipe()
    stdin = InterruptibleStdin(reader)
    sizes: list[int] = []
    waiting = threading.Thread(target=lambda: sizes.append(stdin.readinto(bytearray(5))))
    waiting.start()
    stdin.stop()
    waiting.join(10)
    assert sizes == [0]
    os.write(writer, b"late")
    assert stdin.readinto(bytearray(5)) == 0
    for descriptor in (reader, writer):
        os.close(descriptor)


def test_a_file_is_read_too(tmp_path: Path):
    file = tmp_path / "messages"
    file.write_bytes(b"all of it")
    with file.open("rb", buffering=0) as opened:
        stdin = InterruptibleStdin(opened.fileno())
        buffer = bytearray(20)
        assert (stdin.readinto(buffer), stdin.readinto(buffer)) == (9, 0)


def test_a_descriptor_that_does_not_block_is_waited_for():
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    stdin = InterruptibleStdin(reader)
    writing = threading.Timer(0.05, os.write, (writer, b"x"))
    writing.start()
    assert stdin.readinto(bytearray(5)) == 1
    writing.join()
    for descriptor in (reader, writer):
        os.close(descriptor)
