"""A preset as what workers are told of it."""

from __future__ import annotations

import math
import sys
from typing import Final

from codecall.options import Preset
from codecall.sandbox import wire

SPARE_CPU_SECONDS: Final = 60
"""Processor time of a worker beyond what its scripts may use, in seconds: building engines, reading frames."""

_MOST_KEPT: Final = 64
"""Presets whose limits are kept ready."""


class Limiting:
    """The limits of presets.

    Args:
        max_kept_bytes: Bytes of a result that is put away because it is too large for an answer.
    """

    def __init__(self, max_kept_bytes: int) -> None:
        self._max_kept_bytes = max_kept_bytes
        self._limits: dict[Preset, wire.Limits] = {}

    def of(self, preset: Preset) -> wire.Limits:
        """Those of one script."""
        if (limits := self._limits.get(preset)) is None:
            values = {name: getattr(preset, name) for name in wire.PRESET_FIELDS}
            limits = wire.Limits(**values, max_kept_bytes=self._max_kept_bytes)
            if len(self._limits) < _MOST_KEPT:
                self._limits[preset] = limits
        return limits

    def prepare(self, preset: Preset) -> wire.Prepare:
        """What a worker makes ready for."""
        required = preset.require_jail
        return wire.Prepare(
            limits=self.of(preset),
            runs=preset.worker_max_runs,
            cpu_seconds=math.ceil(preset.worker_max_runs * preset.timeout_ms / 1000) + SPARE_CPU_SECONDS,
            require_jail=sys.platform == "linux" if required == "on_linux" else required,
        )
