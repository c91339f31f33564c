"""A fuzz run: for how long, with which seed, what was done and found, and the shortest program that shows each finding.

FUZZ_MINUTES   minutes for all targets together (30)
FUZZ_SEED      repeat a run (fresh each time; printed)
FUZZ_CORPUS    folder that findings are saved to (none: they are only printed)
"""

from __future__ import annotations

import os
import random
import re
import secrets
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

SHARES: Final = {"language": 0.45, "realm": 0.4, "wire": 0.15}
"""What part of the time each target has."""
MOST_FINDINGS: Final = 12
"""Different findings after which a target stops: more of them say nothing new."""
_SHRINK_TRIES: Final = 600
_SHRINK_SECONDS: Final = 40.0
_PIECE: Final = re.compile(r"[\w$]+|\s+|[^\w\s]", re.ASCII)


@dataclass
class Finding:
    """One thing that must not be."""

    what: str
    program: str
    """The shortest that shows it; without what all programs of the target begin with."""
    seed: int

    @property
    def signature(self) -> str:
        """What makes it another finding than the others: its first line, without numbers and texts."""
        return re.sub(r"\d+|'[^']*'|\"[^\"]*\"", "…", self.what.split("\n", 1)[0])[:160]


@dataclass
class Campaign:
    """One target's run."""

    target: str
    seed: int = field(default_factory=lambda: int(os.environ.get("FUZZ_SEED") or secrets.randbits(32)))
    counts: Counter[str] = field(default_factory=Counter)
    findings: dict[str, Finding] = field(default_factory=dict)
    _began: float = field(default_factory=time.monotonic)

    @property
    def seconds(self) -> float:
        """How long this target runs."""
        return float(os.environ.get("FUZZ_MINUTES") or 30) * 60 * SHARES[self.target]

    @property
    def left(self) -> float:
        """Seconds left; none once there are findings enough."""
        return 0.0 if len(self.findings) >= MOST_FINDINGS else self.seconds - (time.monotonic() - self._began)

    def random(self, *which: object) -> random.Random:
        """A source of chance that the seed and `which` decide."""
        return random.Random(f"{self.seed}/{self.target}/{which}")

    async def found(self, finding: Finding, again: Callable[[str], Awaitable[str | None]]) -> None:
        """Keep a finding, unless it is known, with the shortest program for which `again` says the same."""
        signature = finding.signature
        if signature in self.findings:
            self.counts["findings seen again"] += 1
            return
        self.findings[signature] = finding

        async def same(program: str) -> bool:
            what = await again(program)
            return what is not None and Finding(what, program, 0).signature == signature

        if await same(finding.program):
            finding.program = await shortest(finding.program, same)
        else:
            finding.what += "\n(seen once: the same program ended well when it ran again)"
        self.save(finding)

    def save(self, finding: Finding) -> None:
        """Put a finding into the corpus folder, if there is one."""
        folder = os.environ.get("FUZZ_CORPUS")
        if folder:
            Path(folder).mkdir(parents=True, exist_ok=True)
            name = f"{self.target}-{self.seed}-{len(self.findings):02}.js"
            note = "".join(f"// {line}\n" for line in [f"seed {finding.seed}", *finding.what.split("\n")[:6]])
            (Path(folder) / name).write_bytes((note + finding.program).encode("utf-8", "surrogatepass"))

    def report(self) -> str:
        """What was done and found."""
        spent = time.monotonic() - self._began
        counts = ", ".join(f"{count:,} {name}" for name, count in sorted(self.counts.items()))
        lines = [f"{self.target}: {spent:.0f} s, seed {self.seed}; {counts or 'nothing'}"]
        for finding in self.findings.values():
            program = finding.program.encode("unicode_escape").decode().replace("\\n", "\n    ")
            lines.append(f"  FOUND (seed {finding.seed}) {finding.what[:600]}\n    {program}")
        return "\n".join(lines)

    def check(self) -> None:
        """Fail if anything was found, or nothing was done."""
        assert not self.findings, f"{len(self.findings)} findings\n{self.report()}"
        assert self.counts, "nothing was done"


async def shortest(program: str, shows: Callable[[str], Awaitable[bool]]) -> str:
    """A short program for which `shows` still holds: parts are left out as long as that works."""
    tries, until = 0, time.monotonic() + _SHRINK_SECONDS
    for separate in (lambda text: text.splitlines(keepends=True), _PIECE.findall):
        parts: list[str] = separate(program)
        size = max(1, len(parts) // 2)
        while size >= 1:
            at, smaller = 0, False
            while at < len(parts):
                if tries >= _SHRINK_TRIES or time.monotonic() > until:
                    return "".join(parts)
                tries += 1
                candidate = parts[:at] + parts[at + size :]
                if candidate and await shows("".join(candidate)):
                    parts, smaller = candidate, True
                else:
                    at += size
            if not smaller or size > len(parts):
                size //= 2
        program = "".join(parts)
    return program
