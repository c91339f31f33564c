"""The worker's end of the pipe: blocking frames over the one descriptor it has."""

from __future__ import annotations

import os
import select
import socket

from codecall.sandbox import wire


class HostPipe:
    """Blocking frames. Anything against the protocol ends the process: the server would not answer it."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection

    def send(self, message: wire.WorkerMessage) -> None:
        """Write one frame."""
        self._connection.sendall(wire.pack(message))

    def receive(self) -> wire.ServerMessage:
        """Read one frame.

        Raises:
            EOFError: the server has closed the pipe.
        """
        (length,) = wire.HEADER.unpack(self._read(wire.HEADER.size))
        if length > wire.MAX_FRAME_BYTES:
            os._exit(2)
        return wire.decode_server_message(self._read(length))

    def has_work(self, seconds: float) -> bool:
        """Whether something arrives within `seconds`."""
        return bool(select.select([self._connection], [], [], seconds)[0])

    def _read(self, count: int) -> bytes | bytearray:
        data = self._connection.recv(count)
        if len(data) == count:
            return data
        buffer = bytearray(data)
        while len(buffer) < count:
            data = self._connection.recv(min(count - len(buffer), 1 << 20))
            if not data:
                raise EOFError
            buffer += data
        return buffer
