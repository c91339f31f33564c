"""`python -m codecall.sandbox.report`: how the worker processes of this machine are jailed."""

from __future__ import annotations

import sys

import anyio

from codecall.errors import CodeCallError
from codecall.sandbox.enclave import Enclave
from codecall.sandbox.host.process import SandboxReport


def main() -> int:
    """Print the report of an enclave under the preset named on the command line, else under the default one.

    Returns:
        0 when every layer holds, else 1.
    """

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
