"""What is run for whom, within which limits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from codecall.audit.events import ScriptLanguage
from codecall.presets import Preset
from codecall.sandbox.wire import StarlarkTerms


@dataclass(frozen=True, slots=True)
class ExecuteRequest:
    """A script to run, and what it may use."""

    script: str
    context: Mapping[str, Any] | None = None
    """`codecallContext`, after its checks."""
    allowed_tools: tuple[str, ...] | None = None
    """Names, URIs and globs that the script may use; None allows all."""
    dry_run: bool = False
    context_bytes: int = 0
    """Size of `context` as JSON."""
    resume_from: str | None = None
    """Id of the run to resume."""
    starlark: StarlarkTerms | None = None
    """It is Starlark, and these are its terms."""
    whole_result: bool = False
    """Whether its result is its answer: none is kept for later where it is too large."""
    tool: str = "codecall:execute"
    """The tool that runs it."""
    preset: Preset | None = None
    """Its limits; None: those of the plugin."""
    workflow: bool = False
    """It is no script, but the definition of a composite tool."""
    composite: str = ""
    """The name of the composite tool whose definition, or script, it is; empty: the caller has written it."""

    @property
    def language(self) -> ScriptLanguage:
        """What it is written in."""
        return "workflow" if self.workflow else "javascript" if self.starlark is None else "starlark"


@dataclass(frozen=True, slots=True)
class RunInfo:
    """What identifies a run before it begins."""

    run_id: str
    """Unguessable."""
    caller: str
    """Key of the caller for whom it runs, as a hash."""
    request: ExecuteRequest


@dataclass(frozen=True, slots=True)
class RunLimits:
    """What of a run's limits is not the preset's."""

    tool_call_timeout_ms: int
    max_duration_ms: int
