"""Serve the CRM over stdio: `python -m examples.crm`, or `python examples/crm` from anywhere."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

if not __package__:
    # Run as a folder, Python puts that folder on the path; the imports below start one level above `examples`.
    sys.path[0] = str(Path(__file__).resolve().parents[2])

from codecall import CodeCallPlugin
from codecall.presets import PRESET_NAMES
from examples.crm.server import create_crm


def main() -> int:
    """Read the command line and serve until the client hangs up."""
    parser = argparse.ArgumentParser(prog="python -m examples.crm", description="A CRM of 25 tools over stdio.")
    parser.add_argument("--plain", action="store_true", help="without CodeCall: clients see the 25 tools themselves")
    parser.add_argument(
        "--preset", choices=PRESET_NAMES, default="secure", help="limits that scripts run under (default: %(default)s)"
    )
    parser.add_argument(
        "--separator", choices=(":", "_"), default=":", help="codecall:search or codecall_search (default: %(default)s)"
    )
    parser.add_argument(
        "--approvals", choices=("writes", "destructive"), help="calls that a person has to allow (default: none)"
    )
    parser.add_argument(
        "--database", type=Path, metavar="PATH", help="SQLite file to keep (default: a new one, removed at the end)"
    )
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="crm-") as folder:
        try:
            crm = create_crm(chosen.database or Path(folder, "crm.sqlite3"))
        except ValueError as failure:
            parser.error(str(failure))
        if not chosen.plain:
            CodeCallPlugin.init(
                vm={"preset": chosen.preset}, tool_name_separator=chosen.separator, approvals=chosen.approvals
            ).install(crm)
        crm.run(transport="stdio", show_banner=False)
    return 0


if __name__ == "__main__":
    sys.exit(main())
