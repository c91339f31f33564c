"""The fork server's line, which carries no word of a script, and what became of a worker.

To the fork server: first a Prepare, then for each worker one byte with two descriptors, the worker's pipe and its fate.
On the fate, one record each: BORN with a descriptor of the process, or STILLBORN; then DIED.
"""

from __future__ import annotations

import struct

FATE = struct.Struct(">ci")
"""What became of a worker: one of the marks below and a number."""

BORN = b"B"
"""The number is the process id."""
STILLBORN = b"S"
"""There is no process; the number is the reason, as in errno.h."""
DIED = b"D"
"""The number is the exit status; negative for a signal."""
