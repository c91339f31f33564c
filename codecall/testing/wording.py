"""What failing tests say about stubs: how to declare what is missing, and how to allow what is wrong.

Stubs stand in Python or in the comments of a script file, and advice has to be in the words of the place.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Wording:
    """The words for one kind of place. `{kind}`, `{name}` and `{code}` are filled in."""

    stub: str
    """A stub, as it is written."""
    declare: str
    """How to declare what a script called."""
    more: str
    """How to declare that a stub answers more calls than it does; `{times}` is how many there were."""
    undeclared: str
    """How to allow calls without a stub."""
    invalid_input: str
    """How to allow input that a schema refuses."""
    unused: str
    """How to allow that a stub is not used."""
    apart: str
    """How to tell several stubs of one name apart."""


IN_TESTS: Final = Wording(
    stub='{kind}_stub("{name}"',
    declare='{kind}_stub("{name}", returns=…)',
    more="times={times}, or another answer in side_effect",
    undeclared="tool_stub.allow_undeclared(), or @pytest.mark.codecall(allow_undeclared=True); scripts then get {code}",
    invalid_input="tool_stub.allow_invalid_input(), or @pytest.mark.codecall(allow_invalid_input=True); scripts then "
    "get INVALID_INPUT",
    unused="optional=True for this stub; for all of them tool_stub.allow_unused(), or "
    "@pytest.mark.codecall(allow_unused=True)",
    apart="when=… or times=… tells stubs of one name apart; side_effect=[…] gives several answers in turn",
)
"""Stubs declared in Python."""

IN_FILES: Final = Wording(
    stub="//@ {kind}: {name}",
    declare="//@ {kind}: {name} VALUE",
    more="another line `//@ {kind}: {name} VALUE`",
    undeclared="state the outcome `//~ {code}`",
    invalid_input="state the outcome `//~ INVALID_INPUT`",
    unused="`//@ {kind}?:` instead of `//@ {kind}:`",
    apart="`//@ {kind}: {name} INPUT -> VALUE` tells stubs of one name apart",
)
"""Stubs declared in the comments of a script file."""
