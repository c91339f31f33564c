"""What holds a worker of this machine: `python -m codecall.sandbox.report`, or `Enclave.sandbox_report()`.

The worker says which layers of its jail it has entered; what the kernel says of the same process stands beside it.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, NamedTuple

from codecall.sandbox import wire

KERNEL_FACTS = {"NoNewPrivs": "1", "Seccomp": "2", "CapPrm": "0" * 16, "CapEff": "0" * 16, "CapAmb": "0" * 16}
"""Lines of `/proc/<pid>/status` and what they say of a worker in a whole jail (proc_pid_status(5))."""


class SandboxReport(NamedTuple):
    """How the workers of an enclave are held."""

    platform: str
    """`linux`, `darwin` …"""
    fork_server: bool
    """Whether workers are forked ahead of need, rather than started each by itself."""
    runs_per_worker: int
    """Scripts a worker serves before it is replaced."""
    required: bool
    """Whether the preset refuses to run scripts unless all layers hold."""
    layers: tuple[wire.Layer, ...]
    """Every layer, active or not."""
    kernel: dict[str, str]
    """What the kernel says of a worker, line by line of KERNEL_FACTS; empty where there is no /proc."""

    @property
    def complete(self) -> bool:
        """Whether every layer holds, and the kernel agrees."""
        agreed = all(self.kernel.get(name, wanted) == wanted for name, wanted in KERNEL_FACTS.items())
        return bool(self.layers) and all(layer.active for layer in self.layers) and agreed

    def as_dict(self) -> dict[str, Any]:
        """The same as JSON data, for a health endpoint or a log."""
        return {
            "complete": self.complete,
            "platform": self.platform,
            "forkServer": self.fork_server,
            "runsPerWorker": self.runs_per_worker,
            "required": self.required,
            "layers": [
                {"name": layer.name, "active": layer.active, "stops": layer.stops, "detail": layer.detail}
                for layer in self.layers
            ],
            "kernel": self.kernel,
        }

    def __str__(self) -> str:
        """The report as a table."""
        lines = [f"{'layer':<14}{'':<9}a worker that was taken over cannot"]
        for row in self.layers:
            lines.append(f"{row.name:<14}{'active' if row.active else 'MISSING':<9}{row.stops}")
            if row.detail:
                lines.append(f"{'':<23}({row.detail})")
        seen = [f"kernel: {name} {value}" for name, value in self.kernel.items()]
        lines += ["", *(seen or ["kernel: shows nothing of the worker (no /proc, or hidepid)"])]
        made = "forked ahead of need" if self.fork_server else "started one by one"
        lines.append(f"workers are {made}, each for {self.runs_per_worker} script(s)")
        lines.append("every layer holds" if self.complete else "NOT every layer holds")
        return "\n".join(lines)


def kernel_facts(pid: int) -> dict[str, str]:
    """What the kernel says of that process."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    except OSError:
        return {}
    facts = [(name, value.strip()) for name, _, value in (line.partition(":") for line in lines)]
    return {name: value for name, value in facts if name in KERNEL_FACTS}


def main() -> int:
    """Print the report of an enclave under the preset named on the command line, else under the default one.

    Returns:
        0 when every layer holds, else 1.
    """
    import anyio

    from codecall.errors import CodeCallError
    from codecall.sandbox.enclave import Enclave

    async def report() -> SandboxReport:
        async with Enclave(*sys.argv[1:2]) as enclave:
            return await enclave.sandbox_report()

    try:
        result = anyio.run(report)
    except CodeCallError as failure:
        sys.stderr.write(f"{failure.code}: {failure.message}\n")
        return 1
    sys.stdout.write(f"{result}\n")
    return 0 if result.complete else 1


if __name__ == "__main__":
    sys.exit(main())
