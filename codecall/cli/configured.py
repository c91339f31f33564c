"""The configuration of a command, and what its reader is told about it."""

from __future__ import annotations

from codecall.cli.choosing import Chosen
from codecall.cli.printing import Output
from codecall.gateway.options import GatewayOptions


def configured(chosen: Chosen, output: Output) -> GatewayOptions:
    """What a gateway is told, for a command that needs servers; remarks on it go to stderr.

    Raises:
        OptionsError: it is wrong, or there is none.
    """
    configuration = chosen.configuration()
    for note in configuration.notes:
        output.remark(note)
    return configuration.options
