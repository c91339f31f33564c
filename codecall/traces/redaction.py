"""Masking the parts of a trace: bounded in characters and in time."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Final

from codecall.audit.values import ValueBounds, estimate_chars, redact_json, redact_script, redact_value
from codecall.redaction.masking import Masker, MaskingTimeoutError

MAX_MASKED: Final = 4_000_000
"""Most characters of inputs and results that are masked for one trace, in the order of the calls."""

MASKING_SECONDS: Final = 20.0
"""Most seconds that masking may take for one trace, but for the text it is at; of what is left only the size is
shown."""

VALUE_BOUNDS: Final = ValueBounds(read=1_000_000, nodes=5_000, chars=100_000, text=32_000)
"""Bounds of each value."""


class TraceMasking:
    """Masks the parts of one trace, until they are too much or take too long. Of what is left there is only the size.

    Attributes:
        omitted: how many parts that are.
    """

    def __init__(self) -> None:
        self.omitted = 0
        self._masker = Masker(deadline=time.monotonic() + MASKING_SECONDS)
        self._remaining = MAX_MASKED

    def json(self, text: str | None, chars: int) -> object:
        """Mask the input or the result of a call, which has `chars` characters; None: it was not stored."""
        if text is not None and len(text) <= self._remaining:
            self._remaining -= len(text)
            with suppress(MaskingTimeoutError):
                self._masker.check_deadline()
                return redact_json(text, VALUE_BOUNDS, self._masker)
        return self._omit(chars)

    def value(self, data: object) -> object:
        """Mask another value."""
        with suppress(MaskingTimeoutError):
            return redact_value(data, VALUE_BOUNDS, self._masker)
        return self._omit(estimate_chars({"": data}))

    def text(self, text: str) -> str:
        """Mask the script, a line of the console or a URI."""
        with suppress(MaskingTimeoutError):
            return redact_script(text, self._masker)
        self.omitted += 1
        return f"…[truncated {len(text)} characters]"

    def _omit(self, chars: int) -> object:
        self.omitted += 1
        return {"__truncated": {"characters": chars}}
